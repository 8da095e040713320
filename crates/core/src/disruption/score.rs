//! Scores of the policy `Balanced`: a move must save a larger share of the price of the NodePool than half the share of its
//! disruption.
//!
//! Karpenter's score is `(savings / poolCost) / (moveCost / poolDisruption)` with threshold `1/k`, `k = 2`. Here it is
//! compared crosswise in integers; the quotient is only shown.

use std::fmt;

use super::DisruptionCost;
use crate::model::{PoolName, Price};

/// The divisor of the threshold.
const K: i128 = 2;

/// The score of a move for one of its pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancedScore {
    /// The pool.
    pub pool: PoolName,
    /// The share of the saving per hour that this NodePool has.
    pub savings: Price,
    /// The price per hour of the NodePool.
    pub pool_price: Price,
    /// The disruption cost of the move in this NodePool.
    pub moved: DisruptionCost,
    /// The cost of disrupting the whole NodePool.
    pub pool_cost: DisruptionCost,
    /// Whether the saving outweighs the disruption.
    pub approved: bool,
}

/// Karpenter's text of the event `ConsolidationApproved`.
impl fmt::Display for BalancedScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.approved { ">=" } else { "<" };
        let (savings, disruption) = (self.savings_percent(), self.disruption_percent());
        write!(
            f,
            "score {:.2} {sign} threshold {:.2} (k: {K}, savings {savings:.1}%, disruption {disruption:.1}%)",
            self.score(),
            Self::THRESHOLD
        )
    }
}

impl BalancedScore {
    /// The score from which a move is approved, `1/k`.
    pub const THRESHOLD: f64 = 0.5;

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

    /// The saving, in percent of the price of the NodePool.
    #[must_use]
    pub fn savings_percent(&self) -> f64 {
        percent(self.savings.dollars(), self.pool_price.dollars())
    }

    /// The disruption, in percent of disrupting the whole NodePool.
    #[must_use]
    pub fn disruption_percent(&self) -> f64 {
        percent(self.moved.pods(), self.pool_cost.pods())
    }

    /// Karpenter's score. A move is approved from 0.5.
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

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole * 100.0 } else { 0.0 }
}
