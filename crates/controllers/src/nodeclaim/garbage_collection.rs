//! `nodeclaim.garbagecollection`: deletes NodeClaims without an instance, and terminates instances without a
//! NodeClaim, after proof and within the limits of [`fleetwright_core::safety`].

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use fleetwright_core::{
    cloud::{CloudError, CloudProvider},
    model::{ClaimName, ProviderId},
    nodeclaim::{
        ClaimStep, Next,
        garbage_collection::{Collection, Findings},
    },
    safety::{Act, Cause, Facts, Held},
};
use fleetwright_state::Key;

use super::{
    cache::LifecycleCache, claimed_node::ClaimedNode, executor::Executors, orphans::OrphanCollector,
};
use crate::{
    events::regarding,
    runtime::{Clocks, Cluster, Controller, Ctx, RateLimit, ReconcileError, Requeue},
    safety::Safety,
    settings::Settings,
};

/// The act of this controller.
const COLLECT: Act = Act::DeleteClaim(Cause::GarbageCollected);

/// Compares NodeClaims with the instances of the cloud.
pub struct GarbageCollection {
    cluster: Cluster,
    clocks: Clocks,
    cloud: Arc<dyn CloudProvider>,
    settings: Arc<Settings>,
    executors: Executors,
    safety: Safety,
    collection: Mutex<Collection>,
    orphans: OrphanCollector,
}

impl GarbageCollection {
    /// Starts without findings.
    pub(crate) fn new(ctx: &Ctx, cache: &Arc<LifecycleCache>) -> Self {
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            cloud: ctx.cloud.clone(),
            settings: ctx.settings.clone(),
            executors: Executors::new(ctx, cache),
            safety: Safety::new(ctx),
            collection: Mutex::default(),
            orphans: OrphanCollector::new(ctx),
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Collection) -> T) -> T {
        // Every change is one statement: a panic cannot leave half of one behind.
        work(&mut self.collection.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Evaluates a list of instances that started after the index had its current state.
    fn survey(&self, listed: &BTreeSet<ProviderId>) -> Findings {
        let nodes: Vec<_> = {
            let index = self.cluster.index();
            let node = |name: &str| index.nodes_of_claim(name).next().cloned();
            index.claim_models().map(|claim| (claim.clone(), node(&claim.name))).collect()
        };
        let views: Vec<_> = nodes.iter().map(|(claim, node)| (&**claim, node.as_deref())).collect();
        let (now, steady) = (self.clocks.now(), self.clocks.steady());
        self.with(|collection| collection.survey(&views, listed, &mut self.safety.limits(), now, steady))
    }

    /// Counts NodeClaims beyond the limit, and publishes why they are not deleted.
    fn report_held(cluster: &Cluster, clocks: &Clocks, safety: &Safety, findings: &Findings) {
        if let Some((missing, all)) = findings.short_list {
            let held = Held::ShortList { missing, all };
            safety.count_held(COLLECT, &held, missing);
            tracing::warn!(missing, all, %held, "garbage collection is held");
        }
        for name in &findings.held {
            let held = safety.limits().beyond_room(COLLECT, clocks.steady());
            let claim = cluster.index().claim(name).cloned();
            if let Some((held, claim)) = held.zip(claim) {
                safety.count_held(COLLECT, &held, 1);
                safety.publish_held(regarding(&*claim), &held);
            }
        }
    }

    /// Looks up the instance, and deletes the NodeClaim if it does not exist.
    async fn verify(&self, name: &ClaimName, all: usize) -> Result<(), ReconcileError> {
        let Some(node) = ClaimedNode::find(&self.cluster, &self.settings, name) else { return Ok(()) };
        let Some(id) = &node.claim.provider_id else { return Ok(()) };
        match self.cloud.get(id).await {
            Err(CloudError::NotFound(_)) => {}
            Ok(_) => {
                self.with(|collection| collection.forget(name));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        if let Err(held) = self.safety.admit(COLLECT, &Facts { subject: name, all, ..Facts::default() }) {
            tracing::info!(NodeClaim.name = %name, %held, "garbage collection is held");
            return Ok(());
        }
        let next = Next::steps([ClaimStep::Delete(Cause::GarbageCollected)]);
        self.executors.on(&node).execute(next).await?;
        self.with(|collection| collection.forget(name));
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

    async fn reconcile(&self, _: &Key) -> Result<Requeue, ReconcileError> {
        let instances = self.cloud.list().await?;
        let listed = instances.iter().map(|instance| instance.provider_id.clone()).collect();
        let findings = self.survey(&listed);
        Self::report_held(&self.cluster, &self.clocks, &self.safety, &findings);
        for name in &findings.gone {
            // A failed lookup does not delay the others.
            if let Err(error) = self.verify(name, findings.all).await {
                tracing::warn!(NodeClaim.name = %name, %error, "failed to verify that the instance does not exist");
            }
        }
        let again = self.orphans.collect(&instances).await?;
        Ok(Requeue::After(again.map_or(findings.again, |again| again.min(findings.again))))
    }
}
