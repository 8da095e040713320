//! The records of decisions agree with what was done, and hold nothing that decisions do not read.

use std::{sync::Arc, time::Duration};

use fleetwright_core::decisions::{Choice, DecisionRecord, OutcomeStatus, record::ClaimChoice};
use fleetwright_sim::simulator::{Simulator, Stability, virtual_runtime};
use serde_json::{Value, json};

use super::{Scenario, expand, play};

/// What no record may have.
const SECRET: &str = "hunter2-planted";

/// A pod that fits nowhere, a batch, a consolidation, and a disruption that waits after the start.
const SCENARIO: &str = "
about: Decisions of each kind.
cloud: instant
pools: [{name: default, capacity: [on-demand], types: [m5.large, m5.2xlarge]}]
pods:
  - {name: heavy, count: 1, cpu: 6}
  - {name: web, count: 1, cpu: 1}
settings: {STARTUP_DISRUPTION_DELAY: 3m}
steps: []
";

/// A Deployment with the secret wherever a user may have one, and a hostile name of a label.
fn impossible() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "huge", "namespace": "default", "annotations": {"note": SECRET}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "huge"}}, "template": {
            "metadata": {"labels": {"app": "huge"}, "annotations": {"note": SECRET}},
            "spec": {"containers": [{"name": "c", "image": "c", "command": ["run", SECRET], "args": [SECRET],
                "env": [{"name": "PASSWORD", "value": SECRET}],
                "resources": {"requests": {"cpu": "900"}}}]}}}})
}

async fn begin() -> Simulator {
    let scenario = Scenario::parse(SCENARIO).unwrap();
    let (config, _) = play::config(&scenario).unwrap();
    let zones = config.cloud.zones();
    let simulator = Simulator::new(config).await.unwrap();
    simulator.apply_object(expand::class(None)).unwrap();
    for pool in &scenario.pools {
        let mut pool = expand::pool(pool, &zones, false);
        pool["metadata"]["annotations"]["note"] = SECRET.into();
        simulator.apply_object(pool).unwrap();
    }
    for pods in scenario.pods.iter().flat_map(expand::pods) {
        simulator.apply_object(planted(pods)).unwrap();
    }
    simulator.apply_object(impossible()).unwrap();
    simulator
}

/// A Deployment with the secret in its containers and annotations.
fn planted(mut object: Value) -> Value {
    if object["kind"] == "Deployment" {
        let template = &mut object["spec"]["template"];
        template["metadata"]["annotations"]["note"] = SECRET.into();
        template["spec"]["containers"][0]["env"] = json!([{"name": "PASSWORD", "value": SECRET}]);
        template["spec"]["containers"][0]["args"] = json!([SECRET]);
    }
    object
}

/// A Deployment without pods.
fn none_of(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"replicas": 0}})
}

async fn stable(simulator: &Simulator) {
    assert!(matches!(simulator.run_until_stable(Duration::from_secs(3600)).await, Stability::Since(_)));
}

fn records(simulator: &Simulator) -> Vec<Arc<DecisionRecord>> {
    let decisions = &simulator.controllers().unwrap().decisions;
    let ring = decisions.ring().lock();
    ring.read(&fleetwright_controllers::runtime::decisions::DecisionQuery::default())
}

/// `kind status` of each record.
fn summary(records: &[Arc<DecisionRecord>]) -> Vec<String> {
    let line = |record: &Arc<DecisionRecord>| {
        let status = record.draft.outcome.as_ref().map_or("-", |outcome| outcome.status.as_str());
        format!("{} {status}", record.draft.choice.kind())
    };
    records.iter().map(line).collect()
}

fn claims(records: &[Arc<DecisionRecord>]) -> Vec<(&DecisionRecord, &ClaimChoice)> {
    let claims = records.iter().filter_map(|record| match &record.draft.choice {
        Choice::NodeClaim(claim) => Some((&**record, claim)),
        _ => None,
    });
    claims.collect()
}

#[test]
fn records_agree_with_what_was_done() {
    virtual_runtime().unwrap().block_on(async {
        let simulator = begin().await;
        simulator.run_for(Duration::from_secs(60)).await;
        let first = records(&simulator);
        assert!(summary(&first).contains(&"held -".to_owned()), "{:?}", summary(&first));
        assert!(summary(&first).contains(&"refusal -".to_owned()), "{:?}", summary(&first));
        check_batch(&simulator, &first);
        simulator.apply_object(none_of("huge")).unwrap();
        stable(&simulator).await;
        let before = simulator.observe().hourly;
        simulator.apply_object(none_of("heavy")).unwrap();
        stable(&simulator).await;
        let (all, after) = (records(&simulator), simulator.observe().hourly);
        let commands: Vec<_> = all
            .iter()
            .filter_map(|record| match &record.draft.choice {
                Choice::Disruption(command) => Some((record, command)),
                _ => None,
            })
            .collect();
        let [(record, command)] = commands[..] else { panic!("{:?}", summary(&all)) };
        assert_eq!(record.draft.outcome.as_ref().unwrap().status, OutcomeStatus::Succeeded);
        let saving = record.draft.saving.as_ref().unwrap();
        assert_eq!(saving.list, before.saturating_sub(after).to_string());
        assert_eq!((&saving.before, &saving.after), (&before.to_string(), &after.to_string()));
        assert_eq!(command.nodes[0].instance_type, "m5.2xlarge");
        // The replacement is a decision of its own, which names the command.
        let (replacement, claim) = *claims(&all).last().unwrap();
        assert_eq!(replacement.draft.parent.as_deref(), Some(&*record.id));
        assert_eq!(claim.offering, command.replacements[0].offering);
        assert_eq!(claims(&all)[0].1.node_claim, command.nodes[0].node_claim);
        check_secrets(&all);
    });
}

/// The batch: its plan, its NodeClaim as the API server has it, and the node that was launched.
fn check_batch(simulator: &Simulator, records: &[Arc<DecisionRecord>]) {
    let plans = records.iter().filter_map(|record| match &record.draft.choice {
        Choice::Plan(plan) if plan.node_claims > 0 => Some((record, plan)),
        _ => None,
    });
    let [(record, plan)] = plans.collect::<Vec<_>>()[..] else { panic!("{:?}", summary(records)) };
    assert_eq!((plan.node_claims, plan.pods_on_new_nodes, plan.unschedulable), (1, 2, 1));
    assert_eq!(record.draft.outcome.as_ref().unwrap().status, OutcomeStatus::Succeeded);
    let [(decision, claim)] = claims(records)[..] else { panic!("{:?}", summary(records)) };
    assert_eq!(decision.draft.parent.as_deref(), Some(&*record.id));
    assert_eq!(decision.draft.inputs, record.draft.inputs);
    assert_eq!(decision.draft.outcome.as_ref().unwrap().status, OutcomeStatus::Succeeded);
    let stored = simulator.server().get("karpenter.sh/v1", "NodeClaim", "", &claim.node_claim).unwrap();
    assert_eq!(stored["metadata"]["annotations"]["fleetwright.dev/decision"], decision.id.as_str());
    assert_eq!(
        stored["metadata"]["labels"]["node.kubernetes.io/instance-type"],
        claim.offering.instance_type.as_str()
    );
    assert_eq!(simulator.observe().hourly.to_string(), claim.offering.price);
    assert_eq!(plan.price, claim.offering.price);
    check_secrets(records);
}

fn check_secrets(records: &[Arc<DecisionRecord>]) {
    let text = serde_json::to_string(records).unwrap();
    assert!(text.contains("default/huge-"), "{text}");
    assert!(!text.contains(SECRET) && !text.contains("PASSWORD"), "{text}");
}

#[test]
fn ids_are_those_of_the_seed_and_never_repeat() {
    let run = || {
        virtual_runtime().unwrap().block_on(async {
            let mut simulator = begin().await;
            simulator.run_for(Duration::from_secs(60)).await;
            let first = records(&simulator);
            simulator.kill(0, Duration::ZERO);
            simulator.start_due().await.unwrap();
            simulator.run_for(Duration::from_secs(60)).await;
            let ids = |records: Vec<Arc<DecisionRecord>>| {
                records.iter().map(|record| record.id.clone()).collect::<Vec<_>>()
            };
            (ids(first), ids(records(&simulator)))
        })
    };
    let (first, second) = run();
    assert!(!first.is_empty() && !second.is_empty());
    assert!(first.iter().all(|id| !second.contains(id)), "{first:?} {second:?}");
    assert_eq!((first, second), run());
}
