//! Scores of the policy `Balanced`: a move must save a larger share of the pool's cost than half the share of its
//! disruption.
//!
//! Karpenter's score is `(savings / poolCost) / (moveCost / poolDisruption)` with threshold `1/k`, `k = 2`. Here it is
//! compared crosswise in integers; the quotient is only shown.

use super::DisruptionCost;
use crate::model::{PoolName, Price};

/// The threshold's divisor.
const K: i128 = 2;

/// The score of a move for one of its pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancedScore {
    /// The pool.
    pub pool: PoolName,
    /// The share of the saving per hour that falls to this pool.
    pub savings: Price,
    /// What the pool costs per hour.
    pub pool_price: Price,
    /// What the move disrupts of this pool.
    pub moved: DisruptionCost,
    /// What disrupting the whole pool would cost.
    pub pool_cost: DisruptionCost,
    /// Whether the saving outweighs the disruption.
    pub approved: bool,
}

impl BalancedScore {
    pub(super) fn new(
        pool: PoolName,
        savings: Price,
        moved: DisruptionCost,
        totals: (Price, DisruptionCost),
    ) -> Self {
        let (pool_price, pool_cost) = totals;
        let cross = |price: Price, cost: DisruptionCost| i128::from(price.nanos()) * i128::from(cost.units());
        let worth = K * cross(savings, pool_cost) >= cross(pool_price, moved);
        let approved = savings > Price::ZERO
            && pool_price > Price::ZERO
            && (moved == DisruptionCost::default() || worth);
        Self { pool, savings, pool_price, moved, pool_cost, approved }
    }

    /// Karpenter's score. The move is approved from 0.5.
    #[must_use]
    pub fn score(&self) -> f64 {
        if self.savings <= Price::ZERO || self.pool_price <= Price::ZERO {
            return 0.0;
        }
        if self.moved.units() <= 0 || self.pool_cost.units() <= 0 {
            return f64::INFINITY;
        }
        (self.savings.dollars() / self.pool_price.dollars()) / (self.moved.pods() / self.pool_cost.pods())
    }
}
