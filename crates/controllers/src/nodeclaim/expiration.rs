//! `nodeclaim.expiration`: deletes NodeClaims that are older than their `expireAfter`.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_core::{
    cloud::CloudProvider,
    disruption::outage,
    nodeclaim::{ClaimStep, Next, expiration},
    safety::{Act, Cause, Facts, Held},
};
use fleetwright_state::{Change, Index, Key};

use super::{cache::LifecycleCache, claimed_node::ClaimedNode, executor::Executors};
use crate::{
    runtime::{Clocks, Cluster, Controller, Ctx, ReconcileError, Requeue},
    safety::Safety,
    settings::Settings,
};

/// How often the age of a NodeClaim is checked: the wall clock may have been wrong when its deadline was computed.
const INTERVAL: Duration = Duration::from_secs(3600);

/// How soon an expiration that a limit holds is retried.
const HELD_RETRY: Duration = Duration::from_secs(60);

/// Deletes expired NodeClaims, within the limits of [`fleetwright_core::safety`].
pub struct Expiration {
    cluster: Cluster,
    clocks: Clocks,
    cloud: Arc<dyn CloudProvider>,
    settings: Arc<Settings>,
    executors: Executors,
    safety: Safety,
}

impl Expiration {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx, cache: &Arc<LifecycleCache>) -> Self {
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            cloud: ctx.cloud.clone(),
            settings: ctx.settings.clone(),
            executors: Executors::new(ctx, cache),
            safety: Safety::new(ctx),
        }
    }
}

#[async_trait]
impl Controller for Expiration {
    fn name(&self) -> &'static str {
        "nodeclaim.expiration"
    }

    fn interested(&self, change: &Change, _: &Index) -> Vec<Key> {
        // The age of a NodeClaim is counted from its creation.
        let created = change.claim().is_some() && change.is_created();
        created.then(|| change.key.clone()).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(node) = ClaimedNode::find(&self.cluster, &self.settings, &key.name) else {
            return Ok(Requeue::No);
        };
        let next = expiration::Expiration.next(&node.view(self.cloud.info()), self.clocks.now());
        let next = admitted(&self.cluster, &self.clocks, &self.safety, &key.name, next);
        let done = self.executors.on(&node).execute(next).await?;
        Ok(done.again.map(|again| again.min(INTERVAL)).into())
    }
}

/// Returns `next`, unless a limit holds the expiration.
fn admitted(cluster: &Cluster, clocks: &Clocks, safety: &Safety, claim: &str, next: Next) -> Next {
    const EXPIRE: Act = Act::DeleteClaim(Cause::Expired);
    if !next.steps.contains(&ClaimStep::Delete(Cause::Expired)) {
        return next;
    }
    let (all, outage) = {
        let mut index = cluster.index();
        let snapshot = index.snapshot(clocks.now());
        (index.claim_models().count(), outage(snapshot.nodes.iter().map(|node| &**node)))
    };
    let facts = Facts { subject: claim, all, outage, ..Facts::default() };
    match safety.admit(EXPIRE, &facts) {
        Ok(()) => next,
        Err(held) => {
            tracing::info!(NodeClaim.name = claim, %held, "expiration is held");
            Next::wait(match held {
                Held::ClockJump { left } | Held::StartupDelay { left } => left,
                _ => HELD_RETRY,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    //! Expiration: ages, jumps of the wall clock, limits.
    use serde_json::json;

    use super::*;
    use crate::testing::Harness;

    #[tokio::test(start_paused = true)]
    async fn a_jump_of_the_wall_clock_expires_nothing_for_a_minute() {
        for set_right in [true, false] {
            let harness = Harness::new();
            harness.pool("default", json!({}));
            let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
            harness
                .server
                .apply(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                    "metadata": {"name": "a", "labels": {"karpenter.sh/nodepool": "default"},
                        "finalizers": ["karpenter.sh/termination"]},
                    "spec": {"nodeClassRef": class, "requirements": [], "expireAfter": "10m"}}))
                .unwrap();
            let expired = || {
                let claim = harness.server.get("karpenter.sh/v1", "NodeClaim", "", "a").unwrap();
                claim["metadata"]["deletionTimestamp"].is_string()
            };
            let enqueue = || harness.ctx.cluster.enqueue("nodeclaim.expiration", Key::cluster("a"));
            let _running = harness.run(vec![Arc::new(Expiration::new(&harness.ctx, &Arc::default()))]);
            harness.pass(30).await;
            harness.clock.set_ahead(1200);
            enqueue();
            harness.pass(50).await;
            assert!(!expired(), "expiration pauses");
            if set_right {
                harness.clock.set_ahead(0);
                enqueue();
                harness.pass(500).await;
                assert!(!expired(), "not expired yet");
                harness.pass(60).await;
            } else {
                harness.pass(30).await;
            }
            assert!(expired(), "expired, clock set right: {set_right}");
        }
    }

    /// NodeClaims of the same age with their Nodes, some of which are NotReady.
    fn create_claims_of_one_age(harness: &Harness, count: usize, unready: usize) {
        harness.pool("default", json!({}));
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
        for at in 0..count {
            let (name, id) = (format!("c-{at:02}"), format!("fake:///{at}"));
            let labels = json!({"karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true",
                "karpenter.sh/initialized": "true"});
            harness
                .server
                .apply(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                    "metadata": {"name": name, "labels": labels, "finalizers": ["karpenter.sh/termination"]},
                    "spec": {"nodeClassRef": class, "requirements": [], "expireAfter": "10m"},
                    "status": {"providerID": id, "nodeName": name}}))
                .unwrap();
            let ready = if at < unready { "False" } else { "True" };
            harness
                .server
                .apply(
                    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                    "spec": {"providerID": id},
                    "status": {"conditions": [{"type": "Ready", "status": ready}]}}),
                )
                .unwrap();
        }
    }

    fn deleted(harness: &Harness) -> usize {
        let claims = harness.server.list("karpenter.sh/v1", "NodeClaim", "");
        claims.iter().filter(|claim| claim["metadata"]["deletionTimestamp"].is_string()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn claims_of_the_same_age_expire_in_portions() {
        let harness = Harness::new();
        create_claims_of_one_age(&harness, 25, 0);
        let _running = harness.run(vec![Arc::new(Expiration::new(&harness.ctx, &Arc::default()))]);
        let mut gone = Vec::new();
        for seconds in [590, 30, 540, 120, 600] {
            harness.pass(seconds).await;
            gone.push(deleted(&harness));
        }
        assert_eq!(gone, [0, 10, 10, 20, 25]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_expires_during_an_outage() {
        for (unready, expected) in [(4, 0), (3, 8)] {
            let harness = Harness::new();
            create_claims_of_one_age(&harness, 8, unready);
            let _running = harness.run(vec![Arc::new(Expiration::new(&harness.ctx, &Arc::default()))]);
            harness.pass(700).await;
            assert_eq!(deleted(&harness), expected, "{unready} are not ready");
        }
    }
}
