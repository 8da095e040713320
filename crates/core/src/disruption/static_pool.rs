//! Static NodePools (`spec.replicas`): how many nodes are missing, or which ones are surplus.

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

/// The number of nodes of a NodePool, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Neither being replaced nor deleted.
    pub active: i64,
    /// Candidates of a disruption command that are not deleted yet.
    pub replaced: i64,
    /// Being deleted.
    pub deleting: i64,
}

impl NodeCounts {
    /// Counts the nodes of NodePool `pool`.
    #[must_use]
    pub fn of(snapshot: &Snapshot, pool: &str) -> Self {
        let mut node_counts = Self::default();
        for node in snapshot.nodes.iter().filter(|node| is_member(node, pool)) {
            let count = match (is_terminating(node), node.marked_for_deletion) {
                (true, _) => &mut node_counts.deleting,
                (false, true) => &mut node_counts.replaced,
                (false, false) => &mut node_counts.active,
            };
            *count += 1;
        }
        node_counts
    }

    /// The number of nodes that `limits.nodes` of the NodePool still allows.
    #[must_use]
    pub fn room(&self, pool: &NodePool) -> i64 {
        let existing = self.active + self.replaced + self.deleting;
        pool.limits.nodes.map_or(i64::MAX, |limit| (limit - existing).max(0))
    }
}

fn is_member(node: &StateNode, pool: &str) -> bool {
    node.claim.is_some() && node.label(NODEPOOL) == Some(pool)
}

fn is_terminating(node: &StateNode) -> bool {
    node.claim
        .as_ref()
        .is_some_and(|claim| claim.deleting.is_some() || claim.is(ConditionType::InstanceTerminating))
}

/// How to scale a static NodePool to its replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Scaling {
    /// The number of nodes to create.
    pub create: i64,
    /// The number of further missing nodes that `limits.nodes` does not allow.
    pub limited: i64,
    /// NodeClaims to delete, in this order.
    pub remove: Vec<ClaimName>,
}

/// How to scale `pool` to its replicas. Empty if it is not static or is being deleted.
///
/// Nodes are deleted in this order: those that are not launched; those with DaemonSet pods only that nothing
/// protects; other unprotected ones, lowest disruption cost first, weighted by the share of their lifetime that is
/// left; then the protected ones in the same way. As in Karpenter, budgets do not apply.
pub fn scale(snapshot: &Snapshot, pool: &NodePool, now: Timestamp) -> Scaling {
    let Some(replicas) = pool.replicas.filter(|_| !pool.deleting) else { return Scaling::default() };
    let node_counts = NodeCounts::of(snapshot, &pool.name);
    let missing = replicas - node_counts.active - node_counts.replaced;
    if missing > 0 {
        let create = missing.min(node_counts.room(pool));
        return Scaling { create, limited: missing - create, remove: Vec::new() };
    }
    let surplus = usize::try_from(node_counts.active - replicas).unwrap_or(0);
    let mut active: Vec<&Arc<StateNode>> = snapshot.nodes.iter().collect();
    active.retain(|node| is_member(node, &pool.name) && !is_terminating(node) && !node.marked_for_deletion);
    active.sort_by_key(|node| (rank(node, now), node.claim_name().cloned()));
    let remove = active.into_iter().take(surplus).filter_map(|node| node.claim_name().cloned());
    Scaling { remove: remove.collect(), ..Scaling::default() }
}

/// The order of deletion: lower first.
fn rank(node: &StateNode, now: Timestamp) -> (Reverse<bool>, Reverse<bool>, bool, i128) {
    let protected = node.annotation(DO_NOT_DISRUPT) == Some("true")
        || node.pods.iter().any(|pod| pod.is_active() && pod.protected_until(now).is_some());
    let moving = || node.pods.iter().filter(|pod| pod.is_reschedulable());
    let idle = moving().next().is_none() && !protected;
    let cost = i128::from(cost::of_node(moving().map(|pod| &**pod)).units());
    (
        Reverse(!node.is_launched()),
        Reverse(idle),
        protected,
        cost.saturating_mul(remaining_lifetime(node, now)),
    )
}

/// The remaining share of the lifetime of a node, in millionths; 1 if it does not expire.
fn remaining_lifetime(node: &StateNode, now: Timestamp) -> i128 {
    const MILLION: i128 = 1_000_000;
    let Some(claim) = &node.claim else { return MILLION };
    let Some(life) = claim.expire_after.filter(|life| !life.is_zero()) else { return MILLION };
    let age = now.duration_since(claim.created).as_millis().max(0);
    let life = i128::try_from(life.as_millis()).unwrap_or(i128::MAX);
    (life - age).max(0).saturating_mul(MILLION) / life
}

/// The NodeClaim for a node of a static NodePool, without pods. `None` if the NodePool has no
/// catalogue, or nothing in it is available.
#[must_use]
pub fn new_claim(snapshot: &Snapshot, pool: &Arc<NodePool>) -> Option<NewClaim> {
    let catalog = snapshot.catalog(&pool.name)?;
    let labels: Labels = pool.template.labels.clone();
    let mut requirements: Requirements = pool.template.requirements.clone();
    requirements.add_all(&Requirements::from_labels(&labels));
    let allowed = catalog.instance_types.iter().filter(|known| {
        let name_allowed = requirements.allows(INSTANCE_TYPE, &known.name);
        name_allowed && requirements.overlaps(&known.requirements)
    });
    let none = Chosen {
        instance_type: "".into(),
        zone: "".into(),
        capacity_type: "".into(),
        price: crate::model::Price::ZERO,
        effective: crate::model::Price::ZERO,
    };
    let mut new_claim = NewClaim {
        pool: pool.clone(),
        requirements: requirements.clone(),
        instance_types: allowed.cloned().collect(),
        chosen: none,
        objective: snapshot.objective,
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
    // As in Karpenter, the NodeClaim lists no instance types: it has the requirements of the NodePool.
    new_claim.requirements = requirements;
    Some(new_claim)
}
