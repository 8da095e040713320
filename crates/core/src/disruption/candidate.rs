//! Which nodes may be disrupted, and what is known of them.

use std::{ops::ControlFlow, sync::Arc};

use jiff::Timestamp;

use super::{
    blocker::{Blocked, Blocker},
    cost::{self, DisruptionCost},
    guards::Guards,
};
use crate::{
    model::{
        InstanceType, NodePool, Pod, Price, Snapshot, StateNode, Str, labels, nodeclaim::ConditionType,
        taint::first_untolerated,
    },
    nodeclaim::drain::disrupted_taint,
};

/// A node that may be disrupted.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Index into [`Snapshot::nodes`].
    pub index: usize,
    /// The node.
    pub node: Arc<StateNode>,
    /// Its pool.
    pub pool: Arc<NodePool>,
    /// Its instance type, where the catalogue still has it.
    pub instance_type: Option<Arc<InstanceType>>,
    /// What it costs; zero where that is not known.
    pub price: Price,
    /// Pods that need another place when it goes.
    pub pods: Vec<Arc<Pod>>,
    /// What moving them costs.
    pub cost: DisruptionCost,
}

impl Candidate {
    /// Name of its Node, for people and for ordering.
    #[must_use]
    pub fn name(&self) -> &str {
        self.node.name()
    }

    /// Name of its NodeClaim.
    #[must_use]
    pub fn claim(&self) -> Option<Str> {
        self.node.claim_name().map(|name| Str::from(name.as_str()))
    }

    /// Whether nothing on it needs another place.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Whether its capacity can be taken back by the cloud.
    #[must_use]
    pub fn is_spot(&self) -> bool {
        self.node.label(labels::CAPACITY_TYPE) == Some(labels::SPOT)
    }

    /// Whether it is not what its pool or class asks for any more.
    #[must_use]
    pub fn is_drifted(&self) -> bool {
        self.node.claim.as_ref().is_some_and(|claim| claim.is(ConditionType::Drifted))
    }

    /// Since when it has drifted, where it has.
    #[must_use]
    pub fn drifted_since(&self) -> Option<Timestamp> {
        self.node.claim.as_ref()?.true_since(ConditionType::Drifted)
    }

    /// Orders by saving per disruption, best first: `price / cost`, compared without division; then by name.
    #[must_use]
    pub fn by_savings_ratio(a: &Self, b: &Self) -> std::cmp::Ordering {
        let weigh = |price: Price, cost: DisruptionCost| i128::from(price.nanos()) * i128::from(cost.units());
        weigh(b.price, a.cost).cmp(&weigh(a.price, b.cost)).then_with(|| a.name().cmp(b.name()))
    }
}

/// All nodes that may be disrupted, by name, and the blocked ones with what blocks them. `eventual` looks past pods
/// that object where a terminationGracePeriod ends the wait.
#[must_use]
pub fn candidates(snapshot: &Snapshot, now: Timestamp, eventual: bool) -> (Vec<Candidate>, Vec<Blocked>) {
    let guards = Guards::of(snapshot);
    let (mut eligible, mut blocked) = (Vec::new(), Vec::new());
    for index in 0..snapshot.nodes.len() {
        match guarded(snapshot, &guards, index, now, eventual) {
            Ok(candidate) => eligible.push(candidate),
            Err(blocker) => blocked.push(Blocked { node: snapshot.nodes[index].clone(), blocker }),
        }
    }
    (eligible, blocked)
}

/// The node at `index` as a candidate.
///
/// # Errors
/// The first thing that blocks it, in Karpenter's order.
pub fn candidate(
    snapshot: &Snapshot,
    index: usize,
    now: Timestamp,
    eventual: bool,
) -> Result<Candidate, Blocker> {
    guarded(snapshot, &Guards::of(snapshot), index, now, eventual)
}

pub(super) fn guarded<'a>(
    snapshot: &'a Snapshot,
    guards: &Guards<'a>,
    index: usize,
    now: Timestamp,
    eventual: bool,
) -> Result<Candidate, Blocker> {
    let node = snapshot.nodes.get(index).ok_or(Blocker::NotManaged)?;
    let mut first = None;
    let _ = each_blocker(snapshot, guards, node, now, eventual, &mut |blocker| {
        first = Some(blocker);
        ControlFlow::Break(())
    });
    if let Some(blocker) = first {
        return Err(blocker);
    }
    let pool = node.label(labels::NODEPOOL).unwrap_or_default();
    known(snapshot, index).ok_or_else(|| Blocker::NoPool(pool.into()))
}

/// What there is to know of the node at `index`, whatever blocks it; `None` where its pool is not known. Without the
/// pool's instance types, type and price are not known either.
#[must_use]
pub fn known(snapshot: &Snapshot, index: usize) -> Option<Candidate> {
    let node = snapshot.nodes.get(index)?;
    let pool_name = node.label(labels::NODEPOOL)?;
    let pool = snapshot.pool(pool_name)?;
    let type_name = node.label(labels::INSTANCE_TYPE).unwrap_or_default();
    let pods: Vec<_> = node.pods.iter().filter(|pod| pod.is_reschedulable()).cloned().collect();
    Some(Candidate {
        index,
        node: node.clone(),
        pool: pool.clone(),
        instance_type: snapshot.catalog(pool_name).and_then(|catalog| catalog.get(type_name)).cloned(),
        price: price(snapshot, node).unwrap_or_default(),
        cost: cost::of_node(pods.iter().map(|pod| &**pod)),
        pods,
    })
}

/// What a node costs, where its pool's catalogue knows.
#[must_use]
pub(super) fn price(snapshot: &Snapshot, node: &StateNode) -> Option<Price> {
    let label = |key| node.label(key).unwrap_or_default();
    let catalog = snapshot.catalog(label(labels::NODEPOOL))?;
    catalog.price(label(labels::INSTANCE_TYPE), label(labels::ZONE), label(labels::CAPACITY_TYPE))
}

/// Everything that blocks the node at `index` now, in Karpenter's order.
#[must_use]
pub(super) fn blockers<'a>(
    snapshot: &'a Snapshot,
    guards: &Guards<'a>,
    index: usize,
    now: Timestamp,
    eventual: bool,
) -> Vec<Blocker> {
    let Some(node) = snapshot.nodes.get(index) else { return Vec::new() };
    let mut all = Vec::new();
    let _ = each_blocker(snapshot, guards, node, now, eventual, &mut |blocker| {
        all.push(blocker);
        ControlFlow::Continue(())
    });
    all
}

/// Tells every blocker, in Karpenter's order, until `tell` has heard enough.
fn each_blocker<'a>(
    snapshot: &'a Snapshot,
    guards: &Guards<'a>,
    node: &'a StateNode,
    now: Timestamp,
    eventual: bool,
    tell: &mut dyn FnMut(Blocker) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Some(claim) = &node.claim else { return tell(Blocker::NotManaged) };
    of_node(node, now, tell)?;
    if let Some((unready, all)) = guards.outage {
        tell(Blocker::Outage { unready, all })?;
    }
    match node.label(labels::NODEPOOL) {
        None => tell(Blocker::MissingLabel(labels::NODEPOOL))?,
        Some(pool) if snapshot.pool(pool).is_none() || snapshot.catalog(pool).is_none() => {
            tell(Blocker::NoPool(pool.into()))?;
        }
        Some(_) => {}
    }
    if eventual && claim.termination_grace_period.is_some() {
        return ControlFlow::Continue(());
    }
    of_pods(guards, node, now, tell)
}

fn of_node(
    node: &StateNode,
    now: Timestamp,
    tell: &mut dyn FnMut(Blocker) -> ControlFlow<()>,
) -> ControlFlow<()> {
    if node.marked_for_deletion {
        tell(Blocker::Queued)?;
    }
    match &node.node {
        None => tell(Blocker::NoNode)?,
        Some(_) if !node.is_initialized() => tell(Blocker::NotInitialized)?,
        Some(kube_node) => {
            let ending = kube_node.deleting.is_some() || (node.is_deleting() && !node.marked_for_deletion);
            if ending {
                tell(Blocker::Deleting)?;
            }
        }
    }
    if let Some(nomination) = node.nominated(now) {
        tell(Blocker::Nominated { pod: nomination.pod.clone(), name: None, until: nomination.until })?;
    }
    if node.annotation(labels::DO_NOT_DISRUPT) == Some("true") {
        tell(Blocker::DoNotDisruptNode)?;
    }
    ControlFlow::Continue(())
}

fn of_pods<'a>(
    guards: &Guards<'a>,
    node: &'a StateNode,
    now: Timestamp,
    tell: &mut dyn FnMut(Blocker) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let active = || node.pods.iter().filter(|pod| pod.is_active());
    // The annotation counts on every pod, also on those of DaemonSets and of the kubelet.
    for pod in active() {
        if let Some(until) = pod.protected_until(now) {
            tell(Blocker::DoNotDisruptPod(pod.id.clone(), until))?;
        }
    }
    // Of no use where the pod needs no other place.
    for pod in node.pods.iter().filter(|pod| pod.is_reschedulable()) {
        if let Some(why) = &pod.unreadable {
            tell(Blocker::UnreadablePod(pod.id.clone(), why.clone()))?;
        }
    }
    let taint = [disrupted_taint()];
    // A budget only matters where a drain would evict: pods of DaemonSets are, in the end.
    let evicted = |pod: &Pod| !pod.is_static() && first_untolerated(&taint, &pod.spec.tolerations).is_some();
    for pod in active() {
        let covering = guards.covering(pod);
        if covering.is_empty() || !evicted(pod) {
            continue;
        }
        match covering.as_slice() {
            [pdb] if pdb.disruptions_allowed > 0 => {}
            // A pod that is not ready may be evicted where its budget says so.
            [pdb] if pdb.always_allow_unhealthy && !pod.ready => {}
            [pdb] => tell(Blocker::Pdb(pdb.id.clone()))?,
            several => {
                tell(Blocker::SeveralPdbs(several.iter().map(|pdb| pdb.id.clone()).collect()))?;
            }
        }
    }
    ControlFlow::Continue(())
}
