//! Runs other programs: the repository's path, cargo, and failures with the command.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// The root of the repository, the parent of xtask's folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo in the root of the repository: the one that runs us, so that a toolchain chosen once holds for every step.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let program = variable("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// Runs `command` with our own input and output; a failure names the command.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", show(command)))?;
    if !status.success() {
        bail!("{} failed: {status}", show(command));
    }
    Ok(())
}

/// Runs `command` and returns what it printed; a failure carries its error output.
pub(crate) fn capture(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot start {}", show(command)))?;
    if !output.status.success() {
        bail!("{} failed: {}\n{}", show(command), output.status, String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).with_context(|| format!("{} printed no UTF-8", show(command)))
}

/// What the workspace is made of, without its dependencies: needs no network and takes a tenth of a second.
pub(crate) fn workspace() -> anyhow::Result<cargo_metadata::Metadata> {
    let mut command = cargo_metadata::MetadataCommand::new();
    command.manifest_path(root().join("Cargo.toml")).no_deps();
    if let Some(program) = variable("CARGO") {
        command.cargo_path(program);
    }
    command.exec().context("cannot read the workspace with cargo metadata")
}

/// Runs `work` and prints its duration.
#[expect(clippy::disallowed_methods, reason = "tasks are timed by the wall clock; nothing decides on it")]
pub(crate) fn timed<T>(work: impl FnOnce() -> anyhow::Result<T>) -> (anyhow::Result<T>, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells its children by environment which cargo runs them"
)]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

fn show(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or_else(|| command.get_program()).to_string_lossy();
    command.get_args().fold(format!("`{name}"), |line, arg| format!("{line} {}", arg.to_string_lossy())) + "`"
}
