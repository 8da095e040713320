//! `static.provisioning` and `static.deprovisioning`: scale NodePools with `spec.replicas` to that number of nodes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_api::{self as api, HasConditions, condition, labels::condition::REGISTERED};
use fleetwright_core::{
    decisions::DeletedClaim,
    disruption::{Scaling, scale, static_new_claim},
    model::{ClaimName, NodePool, Snapshot, Str, labels::NODEPOOL},
    safety::{Act, Cause, Facts, Held, Pause, ReplicaBackoff},
};
use fleetwright_state::{Change, Index, Key, Object, WatchedKind, limits};

use crate::{
    events::{Event, regarding},
    nodeclaim::{ClaimedNode, end_creation, only},
    provisioning::{ClaimCreator, CreationCause},
    runtime::{
        ApiClient, Clocks, Cluster, Controller, Ctx, Names, ReconcileError, Recorder, Requeue,
        decisions::Decisions, ignore_not_found,
    },
    safety::Safety,
    settings::Settings,
};

/// How often a NodePool is reconciled while nothing changes.
const INTERVAL: Duration = Duration::from_secs(60);
/// How soon a NodePool below its replicas is reconciled again if its limit is the cause.
const LIMIT_RETRY: Duration = Duration::from_secs(30);
/// Failed rounds before an event is published: one or two are common.
const PUBLISHED_FROM: u32 = 3;
/// How long an equal event is suppressed.
const BACKOFF_DEDUPE_TIMEOUT: Duration = Duration::from_secs(300);
/// The shortest wait for the creation rate limit.
const MIN_RETRY: Duration = Duration::from_secs(1);
/// Maximum number of NodeClaims that one pass creates or deletes; the next pass continues.
const MAX_PER_PASS: usize = 100;

/// Creates missing NodeClaims, with a backoff if they fail before registration.
pub struct StaticProvisioning {
    cluster: Cluster,
    clocks: Clocks,
    creator: ClaimCreator,
    safety: Safety,
    names: Arc<Names>,
    recorder: Recorder,
    /// By name of the NodePool. A restart loses it: the backoff starts again.
    backoffs: Mutex<BTreeMap<Str, PoolBackoff>>,
}

impl StaticProvisioning {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            creator: ClaimCreator::new(ctx),
            safety: Safety::new(ctx),
            names: ctx.names.clone(),
            recorder: ctx.recorder.clone(),
            backoffs: Mutex::default(),
        }
    }
}

/// The backoff of a NodePool.
#[derive(Debug, Default)]
struct PoolBackoff {
    /// UID and generation of the NodePool: another spec starts without backoff.
    spec: (String, i64),
    backoff: ReplicaBackoff,
    /// The last NodeClaim that failed, if it is not counted yet.
    failed: Option<Str>,
}

/// Deletes surplus NodeClaims.
pub struct StaticDeprovisioning {
    client: ApiClient,
    cluster: Cluster,
    clocks: Clocks,
    settings: Arc<Settings>,
    decisions: Decisions,
}

impl StaticDeprovisioning {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self {
            client: ctx.client.clone(),
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            settings: ctx.settings.clone(),
            decisions: ctx.decisions.clone(),
        }
    }
}

/// The static NodePool that a change of a NodePool or NodeClaim concerns.
fn pool_of(change: &Change, index: &Index) -> Vec<Key> {
    let name = match change.kind {
        WatchedKind::NodePool => Some(change.key.name.clone()),
        WatchedKind::NodeClaim => {
            let labels = change.claim().and_then(|claim| claim.metadata.labels.as_ref());
            labels.and_then(|labels| labels.get(NODEPOOL)).map(|name| name.as_str().into())
        }
        _ => None,
    };
    let fixed = name.filter(|name| index.pool_model(name).is_some_and(|pool| pool.is_static()));
    fixed.map(Key::cluster).into_iter().collect()
}

/// The NodePool, a snapshot, and how to scale the NodePool to its replicas.
fn read(cluster: &Cluster, clocks: &Clocks, key: &Key) -> Option<(Arc<NodePool>, Arc<Snapshot>, Scaling)> {
    let now = clocks.now();
    let snapshot = cluster.index().snapshot(now);
    let pool = snapshot.pool(&key.name).filter(|pool| pool.is_static())?.clone();
    let scaling = scale(&snapshot, &pool, now);
    Some((pool, snapshot, scaling))
}

#[async_trait]
impl Controller for StaticProvisioning {
    fn name(&self) -> &'static str {
        "static.provisioning"
    }

    fn concurrency(&self, _: &Settings) -> usize {
        10
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        let keys = pool_of(change, index);
        if let Some(key) = keys.first() {
            self.note(&key.name, change);
        }
        keys
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some((pool, snapshot, scaling)) = read(&self.cluster, &self.clocks, key) else {
            self.backoffs().remove(&key.name);
            return Ok(Requeue::No);
        };
        let backoff = self.current_backoff(&key.name);
        if !pool.ready {
            return Ok(Requeue::After(INTERVAL));
        }
        if scaling.limited > 0 {
            tracing::info!(
                NodePool.name = &*key.name,
                missing = scaling.limited,
                "nodepool node limit reached"
            );
        }
        let missing_count = usize::try_from(scaling.create).unwrap_or(0);
        if missing_count > 0 {
            if let Err(held) = self.safety.admit(Act::CreateClaim, &Facts { backoff, ..Facts::default() }) {
                self.publish_backoff(&key.name, missing_count, &held);
                return Ok(held.left().into());
            }
            let Some(new_claim) = static_new_claim(&snapshot, &pool) else {
                self.publish_nothing_fits(&key.name);
                return Ok(Requeue::After(INTERVAL));
            };
            // Equal NodeClaims are one batch. Each is in the index before the next one is counted.
            let batch = self.names.suffix(10);
            let _held = self.creator.hold_batch(&batch);
            let positions = (0..u32::MAX).take(missing_count.min(MAX_PER_PASS));
            for position in positions {
                let claim = self.creator.replacement(&new_claim, &batch, position);
                let Some(claim) = claim else { break };
                let name = claim.metadata.name.clone().unwrap_or_default();
                let creating = [(name.as_str(), &new_claim)];
                // Replacements of drifted nodes may have used up the limit since the nodes were counted.
                let reserved =
                    limits::reserve(&mut self.cluster.index(), creating.into_iter(), std::iter::empty());
                if let Err(exceeded) = reserved {
                    tracing::info!(NodePool.name = &*key.name, %exceeded, "nodepool node limit reached");
                    return Ok(Requeue::After(LIMIT_RETRY));
                }
                if let Err(held) =
                    self.safety.admit(Act::CreateClaim, &Facts { count: 1, ..Facts::default() })
                {
                    end_creation(&self.cluster, &name);
                    tracing::warn!(NodePool.name = &*key.name, %held, "creation of a nodeclaim is held");
                    return Ok(Requeue::After(held.left().unwrap_or(LIMIT_RETRY).max(MIN_RETRY)));
                }
                let cause = CreationCause { reason: "provisioned", decided: None };
                let begun = self.creator.begin_replacement(claim, &new_claim);
                self.creator.write_replacement(begun, &new_claim, &cause).await?;
            }
            if missing_count > MAX_PER_PASS {
                return Ok(Requeue::Now);
            }
        }
        Ok(Requeue::After(if scaling.limited > 0 { LIMIT_RETRY } else { INTERVAL }))
    }
}

impl StaticProvisioning {
    fn backoffs(&self) -> MutexGuard<'_, BTreeMap<Str, PoolBackoff>> {
        // Every change is one statement: a panic cannot leave half of one behind.
        self.backoffs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records nodes that register, and NodeClaims that are deleted before that.
    fn note(&self, pool: &Str, change: &Change) {
        let Some(Object::NodeClaim(before)) = &change.before else { return };
        let registered = |claim: &api::NodeClaim| {
            condition::find(claim.conditions(), REGISTERED).is_some_and(|known| known.is_true())
        };
        let deleting = |claim: &api::NodeClaim| claim.metadata.deletion_timestamp.is_some();
        if registered(before) || deleting(before) {
            return;
        }
        match &change.after {
            Some(Object::NodeClaim(after)) if registered(after) => {
                if let Some(known) = self.backoffs().get_mut(pool) {
                    known.backoff.registered();
                }
            }
            Some(Object::NodeClaim(after)) if !deleting(after) => {}
            _ => self.backoffs().entry(pool.clone()).or_default().failed = Some(change.key.name.clone()),
        }
    }

    /// The current backoff of the NodePool, if any.
    fn current_backoff(&self, name: &Str) -> Option<Pause> {
        let spec = {
            let index = self.cluster.index();
            let pool = index.pool(name)?;
            (pool.metadata.uid.clone().unwrap_or_default(), pool.metadata.generation.unwrap_or(0))
        };
        let now = self.clocks.steady();
        let mut backoffs = self.backoffs();
        let known = backoffs.get_mut(name)?;
        if known.spec != spec {
            (known.spec, known.backoff) = (spec, ReplicaBackoff::default());
        }
        if let Some(claim) = known.failed.take() {
            known.backoff.failed(claim, now);
        }
        known.backoff.pause(now)
    }

    fn publish_backoff(&self, name: &str, missing: usize, held: &Held) {
        tracing::info!(NodePool.name = name, missing, %held, "creation of nodeclaims is held");
        let Held::ReplicaBackoff(Pause { rounds: PUBLISHED_FROM.., .. }) = held else { return };
        let Some(pool) = self.cluster.index().pool(name).cloned() else { return };
        let text = format!("{missing} node(s) missing: {held}");
        let event = Event::warning(regarding(&*pool), "ReplicaCreationBackoff", text);
        self.recorder.publish(event.with_dedupe_values([name]).with_dedupe_timeout(BACKOFF_DEDUPE_TIMEOUT));
    }

    fn publish_nothing_fits(&self, name: &str) {
        let Some(pool) = self.cluster.index().pool(name).cloned() else { return };
        let text = "No instance type satisfies the requirements of this NodePool, or none is available";
        self.recorder.publish(Event::warning(regarding(&*pool), "NoCompatibleInstanceTypes", text));
    }
}

#[async_trait]
impl Controller for StaticDeprovisioning {
    fn name(&self) -> &'static str {
        "static.deprovisioning"
    }

    fn concurrency(&self, _: &Settings) -> usize {
        10
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        pool_of(change, index)
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some((_, _, scaling)) = read(&self.cluster, &self.clocks, key) else { return Ok(Requeue::No) };
        for name in scaling.remove.iter().take(MAX_PER_PASS) {
            self.delete(name).await?;
        }
        Ok(if scaling.remove.len() > MAX_PER_PASS { Requeue::Now } else { Requeue::After(INTERVAL) })
    }
}

impl StaticDeprovisioning {
    /// Deletes this NodeClaim, not a later one with the same name.
    async fn delete(&self, name: &ClaimName) -> Result<(), ReconcileError> {
        let Some(node) = ClaimedNode::find(&self.cluster, &self.settings, name) else { return Ok(()) };
        let api = self.client.cluster::<api::NodeClaim>();
        let params = only(&node.claim.uid);
        let deleted =
            ignore_not_found(self.client.call("delete nodeclaim", api.delete(name, &params)).await)?;
        tracing::info!(NodeClaim.name = &**name, "deleted surplus nodeclaim of a static nodepool");
        let price = node.price(&self.cluster);
        let ClaimedNode { claim, nodes, pods, .. } = &node;
        self.decisions.deletion(&DeletedClaim { claim, nodes, pods, price, found: None }, Cause::Surplus);
        if let Some(claim) = deleted.and_then(|either| either.left()) {
            self.cluster.observe(claim);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
