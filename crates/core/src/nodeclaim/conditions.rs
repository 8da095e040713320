//! Conditions that make a node a candidate for disruption: Consolidatable and Drifted.

use std::time::Duration;

use jiff::Timestamp;

use super::{ClaimStep, ClaimView, ConditionChange, Next, remaining, step::clear};
use crate::{
    cloud,
    model::{
        Catalog, NodeClaim, NodePool, Operator, Requirement, Requirements,
        labels::{CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, RESERVED},
        nodeclaim::ConditionType,
    },
};

/// How often drift is looked at.
pub const DRIFT_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// A claim that is younger is not compared with the catalogue, which may lag behind.
pub const CATALOG_AGE: Duration = Duration::from_secs(60 * 60);

/// Whether no pod was bound or left for consolidateAfter.
#[derive(Clone, Copy, Debug)]
pub struct Consolidatable;

impl Consolidatable {
    /// What to do next for the claim of `view`.
    #[must_use]
    pub fn next(&self, view: &ClaimView<'_>, now: Timestamp) -> Next {
        let (claim, condition) = (view.claim, ConditionType::Consolidatable);
        let Some(pool) = view.pool.filter(|pool| !pool.is_static() && claim.deleting.is_none()) else {
            return Next::nothing();
        };
        let away = || Next::steps(clear(claim, condition));
        let (Some(after), Some(initialized)) =
            (pool.consolidate_after, claim.true_since(ConditionType::Initialized))
        else {
            return away();
        };
        let since = claim.last_pod_event.unwrap_or(initialized);
        match remaining(since, after, now) {
            Some(left) => away().again(left),
            None => Next::steps(ConditionChange::holds(condition).step(claim)),
        }
    }
}

/// Whether a node does not match its NodePool or NodeClass any more; the first reason counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drifted<'a> {
    /// The instance types of the NodePool, if drift is due.
    pub catalog: Option<&'a Catalog>,
    /// The provider's drift of the instance, if it was requested.
    pub provider: Option<&'a cloud::Drift>,
}

impl Drifted<'_> {
    /// Whether the pool alone shows drift, so that the provider need not be asked.
    #[must_use]
    pub fn by_pool(claim: &NodeClaim, pool: &NodePool) -> Option<&'static str> {
        let same_version = |a: &(_, _), b: &(_, _)| a.1 == b.1;
        let hashes = pool.hash.as_ref().zip(claim.pool_hash.as_ref());
        if hashes.is_some_and(|(pool, claim)| same_version(pool, claim) && pool.0 != claim.0) {
            return Some("NodePoolDrifted");
        }
        requirements_drifted(claim, pool).then_some("RequirementsDrifted")
    }
}

impl Drifted<'_> {
    /// What to do next for the claim of `view`.
    #[must_use]
    pub fn next(&self, view: &ClaimView<'_>, now: Timestamp) -> Next {
        let (claim, condition) = (view.claim, ConditionType::Drifted);
        let Some(pool) = view.pool.filter(|_| claim.deleting.is_none()) else { return Next::nothing() };
        if !claim.is(ConditionType::Launched) {
            return Next::steps(clear(claim, condition));
        }
        let old = remaining(claim.created, CATALOG_AGE, now).is_none();
        let missing = |catalog: &Catalog| old && !is_offered(claim, view, catalog);
        let reason = Self::by_pool(claim, pool)
            .or_else(|| self.catalog.is_some_and(missing).then_some("InstanceTypeNotFound"))
            .or_else(|| self.provider.map(|drift| &*drift.0));
        let steps = match reason {
            None => clear(claim, condition),
            // Since when counts: another reason for the same status leaves that time as it is.
            Some(reason) => {
                let holds = ConditionChange { reason: reason.into(), ..ConditionChange::holds(condition) };
                holds.step(claim)
            }
        };
        Next::steps(steps).again(DRIFT_INTERVAL)
    }
}

/// Whether the claim's labels contradict the pool's requirements as they are now.
fn requirements_drifted(claim: &NodeClaim, pool: &NodePool) -> bool {
    let labels = Requirements::from_labels(&claim.labels);
    labels.compatible(&pool.template.requirements, |_| false).is_err()
}

/// Whether the catalogue still has the claim's instance type, in an offering like the claim's. Whether it is available
/// now does not matter. A NodeClaim without the label of one has none.
fn is_offered(claim: &NodeClaim, view: &ClaimView<'_>, catalog: &Catalog) -> bool {
    let Some(found) = claim.labels.get(INSTANCE_TYPE).and_then(|name| catalog.get(name)) else {
        return false;
    };
    let mut known = Requirements::from_labels(&claim.labels);
    if known.allows(CAPACITY_TYPE, RESERVED) {
        // A reservation may end while an instance runs, which then continues as on-demand.
        let either = Requirement::new(CAPACITY_TYPE, Operator::In, [RESERVED, ON_DEMAND]);
        if let Ok(either) = either {
            known.replace(either);
        }
        if let Some(key) = &view.provider.schema.reservation_id {
            known.remove(key);
        }
    }
    found.offerings.iter().any(|offering| known.overlaps(&offering.requirements))
}

/// The step that records which command has the node.
#[must_use]
pub fn disruption_reason(reason: &str) -> ClaimStep {
    let condition = ConditionType::DisruptionReason;
    ClaimStep::Condition(ConditionChange { reason: reason.into(), ..ConditionChange::holds(condition) })
}
