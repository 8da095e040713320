//! The drift hash of a NodePool: written on the pool, and migrated on its claims when its version changes. NodeClasses migrate by the same
//! rule ([`keeps_hash`]).

use crate::model::{ClaimName, NodeClaim, NodePool, Str, nodeclaim::ConditionType};

/// What to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HashUpdate {
    /// Claims that carry another version, or none while the pool changes its own: their new version, and their new hash unless they have drifted.
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
        let keeps = keeps_hash(claim, stored(&claim.pool_hash), stored(&pool.hash));
        (claim.name.clone(), (!keeps).then(|| hash.into()))
    });
    let pool_stands = pool.hash.as_ref().is_some_and(|(known, of)| &**known == hash && &**of == version);
    HashUpdate { claims: claims.collect(), pool: !pool_stands }
}

/// A drift hash and the version of its algorithm, as annotations carry them.
pub type Stored<'a> = Option<(&'a str, &'a str)>;

/// Whether `claim`, whose hash is of an older version, keeps it under the new version and so is drifted: either it is marked as drifted,
/// or its hash differs from that of its `owner` (the NodePool or NodeClass), which is still of the same older version. The hashes of all
/// other claims are replaced, since hashes of different versions cannot be compared.
#[must_use]
pub fn keeps_hash(claim: &NodeClaim, of_claim: Stored<'_>, of_owner: Stored<'_>) -> bool {
    let has_drifted = |((claim, of_claim), (owner, of_owner))| of_claim == of_owner && claim != owner;
    claim.is(ConditionType::Drifted) || of_claim.zip(of_owner).is_some_and(has_drifted)
}

fn stored(pair: &Option<(Str, Str)>) -> Stored<'_> {
    pair.as_ref().map(|(hash, version)| (&**hash, &**version))
}
