//! Many lives, none of them broken; and broken ones, all of them found. `cargo xtask seeds` goes through far more.

use rstest::rstest;

use super::*;

/// How many seeds every run of the tests goes through.
const SEEDS: u64 = 12;

#[test]
fn nothing_breaks() {
    let mut happened = BTreeMap::new();
    for report in run_many(0, SEEDS, None, 2, &|_| false) {
        let report = report.unwrap();
        assert_eq!(report.violations, Vec::new(), "{report}");
        for (what, count) in report.happened {
            *happened.entry(what).or_insert(0) += count;
        }
    }
    for what in ["operator killed", "load changed", "pool drifts", "machine lost", "faults"] {
        assert!(happened.get(what).is_some_and(|count| *count > 0), "{what} never happened: {happened:?}");
    }
}

#[test]
fn one_seed_is_one_life() {
    assert_eq!(run(3, None).unwrap(), run(3, None).unwrap());
}

#[rstest]
#[case(Bug::LaunchWithoutToken, &["S2", "S4"])]
#[case(Bug::GoneTooSoon, &["S3"])]
#[case(Bug::FinalizerStripped, &["S3"])]
#[case(Bug::AttemptForgotten, &["S4"])]
#[case(Bug::EvictionByName, &["S8"])]
#[case(Bug::DeletionByName, &["S20"])]
#[case(Bug::BlindPatches, &["S20"])]
#[case(Bug::HashChanges, &["S12"])]
fn a_planted_bug_is_caught(#[case] bug: Bug, #[case] invariants: &[&str]) {
    let by = |report: &Result<Report, RunError>| {
        let violations = report.iter().flat_map(|report| &report.violations);
        violations.into_iter().any(|violation| invariants.contains(&violation.invariant))
    };
    let reports = run_many(0, 20, Some(bug), 2, &by);
    assert!(reports.iter().any(by), "{bug:?} was not caught by {invariants:?}");
}
