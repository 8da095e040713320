//! What has the AWS SDK in it: built from one selection of packages everywhere, so that the SDK is compiled once.

use std::process::Command;

use crate::{dashboards, shell};

/// The packages and features of every cargo command that compiles the SDK. xtask is among them for the features that it
/// names (see its manifest): with it, tests and programs share one graph.
pub(crate) const PACKAGES: &[&str] = &[
    "-p",
    "fleetwright-aws-client",
    "-p",
    "fleetwright-tests-aws",
    "-p",
    "fleetwright-operator",
    "-p",
    "xtask",
    "--features",
    "fleetwright-operator/aws,fleetwright-operator/otel",
];

/// How many crates are compiled at a time: that of EC2 alone takes 8 GiB.
const JOBS: &[&str] = &["--jobs", "2"];

/// Clippy as the compiler of our crates, warnings denied: `cargo clippy` would have to check the whole SDK, minutes before it is compiled.
/// The same as in `.ci/run`, where the rest has been compiled with it.
const LINTED: [(&str, &str); 2] = [
    ("RUSTC_WORKSPACE_WRAPPER", "clippy-driver"),
    ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"),
];

/// The cases of the tier that CI runs: every fourth short one. All of them take more than ten minutes on two busy cores.
const SAMPLE: [&str; 2] = ["--every", "4"];

/// Tests that are no other with the SDK, and take minutes.
const ALIKE: [&str; 3] = ["the_repository_is_tidy", "lab::", "bad_input_is_named"];

/// Lints and tests of all that has the SDK in it, and a sample of the tier against a moto server.
pub(crate) fn check() -> anyhow::Result<()> {
    let mut tests = cargo("test");
    tests.arg("--").args(ALIKE.into_iter().flat_map(|name| ["--skip", name]));
    shell::run(&mut tests)?;
    tier(&SAMPLE.map(str::to_owned))
}

/// Builds the operator with AWS and the runner of the tier's cases, and runs it.
pub(crate) fn tier(args: &[String]) -> anyhow::Result<()> {
    shell::run(&mut cargo("build"))?;
    // `cargo run` takes one package, and another selection would compile the SDK once more.
    let runner = shell::workspace()?.target_directory.join("debug/fleetwright-e2e-aws");
    dashboards::live::beside(Command::new(runner).current_dir(shell::root()), args, "aws")
}

/// A cargo command on the selection.
fn cargo(command: &str) -> Command {
    let mut cargo = shell::cargo(&[command, "--locked"]);
    cargo.args(PACKAGES).args(JOBS).envs(LINTED);
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ci_compiles_all_else_alike() {
        let ci = std::fs::read_to_string(shell::root().join(".ci/run")).unwrap();
        for (name, value) in LINTED {
            assert!(ci.contains(&format!("{name}={value}")), "{name}");
        }
    }
}
