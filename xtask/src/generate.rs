//! `cargo xtask generate [--check]`: the files that are made from the code, and the check that none is stale.

mod manifests;
mod reference;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::shell;

/// How to generate.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Change nothing; fail if a file is not what it would be
    #[arg(long)]
    pub(crate) check: bool,
}

/// Something that writes files. A new one is a line in [`GENERATORS`].
struct Generator {
    name: &'static str,
    /// Gets the repository's root and whether to only check; returns the files that were written or are stale.
    run: fn(&Path, bool) -> anyhow::Result<Vec<PathBuf>>,
}

const GENERATORS: &[Generator] = &[
    Generator { name: "custom resources", run: manifests::custom_resources },
    Generator { name: "the manifests in deploy/", run: manifests::deploy },
    Generator { name: "lints of the pure crates", run: strict_lints },
    Generator { name: "dashboards and alerts", run: dashboards },
    Generator { name: "the reference of events and conditions", run: reference::events },
];

/// Runs every generator; with `check`, fails and names each stale file.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let mut stale = 0;
    for generator in GENERATORS {
        let files = (generator.run)(&shell::root(), check)
            .with_context(|| format!("cannot generate {}", generator.name))?;
        for file in &files {
            anstream::println!("{} {}", if check { "stale" } else { "wrote" }, file.display());
        }
        stale += files.len();
    }
    if check && stale > 0 {
        bail!("generated files are stale ({stale}): run `cargo xtask generate`");
    }
    Ok(())
}

/// Clippy reads one clippy.toml per crate and merges none, so the pure crates carry copies of one file.
fn strict_lints(root: &Path, check: bool) -> anyhow::Result<Vec<PathBuf>> {
    let source = root.join("crates/core/clippy.toml");
    let text = fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
    Ok(put(&root.join("crates/state/clippy.toml"), &text, check)?.into_iter().collect())
}

/// `dashboards/`: Grafana's pages and the PrometheusRule, from their descriptions.
fn dashboards(root: &Path, check: bool) -> anyhow::Result<Vec<PathBuf>> {
    let mut stale = Vec::new();
    for (file, text) in crate::dashboards::files(root)? {
        stale.extend(put(&file, &text, check)?);
    }
    Ok(stale)
}

/// Brings `file` to `text`; returns it if it was different. With `check` the file stays as it is.
fn put(file: &Path, text: &str, check: bool) -> anyhow::Result<Option<PathBuf>> {
    if fs::read_to_string(file).is_ok_and(|found| found == text) {
        return Ok(None);
    }
    if !check {
        let folder = file.parent().context("a file without a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(Some(file.to_path_buf()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_file_is_named_when_checking_and_mended_when_writing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("made.txt");
        assert_eq!(put(&file, "new", true).unwrap(), Some(file.clone()), "a missing file is stale");
        assert!(!file.exists(), "checking writes nothing");
        assert_eq!(put(&file, "new", false).unwrap(), Some(file.clone()));
        assert_eq!(put(&file, "new", true).unwrap(), None);
        fs::write(&file, "edited by hand").unwrap();
        assert_eq!(put(&file, "new", true).unwrap(), Some(file.clone()));
        assert_eq!(fs::read_to_string(&file).unwrap(), "edited by hand");
    }
}
