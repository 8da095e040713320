//! The table of NodePools.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use fleetwright_api as api;
use fleetwright_core::model::{NodePool, PoolName};

/// A NodePool as read, and lowered if it is ours and valid.
#[derive(Clone, Debug)]
pub(crate) struct PoolEntry {
    pub(crate) raw: Arc<api::NodePool>,
    pub(crate) model: Option<Arc<NodePool>>,
}

/// All NodePools, by name.
#[derive(Debug, Default)]
pub(crate) struct PoolTable(BTreeMap<PoolName, PoolEntry>);

impl PoolTable {
    /// Puts a NodePool in, or takes it out; returns the earlier one.
    pub(super) fn put(&mut self, name: &PoolName, entry: Option<PoolEntry>) -> Option<PoolEntry> {
        match entry {
            Some(entry) => self.0.insert(name.clone(), entry),
            None => self.0.remove(name),
        }
    }

    /// A NodePool.
    pub(crate) fn get(&self, name: &str) -> Option<&PoolEntry> {
        self.0.get(name)
    }

    /// All NodePools, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &PoolEntry> {
        self.0.values()
    }

    /// The valid ones, lowered: weight descending, then name descending.
    pub(crate) fn in_order(&self) -> Vec<Arc<NodePool>> {
        let mut pools: Vec<_> = self.0.values().filter_map(|entry| entry.model.clone()).collect();
        pools.sort_by_key(|pool| Reverse((pool.weight, pool.name.clone())));
        pools
    }
}
