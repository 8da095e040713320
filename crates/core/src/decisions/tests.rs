//! Records say what plans, commands and limits say.

use std::{sync::Arc, time::Duration};

use rstest::rstest;

use super::{
    record::{DecisionInputs, MESSAGE_BYTES},
    *,
};
use crate::{
    cloud::InterruptionKind,
    disruption::{self, Proposal, propose},
    model::{Currency, Pod, PodPhase, Price, Snapshot, nodeclaim::ConditionType},
    safety::{Act, Cause, Held},
    scheduling::{Effort, Plan, Purpose, Request, Rules, solve},
    testing::{ClusterBuilder, NodeBuilder, node, now, pod},
};

fn plan(snapshot: &Snapshot) -> Plan {
    let request = Request {
        pods: &snapshot.pending,
        without: &[],
        purpose: Purpose::Provisioning,
        effort: Effort::First,
    };
    solve(snapshot, &request, &Rules::default())
}

/// Two pods, of which the existing node holds one, and two that no type holds.
fn batch() -> Snapshot {
    let huge = |name: &str| pod(name).cpu(900_000);
    ClusterBuilder::with_default_pool()
        .node(node("n").build())
        .pending(pod("a").cpu(3_500))
        .pending(pod("b").cpu(3_500))
        .pending(huge("y"))
        .pending(huge("z"))
        .build()
}

#[test]
fn a_plan_is_described_by_its_figures() {
    let snapshot = batch();
    let plan = plan(&snapshot);
    let inputs = inputs_of_plan(&snapshot, &snapshot.pending);
    let draft = of_plan(&plan, inputs.clone(), now());
    let Choice::Plan(choice) = &draft.choice else { panic!("{draft:?}") };
    assert_eq!((choice.pods, inputs.nodes, inputs.node_pools), (4, 1, 1));
    assert_eq!((choice.node_claims, choice.pods_on_new_nodes), (1, 1));
    assert_eq!((choice.pods_on_existing_nodes, choice.unschedulable), (1, 2));
    assert_eq!(choice.price, plan.new_claims[0].chosen.price.to_string());
    assert_eq!(draft.outcome.as_ref().unwrap().status, OutcomeStatus::Decided);

    let refused: Vec<Refused<'_>> = Refused::pods(&plan).collect();
    let [refusal] = &of_refused_pods(&refused, "p-1", &inputs)[..] else {
        panic!("equal reasons are one record")
    };
    let Choice::Refusal(names) = &refusal.choice else { panic!("{refusal:?}") };
    assert_eq!((names.of.as_str(), names.total), ("Pod", 2));
    assert_eq!(names.names, ["default/y", "default/z"]);
    assert_eq!(refusal.reasons[0].message, plan.unplaced[0].1.to_string());
    assert_eq!(refusal.reasons[1].reason, "Resources");
    assert_eq!(refusal.reasons[1].node_pool.as_deref(), Some("default"));
    assert_eq!((refusal.parent.as_deref(), &refusal.outcome), (Some("p-1"), &None));
}

#[test]
fn a_node_claim_has_its_candidates_cheapest_first() {
    let snapshot = batch();
    let plan = plan(&snapshot);
    let new_claim = &plan.new_claims[0];
    let context = NodeClaimContext {
        name: "default-x",
        pods: &new_claim.pods,
        parent: Some("p-1".into()),
        inputs: DecisionInputs::default(),
    };
    let draft = of_claim(new_claim, context, now());
    let Choice::NodeClaim(choice) = &draft.choice else { panic!("{draft:?}") };
    assert_eq!(choice.offering, draft.candidates[0]);
    assert_eq!(choice.offering.instance_type, &*new_claim.chosen.instance_type);
    assert_eq!(choice.requests["cpu"], "3500m");
    assert_eq!(draft.candidates_total, new_claim.instance_types.len());
    let prices: Vec<f64> = draft.candidates.iter().map(|row| row.effective_price.parse().unwrap()).collect();
    assert!(prices.len() > 1 && prices.is_sorted(), "{prices:?}");
}

/// A node of 16 CPUs with one small pod.
fn too_large(name: &str) -> NodeBuilder {
    let running = pod(&format!("p-{name}")).cpu(1500).with(|pod| {
        pod.node = Some("a".into());
        pod.phase = PodPhase::Running;
        pod.unschedulable = false;
        pod.ready = true;
        pod.started = Some(now());
    });
    let running: Arc<Pod> = running.into();
    node(name).size("xlarge", 16, 32).condition(ConditionType::Consolidatable).pod(running)
}

fn pass(snapshot: &Snapshot) -> Proposal {
    propose(snapshot, &disruption::Rules::default(), now())
}

#[test]
fn a_command_has_its_nodes_replacement_and_saving() {
    let snapshot = ClusterBuilder::with_default_pool().node_overhead(10).node(too_large("a").build()).build();
    let proposal = pass(&snapshot);
    let [command] = &proposal.commands[..] else { panic!("{proposal:?}") };
    let draft = of_command(command, inputs_of_nodes(&snapshot), now());
    let Choice::Disruption(choice) = &draft.choice else { panic!("{draft:?}") };
    assert_eq!(
        (choice.action.as_str(), choice.reason.as_str(), choice.pods),
        ("replace", "Underutilized", 1)
    );
    assert_eq!(choice.nodes[0].price.as_deref(), Some("0.96"));
    assert_eq!(choice.replacements[0].offering.instance_type, "small");
    let saving = draft.saving.unwrap();
    assert_eq!(
        (saving.before.as_str(), saving.after.as_str(), saving.list.as_str()),
        ("0.96", "0.048", "0.912")
    );
    assert_eq!(saving.effective, command.effective_savings().to_string());
}

#[test]
fn a_saving_is_absent_without_prices_and_negative_where_replacements_cost_more() {
    let snapshot = ClusterBuilder::with_default_pool().node(too_large("a").build()).build();
    let mut command = pass(&snapshot).commands.remove(0);
    command.candidates[0].price = Price::from_nanos(8_000_000);
    let saving = of_command(&command, DecisionInputs::default(), now()).saving.unwrap();
    assert_eq!(saving.list, "-0.04");
    command.candidates[0].price = Price::ZERO;
    let draft = of_command(&command, DecisionInputs::default(), now());
    let Choice::Disruption(choice) = &draft.choice else { panic!("{draft:?}") };
    assert_eq!((&draft.saving, &choice.nodes[0].price), (&None, &None));
}

#[test]
fn nodes_that_are_not_disrupted_are_one_record_for_each_reason() {
    let blocked = |name: &str| {
        node(name).with_node(|node| {
            node.annotations.insert("karpenter.sh/do-not-disrupt".into(), "true".into());
        })
    };
    let snapshot = ClusterBuilder::with_default_pool()
        .node(blocked("a").build())
        .node(blocked("b").build())
        .node(node("c").with_node(|node| node.deleting = Some(now())).build())
        .build();
    let proposal = pass(&snapshot);
    let refused: Vec<Refused<'_>> = Refused::nodes(&proposal).collect();
    let [refusal] = &of_refused_nodes(&refused, &inputs_of_nodes(&snapshot))[..] else {
        panic!("{proposal:?}")
    };
    let Choice::Refusal(nodes) = &refusal.choice else { panic!("{refusal:?}") };
    assert_eq!((nodes.of.as_str(), &nodes.names[..]), ("Node", &["a".to_owned(), "b".to_owned()][..]));
    assert_eq!(refusal.reasons[0].reason, "DoNotDisruptNode");
}

#[test]
fn a_held_act_has_its_limit_and_end() {
    let held = Held::CreationRate { left: Duration::from_secs(12) };
    let draft = of_held(Act::CreateClaim, "", &held, now());
    let Choice::Held(choice) = &draft.choice else { panic!("{draft:?}") };
    assert_eq!((choice.act.as_str(), choice.limit.as_str()), ("create_claim", "creation_rate"));
    assert_eq!(choice.until, Some(now() + Duration::from_secs(12)));
    assert_eq!(draft.reasons[0].message, held.to_string());
    let outage = |unready| Held::Outage { unready, all: 9 };
    let key = |held: &Held| held_key(Act::Taint, "a", held);
    assert_eq!(key(&outage(5)), key(&outage(6)), "other figures are the same limit");
    assert_ne!(key(&outage(5)), held_key(Act::Taint, "b", &outage(5)));
}

#[rstest]
#[case(Cause::Expired, "expired: created at 2025-06-15T15:06:40Z, and older than its expireAfter of 24h")]
#[case(Cause::GarbageCollected, "garbage_collected: the cloud has no instance fake:///n")]
#[case(
    Cause::RegistrationTimeout,
    "registration_timeout: instance fake:///n was launched at 2025-06-15T15:06:40Z, and its node did not register in time"
)]
#[case(
    Cause::Interrupted(InterruptionKind::Spot),
    "spot_interrupted: Spot interruption warning was triggered"
)]
#[case(Cause::NodeDeleted, "node_deleted: its Node was deleted by another client")]
#[case(Cause::Surplus, "surplus: its NodePool has more nodes than replicas")]
fn a_deletion_has_its_cause(#[case] cause: Cause, #[case] expected: &str) {
    let built = too_large("n").build();
    let mut claim = (**built.claim.as_ref().unwrap()).clone();
    claim.expire_after = Some(Duration::from_secs(86_400));
    let nodes: Vec<_> = built.node.iter().cloned().collect();
    let price = Price::from_dollars(0.5).ok();
    let deleted = |found| DeletedClaim { claim: &claim, nodes: &nodes, pods: &built.pods, price, found };
    let draft = of_deletion(&deleted(None), cause, now());
    let Choice::Deletion(choice) = &draft.choice else { panic!("{draft:?}") };
    assert_eq!((choice.of.as_str(), choice.node.as_deref(), choice.pods), ("NodeClaim", Some("n"), 1));
    assert_eq!(
        (choice.node_pool.as_deref(), choice.instance_type.as_deref(), choice.price.as_deref()),
        (Some("default"), Some("xlarge"), Some("0.5"))
    );
    assert_eq!(draft.outcome.as_ref().unwrap().status, OutcomeStatus::Started);
    assert_eq!(format!("{}: {}", draft.reasons[0].reason, draft.reasons[0].message), expected);
    let found = of_deletion(&deleted(Some("Ready is False")), cause, now());
    assert_eq!(found.reasons[0].message, "Ready is False");
}

#[test]
fn digests_follow_what_was_read() {
    let cluster = || ClusterBuilder::with_default_pool().node(node("n").build()).pending(pod("a").cpu(100));
    let digest = |builder: ClusterBuilder| {
        let snapshot = builder.build();
        inputs_of_plan(&snapshot, &snapshot.pending).digest
    };
    let same = digest(cluster());
    assert_eq!(same, digest(cluster()));
    let catalog = crate::testing::linear_catalog(3);
    let other_prices = ClusterBuilder::new().catalog(catalog).pool(crate::testing::pool("default"));
    let others = [
        cluster().pending(pod("b").cpu(100)),
        cluster().node(node("m").build()),
        cluster().pool(crate::testing::pool("other")),
        other_prices.node(node("n").build()).pending(pod("a").cpu(100)),
        ClusterBuilder::with_default_pool().node(node("n").build()).pending(pod("a").cpu(101)),
    ];
    for (index, other) in others.into_iter().enumerate() {
        assert_ne!(same, digest(other), "{index}");
    }
}

#[test]
fn processes_have_different_names() {
    let name =
        |seconds: i64, seed| process_name(now() + Duration::from_secs(seconds.unsigned_abs()), seed, "uid");
    assert_eq!(name(0, 1), name(0, 1));
    assert_ne!(name(0, 1), name(0, 2));
    assert_ne!(name(0, 1), name(1, 1));
    assert_eq!(name(0, 1).len(), 14);
}

#[test]
fn records_are_read_as_they_were_written_and_may_grow() {
    let snapshot = batch();
    let plan = plan(&snapshot);
    let draft = of_plan(&plan, inputs_of_plan(&snapshot, &snapshot.pending), now());
    let record =
        DecisionRecord { id: "p-1".into(), revision: 1, time: now(), currency: Currency::EUR, draft };
    let mut written = serde_json::to_value(&record).unwrap();
    assert_eq!(written["kind"], "plan");
    assert_eq!(written["choice"]["nodeClaims"], 1);
    assert_eq!(written["time"], "2025-06-15T15:06:40Z");
    written["later"] = "a field of a later version".into();
    assert_eq!(serde_json::from_value::<DecisionRecord>(written).unwrap(), record);
}

#[test]
fn messages_have_a_bound() {
    let long = "é".repeat(MESSAGE_BYTES);
    let outcome = DecisionOutcome::new(OutcomeStatus::Failed, now(), Some(long)).message.unwrap();
    assert!(outcome.len() <= MESSAGE_BYTES && outcome.len() > MESSAGE_BYTES - 4 && outcome.ends_with("é…"));
}
