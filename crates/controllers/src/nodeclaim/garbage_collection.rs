//! `nodeclaim.garbagecollection`: deletes claims whose instance is gone, and ends instances whose claim is gone, with proof
//! and a brake.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use fleetwright_core::{
    cloud::CloudError,
    model::{ClaimName, ProviderId},
    nodeclaim::{
        Next, Removal, Step,
        garbage_collection::{Collection, Findings},
    },
};
use fleetwright_state::Key;

use super::{
    cache::LifecycleCache, claimed_node::ClaimedNode, executor::Executor, families, orphans::OrphanCollector,
};
use crate::{
    events::{Event, regarding},
    runtime::{Controller, Ctx, RateLimit, ReconcileError, Requeue},
};

/// For how long it is not said again that a claim is held back.
const QUIET: std::time::Duration = std::time::Duration::from_secs(900);

/// Compares claims with the cloud's list.
pub struct GarbageCollection {
    cache: Arc<LifecycleCache>,
    collection: Mutex<Collection>,
    orphans: OrphanCollector,
}

impl GarbageCollection {
    /// Has seen nothing missing yet.
    #[must_use]
    pub fn new(cache: Arc<LifecycleCache>) -> Self {
        Self { cache, collection: Mutex::default(), orphans: OrphanCollector::default() }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Collection) -> T) -> T {
        // No statement leaves the collection half changed.
        work(&mut self.collection.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes in a list that was begun when the index was at least as it is now.
    fn survey(&self, ctx: &Ctx, listed: &BTreeSet<ProviderId>) -> Findings {
        let nodes: Vec<_> = {
            let index = ctx.index();
            let node = |name: &str| index.nodes_of_claim(name).next().cloned();
            index.claim_models().map(|claim| (claim.clone(), node(&claim.name))).collect()
        };
        let views: Vec<_> = nodes.iter().map(|(claim, node)| (&**claim, node.as_deref())).collect();
        self.with(|collection| collection.survey(&views, listed, ctx.now(), ctx.steady()))
    }

    /// Says of claims that the brake holds back why they stay.
    fn tell_braked(ctx: &Ctx, held: &[ClaimName]) {
        for name in held {
            ctx.metrics.inc(&families::BRAKED, &["garbage-collection"]);
            let Some(claim) = ctx.index().claim(name).cloned() else { continue };
            let text = format!(
                "the cloud does not list the instance, and {} nodeclaims are in the same position: at most the larger of 3 \
                 and 5% of all are removed within 10 minutes, a third of them at a time",
                held.len()
            );
            let about = regarding(&*claim);
            let event = Event::warning(about, "TerminationHeld", text).same_if([&**name]).quiet_for(QUIET);
            ctx.recorder.publish(event);
        }
    }

    /// Asks for the one instance, and deletes its claim where there is none.
    async fn verify(&self, ctx: &Ctx, name: &ClaimName) -> Result<(), ReconcileError> {
        let Some(node) = ClaimedNode::find(ctx, name) else { return Ok(()) };
        let Some(id) = &node.claim.provider_id else { return Ok(()) };
        match ctx.cloud.get(id).await {
            Err(CloudError::NotFound(_)) => {}
            Ok(_) => {
                self.with(|collection| collection.found(name));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        let next = Next::steps([Step::Delete(Removal::GarbageCollected)]);
        Executor::new(ctx, &self.cache, &node).execute(next).await?;
        self.with(|collection| collection.removed(name, ctx.steady()));
        Ok(())
    }
}

#[async_trait]
impl Controller for GarbageCollection {
    fn name(&self) -> &'static str {
        "nodeclaim.garbagecollection"
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit::new(std::time::Duration::from_secs(1), std::time::Duration::from_secs(120), 10, 100)
    }

    fn is_singleton(&self) -> bool {
        true
    }

    async fn reconcile(&self, ctx: &Ctx, _: &Key) -> Result<Requeue, ReconcileError> {
        let instances = ctx.cloud.list().await?;
        let listed = instances.iter().map(|instance| instance.provider_id.clone()).collect();
        let findings = self.survey(ctx, &listed);
        let outage = findings.outage.map_or(0, |(missing, _)| missing);
        for (why, held) in [("outage", outage), ("brake", findings.braked.len())] {
            let held = u32::try_from(held).map_or(f64::MAX, f64::from);
            ctx.metrics.set(&families::COLLECTION_HELD, &[why], held);
        }
        if let Some((missing, all)) = findings.outage {
            tracing::warn!(
                missing,
                all,
                "the cloud's list is sharply shorter than it should be; nothing is collected"
            );
        }
        Self::tell_braked(ctx, &findings.braked);
        for name in &findings.gone {
            // One that cannot be verified does not hold up the others.
            if let Err(error) = self.verify(ctx, name).await {
                tracing::warn!(NodeClaim = %name, %error, "cannot verify that the instance is gone");
            }
        }
        let again = self.orphans.collect(ctx, &instances).await?;
        Ok(Requeue::After(again.map_or(findings.again, |again| again.min(findings.again))))
    }
}
