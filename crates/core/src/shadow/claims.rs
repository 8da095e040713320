//! NodeClaims of both controllers in a common form: grouped by offering, with the price of one catalogue.

use std::collections::BTreeMap;

use crate::model::{PoolName, Price, Requirements, Snapshot, StateNode, Str, labels};
use crate::scheduling::NewClaim;

/// NodeClaims that became, or would become, the same offering. A batch of a thousand NodeClaims has few groups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimGroup {
    /// The NodePool.
    pub pool: PoolName,
    /// The instance type.
    pub instance_type: Str,
    /// The zone.
    pub zone: Str,
    /// The capacity type.
    pub capacity_type: Str,
    /// The price of one of them per hour; `None` where the catalogue does not have it.
    pub price: Option<Price>,
    /// The number of NodeClaims.
    pub count: usize,
    /// The number of pods on them.
    pub pods: usize,
}

impl ClaimGroup {
    /// The offering, by which NodeClaims are grouped.
    fn offering(&self) -> (PoolName, Str, Str, Str) {
        (self.pool.clone(), self.instance_type.clone(), self.zone.clone(), self.capacity_type.clone())
    }

    /// Joins equal groups, in order.
    #[must_use]
    pub fn join(groups: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut joined: BTreeMap<_, Self> = BTreeMap::new();
        for group in groups {
            let (count, pods) = (group.count, group.pods);
            joined
                .entry(group.offering())
                .and_modify(|known| {
                    known.count += count;
                    known.pods += pods;
                })
                .or_insert(group);
        }
        joined.into_values().collect()
    }

    /// A NodeClaim of a plan, for `pods` pods of the batch.
    #[must_use]
    pub fn planned(claim: &NewClaim, pods: usize) -> Self {
        Self {
            pool: claim.pool.name.clone(),
            instance_type: claim.chosen.instance_type.clone(),
            zone: claim.chosen.zone.clone(),
            capacity_type: claim.chosen.capacity_type.clone(),
            price: Some(claim.chosen.price),
            count: 1,
            pods,
        }
    }
}

/// The price of all groups per hour; `None` if one of them has no price.
#[must_use]
pub fn hourly(groups: &[ClaimGroup]) -> Option<Price> {
    let price = |group: &ClaimGroup| Some(group.price?.times(i64::try_from(group.count).ok()?));
    groups.iter().map(price).sum()
}

/// A NodeClaim of the other controller.
#[derive(Clone, Debug)]
pub struct LaunchedClaim {
    /// Its group of one; instance type, zone and capacity type are empty until it is launched.
    pub group: ClaimGroup,
    /// Its requirements, among which the cloud chooses.
    pub requirements: Requirements,
}

impl LaunchedClaim {
    /// The NodeClaim of a node as the snapshot has it; `None` without NodeClaim or NodePool.
    #[must_use]
    pub fn of(snapshot: &Snapshot, node: &StateNode) -> Option<Self> {
        let claim = node.claim.as_ref()?;
        let label = |key| node.label(key).unwrap_or_default();
        let pool = claim.pool.clone().or_else(|| node.pool())?;
        let (instance_type, zone, capacity_type) =
            (label(labels::INSTANCE_TYPE), label(labels::ZONE), label(labels::CAPACITY_TYPE));
        let price =
            snapshot.catalog(&pool).and_then(|catalog| catalog.price(instance_type, zone, capacity_type));
        let group = ClaimGroup {
            pool,
            instance_type: instance_type.into(),
            zone: zone.into(),
            capacity_type: capacity_type.into(),
            price,
            count: 1,
            pods: 0,
        };
        Some(Self { group, requirements: claim.requirements.clone() })
    }

    /// Whether the instance exists.
    #[must_use]
    pub fn is_launched(&self) -> bool {
        !self.group.instance_type.is_empty()
    }
}

/// The number of pods of a batch by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodOutcomes {
    /// On NodeClaims that were created for the batch.
    pub new: usize,
    /// On nodes and NodeClaims that existed.
    pub existing: usize,
    /// Without a node.
    pub none: usize,
    /// Deleted before they had a node.
    pub gone: usize,
}
