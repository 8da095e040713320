//! `cargo xtask seeds`: many lives of small clusters full of trouble, optimised as the image is, on all cores.
//!
//! The runs are an example of `scenarios`. Built by itself it has no TLS and no SDK among its dependencies. Without arguments it runs what CI
//! runs: fixed seeds, beside them fresh ones, whose range follows from the commit, so that each commit looks where none before it has
//! looked, and seeds with each planted bug until one catches it.

use std::process::Command;

use crate::shell;

/// The number of fixed seeds in CI, from 0 on: about two minutes on two quiet cores. By hand: `cargo xtask seeds --count 2000`.
const FIXED: [&str; 2] = ["--count", "600"];
/// The seeds from 0 on of which one has to catch a planted bug; it ends with the first that does.
const PLANTED: [&str; 4] = ["--bug", "all", "--count", "1000"];
/// The number of fresh seeds.
const FRESH: u64 = 200;
/// The first seed that may be fresh: above the fixed ones, and above those that people try by hand.
const FRESH_FROM: u64 = 1_000_000;
/// The number of ranges of fresh seeds: the last one ends below 2^32.
const RANGES: u64 = 20_000_000;

/// Runs what `args` choose, or the fixed seeds, the fresh ones of this commit, each planted bug, and the check of the realized price.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    if !args.is_empty() {
        return shell::run(seeds().args(args));
    }
    let mut fixed = seeds();
    fixed.args(FIXED);
    match commit().as_deref().and_then(first_fresh) {
        Some(first) => {
            fixed.args(["--fresh".to_owned(), first.to_string()]);
            fixed.args(["--fresh-count".to_owned(), FRESH.to_string()]);
        }
        None => anstream::println!("no fresh seeds: this is no git repository with a commit"),
    }
    shell::run(&mut fixed)?;
    shell::run(seeds().args(PLANTED))?;
    realized(&["--check".to_owned()])
}

/// Runs the realized price with `args`: two rows for each mix, or with `--check` the small fleets of CI.
pub(crate) fn realized(args: &[String]) -> anyhow::Result<()> {
    shell::run(example("realized").args(args))
}

fn seeds() -> Command {
    example("seeds")
}

/// A program, in the profile of what is published.
fn example(name: &str) -> Command {
    let mut cargo = shell::cargo(&["run", "--locked", "--profile", "dist"]);
    // Without scenario documents there is no AWS provider to compile.
    cargo.args(["-p", "fleetwright-scenarios", "--no-default-features", "--example", name, "--"]);
    // Clippy as a compiler, which CI chooses, optimises less.
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER");
    cargo
}

/// The id of the commit that is checked out.
fn commit() -> Option<String> {
    shell::capture(Command::new("git").args(["rev-parse", "HEAD"]).current_dir(shell::root())).ok()
}

/// The first fresh seed of a commit: by the first 60 bits of its id.
fn first_fresh(commit: &str) -> Option<u64> {
    let number = u64::from_str_radix(commit.trim().get(..15)?, 16).ok()?;
    Some(FRESH_FROM + number % RANGES * FRESH)
}

#[cfg(test)]
mod tests {
    //! Ranges of fresh seeds.
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_range_follows_from_the_commit() {
        let of = |commit: &str| first_fresh(commit);
        assert_eq!(of("000000000000001f97f9a5f7a1c0a3c4f6cb9ea1\n"), Some(FRESH_FROM + FRESH));
        assert_eq!(of("796f6fe0bd36d5f97f9a5f7a1c0a3c4f6cb9ea1d"), of("796f6fe0bd36d5f"), "60 bits");
        for none in ["", "796f6fe", "not a commit, but text of its length"] {
            assert_eq!(of(none), None, "{none:?}");
        }
    }

    #[test]
    fn ranges_do_not_overlap_and_are_no_fixed_seeds() {
        let ids =
            (0..1000_u64).map(|number| format!("{:015x}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 4));
        let firsts: BTreeSet<u64> = ids.filter_map(|id| first_fresh(&id)).collect();
        assert!(firsts.len() > 990, "{} different ranges for 1000 commits", firsts.len());
        let fixed: u64 = FIXED[1].parse().unwrap();
        assert!(firsts.first().is_some_and(|first| *first >= fixed));
        assert!(firsts.last().is_some_and(|first| first + FRESH < 1 << 32));
        assert!(firsts.iter().all(|first| (first - FRESH_FROM).is_multiple_of(FRESH)));
    }
}
