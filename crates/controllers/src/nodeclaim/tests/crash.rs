//! Crash tests: the process is interrupted after each effect of a launch and of a termination. The effect persists, its response is
//! lost, and nothing follows. The next process must end with one instance, or with none.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use fleetwright_fake_kube::{Answer, Fault, Faults, Request};
use serde_json::json;

use super::harness::Harness;

/// The number of effects that still happen.
pub(super) struct RemainingEffects(AtomicI64);

/// What happens to an effect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EffectOutcome {
    /// It happens, and its response arrives.
    Acknowledged,
    /// It happens, and its response is lost.
    Unacknowledged,
    /// It does not happen.
    Dropped,
}

impl RemainingEffects {
    pub(super) fn full() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(i64::MAX)))
    }

    pub(super) fn set(&self, effects: i64) {
        self.0.store(effects, Ordering::Relaxed);
    }

    pub(super) fn use_one(&self) -> EffectOutcome {
        match self.0.fetch_sub(1, Ordering::Relaxed) {
            2.. => EffectOutcome::Acknowledged,
            1 => EffectOutcome::Unacknowledged,
            _ => EffectOutcome::Dropped,
        }
    }

    fn is_used_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) <= 0
    }
}

impl Faults for RemainingEffects {
    fn decide(&self, request: &Request) -> Fault {
        let reads = matches!(request.verb.as_str(), "get" | "list" | "watch");
        let answer = if reads || request.resource == "events" {
            if self.is_used_up() { Answer::Drop } else { Answer::Normal }
        } else {
            match self.use_one() {
                EffectOutcome::Acknowledged => Answer::Normal,
                EffectOutcome::Unacknowledged => Answer::ApplyThenDrop,
                EffectOutcome::Dropped => Answer::Drop,
            }
        };
        Fault { answer, ..Fault::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_interrupted_after_any_effect_ends_with_one_instance() {
    let mut cut_off = 0;
    let mut first_calls = 0;
    for effects in 1..=14 {
        let harness = Harness::new();
        harness.claim("a", json!({}));
        harness.remaining_effects.set(effects);
        let harness = harness.run();
        harness.sleep(60).await;
        cut_off += i32::from(harness.remaining_effects.is_used_up());
        let harness = harness.crash().run();
        harness.until("launched", || harness.condition("a", "Launched") == "True").await;
        harness.join("node-a", "a");
        harness.until("registered", || harness.condition("a", "Registered") == "True").await;
        harness.untaint("node-a", "cni");
        harness.until("initialized", || harness.condition("a", "Initialized") == "True").await;
        // Long enough for any leftover instance to be collected as an orphan.
        harness.sleep(900).await;
        let claim = harness.get_claim("a").expect("a claim");
        {
            let state = harness.cloud.state();
            let ids: Vec<String> = state.instances.keys().map(ToString::to_string).collect();
            assert_eq!(json!(ids), json!([claim["status"]["providerID"]]), "after {effects} effects");
            assert_eq!(state.launched, 1, "after {effects} effects: {:?}", state.calls);
            first_calls += state.first_calls.iter().filter(|first| **first).count();
            let repeated = state.first_calls.iter().skip(1).any(|first| *first);
            assert!(
                !repeated,
                "after {effects} effects a repeated call counts as the first: {:?}",
                state.calls
            );
        }
        harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
        harness.until("gone", || harness.get_claim("a").is_none()).await;
        assert!(harness.cloud.state().instances.is_empty());
    }
    assert!(cut_off >= 4, "only {cut_off} runs were interrupted");
    assert!((8..14).contains(&first_calls), "{first_calls} calls are known to be the first");
}

#[tokio::test(start_paused = true)]
async fn a_claim_deleted_during_an_interrupted_launch_leaves_no_instance() {
    for effects in 1..=6 {
        let harness = Harness::new();
        harness.claim("a", json!({}));
        harness.remaining_effects.set(effects);
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
async fn a_termination_interrupted_after_any_effect_continues() {
    let mut cut_off = 0;
    for effects in 1..=16 {
        let harness = Harness::new().run();
        harness.initialized_node("a", "node-a", json!({})).await;
        harness.sleep(30).await;
        harness.remaining_effects.set(effects);
        harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
        harness.sleep(60).await;
        cut_off += i32::from(harness.remaining_effects.is_used_up());
        let harness = harness.crash().run();
        harness.until("gone", || harness.get_claim("a").is_none()).await;
        assert!(harness.get("v1", "Node", "node-a").is_none(), "after {effects} effects");
        assert!(harness.cloud.state().instances.is_empty(), "after {effects} effects");
    }
    assert!(cut_off >= 6, "only {cut_off} runs were interrupted");
}
