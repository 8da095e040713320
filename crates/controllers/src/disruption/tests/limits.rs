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

/// A pool of small nodes, and what drift decides for a node with two pods, each of which fills one.
pub(super) async fn decided(spec: Value) -> (World, Command) {
    decided_in(World::new(), spec).await
}

/// Starts commands, and knows of none.
pub(super) fn execution(world: &World) -> Execution {
    Execution::new(&world.ctx, Arc::new(Commands::default()))
}

async fn decided_in(world: World, spec: Value) -> (World, Command) {
    world.pool("default", spec);
    small_only(&world);
    drifted(&world, "old");
    for (name, cpu) in [("p-old", "1500m"), ("q-old", "1500m")] {
        let mut pod = world.server.get("v1", "Pod", "default", "p-old").map(|pod| (*pod).clone()).unwrap();
        pod["metadata"] = json!({"name": name, "namespace": "default"});
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpu);
        world.server.apply(pod).unwrap();
    }
    let (trigger, task) = world.run(vec![Arc::new(crate::provisioning::CatalogController::new(&world.ctx))]);
    world.pass(5).await;
    trigger.fire();
    task.await.unwrap().unwrap();
    let (rules, now) = (rules(&world.ctx.settings), world.ctx.clocks.now());
    let snapshot = world.ctx.cluster.index().snapshot(now);
    let command = propose_with(&snapshot, &rules, now, METHODS).commands.remove(0);
    (world, command)
}

fn small_only(world: &World) {
    let mut pool = (*world.server.get("karpenter.sh/v1", "NodePool", "", "default").unwrap()).clone();
    pool["spec"]["template"]["spec"]["requirements"] =
        json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["small"]}]);
    world.server.apply(pool).unwrap();
}

/// Somebody else's NodeClaim, which came after the decision.
fn come(world: &World, name: &str) {
    drifted(world, name);
    let claim = serde_json::from_value::<fleetwright_api::NodeClaim>(claim(world, name)).unwrap();
    world.ctx.cluster.observe(claim);
}

#[rstest]
#[case::nothing_came(json!({"limits": {"nodes": "2"}}), 0, true)]
#[case::the_last_room_is_left(json!({"limits": {"nodes": "3"}}), 1, true)]
#[case::the_last_room_was_taken(json!({"limits": {"nodes": "2"}}), 1, false)]
#[case::cpu_is_left(json!({"limits": {"cpu": "8"}}), 1, true)]
#[case::cpu_was_taken(json!({"limits": {"cpu": "7"}}), 1, false)]
#[case::nothing_is_limited(json!({}), 3, true)]
#[tokio::test(start_paused = true)]
async fn a_command_needs_room_for_all_that_it_creates(
    #[case] spec: Value,
    #[case] came: usize,
    #[case] starts: bool,
) {
    let (world, command) = decided(spec).await;
    (0..came).for_each(|at| come(&world, &format!("late-{at}")));
    let commands = Arc::new(Commands::default());
    let before = world.ctx.cluster.index().usage_at_most("default");
    let started = Execution::new(&world.ctx, commands.clone()).start(command).await;
    assert_eq!(started.is_ok(), starts, "{started:?}");
    assert_eq!(replacements(&world).len(), if starts { 2 } else { 0 });
    assert_eq!((named(&claim(&world, "old")), tainted(&world, "old")), (starts, starts));
    let after = world.ctx.cluster.index().usage_at_most("default").1;
    // Of the two that come one stands for the node that goes.
    assert_eq!(after, before.1 + i64::from(starts), "no room is kept for what is not written any more");
    assert_eq!(commands.lock().len(), usize::from(starts));
}

#[tokio::test(start_paused = true)]
async fn one_for_one_goes_beyond_the_limit_for_a_while() {
    let (world, mut command) = decided(json!({"limits": {"nodes": "2"}})).await;
    come(&world, "late");
    // There are as many as there may be, and what goes makes room before it is gone.
    command.replacements.truncate(1);
    execution(&world).start(command).await.unwrap();
    assert_eq!(replacements(&world).len(), 1);
}

#[rstest]
#[case::room_for_one_more(0, true)]
#[case::none_is_left(1, false)]
#[tokio::test(start_paused = true)]
async fn a_static_pool_stays_within_its_limit(#[case] came: usize, #[case] starts: bool) {
    let (world, command) = decided(json!({"replicas": 1, "limits": {"nodes": "2"}})).await;
    assert_eq!((command.method.name, command.replacements.len()), ("static-drift", 1));
    (0..came).for_each(|at| come(&world, &format!("late-{at}")));
    let started = execution(&world).start(command).await;
    assert_eq!(started.is_ok(), starts, "{started:?}");
    assert_eq!(replacements(&world).len(), usize::from(starts));
}

/// Every creation of a NodeClaim but the first is refused.
struct Refusing(AtomicU64);

impl Faults for Refusing {
    fn decide(&self, request: &Request) -> Fault {
        let create = request.verb == "create" && request.resource == "nodeclaims";
        let refused = create && self.0.fetch_add(1, Ordering::Relaxed) > 0;
        let answer =
            if refused { Answer::Refuse(ApiError::new(403, "Forbidden", "not you")) } else { Answer::Normal };
        Fault { answer, ..Fault::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn room_for_what_could_not_be_written_is_given_back() {
    let world = World::with(Some(Arc::new(Refusing(AtomicU64::new(0)))));
    let (world, command) = decided_in(world, json!({"limits": {"nodes": "3"}})).await;
    let started = execution(&world).start(command).await;
    assert!(matches!(started, Err(execute::NotStarted::Failed(_))), "{started:?}");
    assert_eq!(
        world.ctx.cluster.index().usage_at_most("default").1,
        2,
        "the old one, and the one that was written"
    );
    assert!(!named(&claim(&world, "old")) && !tainted(&world, "old"), "it is rolled back");
}

#[tokio::test(start_paused = true)]
async fn a_command_waits_for_its_turn_to_create() {
    let (world, command) = decided(json!({})).await;
    *world.ctx.limits.lock() = fleetwright_core::safety::Limits::with_rates((3, 1), (1, 1));
    let two = Facts { count: 2, ..Facts::default() };
    Safety::new(&world.ctx).admit(Act::CreateClaim, &two).unwrap();
    let started = execution(&world).start(command.clone()).await;
    assert!(matches!(started, Err(execute::NotStarted::Held(_))), "{started:?}");
    assert!(replacements(&world).is_empty() && !named(&claim(&world, "old")), "nothing is touched");
    world.pass(1).await;
    execution(&world).start(command).await.unwrap();
    assert_eq!(replacements(&world).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn drift_that_no_longer_holds_is_reported_as_blocked() {
    let (world, command) = decided(json!({})).await;
    let kind = command.method.consolidation_type;
    let disruption = crate::disruption::decide::Disruption::new(&world.ctx, Arc::default());
    disruption.reject(&command, "pods came");
    let (_trigger, stop) = crate::runtime::shutdown();
    tokio::spawn(world.ctx.recorder.clone().run(world.ctx.client.clone(), world.ctx.names.clone(), stop));
    world.pass(5).await;
    let events = world.events();
    let told = events.iter().find(|event| event.starts_with("NodeClaim/old DisruptionBlocked: "));
    assert!(told.is_some_and(|told| told.ends_with("no longer holds (pods came)")), "{events:?}");
    let counted = world.ctx.metrics.value(&crate::disruption::figures::FAILED_VALIDATIONS, &[kind]);
    assert_eq!(counted, 0.0, "only consolidation is rejected");
}
