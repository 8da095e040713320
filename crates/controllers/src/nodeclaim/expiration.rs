//! `nodeclaim.expiration`: deletes claims that reached their age.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_core::nodeclaim::{Stage, expiration};
use fleetwright_state::{Change, Index, Key};

use crate::{
    lifecycle::{Memory, hand::Hand, machine::Machine, requeue},
    runtime::{Controller, Ctx, ReconcileError, Requeue},
};

/// So often a claim's age is looked at again at least: a deadline that was told by a wrong clock is told anew.
const LOOK: Duration = Duration::from_secs(3600);

/// Deletes claims at their age, one after another.
pub struct Expiration(pub Arc<Memory>);

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
        let Some(machine) = Machine::look(ctx, &key.name) else { return Ok(Requeue::No) };
        if let Some(rest) = ctx.wall_clock_rest() {
            return Ok(Requeue::After(rest));
        }
        let next = expiration::Expiration.next(&machine.view(ctx.cloud.info()), ctx.now());
        let done = Hand::new(ctx, &self.0, &machine).carry_out(next).await?;
        Ok(requeue(done.again.map(|again| again.min(LOOK))))
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
            let _running = world.run(vec![Arc::new(Expiration(Arc::default()))]);
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
}
