//! What is left of the limits of NodePools while a request is placed.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::scheduling::{
    ids::{IdVec, InstanceTypeId, NodeId, NodePoolId},
    tables::{
        Tables,
        amounts::{Amounts, get},
        bits::Bits,
        usage::Usage,
    },
};

/// By pool: what is left of each of its limits, in their order, and of its limit on nodes.
#[derive(Clone, Debug)]
pub(crate) struct Limits(IdVec<NodePoolId, (Vec<i64>, Option<i64>)>);

impl Limits {
    /// What is left when some nodes are excluded: nothing more where limits are hard.
    pub(crate) fn new(tables: &Tables, gone: &Bits<NodeId>) -> Self {
        let mut usage: Cow<'_, IdVec<NodePoolId, Usage>> = Cow::Borrowed(&tables.usage);
        for node in gone.iter().map(|at| &tables.nodes[at]).filter(|node| node.usable) {
            let gives = |pool: &NodePoolId| {
                tables.pools[*pool].is_limited() && !tables.pools[*pool].model.limits.hard
            };
            if let Some(pool) = node.pool.filter(gives) {
                usage.to_mut()[pool].count(&tables.pools[pool], node, -1);
            }
        }
        Self(tables.pools.iter().zip(usage.iter()).map(|(pool, usage)| usage.left(pool)).collect())
    }

    /// What is left of each limit of a pool but that on nodes.
    pub(crate) fn amounts(&self, pool: NodePoolId) -> &[i64] {
        &self.0[pool].0
    }

    /// How many more nodes a pool may have, where that is limited.
    pub(crate) fn nodes(&self, pool: NodePoolId) -> Option<i64> {
        self.0[pool].1
    }

    /// Whether a pool may have no more nodes, whatever they are.
    pub(crate) fn allows_no_node(&self, pool: NodePoolId) -> bool {
        self.nodes(pool).is_some_and(|nodes| nodes <= 0)
    }

    /// Gives back what an excluded node takes of the limits of its pool, unless those are hard.
    pub(crate) fn give_back(&mut self, tables: &Tables, at: NodeId) {
        let node = &tables.nodes[at];
        let Some(pool) = node.pool.filter(|pool| node.usable && !tables.pools[*pool].model.limits.hard)
        else {
            return;
        };
        let (amounts, nodes) = &mut self.0[pool];
        for (amount, limit) in amounts.iter_mut().zip(&tables.pools[pool].limits) {
            *amount = amount.saturating_add(get(&node.capacity, limit.resource));
        }
        if let Some(nodes) = nodes {
            *nodes = nodes.saturating_add(1);
        }
    }

    /// The rows of a pool of which one more stays within every limit.
    pub(crate) fn rows_within(&self, tables: &Tables, pool: NodePoolId) -> Bits<InstanceTypeId> {
        let rows = &tables.pools[pool].rows;
        let limits = &tables.pools[pool].limits;
        if limits.is_empty() {
            return Bits::full(rows.len());
        }
        let within = |capacity: &Amounts| {
            limits.iter().zip(self.amounts(pool)).all(|(limit, left)| get(capacity, limit.resource) <= *left)
        };
        rows.entries().filter(|(_, row)| within(&row.capacity)).map(|(at, _)| at).collect()
    }

    /// Charges a new NodeClaim with the largest that it may become; returns what that is, by limit.
    pub(crate) fn charge(
        &mut self,
        tables: &Tables,
        pool: NodePoolId,
        rows: &Bits<InstanceTypeId>,
    ) -> SmallVec<[i64; 2]> {
        let most = |resource| rows.iter().map(|at| get(&tables.row(pool, at).capacity, resource)).max();
        let limits = tables.pools[pool].limits.iter();
        let charged: SmallVec<[i64; 2]> = limits.map(|limit| most(limit.resource).unwrap_or(0)).collect();
        self.add(pool, &charged, -1);
        charged
    }

    /// Takes back, with 1, or repeats, with -1, what a new NodeClaim was charged with.
    pub(crate) fn add(&mut self, pool: NodePoolId, charged: &[i64], by: i64) {
        let (left, nodes) = &mut self.0[pool];
        for (left, charged) in left.iter_mut().zip(charged) {
            *left = left.saturating_add(charged.saturating_mul(by));
        }
        if let Some(nodes) = nodes {
            *nodes += by;
        }
    }
}
