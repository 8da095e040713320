//! `nodeclaim.expiration`: deletes claims that reached their age.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_core::{
    disruption::outage,
    nodeclaim::{
        Step,
        brake::{Brake, Share},
        expiration,
    },
};
use fleetwright_state::{Change, Index, Key};

use super::{cache::LifecycleCache, claimed_node::ClaimedNode, executor::Executor};
use crate::runtime::{Controller, Ctx, ReconcileError, Requeue};

/// So often a claim's age is looked at again at least: a deadline that was told by a wrong clock is told again.
const LOOK: Duration = Duration::from_secs(3600);

/// When a claim that has to wait for others is looked at again.
const HELD: Duration = Duration::from_secs(60);

/// Deletes claims at their age, so many within a while, and none in an outage: what was born together reaches its age together.
pub struct Expiration {
    cache: Arc<LifecycleCache>,
    brake: Mutex<Brake>,
}

impl Expiration {
    /// Has deleted nothing yet.
    #[must_use]
    pub fn new(cache: Arc<LifecycleCache>) -> Self {
        Self { cache, brake: Mutex::new(Brake::new(Share::EXPIRED)) }
    }

    /// Whether a claim has to wait although its age is over.
    fn is_held(&self, ctx: &Ctx, name: &str) -> bool {
        let (all, ill) = {
            let mut index = ctx.index();
            let snapshot = index.snapshot(ctx.now());
            (index.claim_models().count(), outage(snapshot.nodes.iter().map(|node| &**node)))
        };
        if let Some((unready, all)) = ill {
            tracing::warn!(NodeClaim = name, unready, all, "so many nodes are not ready that none expires");
            return true;
        }
        // No statement leaves the brake half changed.
        let mut brake = self.brake.lock().unwrap_or_else(PoisonError::into_inner);
        !brake.passes(name, all, ctx.steady())
    }
}

#[async_trait]
impl Controller for Expiration {
    fn name(&self) -> &'static str {
        "nodeclaim.expiration"
    }

    fn interested(&self, change: &Change, _: &Index) -> Vec<Key> {
        // The age of a claim is settled at its birth.
        let born = change.claim().is_some() && change.is_created();
        born.then(|| change.key.clone()).into_iter().collect()
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(node) = ClaimedNode::find(ctx, &key.name) else { return Ok(Requeue::No) };
        if let Some(rest) = ctx.wall_clock_rest() {
            return Ok(Requeue::After(rest));
        }
        let next = expiration::Expiration.next(&node.view(ctx.cloud.info()), ctx.now());
        if next.steps.iter().any(|step| matches!(step, Step::Delete(_))) && self.is_held(ctx, &key.name) {
            return Ok(Requeue::After(HELD));
        }
        let done = Executor::new(ctx, &self.cache, &node).execute(next).await?;
        Ok((done.again.map(|again| again.min(LOOK))).into())
    }
}

#[cfg(test)]
mod tests {
    //! Ages under clocks that jump.
    use serde_json::json;

    use super::*;
    use crate::testing::World;

    #[tokio::test(start_paused = true)]
    async fn a_jump_of_the_wall_clock_expires_nothing_for_a_minute() {
        for set_right in [true, false] {
            let world = World::new();
            world.pool("default", json!({}));
            let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
            world
                .server
                .apply(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                    "metadata": {"name": "a", "labels": {"karpenter.sh/nodepool": "default"},
                        "finalizers": ["karpenter.sh/termination"]},
                    "spec": {"nodeClassRef": class, "requirements": [], "expireAfter": "10m"}}))
                .unwrap();
            let expired = || {
                let claim = world.server.get("karpenter.sh/v1", "NodeClaim", "", "a").unwrap();
                claim["metadata"]["deletionTimestamp"].is_string()
            };
            let look = || world.ctx.enqueue("nodeclaim.expiration", Key::cluster("a"));
            let _running = world.run(vec![Arc::new(Expiration::new(Arc::default()))]);
            world.pass(30).await;
            world.clock.set_ahead(1200);
            look();
            world.pass(50).await;
            assert!(!expired(), "it rests");
            if set_right {
                world.clock.set_ahead(0);
                look();
                world.pass(500).await;
                assert!(!expired(), "it is not yet of age");
                world.pass(60).await;
            } else {
                world.pass(30).await;
            }
            assert!(expired(), "in the end it is, set right: {set_right}");
        }
    }

    /// So many claims of the same age, and nodes of theirs, some of which are not ready.
    fn born_together(world: &World, count: usize, unready: usize) {
        world.pool("default", json!({}));
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
        for at in 0..count {
            let (name, id) = (format!("c-{at:02}"), format!("fake:///{at}"));
            let labels = json!({"karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true",
                "karpenter.sh/initialized": "true"});
            world
                .server
                .apply(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                    "metadata": {"name": name, "labels": labels, "finalizers": ["karpenter.sh/termination"]},
                    "spec": {"nodeClassRef": class, "requirements": [], "expireAfter": "10m"},
                    "status": {"providerID": id, "nodeName": name}}))
                .unwrap();
            let ready = if at < unready { "False" } else { "True" };
            world
                .server
                .apply(
                    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                    "spec": {"providerID": id},
                    "status": {"conditions": [{"type": "Ready", "status": ready}]}}),
                )
                .unwrap();
        }
    }

    fn deleted(world: &World) -> usize {
        let claims = world.server.list("karpenter.sh/v1", "NodeClaim", "");
        claims.iter().filter(|claim| claim["metadata"]["deletionTimestamp"].is_string()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_born_together_does_not_die_together() {
        let world = World::new();
        born_together(&world, 25, 0);
        let _running = world.run(vec![Arc::new(Expiration::new(Arc::default()))]);
        let mut gone = Vec::new();
        for seconds in [590, 30, 540, 120, 600] {
            world.pass(seconds).await;
            gone.push(deleted(&world));
        }
        assert_eq!(gone, [0, 10, 10, 20, 25]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_expires_in_an_outage() {
        for (unready, expected) in [(4, 0), (3, 8)] {
            let world = World::new();
            born_together(&world, 8, unready);
            let _running = world.run(vec![Arc::new(Expiration::new(Arc::default()))]);
            world.pass(700).await;
            assert_eq!(deleted(&world), expected, "{unready} are not ready");
        }
    }
}
