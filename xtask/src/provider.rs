//! `cargo xtask provider-example`: builds and tests `examples/provider` as a stranger would have it. `cargo xtask new-provider NAME`: makes a
//! new provider of the example.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::{e2e, packages, shell};

/// How a name is written.
type Renaming = fn(&str) -> String;

/// The example, as it is named in its files.
const NAMES: [(&str, Renaming); 3] =
    [("pebble", str::to_owned), ("Pebble", capitalized), ("PEBBLE", str::to_ascii_uppercase)];

/// The test beside an API server, which is left out otherwise.
const ON_CLUSTER: [&str; 4] = ["cluster::", "--", "--ignored", "--nocapture"];

/// Tests of the example as a stranger runs them; with `on_cluster` the one beside a real API server, and no other.
pub(crate) fn check(on_cluster: bool) -> anyhow::Result<()> {
    let folder = shell::workspace()?.target_directory.join("provider-example").into_std_path_buf();
    let stranger = timed("packaged", || Stranger::new(&folder))?;
    timed("compiled", || {
        shell::run(stranger.isolate(&mut shell::cargo(&["test", "--offline", "--no-run"])))
    })?;
    let mut test = shell::cargo(&["test", "--offline"]);
    if on_cluster {
        let runner = e2e::runner()?;
        let cargo = std::mem::replace(&mut test, Command::new(runner));
        test.arg("--exec").arg(cargo.get_program()).args(cargo.get_args()).args(ON_CLUSTER);
    }
    timed("tested", || shell::run(stranger.isolate(&mut test)))
}

/// Runs a part of the task and prints how long it took.
fn timed<T>(what: &str, part: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let (result, took) = shell::timed(part);
    anstream::println!("provider-example: {what} in {:.0} s", took.as_secs_f64());
    result
}

/// The example in a folder of its own, with a registry of packaged crates, and what cargo keeps of them: to cargo a version of a registry never
/// changes, so that what is left of an earlier run would be tested in its place.
struct Stranger {
    source: PathBuf,
    target: PathBuf,
    cargo_home: PathBuf,
}

impl Stranger {
    fn new(folder: &Path) -> anyhow::Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let (registry, source) = (folder.join("registry"), folder.join("source"));
        packages::registry(&registry)?;
        copied(&example(), &source, &str::to_owned)?;
        let config = format!(
            "[source.crates-io]\nreplace-with = \"packaged\"\n\n[source.packaged]\nlocal-registry = {:?}\n",
            registry.display().to_string()
        );
        fs::create_dir_all(source.join(".cargo"))?;
        fs::write(source.join(".cargo/config.toml"), config)?;
        Ok(Self { source, target: folder.join("target"), cargo_home: folder.join("cargo-home") })
    }

    /// Lets a command run in the folder, without what a workspace above it, or the task's own cargo, would add.
    fn isolate<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.current_dir(&self.source).env("CARGO_TARGET_DIR", &self.target);
        command.env("CARGO_HOME", &self.cargo_home);
        command.env_remove("CARGO_MANIFEST_DIR").env_remove("RUSTFLAGS").env_remove("RUSTC_WORKSPACE_WRAPPER")
    }
}

/// Writes a provider called `name` to `folder`: the example with other names.
pub(crate) fn create(name: &str, folder: &Path) -> anyhow::Result<()> {
    let lower = name.chars().all(|c| c.is_ascii_lowercase());
    ensure!(
        lower && !name.is_empty(),
        "{name:?} is no name for a provider: give lower-case letters, such as acme"
    );
    ensure!(!folder.exists(), "{} exists: give a new folder", folder.display());
    copied(&example(), folder, &|text| renamed(text, name))?;
    anstream::println!(
        "{} is a provider for {name}: docs/book/providers.md says what comes next",
        folder.display()
    );
    Ok(())
}

fn example() -> PathBuf {
    shell::root().join("examples/provider")
}

/// Copies a folder, with other names and contents.
fn copied(from: &Path, to: &Path, change: &dyn Fn(&str) -> String) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // What cargo writes where it is called in the folder.
        if matches!(name.as_str(), "target" | "Cargo.lock") {
            continue;
        }
        let target = to.join(change(&name));
        if entry.file_type()?.is_dir() {
            copied(&entry.path(), &target, change)?;
        } else {
            fs::write(target, change(&fs::read_to_string(entry.path())?))?;
        }
    }
    Ok(())
}

fn renamed(text: &str, name: &str) -> String {
    NAMES.iter().fold(text.to_owned(), |text, (known, form)| text.replace(known, &form(name)))
}

fn capitalized(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map(|first| first.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_provider_has_its_own_names_everywhere() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("acme");
        create("acme", &target).unwrap();
        let mut folders = vec![target.clone()];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let name = entry.file_name().to_string_lossy().to_lowercase();
                assert!(!name.contains("pebble"), "{name}");
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                } else {
                    files += 1;
                    assert!(
                        !fs::read_to_string(entry.path()).unwrap().to_lowercase().contains("pebble"),
                        "{name}"
                    );
                }
            }
        }
        assert!(files > 8);
        let class = fs::read_to_string(target.join("src/class.rs")).unwrap();
        assert!(class.contains("pub struct AcmeNodeClassSpec") && class.contains("\"acme.example\""));
        for name in ["", "Acme", "acme cloud"] {
            assert!(create(name, &folder.path().join("other")).is_err());
        }
        assert!(create("acme", &target).is_err(), "the folder exists");
    }
}
