//! Limits of NodePools, held against what is about to be written: the newest ones, at the moment of writing.
//!
//! A plan holds limits as its snapshot had them. What was created since, by whoever, counts here; and room that is found is
//! kept until the NodeClaim stands, so that two plans do not share it.

use std::collections::BTreeMap;

use fleetwright_core::{
    model::{ClaimName, PoolName, Resources, Str},
    scheduling::NewClaim,
};
use fleetwright_state::Index;

/// A limit that has no room for what was to be created. The amount is that with it, in the units of the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "nodepool {pool:?} would exceed its limit of {resource}: {usage} of {limit}; raise spec.limits.{resource}"
)]
pub(crate) struct LimitExceeded {
    pool: Str,
    resource: Str,
    usage: i64,
    limit: i64,
}

/// The most of each resource that a node may have.
pub(super) fn most(new_claim: &NewClaim) -> Resources {
    let capacities = new_claim.instance_types.iter().map(|instance_type| &instance_type.capacity);
    capacities.fold(Resources::new(), |largest, capacity| largest.component_max(capacity))
}

/// Whether the limits of `pool` have room for `used` nodes in sum; those of a pool that is gone do.
pub(super) fn hold(index: &Index, pool: &Str, used: &(Resources, i64)) -> Result<(), LimitExceeded> {
    let Some(model) = index.pool_model(pool) else { return Ok(()) };
    match model.limits.first_exceeded(&used.0, used.1) {
        Some((resource, usage, limit)) => Err(LimitExceeded { pool: pool.clone(), resource, usage, limit }),
        None => Ok(()),
    }
}

/// Keeps room for NodeClaims that come in place of those in `leaving`, all of them or none, until they are written
/// (`Index::written`).
///
/// What leaves makes room before it is gone, as in Karpenter: a pool at its limit can replace its nodes. In a static
/// pool it does not: there a limit beyond `replicas` is what says how many nodes may be replaced at a time.
///
/// # Errors
/// The first limit that has no room; pools are looked at by name.
pub(crate) fn reserve<'a>(
    index: &mut Index,
    replacements: impl Iterator<Item = (&'a str, &'a NewClaim)>,
    leaving: impl Iterator<Item = &'a ClaimName>,
) -> Result<(), LimitExceeded> {
    let leaving = leaving.cloned().collect();
    let mut coming: BTreeMap<PoolName, Vec<(&str, Resources)>> = BTreeMap::new();
    for (name, new_claim) in replacements {
        coming.entry(new_claim.pool.name.clone()).or_default().push((name, most(new_claim)));
    }
    for (pool, claims) in &coming {
        let pool: Str = pool.as_str().into();
        let Some(model) = index.pool_model(&pool) else { continue };
        if model.limits.is_empty() {
            continue;
        }
        let mut used = if model.is_static() {
            (Resources::new(), index.members(&pool))
        } else {
            index.usage_without(&pool, &leaving)
        };
        for (_, most) in claims {
            used.0.add_assign(most);
            used.1 += 1;
        }
        hold(index, &pool, &used)?;
    }
    for (pool, claims) in coming {
        for (name, most) in claims {
            index.reserve(name, pool.as_str(), most);
        }
    }
    Ok(())
}
