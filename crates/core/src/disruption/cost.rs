//! The disruption cost of pods, in exact fractions.

use std::{iter::Sum, ops::Add};

use crate::model::Pod;

/// One unit of disruption: 2^27, so that a deletion cost counts as `cost / 2^27` and a priority as `priority / 2^25`
/// without rounding.
const UNIT: i64 = 1 << 27;

/// A disruption cost in units of 2^-27; a pod without priority and deletion cost has cost 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DisruptionCost(i64);

impl DisruptionCost {
    /// The cost of disrupting a node without pods.
    pub const NODE: Self = Self(UNIT);

    /// In units of 2^-27.
    #[must_use]
    pub fn units(self) -> i64 {
        self.0
    }

    /// As a number of pods without priority, for display.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure to show, not to decide by")]
    pub fn pods(self) -> f64 {
        self.0 as f64 / UNIT as f64
    }
}

impl Add for DisruptionCost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for DisruptionCost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), Add::add)
    }
}

/// Karpenter's eviction cost: `clamp(1 + deletionCost/2^27 + priority/2^25, -10, 10)`, negative values count as zero.
#[must_use]
pub fn eviction_cost(pod: &Pod) -> DisruptionCost {
    let cost = UNIT + i64::from(pod.deletion_cost) + 4 * i64::from(pod.spec.priority);
    DisruptionCost(cost.clamp(0, 10 * UNIT))
}

/// The cost of disrupting a node with these pods.
pub(super) fn of_node<'a>(pods: impl Iterator<Item = &'a Pod>) -> DisruptionCost {
    DisruptionCost::NODE + pods.map(eviction_cost).sum()
}

#[cfg(test)]
mod tests {
    //! Costs of pods, in pods without priority.
    use super::*;
    use crate::testing::pod;

    #[test]
    fn costs_count_pods_without_priority() {
        for (deletion_cost, priority, expected) in [
            (0, 0, 1.0),
            (1 << 26, 0, 1.5),
            (0, 1 << 24, 1.5),
            (0, 1_000_000_000, 10.0),
            (i32::MIN, 0, 0.0),
            (0, -1_000_000_000, 0.0),
        ] {
            let pod = pod("p").with(|pod| pod.deletion_cost = deletion_cost);
            let cost = eviction_cost(&pod.with_spec(|spec| spec.priority = priority).build()).pods();
            assert!((cost - expected).abs() < 1e-9, "{deletion_cost} {priority}: {cost}");
        }
    }
}
