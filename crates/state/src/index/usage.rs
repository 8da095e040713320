//! How much of its limits a NodePool uses, and the room that is kept for NodeClaims that are being created.

use std::collections::BTreeSet;

use fleetwright_core::model::{ClaimName, Resources, Str, nodeclaim::ConditionType};

use super::Index;
use crate::expected;

impl Index {
    /// Keeps room under the limits of `pool` for a NodeClaim that will be created under the name `claim`. Until
    /// [`Self::end_creation`] it counts as a node of the capacity `most`.
    pub fn reserve(&mut self, claim: impl Into<Str>, pool: impl Into<Str>, most: Resources) {
        self.intents.reserve(claim.into(), pool.into(), most);
    }

    /// The largest possible sum of the nodes of a pool, and their number. Nodes that are being deleted do not count. A node
    /// that is not launched, or is about to be created, counts as the largest that it may become. A candidate of a
    /// command counts until its replacement exists or the candidate is deleted: a command may be rolled back. Under hard
    /// limits every node counts until it is gone.
    #[must_use]
    pub fn usage_at_most(&self, pool: &str) -> (Resources, i64) {
        self.usage_without(pool, &BTreeSet::new())
    }

    /// [`Self::usage_at_most`] without the nodes of some NodeClaims, for a command that removes them.
    #[must_use]
    pub fn usage_without(&self, pool: &str, leaving: &BTreeSet<ClaimName>) -> (Resources, i64) {
        let mut sum = (Resources::new(), 0);
        let hard = self.pool_model(pool).is_some_and(|model| model.limits.hard);
        let replaced = self.replaced(pool);
        let catalog = self.catalog(pool).map(|catalog| &**catalog);
        for claim in self.claim_models().filter(|claim| claim.pool.as_deref() == Some(pool)) {
            let deleting = claim.deleting.is_some() || claim.is(ConditionType::InstanceTerminating);
            if hard || (!deleting && !replaced.contains(&claim.name) && !leaving.contains(&claim.name)) {
                sum.0.add_assign(&expected::at_most(claim, catalog));
                sum.1 += 1;
            }
        }
        for most in self.reserved_for(pool) {
            sum.0.add_assign(most);
            sum.1 += 1;
        }
        sum
    }

    /// The number of nodes of a pool, with those that are being deleted and those that are about to be created.
    #[must_use]
    pub fn members(&self, pool: &str) -> i64 {
        let there = self.claim_models().filter(|claim| claim.pool.as_deref() == Some(pool)).count();
        i64::try_from(there + self.reserved_for(pool).count()).unwrap_or(i64::MAX)
    }

    /// The room that is kept for NodeClaims of a pool that do not exist yet.
    fn reserved_for<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a Resources> {
        let reserved = self.intents.reserved(pool);
        reserved.filter(|(claim, _)| self.claim_model(claim).is_none()).map(|(_, most)| most)
    }

    /// The candidates of commands in a pool that nodes of the same pool replace already: of each command as many as it has
    /// replacements that exist or have room reserved, the first by name.
    fn replaced(&self, pool: &str) -> BTreeSet<&ClaimName> {
        let exists = |name: &ClaimName| {
            self.claim_model(name).is_some_and(|claim| claim.pool.as_deref() == Some(pool))
        };
        let reserved: BTreeSet<&str> = self.intents.reserved(pool).map(|(claim, _)| &**claim).collect();
        let mut replaced = BTreeSet::new();
        for command in self.intents.commands().values() {
            let counts = |name: &&ClaimName| exists(name) || reserved.contains(name.as_str());
            let count = command.replacements.iter().filter(counts).count();
            let taken: BTreeSet<&ClaimName> = command.candidates.iter().filter(|name| exists(name)).collect();
            replaced.extend(taken.into_iter().take(count));
        }
        replaced
    }
}
