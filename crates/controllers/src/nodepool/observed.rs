//! `nodepool.observations`: reports the observations of a NodePool in a condition, and removes those that are out of
//! date: expired, of an earlier spec, or of an instance type whose nodes have another image by now.

use std::sync::Arc;

use async_trait::async_trait;
use fleetwright_api::{
    self as api, HasConditions,
    condition::find,
    labels::{OBSERVED, condition::NODES_AS_EXPECTED as CONDITION},
};
use fleetwright_core::model::{NodeClaim, Observed, labels};
use fleetwright_state::{Change, Index, Key, Kind, observed};
use jiff::Timestamp;

use crate::pool_status::PoolStatus;
use crate::{
    metrics::Metrics,
    nodeclaim::families,
    patch::Patches,
    runtime::{Clocks, Cluster, Controller, Ctx, ReconcileError, Requeue},
    settings::Settings,
};

/// Maximum number of entries in a message.
const MAX_NAMED: usize = 5;

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
        if change.kind == Kind::NodePool {
            return vec![change.key.clone()];
        }
        // A launched NodeClaim may have another image.
        let Some(claim) = change.claim() else { return Vec::new() };
        let pool = claim.metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL));
        let has_observations =
            |pool: &&String| index.pool_model(pool).is_some_and(|model| !model.observed.is_empty());
        pool.filter(has_observations).map(|pool| Key::cluster(pool.as_str())).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(pool) = self.pools.managed(&key.name) else { return Ok(Requeue::No) };
        let now = self.clocks.now();
        let (known, claims) = {
            let index = self.cluster.index();
            let Some(model) = index.pool_model(&key.name) else { return Ok(Requeue::No) };
            let of_pool = |claim: &&Arc<NodeClaim>| claim.pool.as_deref() == Some(&*key.name);
            let claims: Vec<Arc<NodeClaim>> = if model.observed.is_empty() {
                Vec::new()
            } else {
                index.claim_models().filter(of_pool).cloned().collect()
            };
            (model.observed.clone(), claims)
        };
        let current =
            if is_of_another_spec(&pool) { Observed::default() } else { current(&known, &claims, now) };
        for (kind, count) in [("shape", current.shapes.len()), ("taint", current.taints.len())] {
            let count = u32::try_from(count).map_or(f64::MAX, f64::from);
            self.metrics.set(&families::OBSERVED, &[&key.name, kind], count);
        }
        if current != known {
            self.patches
                .annotate(pool.clone(), OBSERVED, |newest| {
                    observed::write(&without(observed::read(newest.unwrap_or_default()), &known, &current))
                })
                .await?;
        }
        let Some(pool) = self.pools.managed(&key.name) else { return Ok(Requeue::No) };
        let is_set = find(pool.conditions(), CONDITION).is_some();
        self.pools
            .change_conditions(&pool, |conditions| {
                if !current.is_empty() {
                    let (reason, message) = condition_of(&current);
                    conditions.set_false(CONDITION, reason, &message);
                } else if is_set {
                    // A NodePool without observations has no such condition.
                    conditions.set_true(CONDITION);
                }
            })
            .await?;
        let until =
            |end: Timestamp| std::time::Duration::try_from(end.duration_since(now)).unwrap_or_default();
        Ok(current.next_end().map_or(Requeue::No, |end| Requeue::After(until(end))))
    }
}

/// Whether the observations were reported for an earlier spec of the NodePool.
fn is_of_another_spec(pool: &api::NodePool) -> bool {
    find(pool.conditions(), CONDITION).is_some_and(|condition| {
        condition.is_false() && condition.observed_generation != pool.metadata.generation.unwrap_or(0)
    })
}

/// The observations that are neither expired nor contradicted by a later node of the type with another image.
fn current(known: &Observed, claims: &[Arc<NodeClaim>], now: Timestamp) -> Observed {
    let mut current = known.current(now);
    current.shapes.retain(|shape| {
        !claims.iter().any(|claim| {
            claim.labels.get(labels::INSTANCE_TYPE) == Some(&shape.instance_type)
                && claim.created > shape.since
                && claim.image_id.is_some()
                && claim.image_id != shape.image
        })
    });
    current
}

/// The newest observations without those of `known` that are not `current`. Later ones are kept.
fn without(mut newest: Observed, known: &Observed, current: &Observed) -> Observed {
    newest.shapes.retain(|shape| !known.shapes.contains(shape) || current.shapes.contains(shape));
    newest.taints.retain(|taint| !known.taints.contains(taint) || current.taints.contains(taint));
    newest
}

/// Reason and message of the condition.
fn condition_of(observed: &Observed) -> (&'static str, String) {
    let shapes = observed.shapes.iter().map(|shape| {
        let image = shape.image.as_deref().map(|image| format!(" with image {image}")).unwrap_or_default();
        format!(
            "{}{image} has {} for pods, {} were predicted (nodeclaim {}, until {})",
            shape.instance_type, shape.found, shape.promised, shape.claim, shape.until
        )
    });
    let taints = observed.taints.iter().map(|known| {
        format!(
            "nodes come up with taint {}, which the NodePool does not declare (nodeclaim {}, until {})",
            known.taint, known.claim, known.until
        )
    });
    let mut all: Vec<String> = shapes.chain(taints).collect();
    let more = all.len().saturating_sub(MAX_NAMED);
    all.truncate(MAX_NAMED);
    if more > 0 {
        all.push(format!("{more} more"));
    }
    let reason = if observed.shapes.is_empty() { "UnexpectedTaint" } else { "SmallerThanExpected" };
    (reason, all.join("; "))
}

#[cfg(test)]
mod tests {
    //! Removal and message of observations.
    use fleetwright_core::{
        model::{ObservedCapacity, ObservedTaint, Resources, StateNode, Taint, TaintEffect},
        testing::{node, now},
    };

    use super::*;
    use crate::testing::Harness;

    fn observed() -> Observed {
        let until = now() + jiff::SignedDuration::from_hours(6);
        let mut observed = Observed::default();
        observed.add_shape(ObservedCapacity {
            instance_type: "medium".into(),
            image: Some("image-1".into()),
            promised: Resources::of(4000, 8 << 30),
            found: Resources::of(4000, 5 << 30),
            claim: "c".into(),
            since: now(),
            until,
        });
        let taint = Taint::new("late", "", TaintEffect::NoSchedule);
        observed.add_taint(ObservedTaint { taint, claim: "c".into(), since: now(), until });
        observed
    }

    fn claim(minutes: i64, image: Option<&str>) -> Arc<NodeClaim> {
        let created = now() + jiff::SignedDuration::from_mins(minutes);
        let built = node("a").with_claim(|claim| {
            claim.created = created;
            claim.image_id = image.map(Into::into);
        });
        let StateNode { claim, .. } = Arc::unwrap_or_clone(built.build());
        claim.unwrap()
    }

    #[test]
    fn a_later_node_with_another_image_invalidates_the_observation() {
        let shapes = |claim| current(&observed(), &[claim], now()).shapes.len();
        assert_eq!(shapes(claim(1, Some("image-2"))), 0);
        assert_eq!(shapes(claim(1, Some("image-1"))), 1);
        assert_eq!(shapes(claim(1, None)), 1, "not launched yet");
        assert_eq!(shapes(claim(-1, Some("image-2"))), 1, "the node is older than the observation");
        assert_eq!(current(&observed(), &[claim(1, Some("image-2"))], now()).taints.len(), 1);
    }

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

    #[test]
    fn the_condition_names_the_observations() {
        let (reason, text) = condition_of(&observed());
        assert_eq!(reason, "SmallerThanExpected");
        for part in ["medium with image image-1 has", "5Gi", "nodeclaim c", "late:NoSchedule"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
