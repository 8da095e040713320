//! Pools with `spec.replicas`: how many nodes are missing, or which ones are too many.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::cost;
use crate::{
    model::{
        ClaimName, Labels, NodePool, Requirements, Resources, Snapshot, StateNode,
        labels::{DO_NOT_DISRUPT, INSTANCE_TYPE, NODEPOOL},
        nodeclaim::ConditionType,
    },
    scheduling::{Chosen, NewClaim},
};

/// The nodes of a pool, by what is happening to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Those that are to stay.
    pub active: i64,
    /// Those that a disruption command has taken and that still run.
    pub replaced: i64,
    /// Those that are being deleted.
    pub deleting: i64,
}

impl Census {
    /// Counts the nodes of the pool called `pool`.
    #[must_use]
    pub fn of(snapshot: &Snapshot, pool: &str) -> Self {
        let mut census = Self::default();
        for node in snapshot.nodes.iter().filter(|node| is_member(node, pool)) {
            let count = match (is_ending(node), node.marked_for_deletion) {
                (true, _) => &mut census.deleting,
                (false, true) => &mut census.replaced,
                (false, false) => &mut census.active,
            };
            *count += 1;
        }
        census
    }

    /// How many more nodes `limits.nodes` of the pool allows.
    #[must_use]
    pub fn room(&self, pool: &NodePool) -> i64 {
        let there = self.active + self.replaced + self.deleting;
        pool.limits.nodes.map_or(i64::MAX, |limit| (limit - there).max(0))
    }
}

fn is_member(node: &StateNode, pool: &str) -> bool {
    node.claim.is_some() && node.label(NODEPOOL) == Some(pool)
}

fn is_ending(node: &StateNode) -> bool {
    node.claim
        .as_ref()
        .is_some_and(|claim| claim.deleting.is_some() || claim.is(ConditionType::InstanceTerminating))
}

/// What brings a static pool to its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Scaling {
    /// The number of nodes to create.
    pub create: i64,
    /// So many more would be, if `limits.nodes` allowed them.
    pub limited: i64,
    /// NodeClaims to delete, in this order.
    pub remove: Vec<ClaimName>,
}

/// What brings `pool` to its number of nodes. Nothing for a pool without one, or that goes away.
///
/// Nodes that go are, in this order: those that are not launched; those without pods but daemons' that nothing
/// protects; those that nothing protects, the cheapest to disrupt first, weighed by the share of their life that is
/// left; then the protected ones in the same way. Karpenter removes them without asking budgets, as here.
pub fn scale(snapshot: &Snapshot, pool: &NodePool, now: Timestamp) -> Scaling {
    let Some(replicas) = pool.replicas.filter(|_| !pool.deleting) else { return Scaling::default() };
    let census = Census::of(snapshot, &pool.name);
    let missing = replicas - census.active - census.replaced;
    if missing > 0 {
        let create = missing.min(census.room(pool));
        return Scaling { create, limited: missing - create, remove: Vec::new() };
    }
    let surplus = usize::try_from(census.active - replicas).unwrap_or(0);
    let mut active: Vec<&Arc<StateNode>> = snapshot.nodes.iter().collect();
    active.retain(|node| is_member(node, &pool.name) && !is_ending(node) && !node.marked_for_deletion);
    active.sort_by_key(|node| (rank(node, now), node.claim_name().cloned()));
    let remove = active.into_iter().take(surplus).filter_map(|node| node.claim_name().cloned());
    Scaling { remove: remove.collect(), ..Scaling::default() }
}

/// Lower goes first.
fn rank(node: &StateNode, now: Timestamp) -> (Reverse<bool>, Reverse<bool>, bool, i128) {
    let protected = node.annotation(DO_NOT_DISRUPT) == Some("true")
        || node.pods.iter().any(|pod| pod.is_active() && pod.protected_until(now).is_some());
    let moving = || node.pods.iter().filter(|pod| pod.is_reschedulable());
    let idle = moving().next().is_none() && !protected;
    let cost = i128::from(cost::of_node(moving().map(|pod| &**pod)).units());
    (Reverse(!node.is_launched()), Reverse(idle), protected, cost.saturating_mul(life_left(node, now)))
}

/// The share of its life that a node has left, in millionths; all of it where it does not expire.
fn life_left(node: &StateNode, now: Timestamp) -> i128 {
    const WHOLE: i128 = 1_000_000;
    let Some(claim) = &node.claim else { return WHOLE };
    let Some(life) = claim.expire_after.filter(|life| !life.is_zero()) else { return WHOLE };
    let age = now.duration_since(claim.created).as_millis().max(0);
    let life = i128::try_from(life.as_millis()).unwrap_or(i128::MAX);
    (life - age).max(0).saturating_mul(WHOLE) / life
}

/// A node of a static pool as it is to be created: what the pool allows, for no pod. `None` where the pool has no
/// catalogue, or nothing in it is available.
#[must_use]
pub fn new_claim(snapshot: &Snapshot, pool: &Arc<NodePool>) -> Option<NewClaim> {
    let catalog = snapshot.catalog(&pool.name)?;
    let labels: Labels = pool.template.labels.clone();
    let mut requirements: Requirements = pool.template.requirements.clone();
    requirements.add_all(&Requirements::from_labels(&labels));
    let allowed = catalog.instance_types.iter().filter(|known| {
        let name_allowed = requirements.allows(INSTANCE_TYPE, &known.name);
        name_allowed && requirements.intersects(&known.requirements).is_ok()
    });
    let none = Chosen {
        instance_type: "".into(),
        zone: "".into(),
        capacity_type: "".into(),
        price: crate::model::Price::ZERO,
    };
    let mut new_claim = NewClaim {
        pool: pool.clone(),
        requirements: requirements.clone(),
        instance_types: allowed.cloned().collect(),
        chosen: none,
        requests: Resources::new(),
        pods: Vec::new(),
        labels,
        annotations: BTreeMap::new(),
        taints: pool.template.taints.clone(),
        startup_taints: pool.template.startup_taints.clone(),
        claims: Vec::new(),
    };
    new_claim.refresh();
    if new_claim.instance_types.is_empty() {
        return None;
    }
    // As in Karpenter, the claim names no instance types of its own: the pool's requirements say it all.
    new_claim.requirements = requirements;
    Some(new_claim)
}
