//! `cargo xtask e2e`: builds the operator, then hands the arguments to the runner of the end-to-end cases.

use crate::shell;

/// Runs the cases that `args` choose.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    shell::run(&mut shell::cargo(&["build", "--locked", "--bin", "fleetwright"]))?;
    let mut runner = shell::cargo(&["run", "--locked", "--bin", "fleetwright-e2e", "--"]);
    shell::run(runner.args(args))
}
