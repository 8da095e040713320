//! The policy `Balanced`: a move must save a larger share of the pool's cost than half the share of its disruption.
//!
//! Karpenter's score is `(savings / poolCost) / (moveCost / poolDisruption)` with threshold `1/k`, `k = 2`. Here it is
//! compared crosswise in integers; the quotient is only for people.

use std::collections::BTreeMap;

use super::{Command, Context, DisruptionCost, cost};
use crate::model::{ConsolidationPolicy, PoolName, Price, labels};

/// The threshold's divisor.
const K: i128 = 2;

/// How a move was weighed for one of its pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The pool.
    pub pool: PoolName,
    /// What the move saves of this pool's cost per hour.
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

impl Judged {
    fn new(pool: PoolName, savings: Price, moved: DisruptionCost, totals: (Price, DisruptionCost)) -> Self {
        let (pool_price, pool_cost) = totals;
        let cross = |price: Price, cost: DisruptionCost| i128::from(price.nanos()) * i128::from(cost.units());
        let worth = K * cross(savings, pool_cost) >= cross(pool_price, moved);
        let approved = savings > Price::ZERO
            && pool_price > Price::ZERO
            && (moved == DisruptionCost::default() || worth);
        Self { pool, savings, pool_price, moved, pool_cost, approved }
    }

    /// Karpenter's score: from one half on the move is made.
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

/// How a move is weighed by each of its `Balanced` pools, by name; all of them must approve it. Pools with other policies
/// have no say.
pub(super) fn judge(context: &Context<'_>, command: &Command) -> Vec<Judged> {
    let mut per_pool: BTreeMap<PoolName, (i128, DisruptionCost)> = BTreeMap::new();
    for candidate in &command.candidates {
        if candidate.pool.consolidation_policy == ConsolidationPolicy::Balanced {
            let entry = per_pool.entry(candidate.pool.name.clone()).or_default();
            entry.0 += i128::from(candidate.price.nanos());
            entry.1 = entry.1 + candidate.cost;
        }
    }
    let total_now = i128::from(command.price_now().nanos());
    let savings = i128::from(command.savings().nanos());
    let judged = per_pool.into_iter().map(|(pool, (price, moved))| {
        // Savings of a move across pools are split by what each pool pays now.
        let share = if total_now == 0 { 0 } else { savings * price / total_now };
        let share = Price::from_nanos(i64::try_from(share).unwrap_or(i64::MAX));
        let totals = totals(context, &pool);
        Judged::new(pool, share, moved, totals)
    });
    judged.collect()
}

/// What a pool costs per hour, and what disrupting all of it would cost.
fn totals(context: &Context<'_>, pool: &str) -> (Price, DisruptionCost) {
    let mut sums = (Price::ZERO, DisruptionCost::default());
    for node in context.snapshot.nodes.iter().filter(|node| node.label(labels::NODEPOOL) == Some(pool)) {
        sums.0 = sums.0 + super::candidate::price(context.snapshot, node).unwrap_or_default();
        let moving = node.pods.iter().filter(|pod| pod.is_reschedulable());
        sums.1 = sums.1 + cost::of_node(moving.map(|pod| &**pod));
    }
    sums
}
