//! The ends of nodes and claims, and collection.

use std::collections::BTreeSet;

use super::{
    super::{
        finalization::Finalization,
        garbage_collection::{Collection, Findings},
        termination::{NodeTermination, unclaimed},
        trace::Trace,
    },
    *,
};
use crate::{
    model::{ClaimName, ProviderId, Str, Taint, TaintEffect},
    safety::{Act, Cause, Facts, Limits},
    testing::{node, pod},
};

/// A node at the end of its drain.
fn drained() -> Fixture {
    let mut fixture = Fixture::of(node("a")).with(|claim| claim.deleting = Some(now())).with_node(|node| {
        node.deleting = Some(now());
        node.taints.push(Taint::new("karpenter.sh/disrupted", "", TaintEffect::NoSchedule));
        let label = "node.kubernetes.io/exclude-from-external-load-balancers";
        node.labels.insert(label.into(), "karpenter".into());
    });
    for condition in [ConditionType::Drained, ConditionType::VolumesDetached] {
        fixture = fixture.condition(condition, ConditionStatus::True, condition.as_str());
    }
    fixture
}

fn node_says(fixture: &Fixture, volumes: &[&str], instance: &InstanceState, at: i64) -> String {
    let attachments: Vec<Str> = volumes.iter().map(|name| Str::from(*name)).collect();
    let node = fixture.nodes[0].clone();
    fixture.says(&NodeTermination { node: &node, attachments: &attachments, instance }, after(at))
}

#[test]
fn a_node_ends_in_order() {
    let (unknown, gone) = (InstanceState::Unknown, InstanceState::Gone);
    let says = |fixture: &Fixture| node_says(fixture, &[], &unknown, 100);
    assert_eq!(says(&Fixture::of(node("a"))), "", "it was not deleted");
    let unowned = drained().with_node(|node| node.has_finalizer = false);
    assert_eq!(says(&unowned), "");
    assert_eq!(says(&drained().with(|claim| claim.deleting = None)), "delete -; ~1");
    let open = drained().with_node(|node| {
        node.taints.clear();
        node.labels.remove("node.kubernetes.io/exclude-from-external-load-balancers");
    });
    let closing = "node node.kubernetes.io/exclude-from-external-load-balancers=karpenter \
                   +karpenter.sh/disrupted:NoSchedule; ~1";
    assert_eq!(says(&open), closing);
    let disrupted = drained().with_node(|node| {
        drop(node.labels.remove("node.kubernetes.io/exclude-from-external-load-balancers"))
    });
    assert_eq!(
        says(&disrupted),
        closing,
        "disruption has tainted it, and Karpenter logs the taint once more"
    );
    let weak = drained().with_node(|node| {
        node.taints = vec![Taint::new("karpenter.sh/disrupted", "", TaintEffect::PreferNoSchedule)];
    });
    let replaced = "node +karpenter.sh/disrupted:NoSchedule -karpenter.sh/disrupted:PreferNoSchedule; ~1";
    assert_eq!(says(&weak), replaced, "of one key there is one taint");
    let broken = open.with_node(|node| node.ready = false);
    assert_eq!(node_says(&broken, &[], &gone, 0), "release node a", "nothing is left to be drained");
    assert_eq!(says(&broken), closing, "not ready alone proves nothing");
    let mut busy = drained();
    busy.pods.push(pod("late").bound("a"));
    let late = "Drained=Unknown/Draining; evict late; publish FailedDraining; ~1";
    assert_eq!(says(&busy), late, "a pod that came after the drain is drained too");
    let terminate = "terminate fake:///a; InstanceTerminating=True/InstanceTerminating; ~5";
    assert_eq!(says(&drained()), terminate);
    let terminating =
        drained().condition(ConditionType::InstanceTerminating, ConditionStatus::True, "InstanceTerminating");
    assert_eq!(says(&terminating), "terminate fake:///a; ~5");
    assert_eq!(node_says(&terminating, &[], &gone, 100), "release node a");
}

#[test]
fn a_node_without_its_nodeclaim_is_drained_and_released() {
    let says = |fixture: &Fixture, instance: Option<&InstanceState>| {
        brief(&unclaimed(&fixture.nodes[0], &fixture.pods, instance, after(100)))
    };
    let (unknown, gone) = (InstanceState::Unknown, InstanceState::Gone);
    let mut busy = drained();
    busy.pods = vec![pod("p").bound("a"), pod("q").daemon().bound("a")];
    assert_eq!(says(&busy, Some(&unknown)), "evict p; ~1", "daemons serve the others to the end");
    assert_eq!(says(&busy, Some(&gone)), "evict p; ~1", "a node that is ready has an instance");
    busy.pods.remove(0);
    assert_eq!(says(&busy, Some(&unknown)), "evict q; ~1");
    assert_eq!(
        says(&drained(), Some(&unknown)),
        "~60",
        "its instance is an orphan, which is terminated as such"
    );
    assert_eq!(says(&drained(), Some(&gone)), "release node a");
    assert_eq!(says(&drained(), None), "release node a", "it names no instance");
    let open = busy.with_node(|node| node.taints.clear());
    assert_eq!(says(&open, Some(&unknown)), "node +karpenter.sh/disrupted:NoSchedule; ~1");
    let broken = open.with_node(|node| node.ready = false);
    assert_eq!(says(&broken, Some(&gone)), "release node a", "nothing is left to be drained");
}

#[test]
fn volumes_hold_a_node_until_the_deadline() {
    let node = || {
        let mut fixture = drained().with(|claim| claim.termination_deadline = Some(after(50)));
        fixture.claim.conditions.remove(&ConditionType::VolumesDetached);
        fixture
    };
    let unknown = InstanceState::Unknown;
    let waits = "VolumesDetached=Unknown/AwaitingVolumeDetachment; publish AwaitingVolumeDetachment; ~1";
    let terminate = "terminate fake:///a; InstanceTerminating=True/InstanceTerminating; ~5";
    assert_eq!(node_says(&node(), &["v"], &unknown, 49), waits);
    let message = |fixture: &Fixture, seconds| {
        let node = &fixture.nodes[0];
        let attachments = ["v".into(), "w".into()];
        let stage = NodeTermination { node, attachments: &attachments, instance: &unknown };
        let steps = stage.next(&fixture.view(), after(seconds)).steps;
        steps.into_iter().find_map(|step| match step {
            ClaimStep::Condition(change) if change.condition == ConditionType::VolumesDetached => {
                Some(change.message)
            }
            _ => None,
        })
    };
    let text =
        format!("waiting for volumes to be detached: v, w; the instance ends at {} all the same", after(50));
    assert_eq!(message(&node(), 49), Some(text));
    assert_eq!(message(&node(), 50).as_deref(), Some("2 volumes are still attached"));
    let forever = node().with(|claim| claim.termination_deadline = None);
    assert_eq!(message(&forever, 49).as_deref(), Some("waiting for volumes to be detached: v, w"));
    let elapsed = format!("VolumesDetached=False/TerminationGracePeriodElapsed; {terminate}");
    assert_eq!(node_says(&node(), &["v"], &unknown, 50), elapsed);
    let detached = format!("VolumesDetached=True/VolumesDetached; {terminate}");
    assert_eq!(node_says(&node(), &[], &unknown, 0), detached);
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let foreign = InstanceState::NotOwned("tag x is missing".into());
    let says = "InstanceTerminating=False/InstanceNotOwned; publish InstanceNotOwned; ~60";
    assert_eq!(node_says(&drained(), &[], &foreign, 0), says);
    let mut fixture = drained();
    fixture.nodes.clear();
    let stage = Finalization { instance: &foreign, trace: &Trace::Unknown };
    assert_eq!(fixture.says(&stage, now()), says);
}

#[test]
fn a_claim_ends_in_order() {
    let deleted = || Fixture::of(node("a")).with(|claim| claim.deleting = Some(now()));
    let says = |fixture: &Fixture, instance: InstanceState| {
        fixture.says(&Finalization { instance: &instance, trace: &Trace::Unknown }, after(5))
    };
    let unknown = || InstanceState::Unknown;
    assert_eq!(says(&Fixture::of(node("a")), unknown()), "");
    assert_eq!(says(&deleted(), unknown()), "delete nodes 1; ~10");
    let period = || deleted().with(|claim| claim.termination_grace_period = Some(Duration::from_secs(60)));
    let expiring = "deadline +60; publish TerminationGracePeriodExpiring; delete nodes 1; ~10";
    assert_eq!(says(&period(), unknown()), expiring);
    let set = period().with(|claim| claim.termination_deadline = Some(after(10)));
    assert_eq!(says(&set, unknown()), "delete nodes 1; ~10", "an existing deadline is kept");
    let going = deleted().with_node(|node| node.deleting = Some(now()));
    assert_eq!(says(&going, unknown()), "~10");
    let mut alone = deleted();
    alone.nodes.clear();
    let terminate = "terminate fake:///a; InstanceTerminating=True/InstanceTerminating; ~5";
    assert_eq!(says(&alone, unknown()), terminate);
    assert_eq!(says(&alone, InstanceState::Gone), "release");
}

#[test]
fn an_open_launch_needs_proof() {
    let open = || {
        Fixture::of(node("a").unlaunched(&[])).with(|claim| {
            claim.deleting = Some(now());
            claim.attempt = 1;
        })
    };
    let says = |fixture: &Fixture, trace: Trace, at: i64| {
        fixture.says(&Finalization { instance: &InstanceState::Unknown, trace: &trace }, after(at))
    };
    assert_eq!(says(&open(), Trace::Unknown, 0), "~5");
    assert_eq!(says(&open(), Trace::AbsentSince(now()), 59), "~1");
    assert_eq!(says(&open(), Trace::AbsentSince(now()), 60), "release");
    assert_eq!(says(&open(), Trace::Refused, 0), "release");
    let found = "terminate fake:///x; InstanceTerminating=True/InstanceTerminating; ~5";
    assert_eq!(says(&open(), Trace::Found("fake:///x".into()), 99), found);
    assert_eq!(says(&open(), Trace::OneOf("fake:///x".into()), 99), found);
    assert_eq!(says(&open().with(|claim| claim.attempt = 0), Trace::Unknown, 0), "release");
    let gone = |trace: Trace| {
        open().says(&Finalization { instance: &InstanceState::Gone, trace: &trace }, after(99))
    };
    assert_eq!(gone(Trace::Found("fake:///x".into())), "release");
    assert_eq!(gone(Trace::OneOf("fake:///x".into())), "~5", "another one may be its own");
}

/// Returns `size` nodes; the first `broken` are not ready and missing from the list.
fn nodes(size: usize, broken: usize) -> (Vec<Fixture>, BTreeSet<ProviderId>) {
    let node = |index: usize| {
        let name = format!("n{index:03}");
        let fixture = Fixture::of(node(&name));
        if index < broken { fixture.with_node(|node| node.ready = false) } else { fixture }
    };
    let fleet: Vec<Fixture> = (0..size).map(node).collect();
    let listed = fleet.iter().skip(broken).filter_map(|node| node.claim.provider_id.clone()).collect();
    (fleet, listed)
}

/// A collection under the limits of one process.
#[derive(Default)]
struct Collected(Collection, Limits);

fn survey(
    Collected(collection, limits): &mut Collected,
    fleet: &[Fixture],
    listed: &BTreeSet<ProviderId>,
    at: i64,
) -> Findings {
    let nodes: Vec<_> =
        fleet.iter().map(|node| (&node.claim, node.nodes.first().map(|node| &**node))).collect();
    collection.survey(&nodes, listed, limits, after(at), after(at))
}

#[test]
fn absence_needs_proof() {
    let (fleet, listed) = nodes(10, 1);
    let gone = vec![ClaimName::from("n000")];
    let mut collection = Collected::default();
    survey(&mut collection, &fleet, &listed, 0);
    assert_eq!(survey(&mut collection, &fleet, &listed, 299).gone, [], "too young");
    let first = survey(&mut collection, &fleet, &listed, 300);
    assert_eq!((first.gone, first.again.as_secs()), (vec![], 60));
    assert_eq!(survey(&mut collection, &fleet, &listed, 359).gone, []);
    assert_eq!(survey(&mut collection, &fleet, &listed, 360).gone, gone);
    let all: BTreeSet<ProviderId> = fleet.iter().filter_map(|m| m.claim.provider_id.clone()).collect();
    assert_eq!(survey(&mut collection, &fleet, &all, 400).gone, []);
    assert_eq!(survey(&mut collection, &fleet, &listed, 500).gone, [], "an absence that ended counts again");
    assert_eq!(survey(&mut collection, &fleet, &listed, 560).gone, gone);
    collection.0.forget(&gone[0]);
    assert_eq!(survey(&mut collection, &fleet, &listed, 600).gone, []);
    let (mut ready, listed) = nodes(10, 1);
    ready[0] = Fixture::of(node("n000"));
    let mut collection = Collected::default();
    for at in [300, 400, 500] {
        assert_eq!(survey(&mut collection, &ready, &listed, at).gone, [], "its node is ready");
    }
}

#[test]
fn a_short_list_is_not_believed_and_deletions_are_limited() {
    let (fleet, listed) = nodes(100, 21);
    let mut collection = Collected::default();
    for at in [300, 600, 1199] {
        let findings = survey(&mut collection, &fleet, &listed, at);
        assert_eq!((findings.gone.len(), findings.short_list), (0, Some((21, 100))), "+{at}");
    }
    let findings = survey(&mut collection, &fleet, &listed, 1200);
    assert_eq!((findings.gone.len(), findings.held.len(), findings.short_list), (1, 20, None));
    for name in &findings.gone {
        let facts = Facts { subject: name, all: 100, ..Facts::default() };
        collection.1.take(Act::DeleteClaim(Cause::GarbageCollected), &facts, after(1200)).expect("room");
        collection.0.forget(name);
    }
    let findings = survey(&mut collection, &fleet, &listed, 1399);
    assert_eq!((findings.gone.len(), findings.again.as_secs()), (0, 1));
    assert_eq!(survey(&mut collection, &fleet, &listed, 1400).gone.len(), 1);
    let (fleet, listed) = nodes(2, 2);
    let mut collection = Collected::default();
    survey(&mut collection, &fleet, &listed, 300);
    assert_eq!(
        survey(&mut collection, &fleet, &listed, 499).gone,
        [],
        "another process may have removed some"
    );
    assert_eq!(survey(&mut collection, &fleet, &listed, 500).gone.len(), 1, "a small fleet is not stuck");
}
