//! Limits of NodePools, checked before a creation, and the resources that a creation reserves.
//!
//! A plan respects the limits that its snapshot had. NodeClaims that were created since count here, and room is reserved
//! until the NodeClaim exists, so that two plans do not share it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetwright_api as api;
use fleetwright_core::{
    model::{ClaimName, Pod, PodUid, PoolName, Resources, Str},
    scheduling::NewClaim,
};

use crate::Index;

/// A limit that a creation would exceed. The usage includes the creation, in the units of the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "nodepool {pool:?} would exceed its limit of {resource}: {usage} of {limit}; raise spec.limits.{resource}"
)]
pub struct LimitExceeded {
    pool: Str,
    resource: Str,
    usage: i64,
    limit: i64,
}

/// Why a NodeClaim of a plan is not created.
#[derive(Clone, Debug)]
pub enum NotAdmitted {
    /// Its pods have a NodeClaim in flight, are bound or deleted.
    Needless,
    /// For this reason; these pods are still without a NodeClaim.
    Rejected(String, Vec<Arc<Pod>>),
}

/// What one pass was admitted so far.
#[derive(Debug, Default)]
pub struct Admitted {
    pods: BTreeSet<PodUid>,
    /// By NodePool: resources and nodes in use at most, with what the pass adds.
    pools: BTreeMap<Str, (Resources, i64)>,
}

impl Admitted {
    /// Checks a NodeClaim of a plan against the cluster as it is now: returns its NodePool and those of its pods that
    /// need it.
    ///
    /// # Errors
    /// If no pod needs it, the NodePool is being deleted, or a limit is reached.
    pub fn admit(
        &mut self,
        index: &Index,
        new_claim: &NewClaim,
    ) -> Result<(Arc<api::NodePool>, Vec<Arc<Pod>>), NotAdmitted> {
        let needs_it = |pod: &&Arc<Pod>| {
            let unchanged = |now: &Arc<Pod>| now.is_active() && now.node == pod.node;
            pod.is_virtual
                || (index.pod_by_uid(&pod.uid).is_some_and(unchanged)
                    && !self.pods.contains(&pod.uid)
                    && !index.has_claim_in_flight(&pod.uid))
        };
        let pods: Vec<Arc<Pod>> = new_claim.pods.iter().filter(needs_it).cloned().collect();
        if pods.is_empty() {
            return Err(NotAdmitted::Needless);
        }
        let name: Str = new_claim.pool.name.as_str().into();
        let Some(pool) = index.pool(&name).filter(|pool| pool.metadata.deletion_timestamp.is_none()) else {
            return Err(NotAdmitted::Rejected(format!("nodepool {name:?} is gone"), pods));
        };
        let used = self.pools.entry(name.clone()).or_insert_with(|| index.usage_at_most(&name));
        let with_it = (used.0.plus(&largest(new_claim)), used.1 + 1);
        if let Err(exceeded) = check(index, &name, &with_it) {
            return Err(NotAdmitted::Rejected(exceeded.to_string(), pods));
        }
        *used = with_it;
        self.pods.extend(pods.iter().map(|pod| pod.uid.clone()));
        Ok((pool.clone(), pods))
    }
}

/// The most of each resource that the node of a NodeClaim may have.
#[must_use]
pub fn largest(new_claim: &NewClaim) -> Resources {
    let capacities = new_claim.instance_types.iter().map(|instance_type| &instance_type.capacity);
    capacities.fold(Resources::new(), |largest, capacity| largest.component_max(capacity))
}

/// Whether the limits of `pool` allow this usage in sum; those of a pool that is gone do.
fn check(index: &Index, pool: &Str, used: &(Resources, i64)) -> Result<(), LimitExceeded> {
    let Some(model) = index.pool_model(pool) else { return Ok(()) };
    match model.limits.first_exceeded(&used.0, used.1) {
        Some((resource, usage, limit)) => Err(LimitExceeded { pool: pool.clone(), resource, usage, limit }),
        None => Ok(()),
    }
}

/// Reserves room for NodeClaims that replace those in `leaving`, for all of them or none, until they are created
/// ([`Index::end_creation`]).
///
/// Nodes in `leaving` make room before they are deleted, as in Karpenter: a pool at its limit can replace its nodes. In a
/// static pool they do not: there a limit beyond `replicas` bounds how many nodes are replaced at a time.
///
/// # Errors
/// The first limit that has no room; pools are checked by name.
pub fn reserve<'a>(
    index: &mut Index,
    replacements: impl Iterator<Item = (&'a str, &'a NewClaim)>,
    leaving: impl Iterator<Item = &'a ClaimName>,
) -> Result<(), LimitExceeded> {
    let leaving = leaving.cloned().collect();
    let mut coming: BTreeMap<PoolName, Vec<(&str, Resources)>> = BTreeMap::new();
    for (name, new_claim) in replacements {
        coming.entry(new_claim.pool.name.clone()).or_default().push((name, largest(new_claim)));
    }
    for (pool, claims) in &coming {
        let pool: Str = pool.as_str().into();
        let Some(model) = index.pool_model(&pool) else { continue };
        let mut used = if model.is_static() {
            (Resources::new(), index.members(&pool))
        } else {
            index.usage_without(&pool, &leaving)
        };
        for (_, most) in claims {
            used.0.add_assign(most);
            used.1 += 1;
        }
        check(index, &pool, &used)?;
    }
    for (pool, claims) in coming {
        for (name, most) in claims {
            index.reserve(name, pool.as_str(), most);
        }
    }
    Ok(())
}
