//! From pending pods to NodeClaims, over a real client: one NodeClaim per pod, whatever fails.

use fleetwright_core::model::NamespacedName;
use fleetwright_fake_kube::{Answer, Fault, Faults, Request as ApiRequest, WatchFault};
use serde_json::json;

use crate::testing::Harness;

/// All pods for which NodeClaims were created, sorted; a pod with two NodeClaims is listed twice.
fn claimed_pods(harness: &Harness) -> Vec<String> {
    let mut pods: Vec<String> = harness.claims().into_iter().flat_map(|(_, pods)| pods).collect();
    pods.sort();
    pods
}

fn names(count: usize) -> Vec<String> {
    let mut names: Vec<String> = (0..count).map(|n| format!("default/p{n}")).collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn pending_pods_become_nodeclaims_once() {
    let harness = Harness::new();
    harness.pool("default", json!({}));
    for n in 0..20 {
        harness.pending_pod(&format!("p{n}"), "1");
    }
    let _running = harness.run(super::super::controllers(&harness.ctx));
    harness.pass(120).await;
    assert_eq!(claimed_pods(&harness), names(20));
    let nominated = harness.events().iter().filter(|event| event.contains("Nominated: Pod should")).count();
    assert!(nominated >= 10, "{:?}", harness.events());
    let name = &harness.claims()[0].0;
    let claim = harness.ctx.cluster.index().claim(name).cloned().unwrap();
    assert_eq!(claim.metadata.finalizers.as_deref().unwrap(), ["karpenter.sh/termination"]);
    assert!(harness.ctx.metrics.encode().unwrap().contains("karpenter_nodeclaims_created_total{"));
}

#[tokio::test(start_paused = true)]
async fn a_restart_creates_no_second_claim() {
    let mut harness = Harness::new();
    harness.pool("default", json!({}));
    for n in 0..5 {
        harness.pending_pod(&format!("p{n}"), "1");
    }
    for _ in 0..3 {
        let (trigger, task) = harness.run(super::super::controllers(&harness.ctx));
        harness.pass(15).await;
        trigger.fire();
        task.await.unwrap().unwrap();
        harness.restart();
    }
    assert_eq!(claimed_pods(&harness), names(5));
}

/// Every creation of a NodeClaim has its effect; every other response is lost.
struct LoseResponses(std::sync::atomic::AtomicU64);

impl Faults for LoseResponses {
    fn decide(&self, request: &ApiRequest) -> Fault {
        let create = request.verb == "create" && request.resource == "nodeclaims";
        let odd = create && self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed).is_multiple_of(2);
        Fault { answer: if odd { Answer::ApplyThenDrop } else { Answer::Normal }, ..Fault::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_response_does_not_create_two_claims() {
    let harness = Harness::with(Some(std::sync::Arc::new(LoseResponses(0.into()))));
    harness.pool("default", json!({}));
    for n in 0..5 {
        harness.pending_pod(&format!("p{n}"), "1");
    }
    let _running = harness.run(super::super::controllers(&harness.ctx));
    harness.pass(60).await;
    assert_eq!(claimed_pods(&harness), names(5));
}

/// Creations of NodeClaims have their effect, but their responses and all reads fail for a while; watches are delayed.
struct LoseResponsesAndReads(std::sync::Mutex<u32>);

impl Faults for LoseResponsesAndReads {
    fn decide(&self, request: &ApiRequest) -> Fault {
        if request.resource == "nodeclaims" && request.verb == "watch" {
            let watch = WatchFault { lag: std::time::Duration::from_secs(40), ..WatchFault::default() };
            return Fault { watch, ..Fault::default() };
        }
        let about = request.resource == "nodeclaims" && matches!(request.verb.as_str(), "create" | "get");
        let mut left = self.0.lock().unwrap();
        if !about || *left == 0 {
            return Fault::default();
        }
        *left -= 1;
        Fault { answer: Answer::ApplyThenDrop, ..Fault::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_planned_while_the_outcome_of_a_creation_is_unknown() {
    let harness = Harness::with(Some(std::sync::Arc::new(LoseResponsesAndReads(9.into()))));
    harness.pool("default", json!({}));
    harness.pending_pod("p0", "1");
    let _running = harness.run(super::super::controllers(&harness.ctx));
    harness.pass(120).await;
    assert_eq!(claimed_pods(&harness), names(1));
    let index = harness.ctx.cluster.index();
    let pod = index.pod(&NamespacedName::new("default", "p0")).unwrap();
    assert!(index.has_launches(pod), "the launch-loop breaker has no launch");
}

/// Gives each NodeClaim an instance and deletes it, as if nothing ran there.
fn lose_nodes(harness: &Harness) {
    for claim in harness.server.list("karpenter.sh/v1", "NodeClaim", "") {
        let name = claim["metadata"]["name"].as_str().unwrap();
        let launched = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name},
            "status": {"providerID": format!("fake:///{name}")}});
        harness.server.apply(launched).unwrap();
        harness.server.delete("karpenter.sh/v1", "NodeClaim", "", name).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_end_the_pause_of_the_launch_loop_breaker() {
    let mut harness = Harness::new();
    harness.pool("default", json!({}));
    harness.pending_pod("p0", "1");
    let (trigger, task) = harness.run(super::super::controllers(&harness.ctx));
    for _ in 0..2 {
        harness.pass(15).await;
        lose_nodes(&harness);
    }
    harness.pass(15).await;
    trigger.fire();
    task.await.unwrap().unwrap();
    assert_eq!(harness.claims().len(), 2, "the third one waits");
    harness.restart();
    let _running = harness.run(super::super::controllers(&harness.ctx));
    harness.pass(20).await;
    assert_eq!(harness.claims().len(), 2, "after a restart too");
    let held = harness
        .events()
        .iter()
        .any(|event| event.contains("2 nodes were launched for pods of Pod default/p0"));
    assert!(held, "{:?}", harness.events());
    harness.pass(60).await;
    assert_eq!(harness.claims().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn unschedulable_pods_get_an_event_with_the_reason() {
    let harness = Harness::new();
    harness.pool("default", json!({}));
    harness.pending_pod("giant", "5000");
    harness.pending_pod("fits", "1");
    let _running = harness.run(super::super::controllers(&harness.ctx));
    harness.pass(30).await;
    assert_eq!(claimed_pods(&harness), ["default/fits"]);
    let events = harness.events();
    let reported =
        events.iter().find(|event| event.starts_with("Pod/giant FailedScheduling: Failed to schedule pod, "));
    assert!(reported.is_some(), "{events:?}");
    assert_eq!(harness.ctx.metrics.value(&super::families::UNSCHEDULABLE_PODS, &[super::NAME]), 1.0);
}

#[tokio::test(start_paused = true)]
async fn events_of_pods_name_the_recorded_plan() {
    let harness = Harness::new();
    harness.pool("default", json!({}));
    harness.pending_pod("small", "1");
    harness.pending_pod("huge", "5000");
    let _running = harness.run(super::super::controllers(&harness.ctx));
    harness.pass(120).await;
    let plans: Vec<String> = harness.recorded("plan").iter().map(|record| record.id.clone()).collect();
    for reason in ["Nominated", "FailedScheduling"] {
        let [named] = &harness.decisions_of_events(reason)[..] else { panic!("{reason}: {plans:?}") };
        assert!(plans.contains(named), "{reason}: {named} of {plans:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn limits_hold_across_passes_while_claims_are_in_flight() {
    let harness = Harness::new();
    harness.pool("default", json!({"limits": {"nodes": 2}}));
    let _running = harness.run(super::super::controllers(&harness.ctx));
    for n in 0..6 {
        harness.pending_pod(&format!("p{n}"), "15");
        harness.pass(5).await;
    }
    harness.pass(60).await;
    assert_eq!(harness.claims().len(), 2, "{:?}", harness.claims());
    assert!(
        harness.events().iter().any(|event| event.contains("FailedScheduling") && event.contains("limit"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_becomes_ready_triggers_a_pass_for_pending_pods() {
    let harness = Harness::new();
    harness.pending_pod("p0", "1");
    let _running = harness.run(super::super::controllers(&harness.ctx));
    harness.pass(30).await;
    assert!(
        harness.events().iter().any(|event| event.contains("no dynamic nodepools found")),
        "{:?}",
        harness.events()
    );
    harness.pool("default", json!({}));
    harness.pass(3).await;
    assert_eq!(claimed_pods(&harness), names(1));
}

#[tokio::test(start_paused = true)]
async fn claims_that_are_not_needed_any_more_are_not_created() {
    use crate::provisioning::create::{ClaimCreator, Created};
    let harness = Harness::new();
    harness.pool("default", json!({}));
    for n in 0..2 {
        harness.pending_pod(&format!("p{n}"), "15");
    }
    let _running = harness.run(vec![std::sync::Arc::new(super::super::CatalogController::new(&harness.ctx))]);
    harness.pass(5).await;
    let (ctx, creator) = (&harness.ctx, ClaimCreator::new(&harness.ctx));
    let snapshot = ctx.cluster.index().snapshot(ctx.clocks.now());
    let plan =
        super::solve(&ctx.clocks, &ctx.settings, &ctx.solvers, snapshot.clone(), snapshot.pending.clone())
            .await
            .unwrap();
    assert_eq!(plan.new_claims.len(), 2);
    // One of the pods is bound while the plan is computed.
    harness
        .server
        .apply(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p1", "namespace": "default"},
            "spec": {"nodeName": "somewhere"}}))
        .unwrap();
    harness.pass(1).await;
    let decided = &crate::runtime::decisions::Decided::unrecorded();
    let not_needed = |created: &[Created]| created.iter().filter(|c| matches!(c, Created::NotNeeded)).count();
    assert_eq!(not_needed(&creator.claims(plan.new_claims.clone(), decided).await), 1, "one is bound");
    assert_eq!(
        not_needed(&creator.claims(plan.new_claims, decided).await),
        2,
        "the other pod has a NodeClaim"
    );
    assert_eq!(claimed_pods(&harness), names(1));
}

#[tokio::test(start_paused = true)]
async fn claim_creation_is_rate_limited() {
    let harness = Harness::new();
    *harness.ctx.limits.lock() = fleetwright_core::safety::Limits::with_rates((3, 1), (1, 1));
    harness.pool("default", json!({}));
    for n in 0..12 {
        // No node fits two.
        harness.pending_pod(&format!("p{n}"), "12");
    }
    let _running = harness.run(super::super::controllers(&harness.ctx));
    for second in 1..=30 {
        harness.pass(1).await;
        let made = harness.claims().len();
        assert!(made <= 3 + second, "{made} within {second} s");
    }
    assert_eq!(claimed_pods(&harness), names(12), "all pods have one NodeClaim");
    let why = "FailedScheduling: Failed to schedule pod, NodeClaim creation rate limit reached";
    let events = harness.events();
    let waited = events.iter().filter(|event| event.contains(why)).count();
    assert_eq!(waited, 9, "each pod that waited says why: {events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_is_set_back_does_not_delay_pods() {
    let harness = Harness::new();
    harness.pool("default", json!({}));
    let _running = harness.run(super::super::controllers(&harness.ctx));
    harness.pass(5).await;
    harness.clock.set_ahead(3600);
    harness.pending_pod("p0", "1");
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    harness.clock.set_ahead(0);
    harness.pass(10).await;
    assert_eq!(claimed_pods(&harness), names(1));
}
