//! Usage of the limits of NodePools by their nodes.

use crate::scheduling::tables::{amounts::get, nodes::NodeRow, pools::Pool};

/// The sum of the nodes of a NodePool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// By limit of the pool.
    amounts: Vec<i128>,
    nodes: i64,
}

impl Usage {
    /// No node yet.
    pub(crate) fn new(pool: &Pool) -> Self {
        Self { amounts: vec![0; pool.limits.len()], nodes: 0 }
    }

    /// Counts a node of the pool.
    pub(crate) fn count(&mut self, pool: &Pool, node: &NodeRow, by: i64) {
        for (amount, limit) in self.amounts.iter_mut().zip(&pool.limits) {
            *amount += i128::from(by) * i128::from(get(&node.capacity, limit.resource));
        }
        self.nodes += by;
    }

    /// The rest of each limit, and of the limit on nodes.
    pub(crate) fn left(&self, pool: &Pool) -> (Vec<i64>, Option<i64>) {
        let amounts = pool.limits.iter().zip(&self.amounts);
        let rest = |limit: i64, used: i128| {
            let rest = i128::from(limit) - used;
            i64::try_from(rest).unwrap_or(if rest < 0 { i64::MIN } else { i64::MAX })
        };
        let remaining = amounts.map(|(limit, used)| rest(limit.limit, *used)).collect();
        (remaining, pool.model.limits.nodes.map(|nodes| nodes.saturating_sub(self.nodes)))
    }
}
