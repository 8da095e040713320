//! Runs without violations, and planted bugs that are caught. `cargo xtask seeds` runs far more seeds, those that once had a violation, and
//! every bug.

use rstest::rstest;

use super::*;

/// The number of seeds in the test.
const SEEDS: u64 = 6;

#[test]
fn seeds_have_no_violations() {
    let mut happened = BTreeMap::new();
    for report in run_many(1, SEEDS, None, 2, &|_| false) {
        let report = report.unwrap();
        assert_eq!(report.violations, Vec::new(), "{report}");
        for (what, count) in report.happened {
            *happened.entry(what).or_insert(0) += count;
        }
    }
    for what in ["operator killed", "load changed", "pool drifts", "instance lost", "faults"] {
        assert!(happened.get(what).is_some_and(|count| *count > 0), "{what} never happened: {happened:?}");
    }
}

#[test]
fn runs_with_one_seed_are_identical() {
    let report = run_twice(8, None).unwrap();
    assert_eq!(report.violations, Vec::new(), "{report}");
}

/// How many of them in the test run over AWS, whose provider makes many more calls.
#[cfg(feature = "documents")]
const AWS_SEEDS: u64 = 2;

/// The AWS provider over a region in memory. `AWS_SEEDS=500 cargo test --release -p fleetwright-scenarios aws_seeds` runs more.
#[cfg(feature = "documents")]
#[test]
#[expect(clippy::disallowed_methods, reason = "a switch for people: how many seeds")]
fn aws_seeds_have_no_violations() {
    let count = std::env::var("AWS_SEEDS").map_or(AWS_SEEDS, |count| count.parse().unwrap());
    let cloud: Arc<dyn CloudSetup> = Arc::new(crate::region::OwnRegion);
    let mut happened: BTreeMap<&str, u32> = BTreeMap::new();
    let mut broken = String::new();
    for report in run_many_over(0, count, &cloud, 2, &|_| false) {
        let report = report.unwrap();
        if !report.violations.is_empty() {
            broken += &report.to_string();
        }
        for (what, count) in report.happened {
            *happened.entry(what).or_insert(0) += count;
        }
    }
    println!("{count} seeds: {happened:?}");
    assert!(broken.is_empty(), "{broken}");
    assert!(happened.contains_key("instance without a claim"), "no fault of the cloud: {happened:?}");
}

/// A seed with what replaces pods: preemption on each new node, rollouts, pods of high priority, Jobs that fail.
#[test]
fn pods_that_are_replaced_get_no_node_after_the_other() {
    let report = run(6, None).unwrap();
    assert_eq!(report.violations, Vec::new(), "{report}");
    assert!(report.happened.contains_key("node labeled"), "{report}");
}

/// The two bugs that the first seeds show: `cargo xtask seeds --bug all` looks for each of them, in CI too.
#[rstest]
#[case(Bug::LaunchWithoutToken)]
#[case(Bug::BlindPatches)]
fn a_planted_bug_is_caught(#[case] bug: Bug) {
    let caught = |report: &Result<SeedReport, RunError>| {
        report.as_ref().is_ok_and(|report| bug.caught(report).is_some())
    };
    let reports = run_many(0, SEEDS, Some(bug), 2, &caught);
    assert!(reports.iter().any(caught), "{bug:?} was not caught by {:?}", bug.breaks());
}
