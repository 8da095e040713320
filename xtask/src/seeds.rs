//! `cargo xtask seeds`: many lives of small clusters full of trouble, optimised as the image is, on all cores.
//!
//! The runs are an example of `sim`. Built by itself it has no TLS and no SDK among its dependencies.

use crate::shell;

/// The default number of seeds, also in CI, and their time limit in seconds: about five minutes on two quiet cores, with a margin
/// for busy hosts.
const ALL: [&str; 4] = ["--count", "2000", "--within", "1200"];

/// Runs what `args` choose, or [`ALL`].
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let package = ["-p", "fleetwright-scenarios", "--example", "seeds", "--"];
    let mut seeds = shell::cargo(&["run", "--locked", "--profile", "dist"]);
    seeds.args(package);
    if args.is_empty() {
        return shell::run(seeds.args(ALL));
    }
    shell::run(seeds.args(args))
}
