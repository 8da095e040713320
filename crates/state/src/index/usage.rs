//! How much of its limits a pool uses, and the room that is kept for what is about to be written.

use std::collections::BTreeSet;

use fleetwright_core::model::{ClaimName, Resources, Str, nodeclaim::ConditionType};

use super::Index;
use crate::{expected, intents::Reserved};

impl Index {
    /// Keeps room under the limits of `pool` for a NodeClaim that will be written under the name `claim`: until
    /// [`Self::written`] it counts as a node of at `most` so much, whoever else looks for room.
    pub fn reserve(&mut self, claim: impl Into<Str>, pool: impl Into<Str>, most: Resources) {
        self.intents.reserve(claim.into(), Reserved { pool: pool.into(), most });
    }

    /// What the nodes of a pool are in sum at most, and how many: those going away do not count, and one that is not
    /// launched yet counts as the largest that it may become, as does one that is only about to be written. What a command
    /// takes counts until its replacement stands, or until it is deleted: a command may be taken back, and its nodes
    /// stay then. Under hard limits everything counts until it is gone.
    #[must_use]
    pub fn usage_at_most(&self, pool: &str) -> (Resources, i64) {
        self.usage_without(pool, &BTreeSet::new())
    }

    /// [`Self::usage_at_most`] as if the nodes of some NodeClaims were gone: what limits say to a command that takes
    /// them.
    #[must_use]
    pub fn usage_without(&self, pool: &str, leaving: &BTreeSet<ClaimName>) -> (Resources, i64) {
        let mut sum = (Resources::new(), 0);
        let hard = self.pool_model(pool).is_some_and(|model| model.limits.hard);
        let replaced = self.replaced(pool);
        let catalog = self.catalogs.get(pool).map(|catalog| &**catalog);
        for claim in self.claim_models().filter(|claim| claim.pool.as_deref() == Some(pool)) {
            let going = claim.deleting.is_some() || claim.is(ConditionType::InstanceTerminating);
            if hard || (!going && !replaced.contains(&claim.name) && !leaving.contains(&claim.name)) {
                sum.0.add_assign(&expected::at_most(claim, catalog));
                sum.1 += 1;
            }
        }
        for most in self.awaited(pool) {
            sum.0.add_assign(most);
            sum.1 += 1;
        }
        sum
    }

    /// How many nodes a pool has, those going away and those that are about to be written among them.
    #[must_use]
    pub fn members(&self, pool: &str) -> i64 {
        let there = self.claim_models().filter(|claim| claim.pool.as_deref() == Some(pool)).count();
        i64::try_from(there + self.awaited(pool).count()).unwrap_or(i64::MAX)
    }

    /// What is kept for NodeClaims of a pool that are not there yet.
    fn awaited<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a Resources> {
        let reserved = self.intents.reserved(pool);
        reserved.filter(|(claim, _)| self.claim_model(claim).is_none()).map(|(_, most)| most)
    }

    /// The nodes of a pool that commands take and that nodes of the same pool replace already: of each command as many
    /// as its replacements that stand or have their room, the first by name.
    fn replaced(&self, pool: &str) -> BTreeSet<&ClaimName> {
        let stands = |name: &ClaimName| {
            self.claim_model(name).is_some_and(|claim| claim.pool.as_deref() == Some(pool))
        };
        let kept: BTreeSet<&str> = self.intents.reserved(pool).map(|(claim, _)| &**claim).collect();
        let mut replaced = BTreeSet::new();
        for command in self.intents.commands().values() {
            let counts = |name: &&ClaimName| stands(name) || kept.contains(name.as_str());
            let count = command.replacements.iter().filter(counts).count();
            let taken: BTreeSet<&ClaimName> = command.candidates.iter().filter(|name| stands(name)).collect();
            replaced.extend(taken.into_iter().take(count));
        }
        replaced
    }
}
