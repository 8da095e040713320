//! Many lives, none of them broken; and broken ones, all of them found.

use rstest::rstest;

use super::*;

/// How many seeds every run of the tests goes through.
const SEEDS: u64 = 8;

#[test]
fn nothing_breaks() {
    let mut happened = std::collections::BTreeMap::new();
    for seed in 0..SEEDS {
        let report = run(seed, None).unwrap();
        assert_eq!(report.violations, Vec::<String>::new(), "seed {seed}: {:?}", report.happened);
        for (what, count) in report.happened {
            *happened.entry(what).or_insert(0) += count;
        }
    }
    for what in
        ["operator killed", "load changed", "pool changed", "machine lost", "launch fails after its effect"]
    {
        assert!(happened.get(what).is_some_and(|count| *count > 0), "{what} never happened: {happened:?}");
    }
}

#[test]
fn one_seed_is_one_life() {
    assert_eq!(run(3, None).unwrap(), run(3, None).unwrap());
}

#[rstest]
#[case(Bug::LaunchWithoutToken, "S2")]
#[case(Bug::GoneTooSoon, "S3")]
#[case(Bug::FinalizerStripped, "S3")]
fn a_planted_bug_is_caught(#[case] bug: Bug, #[case] invariant: &str) {
    let caught = (0..20).find_map(|seed| {
        let report = run(seed, Some(bug)).unwrap();
        report.violations.into_iter().find(|what| what.contains(invariant))
    });
    assert!(caught.is_some(), "{bug:?} was not caught by {invariant}");
}
