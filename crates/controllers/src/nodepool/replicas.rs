//! `static.provisioning` and `static.deprovisioning`: NodePools with `spec.replicas` are kept at that number.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_api as api;
use fleetwright_core::{
    disruption::{Scaling, scale, static_opening},
    model::{ClaimName, NodePool, Snapshot, labels::NODEPOOL},
};
use fleetwright_state::{Change, Index, Key, Kind};
use kube::api::{DeleteParams, Preconditions};

use crate::{
    events::{Event, regarding},
    provisioning,
    runtime::{Controller, Ctx, ReconcileError, Requeue, gone_is_ok},
};

/// How often a pool is looked at while nothing changes.
const INTERVAL: Duration = Duration::from_secs(60);
/// How soon a pool is looked at again whose limit keeps it below its number.
const LIMITED: Duration = Duration::from_secs(30);
/// Claims that one pass writes or deletes at most; the next one goes on.
const AT_ONCE: usize = 100;

/// Creates what is missing.
pub struct StaticProvisioning;
/// Removes what is too much.
pub struct StaticDeprovisioning;

/// The pool that a change of a pool or of a claim is about, where it has replicas.
fn pool_of(change: &Change, index: &Index) -> Vec<Key> {
    let name = match change.kind {
        Kind::NodePool => Some(change.key.name.clone()),
        Kind::NodeClaim => {
            let labels = change.claim().and_then(|claim| claim.metadata.labels.as_ref());
            labels.and_then(|labels| labels.get(NODEPOOL)).map(|name| name.as_str().into())
        }
        _ => None,
    };
    let fixed = name.filter(|name| index.pool_model(name).is_some_and(|pool| pool.is_static()));
    fixed.map(Key::cluster).into_iter().collect()
}

/// The pool, the cluster around it, and what brings the pool to its number.
fn look(ctx: &Ctx, key: &Key) -> Option<(Arc<NodePool>, Arc<Snapshot>, Scaling)> {
    let now = ctx.now();
    let snapshot = ctx.index().snapshot(now);
    let pool = snapshot.pool(&key.name).filter(|pool| pool.is_static())?.clone();
    let scaling = scale(&snapshot, &pool, now);
    Some((pool, snapshot, scaling))
}

#[async_trait]
impl Controller for StaticProvisioning {
    fn name(&self) -> &'static str {
        "static.provisioning"
    }

    fn concurrency(&self, _: &crate::settings::Settings) -> usize {
        10
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        pool_of(change, index)
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some((pool, snapshot, scaling)) = look(ctx, key) else { return Ok(Requeue::No) };
        if !pool.ready {
            return Ok(Requeue::After(INTERVAL));
        }
        if scaling.limited > 0 {
            tracing::info!(NodePool = &*key.name, missing = scaling.limited, "nodepool node limit reached");
        }
        let wanted = usize::try_from(scaling.create).unwrap_or(0);
        if wanted > 0 {
            let Some(opening) = static_opening(&snapshot, &pool) else {
                self.tell_nothing_fits(ctx, &key.name);
                return Ok(Requeue::After(INTERVAL));
            };
            // One shape, one batch; each claim is in the index before the next one is counted.
            let batch = ctx.names.suffix(10);
            for _ in 0..wanted.min(AT_ONCE) {
                let Some(claim) = provisioning::replacement(ctx, &opening, &batch) else { break };
                provisioning::write_replacement(ctx, claim, &opening, "provisioned").await?;
            }
            if wanted > AT_ONCE {
                return Ok(Requeue::Now);
            }
        }
        Ok(Requeue::After(if scaling.limited > 0 { LIMITED } else { INTERVAL }))
    }
}

impl StaticProvisioning {
    fn tell_nothing_fits(&self, ctx: &Ctx, name: &str) {
        let Some(pool) = ctx.index().pool(name).cloned() else { return };
        let text = "No instance type satisfies the requirements of this NodePool, or none is available";
        ctx.recorder.publish(Event::warning(regarding(&*pool), "NoCompatibleInstanceTypes", text));
    }
}

#[async_trait]
impl Controller for StaticDeprovisioning {
    fn name(&self) -> &'static str {
        "static.deprovisioning"
    }

    fn concurrency(&self, _: &crate::settings::Settings) -> usize {
        10
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        pool_of(change, index)
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some((_, _, scaling)) = look(ctx, key) else { return Ok(Requeue::No) };
        for name in scaling.remove.iter().take(AT_ONCE) {
            delete(ctx, name).await?;
        }
        Ok(if scaling.remove.len() > AT_ONCE { Requeue::Now } else { Requeue::After(INTERVAL) })
    }
}

/// Deletes this claim and no later one of the same name.
async fn delete(ctx: &Ctx, name: &ClaimName) -> Result<(), ReconcileError> {
    let Some(uid) = ctx.index().claim_model(name).map(|claim| claim.uid.to_string()) else { return Ok(()) };
    let api = ctx.cluster_api::<api::NodeClaim>();
    let preconditions = Preconditions { uid: Some(uid), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    let deleted = gone_is_ok(ctx.call("delete nodeclaim", api.delete(name, &params)).await)?;
    tracing::info!(NodeClaim = &**name, "deleted surplus nodeclaim of a static nodepool");
    if let Some(claim) = deleted.and_then(|either| either.left()) {
        ctx.observe(claim);
    }
    Ok(())
}
