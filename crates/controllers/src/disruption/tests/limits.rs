//! Replacements are checked against the current limits.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use fleetwright_core::{
    disruption::{Command, METHODS, propose_with},
    safety::{Act, Facts},
};
use fleetwright_fake_kube::{Answer, ApiError, Fault, Faults, Request};
use fleetwright_state::limits::{Admitted, NotAdmitted};
use rstest::rstest;

use super::*;
use crate::{
    disruption::{
        commands::Commands,
        execute::{self, Execution},
        rules,
    },
    safety::Safety,
};

/// A NodePool of small nodes, and the drift command for a node with two pods, each of which fills a small node.
pub(super) async fn decided(spec: Value) -> (Harness, Command) {
    decided_in(Harness::new(), spec).await
}

/// An execution without commands.
pub(super) fn execution(harness: &Harness) -> Execution {
    Execution::new(&harness.ctx, Arc::new(Commands::default()))
}

async fn decided_in(harness: Harness, spec: Value) -> (Harness, Command) {
    harness.pool("default", spec);
    small_only(&harness);
    drifted(&harness, "old");
    for (name, cpu) in [("p-old", "1500m"), ("q-old", "1500m")] {
        let mut pod = harness.server.get("v1", "Pod", "default", "p-old").map(|pod| (*pod).clone()).unwrap();
        pod["metadata"] = json!({"name": name, "namespace": "default"});
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpu);
        harness.server.apply(pod).unwrap();
    }
    let (trigger, task) =
        harness.run(vec![Arc::new(crate::provisioning::CatalogController::new(&harness.ctx))]);
    harness.pass(5).await;
    trigger.fire();
    task.await.unwrap().unwrap();
    let (rules, now) = (rules(&harness.ctx.settings), harness.ctx.clocks.now());
    let snapshot = harness.ctx.cluster.index().snapshot(now);
    let command = propose_with(&snapshot, &rules, now, METHODS).commands.remove(0);
    (harness, command)
}

fn small_only(harness: &Harness) {
    let mut pool = (*harness.server.get("karpenter.sh/v1", "NodePool", "", "default").unwrap()).clone();
    pool["spec"]["template"]["spec"]["requirements"] =
        json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["small"]}]);
    harness.server.apply(pool).unwrap();
}

/// Creates another NodeClaim after the decision.
fn create_other_claim(harness: &Harness, name: &str) {
    drifted(harness, name);
    let claim = serde_json::from_value::<fleetwright_api::NodeClaim>(claim(harness, name)).unwrap();
    harness.ctx.cluster.observe(claim);
}

#[rstest]
#[case::nothing_came(json!({"limits": {"nodes": "2"}}), 0, true)]
#[case::the_last_room_is_left(json!({"limits": {"nodes": "3"}}), 1, true)]
#[case::the_last_room_was_taken(json!({"limits": {"nodes": "2"}}), 1, false)]
#[case::cpu_is_left(json!({"limits": {"cpu": "8"}}), 1, true)]
#[case::cpu_was_taken(json!({"limits": {"cpu": "7"}}), 1, false)]
#[case::nothing_is_limited(json!({}), 3, true)]
#[tokio::test(start_paused = true)]
async fn a_command_needs_room_in_the_limits_for_all_replacements(
    #[case] spec: Value,
    #[case] others: usize,
    #[case] starts: bool,
) {
    let (harness, command) = decided(spec).await;
    (0..others).for_each(|at| create_other_claim(&harness, &format!("late-{at}")));
    let commands = Arc::new(Commands::default());
    let before = harness.ctx.cluster.index().usage_at_most("default");
    let started = Execution::new(&harness.ctx, commands.clone())
        .start(command, &crate::runtime::decisions::Decided::unrecorded())
        .await;
    assert_eq!(started.is_ok(), starts, "{started:?}");
    assert_eq!(replacements(&harness).len(), if starts { 2 } else { 0 });
    assert_eq!((has_record(&claim(&harness, "old")), tainted(&harness, "old")), (starts, starts));
    let after = harness.ctx.cluster.index().usage_at_most("default").1;
    // One of the two replacements takes the reservation of the removed node.
    assert_eq!(after, before.1 + i64::from(starts), "the reservation is released");
    assert_eq!(commands.lock().len(), usize::from(starts));
}

#[tokio::test(start_paused = true)]
async fn one_for_one_replacement_may_exceed_the_limit_for_a_while() {
    let (harness, mut command) = decided(json!({"limits": {"nodes": "2"}})).await;
    create_other_claim(&harness, "late");
    // The NodePool is at its limit, and the node that is removed does not count.
    command.replacements.truncate(1);
    execution(&harness).start(command, &crate::runtime::decisions::Decided::unrecorded()).await.unwrap();
    assert_eq!(replacements(&harness).len(), 1);
}

#[rstest]
#[case::room_for_one_more(0, true)]
#[case::none_is_left(1, false)]
#[tokio::test(start_paused = true)]
async fn a_static_pool_does_not_exceed_its_node_limit(#[case] others: usize, #[case] starts: bool) {
    let (harness, command) = decided(json!({"replicas": 1, "limits": {"nodes": "2"}})).await;
    assert_eq!((command.method.name, command.replacements.len()), ("static-drift", 1));
    (0..others).for_each(|at| create_other_claim(&harness, &format!("late-{at}")));
    let started = execution(&harness).start(command, &crate::runtime::decisions::Decided::unrecorded()).await;
    assert_eq!(started.is_ok(), starts, "{started:?}");
    assert_eq!(replacements(&harness).len(), usize::from(starts));
}

/// Refuses every creation of a NodeClaim but the first.
struct RefuseFurtherCreations(AtomicU64);

impl Faults for RefuseFurtherCreations {
    fn decide(&self, request: &Request) -> Fault {
        let create = request.verb == "create" && request.resource == "nodeclaims";
        let refused = create && self.0.fetch_add(1, Ordering::Relaxed) > 0;
        let answer =
            if refused { Answer::Refuse(ApiError::new(403, "Forbidden", "not you")) } else { Answer::Normal };
        Fault { answer, ..Fault::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn reservations_of_failed_creations_are_released() {
    let harness = Harness::with(Some(Arc::new(RefuseFurtherCreations(AtomicU64::new(0)))));
    let (harness, command) = decided_in(harness, json!({"limits": {"nodes": "3"}})).await;
    let started = execution(&harness).start(command, &crate::runtime::decisions::Decided::unrecorded()).await;
    assert!(matches!(started, Err(execute::NotStarted::Failed(_))), "{started:?}");
    assert_eq!(
        harness.ctx.cluster.index().usage_at_most("default").1,
        2,
        "the old NodeClaim, and the replacement that was created"
    );
    assert!(!has_record(&claim(&harness, "old")) && !tainted(&harness, "old"), "the command is rolled back");
}

/// Takes ten seconds for each taint.
struct SlowTaints;

impl Faults for SlowTaints {
    fn decide(&self, request: &Request) -> Fault {
        let taints = request.verb == "patch" && request.resource == "nodes";
        Fault { before: Duration::from_secs(if taints { 10 } else { 0 }), ..Fault::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn pods_of_marked_nodes_get_no_nodeclaim_beside_their_replacement() {
    let harness = Harness::with(Some(Arc::new(SlowTaints)));
    let (harness, command) = decided_in(harness, json!({})).await;
    let (execution, planned) = (execution(&harness), command.replacements.clone());
    let decision = crate::runtime::decisions::Decided::unrecorded();
    let starting = tokio::spawn(async move { execution.start(command, &decision).await });
    harness.pass(5).await;
    for new_claim in &planned {
        let index = harness.ctx.cluster.index();
        let admitted = Admitted::default().admit(&index, new_claim);
        assert!(matches!(admitted, Err(NotAdmitted::Needless)), "{admitted:?}");
    }
    assert!(replacements(&harness).is_empty(), "the node is being tainted");
    starting.await.unwrap().unwrap();
    assert_eq!(replacements(&harness).len(), planned.len());
}

#[tokio::test(start_paused = true)]
async fn a_command_waits_for_the_creation_rate_limit() {
    let (harness, command) = decided(json!({})).await;
    *harness.ctx.limits.lock() = fleetwright_core::safety::Limits::with_rates((3, 1), (1, 1));
    let two = Facts { count: 2, ..Facts::default() };
    Safety::new(&harness.ctx).admit(Act::CreateClaim, &two).unwrap();
    let started =
        execution(&harness).start(command.clone(), &crate::runtime::decisions::Decided::unrecorded()).await;
    assert!(matches!(started, Err(execute::NotStarted::Held(_))), "{started:?}");
    assert!(replacements(&harness).is_empty() && !has_record(&claim(&harness, "old")), "nothing is written");
    harness.pass(1).await;
    execution(&harness).start(command, &crate::runtime::decisions::Decided::unrecorded()).await.unwrap();
    assert_eq!(replacements(&harness).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn drift_that_no_longer_holds_is_reported_as_blocked() {
    let (harness, command) = decided(json!({})).await;
    let kind = command.method.consolidation_type;
    let disruption = crate::disruption::decide::Disruption::new(&harness.ctx, Arc::default());
    disruption.reject(&command, "pods came", &crate::runtime::decisions::Decided::unrecorded());
    let (_trigger, stop) = crate::runtime::shutdown();
    let (client, names, features) =
        (harness.ctx.client.clone(), harness.ctx.names.clone(), harness.ctx.features.clone());
    tokio::spawn(harness.ctx.recorder.clone().run(client, names, features, stop));
    harness.pass(5).await;
    let events = harness.events();
    let reported = events.iter().find(|event| event.starts_with("NodeClaim/old DisruptionBlocked: "));
    assert!(reported.is_some_and(|reported| reported.ends_with("no longer holds (pods came)")), "{events:?}");
    let counted = harness.ctx.metrics.value(&figures::FAILED_VALIDATIONS, &[kind]);
    assert_eq!(counted, 0.0, "only consolidation is rejected");
}
