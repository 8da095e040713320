//! The policy `Balanced`: a move must save a larger share of the pool's cost than half the share of its disruption.
//!
//! Karpenter's score is `(savings / poolCost) / (moveCost / poolDisruption)` with threshold `1/k`, `k = 2`. Here it is
//! compared crosswise in integers.

use std::collections::BTreeMap;

use super::{Command, Context, cost};
use crate::model::{ConsolidationPolicy, PoolName, labels};

/// The threshold's divisor.
const K: i128 = 2;

/// Whether every `Balanced` pool of the move approves it. Pools with other policies always do.
pub(super) fn approves(context: &Context<'_>, command: &Command) -> bool {
    let total_now = i128::from(command.price_now().nanos());
    let savings = i128::from(command.savings().nanos());
    let mut per_pool: BTreeMap<PoolName, (i128, i128)> = BTreeMap::new();
    for candidate in &command.candidates {
        if candidate.pool.consolidation_policy == ConsolidationPolicy::Balanced {
            let entry = per_pool.entry(candidate.pool.name.clone()).or_default();
            entry.0 += i128::from(candidate.price.nanos());
            entry.1 += i128::from(candidate.cost.units());
        }
    }
    per_pool.iter().all(|(pool, (price, moved))| {
        // Savings of a move across pools are split by what each pool pays now.
        let share = if total_now == 0 { 0 } else { savings * price / total_now };
        let (pool_price, pool_cost) = totals(context, pool);
        share > 0 && (*moved == 0 || (pool_price > 0 && K * share * pool_cost >= moved * pool_price))
    })
}

/// What a pool costs per hour in nano-dollars, and what disrupting all of it would cost.
fn totals(context: &Context<'_>, pool: &str) -> (i128, i128) {
    let mut sums = (0, 0);
    for node in context.snapshot.nodes.iter().filter(|node| node.label(labels::NODEPOOL) == Some(pool)) {
        let label = |key| node.label(key).unwrap_or_default();
        let price = context.snapshot.catalog(pool).and_then(|catalog| {
            catalog.price(label(labels::INSTANCE_TYPE), label(labels::ZONE), label(labels::CAPACITY_TYPE))
        });
        sums.0 += i128::from(price.unwrap_or_default().nanos());
        let moving = node.pods.iter().filter(|pod| pod.is_reschedulable());
        sums.1 += i128::from(cost::of_machine(moving.map(|pod| &**pod)).units());
    }
    sums
}
