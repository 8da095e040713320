//! The drift hash of a NodePool: written on the pool, and migrated on its claims when its version changes.

use crate::model::{ClaimName, NodeClaim, NodePool, Str, nodeclaim::ConditionType};

/// What to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HashUpdate {
    /// Claims that carry another version, or none while the pool changes its own: their new version, and their new hash unless they count as drifted already.
    /// They come first: a pool with the new version must have no claim with an old one.
    pub claims: Vec<(ClaimName, Option<Str>)>,
    /// Whether the pool's own annotations are to be written.
    pub pool: bool,
}

/// Compares the hash annotations of `pool` and its `claims` with the `hash` of its template under `version`.
#[must_use]
pub fn update(pool: &NodePool, claims: &[&NodeClaim], hash: &str, version: &str) -> HashUpdate {
    let stale = |stored: &Option<(Str, Str)>| stored.as_ref().is_none_or(|(_, known)| &**known != version);
    let migrating = stale(&pool.hash);
    let migrated = |claim: &&&NodeClaim| stale(&claim.pool_hash) && (migrating || claim.pool_hash.is_some());
    let claims = claims.iter().filter(migrated).map(|claim| {
        let drifted = claim.is(ConditionType::Drifted);
        (claim.name.clone(), (!drifted).then(|| hash.into()))
    });
    let pool_stands = pool.hash.as_ref().is_some_and(|(known, of)| &**known == hash && &**of == version);
    HashUpdate { claims: claims.collect(), pool: !pool_stands }
}
