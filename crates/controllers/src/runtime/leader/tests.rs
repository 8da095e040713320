//! Leader election against the in-memory API server: one replica leads, another replaces it, a former leader stops acting.

use std::sync::Arc;

use fleetwright_fake_kube::{Answer, Fault, Faults, Request, WatchFault};
use serde_json::json;

use super::*;
use crate::{
    runtime::{Ctx, ReconcileError, Trigger, run, shutdown},
    testing::Harness,
};

/// A replica with its own context, on the API server of `harness`.
struct Replica {
    ctx: Ctx,
    leadership: Leadership,
    campaign: tokio::task::JoinHandle<Result<(), Lost>>,
    controllers: tokio::task::JoinHandle<Result<(), crate::runtime::RunError>>,
    resign: Trigger,
    _stop: Trigger,
}

fn replica(harness: &mut Harness, identity: &str) -> Replica {
    let leadership = Leadership::candidate();
    harness.led_by(leadership.clone());
    let ctx = harness.ctx.clone();
    let election = Election {
        namespace: "kube-system".to_owned(),
        name: "karpenter-leader-election".to_owned(),
        identity: identity.to_owned(),
    };
    let (resign, resigned) = shutdown();
    let (stop, stopped) = shutdown();
    let (client, clock, term) = (ctx.client.client(), ctx.clocks.clock().clone(), leadership.clone());
    let recorder = ctx.recorder.clone();
    let campaign = tokio::spawn(async move {
        election.campaign(client, clock, &term, resigned, |event| recorder.publish(event)).await
    });
    let controllers = crate::provisioning::controllers(&ctx);
    let controllers = tokio::spawn(run(ctx.clone(), controllers, stopped));
    Replica { ctx, leadership, campaign, controllers, resign, _stop: stop }
}

fn lease(harness: &Harness) -> serde_json::Value {
    let found =
        harness.server.get("coordination.k8s.io/v1", "Lease", "kube-system", "karpenter-leader-election");
    found.map(|lease| lease["spec"].clone()).unwrap_or_default()
}

fn holder(harness: &Harness) -> String {
    lease(harness)["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_standby_replaces_a_leader_that_died() {
    let mut harness = Harness::new();
    harness.pool("default", json!({}));
    let one = replica(&mut harness, "one");
    harness.pass(3).await;
    let two = replica(&mut harness, "two");
    harness.pending_pod("a", "1");
    harness.pass(30).await;
    assert_eq!(
        (holder(&harness).as_str(), one.leadership.holds(), two.leadership.holds()),
        ("one", true, false)
    );
    assert_eq!(harness.claims().len(), 1, "one leader, one NodeClaim");
    one.campaign.abort();
    one.controllers.abort();
    // Too large for the in-flight node of the first pod.
    harness.pending_pod("b", "3");
    harness.pass(9).await;
    assert!(!two.leadership.holds(), "the lease has not expired yet");
    harness.pass(16).await;
    assert_eq!(
        (holder(&harness).as_str(), one.leadership.holds(), two.leadership.holds()),
        ("two", false, true)
    );
    assert_eq!(lease(&harness)["leaseTransitions"], 1);
    harness.pass(15).await;
    let mut answered: Vec<String> = harness.claims().into_iter().flat_map(|(_, pods)| pods).collect();
    answered.sort();
    assert_eq!(answered, ["default/a", "default/b"]);
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_acquired_at_once() {
    let mut harness = Harness::new();
    let one = replica(&mut harness, "one");
    harness.pass(3).await;
    let two = replica(&mut harness, "two");
    harness.pass(3).await;
    one.resign.fire();
    assert_eq!(one.campaign.await.unwrap(), Ok(()));
    assert_eq!((holder(&harness).as_str(), one.leadership.holds()), ("", false));
    harness.pass(3).await;
    assert_eq!((holder(&harness).as_str(), two.leadership.holds()), ("two", true));
    let of_leases: Vec<String> =
        harness.events().into_iter().filter(|event| event.starts_with("Lease/")).collect();
    let expected = ["one", "two"]
        .map(|identity| format!("Lease/karpenter-leader-election LeaderElection: {identity} became leader"));
    assert_eq!(of_leases, expected);
}

/// Delays new watches of NodeClaims by a minute while this is set.
struct DelayedWatch(Arc<AtomicBool>);

impl Faults for DelayedWatch {
    fn decide(&self, request: &Request) -> Fault {
        let late =
            self.0.load(Ordering::Relaxed) && request.verb == "watch" && request.resource == "nodeclaims";
        let lag = if late { Duration::from_secs(60) } else { Duration::ZERO };
        Fault { watch: WatchFault { lag, ..WatchFault::default() }, ..Fault::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_knows_the_writes_of_its_predecessor() {
    let late = Arc::new(AtomicBool::new(false));
    let mut harness = Harness::with(Some(Arc::new(DelayedWatch(late.clone()))));
    harness.pool("default", json!({}));
    let one = replica(&mut harness, "one");
    harness.pass(3).await;
    late.store(true, Ordering::Relaxed);
    let two = replica(&mut harness, "two");
    harness.pass(3).await;
    harness.pending_pod("a", "1");
    harness.pass(5).await;
    assert_eq!(harness.claims().len(), 1);
    one.campaign.abort();
    one.controllers.abort();
    harness.pass(30).await;
    assert!(two.leadership.holds() && two.leadership.has_caught_up());
    assert!(two.ctx.gate.may_act().is_ok());
    assert_eq!(harness.claims().len(), 1, "the pod has a NodeClaim already");
}

/// Refuses writes of leases while this is set.
struct NoRenewals(Arc<AtomicBool>);

impl Faults for NoRenewals {
    fn decide(&self, request: &Request) -> Fault {
        let broken = self.0.load(Ordering::Relaxed) && request.resource == "leases";
        Fault { answer: if broken { Answer::ApplyThenDrop } else { Answer::Normal }, ..Fault::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_acting() {
    let broken = Arc::new(AtomicBool::new(false));
    let mut harness = Harness::with(Some(Arc::new(NoRenewals(broken.clone()))));
    let one = replica(&mut harness, "one");
    harness.pass(3).await;
    assert!(one.leadership.holds());
    broken.store(true, Ordering::Relaxed);
    harness.pass(20).await;
    assert_eq!(one.campaign.await.unwrap(), Err(Lost));
    assert!(!one.leadership.holds());
    let api = one.ctx.client.cluster::<fleetwright_api::NodePool>();
    let refused = one.ctx.client.call("get nodepool", api.get_opt("default")).await;
    assert!(matches!(refused, Err(ReconcileError::NotLeading { .. })), "{refused:?}");
    let claim = fleetwright_core::testing::node("a").build().claim.clone().unwrap();
    let ended = one.ctx.cloud.terminate(&claim, &"fake:///a".into()).await;
    assert!(ended.is_err(), "{ended:?}");
}
