//! Runs without violations, and planted bugs that are caught. `cargo xtask seeds` runs far more seeds, and every bug.

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

/// Seeds that once had a violation, of the product or the simulator, with the same duration of faults.
#[rstest]
#[case::a_standby_has_seen_less_than_its_predecessor_wrote(50, 10)]
#[case::a_daemon_is_made_for_a_node_that_goes(104, 10)]
#[case::a_claim_is_deleted_while_its_node_registers(444, 10)]
#[case::a_node_is_initialized_and_the_answer_is_late(930, 10)]
#[case::a_restart_forgets_how_many_orphans_were_ended(1362, 10)]
#[case::a_scheduler_counts_the_pods_of_nodes_that_go(1105, 8)]
#[case::a_node_out_of_reach_is_taken_for_how_its_like_come_up(1441, 8)]
#[case::a_clock_that_jumps_makes_it_long_ago(1993, 10)]
#[case::an_operator_ends_before_it_marks_the_node(932, 6)]
#[case::a_replacement_is_for_a_pod_that_is_held(1440, 10)]
fn earlier_violations_stay_fixed(#[case] seed: u64, #[case] minutes: u64) {
    let life = async move { run_one(seed, None, None, None, Duration::from_secs(60 * minutes)).await };
    let report = virtual_runtime().unwrap().block_on(life).unwrap();
    assert_eq!(report.violations, Vec::new(), "{report}");
}

/// Seeds with what replaces pods: preemption on each new node, rollouts, pods of high priority, Jobs that fail.
#[rstest]
#[case(6)]
#[case(14)]
fn pods_that_are_replaced_get_no_node_after_the_other(#[case] seed: u64) {
    let report = run(seed, None).unwrap();
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
