//! `cargo xtask bench`: builds the benchmark as the image is built, then hands the arguments to it.
//!
//! The benchmark is an example of `core`, which may use what it measures.

use crate::shell;

/// Measures what `args` choose.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let package = ["-p", "fleetwright-core", "--features", "testing", "--example", "bench"];
    let mut bench = shell::cargo(&["run", "--locked", "--profile", "dist"]);
    shell::run(bench.args(package).arg("--").args(args))
}
