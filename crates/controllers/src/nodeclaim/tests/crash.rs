//! The process is cut off after every effect of a launch and of a termination in turn: the effect stands, its answer is
//! lost, nothing follows. However that was, the next process ends with one instance, or with none.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use fleetwright_fake_kube::{Answer, Fault, Faults, Request};
use serde_json::json;

use super::harness::Harness;

/// Lets this number of effects through.
pub(super) struct Power(AtomicI64);

/// What becomes of an effect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spent {
    /// It happens, and is answered.
    Answered,
    /// It happens, and nobody hears of it.
    Last,
    /// It does not happen.
    Dead,
}

impl Power {
    pub(super) fn full() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(i64::MAX)))
    }

    pub(super) fn set(&self, effects: i64) {
        self.0.store(effects, Ordering::Relaxed);
    }

    pub(super) fn spend(&self) -> Spent {
        match self.0.fetch_sub(1, Ordering::Relaxed) {
            2.. => Spent::Answered,
            1 => Spent::Last,
            _ => Spent::Dead,
        }
    }

    fn is_out(&self) -> bool {
        self.0.load(Ordering::Relaxed) <= 0
    }
}

impl Faults for Power {
    fn decide(&self, request: &Request) -> Fault {
        let reads = matches!(request.verb.as_str(), "get" | "list" | "watch");
        let answer = if reads || request.resource == "events" {
            if self.is_out() { Answer::Drop } else { Answer::Normal }
        } else {
            match self.spend() {
                Spent::Answered => Answer::Normal,
                Spent::Last => Answer::ApplyThenDrop,
                Spent::Dead => Answer::Drop,
            }
        };
        Fault { answer, ..Fault::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_is_cut_off_anywhere_ends_with_one_instance() {
    let mut cut_off = 0;
    for effects in 1..=14 {
        let harness = Harness::new();
        harness.claim("a", json!({}));
        harness.power.set(effects);
        let harness = harness.run();
        harness.sleep(60).await;
        cut_off += i32::from(harness.power.is_out());
        let harness = harness.crash().run();
        harness.until("launched", || harness.condition("a", "Launched") == "True").await;
        harness.join("node-a", "a");
        harness.until("registered", || harness.condition("a", "Registered") == "True").await;
        harness.untaint("node-a", "cni");
        harness.until("initialized", || harness.condition("a", "Initialized") == "True").await;
        // Long enough for whatever was left over to be taken for an orphan.
        harness.sleep(900).await;
        let claim = harness.get_claim("a").expect("a claim");
        {
            let state = harness.cloud.state();
            let ids: Vec<String> = state.instances.keys().map(ToString::to_string).collect();
            assert_eq!(json!(ids), json!([claim["status"]["providerID"]]), "after {effects} effects");
            assert_eq!(state.launched, 1, "after {effects} effects: {:?}", state.calls);
        }
        harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
        harness.until("gone", || harness.get_claim("a").is_none()).await;
        assert!(harness.cloud.state().instances.is_empty());
    }
    assert!(cut_off >= 4, "only {cut_off} of the runs were cut off");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_goes_while_its_launch_is_cut_off_leaves_nothing() {
    for effects in 1..=6 {
        let harness = Harness::new();
        harness.claim("a", json!({}));
        harness.power.set(effects);
        let harness = harness.run();
        harness.sleep(60).await;
        let harness = harness.crash();
        harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
        let harness = harness.run();
        harness.until("gone", || harness.get_claim("a").is_none()).await;
        harness.sleep(900).await;
        assert!(harness.cloud.state().instances.is_empty(), "after {effects} effects");
    }
}

#[tokio::test(start_paused = true)]
async fn a_termination_that_is_cut_off_anywhere_goes_on() {
    let mut cut_off = 0;
    for effects in 1..=16 {
        let harness = Harness::new().run();
        harness.grown("a", "node-a", json!({})).await;
        harness.sleep(30).await;
        harness.power.set(effects);
        harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
        harness.sleep(60).await;
        cut_off += i32::from(harness.power.is_out());
        let harness = harness.crash().run();
        harness.until("gone", || harness.get_claim("a").is_none()).await;
        assert!(harness.get("v1", "Node", "node-a").is_none(), "after {effects} effects");
        assert!(harness.cloud.state().instances.is_empty(), "after {effects} effects");
    }
    assert!(cut_off >= 6, "only {cut_off} of the runs were cut off");
}
