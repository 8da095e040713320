//! Many lives, none of them broken; and broken ones, all of them found. `cargo xtask seeds` goes through far more.

use rstest::rstest;

use super::*;

/// How many seeds every run of the tests goes through.
const SEEDS: u64 = 8;

#[test]
fn nothing_breaks() {
    let mut happened = BTreeMap::new();
    for report in run_many(1, SEEDS, None, 2, &|_| false) {
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
    let report = run_twice(8, None).unwrap();
    assert_eq!(report.violations, Vec::new(), "{report}");
}

/// Each with the first seed that shows it.
#[rstest]
#[case(Bug::LaunchWithoutToken, 0)]
#[case(Bug::AttemptForgotten, 0)]
#[case(Bug::GoneTooSoon, 0)]
#[case(Bug::FinalizerStripped, 0)]
#[case(Bug::OwnershipByName, 1)]
#[case(Bug::PodsForgotten, 4)]
#[case(Bug::LimitsUnseen, 4)]
#[case(Bug::BudgetsPruned, 1)]
#[case(Bug::ProtectionUnseen, 6)]
#[case(Bug::EvictionByName, 0)]
#[case(Bug::DeletionByName, 0)]
#[case(Bug::BlindPatches, 0)]
#[case(Bug::TaintKept, 0)]
#[case(Bug::LeaseUnseen, 8)]
#[case(Bug::PodsThoughtEnded, 0)]
#[case(Bug::HashChanges, 0)]
fn a_planted_bug_is_caught(#[case] bug: Bug, #[case] seed: u64) {
    let report = run(seed, Some(bug)).unwrap();
    assert!(bug.caught(&report).is_some(), "{bug:?} was not caught by {:?}: {report}", bug.breaks());
}
