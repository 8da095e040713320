//! `nodepool.observations`: reports the observations of a NodePool in a condition, and removes outdated ones.
//! `providers.instancetype.capacity`: learns the capacity of instance types from the nodes that report it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_api::{
    self as api, HasConditions,
    condition::find,
    labels::{OBSERVED, condition::NODES_AS_EXPECTED as CONDITION},
};
use fleetwright_core::{
    cloud::CloudProvider,
    model::{Catalog, NodeClaim, NodePool, Observed, ObservedCapacity, PoolName, Str, labels},
    nodeclaim::observations::{self, CapacityLearner, CapacityView},
};
use fleetwright_state::{Change, Index, Key, WatchedKind, observed};
use jiff::Timestamp;

use crate::pool_status::PoolStatus;
use crate::{
    metrics::Metrics,
    nodeclaim::families,
    patch::Patches,
    runtime::{Clocks, Cluster, Controller, Ctx, RateLimit, ReconcileError, Requeue},
    settings::Settings,
};

/// How often the capacity of nodes is read.
const CAPACITY_INTERVAL: Duration = Duration::from_secs(30);

/// Removes outdated observations of NodePools.
pub struct ObservedReaper {
    cluster: Cluster,
    clocks: Clocks,
    patches: Patches,
    pools: PoolStatus,
    metrics: Arc<Metrics>,
}

impl ObservedReaper {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            patches: Patches::new(ctx),
            pools: PoolStatus::new(ctx),
            metrics: ctx.metrics.clone(),
        }
    }
}

#[async_trait]
impl Controller for ObservedReaper {
    fn name(&self) -> &'static str {
        "nodepool.observations"
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(10, 1000)
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        if change.kind == WatchedKind::NodePool {
            return vec![change.key.clone()];
        }
        // A launched NodeClaim may have another image.
        let Some(claim) = change.claim() else { return Vec::new() };
        let pool = claim.metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL));
        let has_observations =
            |pool: &&String| index.pool_model(pool).is_some_and(|model| !model.observed.is_as_expected());
        pool.filter(has_observations).map(|pool| Key::cluster(pool.as_str())).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(pool) = self.pools.managed(&key.name) else { return Ok(Requeue::No) };
        let now = self.clocks.now();
        let (known, claims) = {
            let index = self.cluster.index();
            let Some(model) = index.pool_model(&key.name) else { return Ok(Requeue::No) };
            let of_pool = |claim: &&Arc<NodeClaim>| claim.pool.as_deref() == Some(&*key.name);
            let claims: Vec<Arc<NodeClaim>> = if model.observed.is_as_expected() {
                Vec::new()
            } else {
                index.claim_models().filter(of_pool).cloned().collect()
            };
            (model.observed.clone(), claims)
        };
        let current = observations::current(&known, !is_of_another_spec(&pool), &claims, now);
        for (kind, count) in [("capacity", current.smaller.len()), ("taint", current.taints.len())] {
            let count = u32::try_from(count).map_or(f64::MAX, f64::from);
            self.metrics.set(&families::OBSERVED, &[&key.name, kind], count);
        }
        if current != known {
            self.patches
                .annotate(pool.clone(), OBSERVED, |newest| {
                    let newest = observed::read(newest.unwrap_or_default());
                    observed::write(&observations::without_outdated(newest, &known, &current))
                })
                .await?;
        }
        let Some(pool) = self.pools.managed(&key.name) else { return Ok(Requeue::No) };
        let is_set = find(pool.conditions(), CONDITION).is_some();
        self.pools
            .change_conditions(&pool, |conditions| {
                if !current.is_as_expected() {
                    let (reason, message) = observations::condition(&current);
                    conditions.set_false(CONDITION, reason, &message);
                } else if is_set {
                    // A NodePool without observations has no such condition.
                    conditions.set_true(CONDITION);
                }
            })
            .await?;
        let until = |end: Timestamp| Duration::try_from(end.duration_since(now)).unwrap_or_default();
        Ok(current.next_end().map_or(Requeue::No, |end| Requeue::After(until(end))))
    }
}

/// Whether the observations were reported for an earlier spec of the NodePool.
fn is_of_another_spec(pool: &api::NodePool) -> bool {
    find(pool.conditions(), CONDITION).is_some_and(|condition| {
        condition.is_false() && condition.observed_generation != pool.metadata.generation.unwrap_or(0)
    })
}

/// Learns the capacity of instance types, keeps it on NodePools, and passes it to the provider.
pub struct CapacityObserver {
    cluster: Cluster,
    cloud: Arc<dyn CloudProvider>,
    patches: Patches,
    pools: PoolStatus,
    learner: Mutex<CapacityLearner>,
}

impl CapacityObserver {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self {
            cluster: ctx.cluster.clone(),
            cloud: ctx.cloud.clone(),
            patches: Patches::new(ctx),
            pools: PoolStatus::new(ctx),
            learner: Mutex::default(),
        }
    }

    /// Reads all nodes. Returns the figures if they changed, and the text that NodePools are to keep.
    fn look(&self) -> (Option<Arc<ObservedCapacity>>, Vec<(PoolName, Str)>) {
        let index = self.cluster.index();
        let names = index.pools().filter_map(|pool| pool.metadata.name.as_deref());
        let models = names.filter_map(|name| index.pool_model(name).cloned());
        let pools: Vec<(Arc<NodePool>, Option<Arc<Catalog>>)> = models
            .map(|pool| {
                let catalog = index.catalog(&pool.name).cloned();
                (pool, catalog)
            })
            .collect();
        let node = |name: &str| index.nodes_of_claim(name).next().cloned();
        let nodes: Vec<_> = index.claim_models().map(|claim| (claim.clone(), node(&claim.name))).collect();
        drop(index);
        let mut learner = self.learner.lock().unwrap_or_else(PoisonError::into_inner);
        let before = learner.observed().version();
        let changed = learner.look(CapacityView { pools: &pools, nodes: &nodes });
        let is_new = learner.observed().version() != before;
        (is_new.then(|| Arc::new(learner.observed().clone())), changed)
    }
}

#[async_trait]
impl Controller for CapacityObserver {
    fn name(&self) -> &'static str {
        "providers.instancetype.capacity"
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit::new(Duration::from_secs(1), Duration::from_secs(60), 10, 100)
    }

    fn is_singleton(&self) -> bool {
        true
    }

    async fn reconcile(&self, _: &Key) -> Result<Requeue, ReconcileError> {
        let (observed, changed) = self.look();
        if let Some(observed) = observed {
            self.cloud.use_observed_capacity(&observed);
        }
        for (name, capacity) in changed {
            let Some(pool) = self.pools.managed(&name) else { continue };
            let keep = |newest: Option<&str>| {
                let newest = observed::read(newest.unwrap_or_default());
                observed::write(&Observed { capacity: capacity.clone(), ..newest })
            };
            // The next look decides again: a failed write does not delay the others.
            if let Err(error) = self.patches.annotate(pool, OBSERVED, keep).await {
                tracing::warn!(NodePool.name = name.as_str(), %error, "failed to keep observed capacity");
            }
        }
        Ok(Requeue::After(CAPACITY_INTERVAL))
    }
}

#[cfg(test)]
mod tests {
    //! Concurrent changes of the annotation.
    use fleetwright_core::model::{ObservedTaint, Taint, TaintEffect};

    use super::*;
    use crate::testing::Harness;

    #[tokio::test(start_paused = true)]
    async fn removing_an_observation_does_not_overwrite_concurrent_ones() {
        let harness = Harness::new();
        let since = harness.ctx.clocks.now();
        let annotate = |taints: &[(&str, i64)]| {
            let mut observed = Observed::default();
            for (key, hours) in taints {
                let taint = Taint::new(*key, "", TaintEffect::NoSchedule);
                let until = since + jiff::SignedDuration::from_hours(*hours);
                observed.add_taint(ObservedTaint { taint, claim: "c".into(), since, until });
            }
            let annotations = serde_json::json!({ OBSERVED: observed::write(&observed) });
            let pool = serde_json::json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
                "metadata": {"name": "default", "annotations": annotations}});
            harness.server.apply(pool).unwrap();
        };
        let observed = || async {
            let pool = harness.ctx.client.cluster::<api::NodePool>().get("default").await.unwrap();
            let written = pool.metadata.annotations.clone().unwrap_or_default().remove(OBSERVED);
            let taints = observed::read(&written.unwrap_or_default()).taints;
            (pool, taints.iter().map(|known| known.taint.key.to_string()).collect::<Vec<_>>())
        };
        harness.pool("default", serde_json::json!({}));
        annotate(&[("old", 1), ("lasts", 9)]);
        harness.ctx.cluster.observe(observed().await.0);
        harness.pass(2 * 3600).await;
        // The provisioner adds an observation that this controller has not read.
        annotate(&[("old", 1), ("lasts", 9), ("fresh", 8)]);
        ObservedReaper::new(&harness.ctx).reconcile(&Key::cluster("default")).await.unwrap();
        assert_eq!(observed().await.1, ["fresh", "lasts"]);
    }
}
