//! `cargo xtask oracle`: builds the planner, then hands the arguments to the judge.

use crate::shell;

/// Judges what `args` choose, or what CI judges.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    shell::run(&mut shell::cargo(&["build", "--locked", "--bin", "fleetwright"]))?;
    shell::run(shell::cargo(&["run", "--locked", "--bin", "fleetwright-oracle", "--"]).args(args))
}
