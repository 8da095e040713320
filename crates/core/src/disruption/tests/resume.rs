//! Which commands of an earlier process continue.

use rstest::rstest;

use super::*;
use crate::model::{TaintEffect, labels::DISRUPTED_TAINT};

/// A process writes the record, then taint and condition, then it deletes the node.
#[rstest]
#[case::all_marks(true, true, true)]
#[case::no_taint(false, true, false)]
#[case::no_condition(true, false, false)]
#[case::the_record_alone(false, false, false)]
fn a_command_continues_on_nodes_with_all_its_marks(
    #[case] tainted: bool,
    #[case] announced: bool,
    #[case] expected: bool,
) {
    let mut node = idle("a");
    if tainted {
        node = node.taint(DISRUPTED_TAINT, TaintEffect::NoSchedule);
    }
    if announced {
        node = node.condition(ConditionType::DisruptionReason);
    }
    let snapshot = ClusterBuilder::new().pool(pool("default")).node(node.build()).build();
    let record = CommandRecord {
        id: "c1".into(),
        method: "emptiness".into(),
        started: Some(now()),
        replacements: 0,
        nodes: 1,
    };
    assert_eq!(resume(&snapshot, &record, &[0], now(), now()).is_some(), expected);
}
