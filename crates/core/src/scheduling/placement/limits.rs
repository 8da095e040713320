//! The rest of the limits of NodePools during a pass.

use smallvec::SmallVec;

use crate::scheduling::{
    ids::{IdVec, InstanceTypeId, NodeId, NodePoolId},
    tables::{
        Tables,
        amounts::{Amounts, get},
        bits::Bits,
    },
};

/// By pool: what is left of each of its limits, in their order, and of its limit on nodes.
#[derive(Clone, Debug)]
pub(crate) struct Limits(IdVec<NodePoolId, (Vec<i64>, Option<i64>)>);

impl Limits {
    /// What all nodes leave.
    pub(crate) fn new(tables: &Tables) -> Self {
        Self(tables.pools.iter().zip(&tables.usage).map(|(pool, usage)| usage.left(pool)).collect())
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
    pub(crate) fn give_back(&mut self, tables: &Tables, node_id: NodeId) {
        let node = &tables.nodes[node_id];
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
            limits
                .iter()
                .zip(self.amounts(pool))
                .all(|(limit, remaining)| get(capacity, limit.resource) <= *remaining)
        };
        rows.entries().filter(|(_, row)| within(&row.capacity)).map(|(row_id, _)| row_id).collect()
    }

    /// Charges a new NodeClaim with the largest instance type that it allows; returns the charge by limit.
    pub(crate) fn charge(
        &mut self,
        tables: &Tables,
        pool: NodePoolId,
        rows: &Bits<InstanceTypeId>,
    ) -> SmallVec<[i64; 2]> {
        let most =
            |resource| rows.iter().map(|row_id| get(&tables.row(pool, row_id).capacity, resource)).max();
        let limits = tables.pools[pool].limits.iter();
        let charged: SmallVec<[i64; 2]> = limits.map(|limit| most(limit.resource).unwrap_or(0)).collect();
        self.add(pool, &charged, -1);
        charged
    }

    /// Undoes (1) or repeats (-1) the charge of a new NodeClaim.
    pub(crate) fn add(&mut self, pool: NodePoolId, charged: &[i64], by: i64) {
        let (remaining, nodes) = &mut self.0[pool];
        for (remaining, charged) in remaining.iter_mut().zip(charged) {
            *remaining = remaining.saturating_add(charged.saturating_mul(by));
        }
        if let Some(nodes) = nodes {
            *nodes += by;
        }
    }
}
