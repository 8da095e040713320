//! Condition semantics as sequences of steps on real kinds.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

const CREATED: i64 = 1_700_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(CREATED + seconds).unwrap()
}

fn claim() -> NodeClaim {
    let mut claim = NodeClaim::new("c", Default::default());
    claim.metadata.creation_timestamp = Some(Time(at(0)));
    claim.metadata.generation = Some(1);
    claim
}

fn line(condition: &Condition) -> String {
    let seconds = condition.changed_at().as_second() - CREATED;
    format!(
        "{}={} {} @{seconds} g{}",
        condition.type_, condition.status, condition.reason, condition.observed_generation
    )
}

fn lines(claim: &NodeClaim) -> Vec<String> {
    claim.conditions().iter().map(line).collect()
}

#[test]
fn a_new_object_awaits_reconciliation_since_its_creation() {
    let mut claim = claim();
    claim.condition_set(at(9));
    assert_eq!(
        lines(&claim),
        [
            "Launched=Unknown AwaitingReconciliation @0 g1",
            "Registered=Unknown AwaitingReconciliation @0 g1",
            "Initialized=Unknown AwaitingReconciliation @0 g1",
            "Ready=Unknown ReconcilingDependents @0 g1",
        ]
    );
    assert_eq!(claim.conditions()[0].message, "object is awaiting reconciliation");
    assert_eq!(claim.conditions()[3].message, "Launched=Unknown, Registered=Unknown, Initialized=Unknown");
}

#[test]
fn the_root_follows_its_dependents() {
    let mut claim = claim();
    let mut set = claim.condition_set(at(1));
    assert!(set.set_true(names::LAUNCHED));
    assert!(!set.set_true(names::LAUNCHED), "nothing changed");
    assert_eq!(line(set.root().unwrap()), "Ready=Unknown ReconcilingDependents @0 g1");
    assert_eq!(set.root().unwrap().message, "Registered=Unknown, Initialized=Unknown");
    let mut set = claim.condition_set(at(2));
    set.set_false(names::REGISTERED, "NodeNotFound", "node not found");
    assert_eq!(line(set.root().unwrap()), "Ready=False UnhealthyDependents @2 g1");
    assert_eq!(set.root().unwrap().message, "Registered=False, Initialized=Unknown");
    let mut set = claim.condition_set(at(3));
    set.set_true(names::REGISTERED);
    set.set_true_with_reason(names::INITIALIZED, "AllGood", "all good");
    assert_eq!(line(set.root().unwrap()), "Ready=True Ready @3 g1");
    assert_eq!(
        lines(&claim),
        [
            "Launched=True Launched @1 g1",
            "Registered=True Registered @3 g1",
            "Initialized=True AllGood @3 g1",
            "Ready=True Ready @3 g1",
        ]
    );
}

#[test]
fn a_new_generation_makes_the_root_unknown_until_every_dependent_was_looked_at() {
    let mut claim = claim();
    let mut set = claim.condition_set(at(1));
    for type_ in NodeClaim::TYPES.dependents {
        set.set_true(type_);
    }
    claim.metadata.generation = Some(2);
    let mut set = claim.condition_set(at(5));
    assert!(set.set_true(names::LAUNCHED));
    assert_eq!(line(set.root().unwrap()), "Ready=Unknown ReconcilingDependents @5 g2");
    assert_eq!(set.root().unwrap().message, "Registered=True, Initialized=True");
    set.set_true(names::REGISTERED);
    set.set_true(names::INITIALIZED);
    assert_eq!(line(set.root().unwrap()), "Ready=True Ready @5 g2");
    assert_eq!(line(set.get(names::LAUNCHED).unwrap()), "Launched=True Launched @1 g2", "no transition");
}

/// A deletion increases the generation. What is true of a NodeClaim stays true while its node is drained.
#[test]
fn a_deletion_leaves_the_root_as_it_is() {
    let mut claim = claim();
    let mut set = claim.condition_set(at(1));
    for type_ in NodeClaim::TYPES.dependents {
        set.set_true(type_);
    }
    claim.metadata.generation = Some(2);
    claim.metadata.deletion_timestamp = Some(Time(at(4)));
    claim.condition_set(at(5)).set_unknown_with_reason(names::DRAINED, "Draining", "");
    assert_eq!(
        lines(&claim),
        [
            "Launched=True Launched @1 g2",
            "Registered=True Registered @1 g2",
            "Initialized=True Initialized @1 g2",
            "Drained=Unknown Draining @5 g2",
            "Ready=True Ready @1 g2",
        ]
    );
}

#[test]
fn what_was_false_of_an_older_generation_is_unknown() {
    let mut claim = claim();
    claim.condition_set(at(1)).set_false(names::REGISTERED, "NodeNotFound", "");
    claim.metadata.generation = Some(2);
    let mut set = claim.condition_set(at(5));
    set.set_true(names::LAUNCHED);
    assert_eq!(line(set.root().unwrap()), "Ready=Unknown ReconcilingDependents @5 g2");
}

#[test]
fn independent_conditions_come_and_go_and_leave_the_root_alone() {
    let mut claim = claim();
    let mut set = claim.condition_set(at(1));
    set.set_true(names::DRIFTED);
    assert_eq!(line(set.get(names::DRIFTED).unwrap()), "Drifted=True Drifted @1 g1");
    assert_eq!(set.root().unwrap().message, "Launched=Unknown, Registered=Unknown, Initialized=Unknown");
    assert_eq!(set.clear(names::DRIFTED), Ok(true));
    assert_eq!(set.clear(names::DRIFTED), Ok(false));
    assert_eq!(set.clear(names::LAUNCHED), Err(NotClearable("Launched".into())));
    assert_eq!(set.clear(names::READY), Err(NotClearable("Ready".into())));
    assert!(set.get(names::DRIFTED).is_none());
}

#[rstest]
#[case::root_without_dependents(KwokNodeClass::TYPES, vec!["Ready"])]
#[case::no_root(CapacityBuffer::TYPES, vec![])]
#[case::pool(NodePool::TYPES, vec!["ValidationSucceeded", "NodeClassReady", "Ready"])]
#[case::overlay(NodeOverlay::TYPES, vec!["ValidationSucceeded", "Ready"])]
#[case::claim(NodeClaim::TYPES, vec!["Launched", "Registered", "Initialized", "Ready"])]
fn each_kind_starts_with_its_conditions(#[case] types: ConditionTypes, #[case] expected: Vec<&str>) {
    let mut conditions = Vec::new();
    ConditionSet::new(types, &ObjectMeta::default(), &mut conditions, at(0));
    let found: Vec<&str> = conditions.iter().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(found, expected);
}

#[test]
fn conditions_of_an_older_version_are_read_and_repaired() {
    let stored =
        json!({"conditions": [{"type": "Launched", "status": "True"}, {"type": "Odd", "status": "Maybe"}]});
    let mut claim = claim();
    claim.status = Some(serde_json::from_value(stored).unwrap());
    let mut set = claim.condition_set(at(4));
    assert!(set.set_true(names::LAUNCHED));
    assert_eq!(line(set.get(names::LAUNCHED).unwrap()), "Launched=True Launched @4 g1");
    assert_eq!(set.get("Odd").unwrap().status, ConditionStatus::Other("Maybe".into()));
}

#[test]
fn time_is_kept_in_whole_seconds() {
    let mut claim = claim();
    let now = Timestamp::from_nanosecond(i128::from(CREATED) * 1_000_000_000 + 999).unwrap();
    claim.condition_set(now).set_true(names::DRIFTED);
    let again: NodeClaim = serde_json::from_value(serde_json::to_value(&claim).unwrap()).unwrap();
    assert_eq!(again.conditions(), claim.conditions());
}

proptest! {
    /// Whatever happens: the root is last and agrees with its dependents, the others are in order of time, types are
    /// unique, and a transition time moves only when the status does.
    #[test]
    fn invariants_hold(steps in proptest::collection::vec((0..5_usize, 0..3_u8, 0..3_i64, 0..2_i64), 0..40)) {
        let types = ["Launched", "Registered", "Initialized", "Drifted", "Consolidatable"];
        let mut claim = claim();
        let mut clock = 0;
        for (type_, status, step, generation) in steps {
            clock += step;
            claim.metadata.generation = claim.metadata.generation.map(|current| current + generation);
            let before = claim.clone();
            let mut set = claim.condition_set(at(clock));
            match status {
                0 => set.set_true(types[type_]),
                1 => set.set_false(types[type_], "No", "no"),
                _ => set.set_unknown(types[type_]),
            };
            for condition in claim.conditions() {
                let old = find(before.conditions(), &condition.type_);
                if let Some(old) = old.filter(|old| old.status == condition.status) {
                    prop_assert_eq!(old.changed_at(), condition.changed_at());
                }
            }
            let (root, others) = claim.conditions().split_last().unwrap();
            prop_assert_eq!(root.type_.as_str(), "Ready");
            prop_assert!(others.is_sorted_by_key(Condition::changed_at));
            let mut unique: Vec<&str> = others.iter().map(|condition| condition.type_.as_str()).collect();
            unique.sort_unstable();
            unique.dedup();
            prop_assert_eq!(unique.len(), others.len());
            let dependents: Vec<&Condition> =
                NodeClaim::TYPES.dependents.iter().filter_map(|type_| find(others, type_)).collect();
            prop_assert_eq!(dependents.len(), 3);
            if root.is_true() {
                prop_assert!(dependents.iter().all(|dependent| dependent.is_true()));
            }
            let generation = claim.metadata.generation.unwrap();
            let fails = |dependent: &&Condition| dependent.is_false() && dependent.observed_generation == generation;
            if dependents.iter().any(fails) && root.observed_generation == generation {
                prop_assert!(root.is_false());
            }
        }
    }
}
