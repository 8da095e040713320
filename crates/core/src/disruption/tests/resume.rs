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

#[test]
fn a_command_with_its_replacement_continues_without_marks() {
    // Replacements are created after the marks: a mark that is missing was removed since.
    let mut snapshot = ClusterBuilder::new().pool(pool("default")).node(idle("a").build()).build();
    let (all, _) = candidates(&snapshot, now(), false);
    let lineage = lineage_of(&all, now());
    let replacement = node("r").with_claim(|claim| {
        claim.annotations.insert(crate::model::labels::LINEAGE.into(), lineage.into());
    });
    snapshot.nodes.push(replacement.build());
    let record = |replacements| CommandRecord {
        id: "id".into(),
        method: "single-node-consolidation".into(),
        started: Some(now() - jiff::SignedDuration::from_secs(61)),
        replacements,
        nodes: 1,
    };
    let resumed = |replacements| {
        let started = resume(&snapshot, &record(replacements), &[0], now(), now());
        started.map(|started| started.replacements)
    };
    assert_eq!(resumed(1), Some(vec!["r".into()]));
    assert_eq!(resumed(2), None, "the second one is missing");
}

#[test]
fn a_command_without_replacements_continues_for_a_minute() {
    let marked = idle("a").taint(DISRUPTED_TAINT, TaintEffect::NoSchedule);
    let marked = marked.condition(ConditionType::DisruptionReason).build();
    let snapshot = ClusterBuilder::new().pool(pool("default")).node(marked).build();
    let resumed = |age: i64| {
        let record = CommandRecord {
            id: "c1".into(),
            method: "emptiness".into(),
            started: Some(now() - jiff::SignedDuration::from_secs(age)),
            replacements: 0,
            nodes: 1,
        };
        resume(&snapshot, &record, &[0], now(), now()).is_some()
    };
    assert_eq!([resumed(60), resumed(61)], [true, false]);
}

/// The next step of a command that replaces `a` by `r`, `seconds` after its start.
fn progressed(nodes: impl IntoIterator<Item = NodeBuilder>, seconds: i64) -> Next {
    let before = ClusterBuilder::with_default_pool().node(idle("a").pod(on("a", "p", 500)).build()).build();
    let (all, _) = candidates(&before, now(), false);
    let spec = method("single-node-consolidation").expect("a method").spec();
    let started = StartedCommand {
        command: Arc::new(Command::new(spec, all, Vec::new())),
        replacements: vec!["r".into()],
        since: now(),
        started: now(),
    };
    let builder = ClusterBuilder::with_default_pool();
    let snapshot = nodes.into_iter().fold(builder, |builder, node| builder.node(node.build())).build();
    progress(&started, &snapshot, now() + jiff::SignedDuration::from_secs(seconds), Duration::from_secs(600))
}

#[test]
fn a_command_waits_for_its_replacement_then_removes_its_candidates() {
    let deleted = |node: NodeBuilder| node.with_claim(|claim| claim.deleting = Some(now()));
    let (a, r) = (|| idle("a").marked().pod(on("a", "p", 500)), || node("r"));
    let starting = || r().uninitialized();
    assert_eq!(progressed([a(), starting()], 600), Next::Wait("r".into()));
    assert_eq!(progressed([a(), starting()], 601), Next::Abandon(Abandoned::Timeout("r".into())));
    assert_eq!(progressed([a(), deleted(r())], 1), Next::Abandon(Abandoned::Deleting("r".into())));
    assert_eq!(progressed([a()], 1), Next::Abandon(Abandoned::Gone("r".into())));
    assert_eq!(progressed([a(), r()], 601), Next::Remove, "it was initialized in time or late");
    assert_eq!(progressed([deleted(a()), starting()], 1), Next::Done);
    assert_eq!(progressed([starting()], 1), Next::Done, "the candidate is gone");
    let protected = running("a", pod("p").cpu(500)).with(|pod| pod.do_not_disrupt = DoNotDisrupt::Always);
    let blocked = progressed([idle("a").marked().pod(protected.into()), r()], 1);
    assert!(matches!(blocked, Next::Abandon(Abandoned::Blocked(..))), "{blocked:?}");
}

#[rstest]
#[case::no_mark(|node: NodeBuilder| node, false, false)]
#[case::taint(|node: NodeBuilder| node.taint(DISRUPTED_TAINT, TaintEffect::NoSchedule), false, true)]
#[case::condition(|node: NodeBuilder| node.condition(ConditionType::DisruptionReason), false, true)]
#[case::record(|node: NodeBuilder| node, true, true)]
#[case::claim_is_deleted(|node: NodeBuilder| node.with_claim(|claim| claim.deleting = Some(now())), true, false)]
#[case::node_is_deleted(|node: NodeBuilder| node.with_node(|node| node.deleting = Some(now())), true, false)]
fn any_mark_of_a_command_that_does_not_run_is_removed(
    #[case] change: fn(NodeBuilder) -> NodeBuilder,
    #[case] has_record: bool,
    #[case] expected: bool,
) {
    assert_eq!(is_marked(&change(node("a")).build(), has_record), expected);
}
