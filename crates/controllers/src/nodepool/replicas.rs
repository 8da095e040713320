//! `static.provisioning` and `static.deprovisioning`: NodePools with `spec.replicas` are kept at that number.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_api::{self as api, HasConditions, condition, labels::condition::REGISTERED};
use fleetwright_core::{
    disruption::{Scaling, scale, static_new_claim},
    model::{ClaimName, NodePool, Snapshot, Str, labels::NODEPOOL},
    nodeclaim::pace::{Pace, Pause},
};
use fleetwright_state::{Change, Index, Key, Kind, Object, limits};
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
/// So many rounds of claims that come to nothing are told to people: one or two are everyday life.
const TOLD_FROM: u32 = 3;
/// For how long it is not said again that a pool pauses.
const PAUSED_QUIET: Duration = Duration::from_secs(300);
/// How soon a pool goes on that had to wait for its turn to create.
const SOON: Duration = Duration::from_secs(1);
/// Claims that one pass writes or deletes at most; the next one goes on.
const AT_ONCE: usize = 100;

/// Creates what is missing; where claims come to nothing again and again, at a slower pace.
#[derive(Debug, Default)]
pub struct StaticProvisioning {
    /// By name of the pool. All of it can be lost: after a restart the first pause is short again.
    paces: Mutex<BTreeMap<Str, Paced>>,
}

/// What is remembered of a pool.
#[derive(Debug, Default)]
struct Paced {
    /// UID and generation of the pool: what was observed is of no use for another spec.
    spec: (String, i64),
    pace: Pace,
    /// The claim that ended last before its node had joined, where that was not looked at yet.
    failed: Option<Str>,
}

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
        let keys = pool_of(change, index);
        if let Some(key) = keys.first() {
            self.note(&key.name, change);
        }
        keys
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some((pool, snapshot, scaling)) = look(ctx, key) else {
            self.paces().remove(&key.name);
            return Ok(Requeue::No);
        };
        let pause = self.pause(ctx, &key.name);
        if !pool.ready {
            return Ok(Requeue::After(INTERVAL));
        }
        if scaling.limited > 0 {
            tracing::info!(NodePool = &*key.name, missing = scaling.limited, "nodepool node limit reached");
        }
        let wanted = usize::try_from(scaling.create).unwrap_or(0);
        if wanted > 0 {
            if let Some(pause) = pause {
                self.tell_paused(ctx, &key.name, wanted, &pause);
                return Ok(Requeue::After(pause.left));
            }
            let Some(new_claim) = static_new_claim(&snapshot, &pool) else {
                self.tell_nothing_fits(ctx, &key.name);
                return Ok(Requeue::After(INTERVAL));
            };
            // One shape, one batch; each claim is in the index before the next one is counted.
            let batch = ctx.names.suffix(10);
            for _ in 0..wanted.min(AT_ONCE) {
                let Some(claim) = provisioning::replacement(ctx, &new_claim, &batch) else { break };
                let name = claim.metadata.name.clone().unwrap_or_default();
                let coming = [(name.as_str(), &new_claim)];
                // What replaces drifted nodes may have taken the last room since the nodes were counted.
                let reserved = limits::reserve(&mut ctx.index(), coming.into_iter(), std::iter::empty());
                if let Err(exceeded) = reserved {
                    tracing::info!(NodePool = &*key.name, %exceeded, "nodepool node limit reached");
                    return Ok(Requeue::After(LIMITED));
                }
                if let Err(wait) = ctx.rates.create(ctx.steady(), 1) {
                    ctx.index().end_creation(&name);
                    tracing::warn!(
                        NodePool = &*key.name,
                        ?wait,
                        "as many nodeclaims were created of late as may be"
                    );
                    return Ok(Requeue::After(wait.max(SOON)));
                }
                provisioning::write_replacement(ctx, claim, &new_claim, "provisioned").await?;
            }
            if wanted > AT_ONCE {
                return Ok(Requeue::Now);
            }
        }
        Ok(Requeue::After(if scaling.limited > 0 { LIMITED } else { INTERVAL }))
    }
}

impl StaticProvisioning {
    fn paces(&self) -> MutexGuard<'_, BTreeMap<Str, Paced>> {
        // No statement leaves the paces half changed.
        self.paces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of nodes that join, and of claims that end before.
    fn note(&self, pool: &Str, change: &Change) {
        let Some(Object::NodeClaim(before)) = &change.before else { return };
        let joined = |claim: &api::NodeClaim| {
            condition::find(claim.conditions(), REGISTERED).is_some_and(|known| known.is_true())
        };
        let leaves = |claim: &api::NodeClaim| claim.metadata.deletion_timestamp.is_some();
        if joined(before) || leaves(before) {
            return;
        }
        match &change.after {
            Some(Object::NodeClaim(after)) if joined(after) => {
                if let Some(known) = self.paces().get_mut(pool) {
                    known.pace.joined();
                }
            }
            Some(Object::NodeClaim(after)) if !leaves(after) => {}
            _ => self.paces().entry(pool.clone()).or_default().failed = Some(change.key.name.clone()),
        }
    }

    /// Why nothing may be created for the pool now.
    fn pause(&self, ctx: &Ctx, name: &Str) -> Option<Pause> {
        let spec = {
            let index = ctx.index();
            let pool = index.pool(name)?;
            (pool.metadata.uid.clone().unwrap_or_default(), pool.metadata.generation.unwrap_or(0))
        };
        let now = ctx.steady();
        let mut paces = self.paces();
        let known = paces.get_mut(name)?;
        if known.spec != spec {
            (known.spec, known.pace) = (spec, Pace::default());
        }
        if let Some(claim) = known.failed.take() {
            known.pace.failed(claim, now);
        }
        known.pace.pause(now)
    }

    fn tell_paused(&self, ctx: &Ctx, name: &str, missing: usize, pause: &Pause) {
        let Pause { rounds, claim, left } = pause;
        let left = left.as_secs_f64().ceil();
        tracing::info!(
            NodePool = name,
            missing,
            rounds,
            NodeClaim = &**claim,
            pause = left,
            "nodeclaims come to nothing"
        );
        if *rounds < TOLD_FROM {
            return;
        }
        let Some(pool) = ctx.index().pool(name).cloned() else { return };
        let text = format!(
            "{missing} node(s) are missing, and nothing is created for {left} s: {rounds} time(s) in a row NodeClaims ended \
             before their node had joined, the last one was {claim}; look at its events, and at who deletes NodeClaims"
        );
        let event = Event::warning(regarding(&*pool), "ReplicaCreationBackoff", text);
        ctx.recorder.publish(event.same_if([name]).quiet_for(PAUSED_QUIET));
    }

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

#[cfg(test)]
mod tests;
