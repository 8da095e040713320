//! The policy `Balanced`: each NodePool with this policy must approve the move of its nodes ([`BalancedScore`]). By list prices, since users
//! read the scores of Karpenter.

use std::collections::BTreeMap;

use super::Gate;
use crate::{
    disruption::{BalancedScore, Command, Context, DisruptionCost, Unconsolidatable, candidate, cost},
    model::{ConsolidationPolicy, PoolName, Price, labels},
};

/// Scores every move, and rejects those that one of their NodePools does not approve.
pub(super) struct Balanced;

impl Gate for Balanced {
    fn admit_command(&self, context: &Context<'_>, command: &mut Command) -> Result<(), Unconsolidatable> {
        command.scores = scores(context, command);
        match command.scores.iter().find(|score| !score.approved) {
            Some(rejected) => Err(Unconsolidatable::Unbalanced(rejected.clone(), context.snapshot.currency)),
            None => Ok(()),
        }
    }
}

/// The score of a move for each of its `Balanced` pools, by name. Pools with other policies have none.
fn scores(context: &Context<'_>, command: &Command) -> Vec<BalancedScore> {
    let mut per_pool: BTreeMap<PoolName, (i128, DisruptionCost)> = BTreeMap::new();
    for candidate in &command.candidates {
        if candidate.pool.consolidation_policy == ConsolidationPolicy::Balanced {
            let entry = per_pool.entry(candidate.pool.name.clone()).or_default();
            entry.0 += i128::from(candidate.price.nanos());
            entry.1 = entry.1 + candidate.cost;
        }
    }
    let total_now = i128::from(command.price_before().nanos());
    let savings = i128::from(command.savings().nanos());
    let scores = per_pool.into_iter().map(|(pool, (price, moved))| {
        // Savings of a move across NodePools are split by the current price of each.
        let share = if total_now == 0 { 0 } else { savings * price / total_now };
        let share = Price::from_nanos(i64::try_from(share).unwrap_or(i64::MAX));
        let totals = totals(context, &pool);
        BalancedScore::new(pool, share, moved, totals)
    });
    scores.collect()
}

/// The price per hour of a NodePool, and the cost of disrupting all of it.
fn totals(context: &Context<'_>, pool: &str) -> (Price, DisruptionCost) {
    let mut sums = (Price::ZERO, DisruptionCost::default());
    for node in context.snapshot.nodes.iter().filter(|node| node.label(labels::NODEPOOL) == Some(pool)) {
        sums.0 = sums.0 + candidate::price(context.snapshot, node).unwrap_or_default();
        let moving = node.pods.iter().filter(|pod| pod.is_reschedulable());
        sums.1 = sums.1 + cost::of_node(moving.map(|pod| &**pod));
    }
    sums
}
