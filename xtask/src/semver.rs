//! `cargo xtask ci semver`: the provider API has no change that breaks a provider, compared with a commit.
//!
//! The commit is the one that last changed `docs/api-baseline`: a hash would be another one after a rebase.

use std::process::Command;

use anyhow::ensure;

use crate::shell;
use crate::tools::Program;

const SEMVER_CHECKS: Program = Program { name: "cargo-semver-checks", version: "0.51.0", prebuilt: None };
/// The file whose last change is the baseline.
const BASELINE: &str = "docs/api-baseline";

/// Compares the provider API of `core` with the baseline.
pub(crate) fn check() -> anyhow::Result<()> {
    let log = ["log", "-1", "--format=%H", "--", BASELINE];
    let commit = shell::capture(Command::new("git").args(log).current_dir(shell::root()))?;
    let commit = commit.trim();
    ensure!(!commit.is_empty(), "no commit has {BASELINE}: the check needs the history of the repository");
    anstream::println!("comparing the provider API with {commit}, the last change of {BASELINE}");
    let mut command = Command::new(SEMVER_CHECKS.find_or_install()?);
    command.args(["semver-checks", "--package", "fleetwright-core", "--baseline-rev", commit]);
    // A version below 1.0 may break anything in a minor one: ours does not.
    command.args([
        "--release-type",
        "minor",
        "--only-explicit-features",
        "--features",
        "conformance,provider-api",
    ]);
    shell::run(command.current_dir(shell::root()))
}
