//! The effective price: what a node counts as in decisions, beside its list price.

use std::iter::Sum;

use super::{Baseline, InstanceType, NodePool, Price};

/// What plans minimize: the sum of effective prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objective {
    /// What a node costs per hour beside its instance (`NODE_OVERHEAD_PRICE`): licences, disks, addresses, image pulls, API load.
    /// Zero: list prices alone decide, as in Karpenter.
    pub node_overhead: Price,
}

/// The two prices of a node, or the sums of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// By list price: what is paid.
    pub list: Price,
    /// What it counts as.
    pub effective: Price,
}

impl Prices {
    /// Whether both prices are lower than those of `other`: a replacement that counts as less must not cost more.
    #[must_use]
    pub fn are_below(self, other: Self) -> bool {
        self.list < other.list && self.effective < other.effective
    }
}

impl Sum for Prices {
    fn sum<I: Iterator<Item = Self>>(prices: I) -> Self {
        prices.fold(Self::default(), |sum, one| Self {
            list: sum.list + one.list,
            effective: sum.effective + one.effective,
        })
    }
}

/// $0.006 per hour: the root volume and the image pulls that every node has (`docs/prices.md`).
impl Default for Objective {
    fn default() -> Self {
        Self { node_overhead: Price::from_nanos(6_000_000) }
    }
}

impl Objective {
    /// List prices alone decide.
    pub const LIST: Self = Self { node_overhead: Price::ZERO };

    /// The price at which an offering of `instance_type` counts in a NodePool: its list price, over the baseline share of a burstable
    /// type that the NodePool does not name, and the overhead of a node.
    #[must_use]
    pub fn effective(self, pool: &NodePool, instance_type: &InstanceType, list: Price) -> Price {
        if self == Self::LIST {
            return list;
        }
        let price = match instance_type.baseline {
            Some(baseline) if !is_named(baseline, pool) => list.per_share(baseline.permille()),
            _ => list,
        };
        price + self.node_overhead
    }
}

/// Whether a NodePool names the instance type, its family or its category: the burst is wanted.
fn is_named(baseline: Baseline, pool: &NodePool) -> bool {
    baseline.keys().any(|key| {
        let requirement = pool.template.requirements.get(key);
        requirement.is_some_and(|named| !named.is_complement()) || pool.template.labels.contains_key(key)
    })
}

#[cfg(test)]
mod tests {
    //! When a burstable type counts at more than its list price.
    use std::sync::Arc;

    use rstest::rstest;

    use super::*;
    use crate::{
        model::{Requirement, labels::INSTANCE_TYPE},
        testing::{instance_type, pool},
    };

    const FAMILY: &str = "example.com/family";

    #[rstest]
    #[case::not_named(10, None, 310)]
    #[case::as_karpenter(0, None, 60)]
    #[case::the_family(10, Some(Requirement::is_in(FAMILY, ["t"])), 70)]
    #[case::another_family_is_excluded(10, Some(Requirement::not_in(FAMILY, ["m"])), 310)]
    #[case::the_type(10, Some(Requirement::is_in(INSTANCE_TYPE, ["t.small"])), 70)]
    fn burstable_types_count_by_their_baseline(
        #[case] overhead: i64,
        #[case] named: Option<Requirement>,
        #[case] expected: i64,
    ) {
        let mut burstable = Arc::unwrap_or_clone(instance_type("t.small", 2, 4).build());
        burstable.baseline = Baseline::new(200, &[FAMILY]);
        let mut pool = Arc::unwrap_or_clone(pool("default").build());
        named.into_iter().for_each(|requirement| pool.template.requirements.add(requirement));
        let objective = Objective { node_overhead: Price::from_nanos(overhead) };
        assert_eq!(
            objective.effective(&pool, &burstable, Price::from_nanos(60)),
            Price::from_nanos(expected)
        );
    }
}
