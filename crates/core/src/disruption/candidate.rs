//! Candidates: nodes that may be disrupted.

use std::{ops::ControlFlow, sync::Arc};

use jiff::Timestamp;

use super::{
    blocker::{Blocked, Blocker},
    cluster_blockers::ClusterBlockers,
    cost::{self, DisruptionCost},
};
use crate::{
    model::{
        InstanceType, NodePool, Pod, Price, Prices, Snapshot, StateNode, Str, labels,
        nodeclaim::ConditionType, taint::first_untolerated,
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
    /// Its NodePool.
    pub pool: Arc<NodePool>,
    /// Its instance type, if the catalogue still has it.
    pub instance_type: Option<Arc<InstanceType>>,
    /// Its list price; zero if unknown.
    pub price: Price,
    /// What it counts as ([`Objective`](crate::model::Objective)); zero if its list price is unknown.
    pub effective: Price,
    /// Pods that have to be rescheduled when it is removed, at once or when its terminationGracePeriod ends.
    pub pods: Vec<Arc<Pod>>,
    /// Those of `pods` that a drain evicts at once. A simulation reschedules them.
    pub moved: Vec<Arc<Pod>>,
    /// The cost of disrupting them.
    pub cost: DisruptionCost,
}

impl Candidate {
    /// Name of its Node, for messages and for ordering.
    #[must_use]
    pub fn name(&self) -> &str {
        self.node.name()
    }

    /// Both prices.
    #[must_use]
    pub fn prices(&self) -> Prices {
        Prices { list: self.price, effective: self.effective }
    }

    /// Name of its NodeClaim.
    #[must_use]
    pub fn claim(&self) -> Option<Str> {
        self.node.claim_name().map(|name| Str::from(name.as_str()))
    }

    /// Whether no pod has to be rescheduled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Whether it still has as many pods, by their requests, as it was created for.
    #[must_use]
    pub fn has_all_pods(&self) -> bool {
        let Some(claim) = &self.node.claim else { return true };
        claim.requests.iter().all(|(name, amount)| self.node.requested.get(&name) >= amount)
    }

    /// Whether it is spot capacity.
    #[must_use]
    pub fn is_spot(&self) -> bool {
        self.node.label(labels::CAPACITY_TYPE) == Some(labels::SPOT)
    }

    /// Whether its NodeClaim has the condition Drifted.
    #[must_use]
    pub fn is_drifted(&self) -> bool {
        self.node.claim.as_ref().is_some_and(|claim| claim.is(ConditionType::Drifted))
    }

    /// Since when it is drifted, if it is.
    #[must_use]
    pub fn drifted_since(&self) -> Option<Timestamp> {
        self.node.claim.as_ref()?.true_since(ConditionType::Drifted)
    }

    /// Since when it is expired, if it is and its NodePool replaces expired nodes within budgets.
    #[must_use]
    pub(super) fn expired_since(&self, now: Timestamp) -> Option<Timestamp> {
        self.pool.expiry_grace?;
        let claim = self.node.claim.as_ref()?;
        let end = claim.created.checked_add(claim.expire_after?).ok()?;
        (end <= now).then_some(end)
    }

    /// Orders by saving per disruption, best first: `price / cost`, compared without division; then by name.
    #[must_use]
    pub fn by_savings_ratio(a: &Self, b: &Self) -> std::cmp::Ordering {
        let weigh = |price: Price, cost: DisruptionCost| i128::from(price.nanos()) * i128::from(cost.units());
        weigh(b.effective, a.cost).cmp(&weigh(a.effective, b.cost)).then_with(|| a.name().cmp(b.name()))
    }
}

/// Whether consolidateAfter is over for a node.
pub(super) fn is_consolidatable(now: Timestamp, candidate: &Candidate) -> bool {
    let (Some(claim), Some(after)) = (&candidate.node.claim, candidate.pool.consolidate_after) else {
        return false;
    };
    // The condition is written with a delay; its input counts at once.
    let quiet_since = claim.last_pod_event.or_else(|| claim.true_since(ConditionType::Initialized));
    let over = quiet_since.is_none_or(|since| since.checked_add(after).is_ok_and(|end| end <= now));
    claim.is(ConditionType::Consolidatable) && over
}

/// All candidates, by name, and the blocked nodes with their first blocker. `eventual` disregards
/// blocking pods if a terminationGracePeriod bounds the drain.
#[must_use]
pub fn candidates(snapshot: &Snapshot, now: Timestamp, eventual: bool) -> (Vec<Candidate>, Vec<Blocked>) {
    let cluster_blockers = ClusterBlockers::of(snapshot);
    let (mut eligible, mut blocked) = (Vec::new(), Vec::new());
    for index in 0..snapshot.nodes.len() {
        match unblocked_candidate(snapshot, &cluster_blockers, index, now, eventual) {
            Ok(candidate) => eligible.push(candidate),
            Err(blocker) => blocked.push(Blocked { node: snapshot.nodes[index].clone(), blocker }),
        }
    }
    (eligible, blocked)
}

/// The node at `index` as a candidate.
///
/// # Errors
/// The first blocker, in Karpenter's order.
pub fn candidate(
    snapshot: &Snapshot,
    index: usize,
    now: Timestamp,
    eventual: bool,
) -> Result<Candidate, Blocker> {
    unblocked_candidate(snapshot, &ClusterBlockers::of(snapshot), index, now, eventual)
}

pub(super) fn unblocked_candidate<'a>(
    snapshot: &'a Snapshot,
    cluster_blockers: &ClusterBlockers<'a>,
    index: usize,
    now: Timestamp,
    eventual: bool,
) -> Result<Candidate, Blocker> {
    let node = snapshot.nodes.get(index).ok_or(Blocker::NotManaged)?;
    let mut first = None;
    let _ = each_blocker(snapshot, cluster_blockers, node, now, eventual, &mut |blocker| {
        first = Some(blocker);
        ControlFlow::Break(())
    });
    if let Some(blocker) = first {
        return Err(blocker);
    }
    let pool = node.label(labels::NODEPOOL).unwrap_or_default();
    described(snapshot, cluster_blockers, index, now).ok_or_else(|| Blocker::NoPool(pool.into()))
}

/// The node at `index` as a candidate, blocked or not; `None` if its NodePool is not known. Without the instance
/// types of the NodePool, type and price are unknown.
#[must_use]
pub fn known(snapshot: &Snapshot, index: usize, now: Timestamp) -> Option<Candidate> {
    described(snapshot, &ClusterBlockers::of(snapshot), index, now)
}

fn described<'a>(
    snapshot: &'a Snapshot,
    cluster_blockers: &ClusterBlockers<'a>,
    index: usize,
    now: Timestamp,
) -> Option<Candidate> {
    let node = snapshot.nodes.get(index)?;
    let pool_name = node.label(labels::NODEPOOL)?;
    let pool = snapshot.pool(pool_name)?;
    let type_name = node.label(labels::INSTANCE_TYPE).unwrap_or_default();
    let pods: Vec<_> = node.pods.iter().filter(|pod| pod.is_reschedulable()).cloned().collect();
    let moved = node
        .pods
        .iter()
        .filter(|pod| cluster_blockers.is_currently_reschedulable(pod, now))
        .cloned()
        .collect();
    Some(Candidate {
        index,
        node: node.clone(),
        pool: pool.clone(),
        instance_type: snapshot.catalog(pool_name).and_then(|catalog| catalog.get(type_name)).cloned(),
        price: price(snapshot, node).unwrap_or_default(),
        effective: effective_price(snapshot, node).unwrap_or_default(),
        cost: cost::of_node(pods.iter().map(|pod| &**pod)),
        moved,
        pods,
    })
}

/// What a node counts as, if the catalogue of its NodePool has its list price.
fn effective_price(snapshot: &Snapshot, node: &StateNode) -> Option<Price> {
    let label = |key| node.label(key).unwrap_or_default();
    let list = price(snapshot, node)?;
    let pool = snapshot.pool(label(labels::NODEPOOL))?;
    let instance_type = snapshot.catalog(&pool.name)?.get(label(labels::INSTANCE_TYPE))?;
    Some(snapshot.objective.effective(pool, instance_type, list))
}

/// The list price of a node, if the catalogue of its NodePool has it.
#[must_use]
pub(super) fn price(snapshot: &Snapshot, node: &StateNode) -> Option<Price> {
    let label = |key| node.label(key).unwrap_or_default();
    let catalog = snapshot.catalog(label(labels::NODEPOOL))?;
    catalog.price(label(labels::INSTANCE_TYPE), label(labels::ZONE), label(labels::CAPACITY_TYPE))
}

/// All blockers of the node at `index`, in Karpenter's order.
#[must_use]
pub(super) fn blockers<'a>(
    snapshot: &'a Snapshot,
    cluster_blockers: &ClusterBlockers<'a>,
    index: usize,
    now: Timestamp,
    eventual: bool,
) -> Vec<Blocker> {
    let Some(node) = snapshot.nodes.get(index) else { return Vec::new() };
    let mut all = Vec::new();
    let _ = each_blocker(snapshot, cluster_blockers, node, now, eventual, &mut |blocker| {
        all.push(blocker);
        ControlFlow::Continue(())
    });
    all
}

/// Calls `found` with every blocker, in Karpenter's order, until it breaks.
fn each_blocker<'a>(
    snapshot: &'a Snapshot,
    cluster_blockers: &ClusterBlockers<'a>,
    node: &'a StateNode,
    now: Timestamp,
    eventual: bool,
    found: &mut dyn FnMut(Blocker) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Some(claim) = &node.claim else { return found(Blocker::NotManaged) };
    of_node(node, now, found)?;
    if let Some((unready, all)) = cluster_blockers.outage {
        found(Blocker::Outage { unready, all })?;
    }
    match node.label(labels::NODEPOOL) {
        None => found(Blocker::MissingLabel(labels::NODEPOOL))?,
        Some(pool) if snapshot.pool(pool).is_none() || snapshot.catalog(pool).is_none() => {
            found(Blocker::NoPool(pool.into()))?;
        }
        Some(_) => {}
    }
    if eventual && claim.termination_grace_period.is_some() {
        return ControlFlow::Continue(());
    }
    of_pods(cluster_blockers, node, now, found)
}

fn of_node(
    node: &StateNode,
    now: Timestamp,
    found: &mut dyn FnMut(Blocker) -> ControlFlow<()>,
) -> ControlFlow<()> {
    if node.marked_for_deletion {
        found(Blocker::Queued)?;
    }
    match &node.node {
        None => found(Blocker::NoNode)?,
        Some(_) if !node.is_initialized() => found(Blocker::NotInitialized)?,
        Some(kube_node) => {
            let ending = kube_node.deleting.is_some() || (node.is_deleting() && !node.marked_for_deletion);
            if ending {
                found(Blocker::Deleting)?;
            }
        }
    }
    if let Some(nomination) = node.nominated(now) {
        found(Blocker::Nominated { pod: nomination.pod.clone(), name: None, until: nomination.until })?;
    }
    if node.annotation(labels::DO_NOT_DISRUPT) == Some("true") {
        found(Blocker::DoNotDisruptNode)?;
    }
    ControlFlow::Continue(())
}

fn of_pods<'a>(
    cluster_blockers: &ClusterBlockers<'a>,
    node: &'a StateNode,
    now: Timestamp,
    found: &mut dyn FnMut(Blocker) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let active = || node.pods.iter().filter(|pod| pod.is_active());
    // The annotation counts on every pod, including those of DaemonSets and static pods.
    for pod in active() {
        if let Some(until) = pod.protected_until(now) {
            found(Blocker::DoNotDisruptPod(pod.id.clone(), until))?;
        }
    }
    // Only pods that have to be rescheduled have to be valid.
    for pod in node.pods.iter().filter(|pod| pod.is_reschedulable()) {
        if let Some(why) = &pod.unreadable {
            found(Blocker::UnreadablePod(pod.id.clone(), why.clone()))?;
        }
    }
    let taint = [disrupted_taint()];
    // A PodDisruptionBudget matters only if a drain would evict the pod; pods of DaemonSets are evicted last.
    let evicted = |pod: &Pod| !pod.is_static() && first_untolerated(&taint, &pod.spec.tolerations).is_some();
    for pod in active() {
        let covering = cluster_blockers.covering(pod);
        if covering.is_empty() || !evicted(pod) {
            continue;
        }
        match covering.as_slice() {
            [pdb] if pdb.disruptions_allowed > 0 => {}
            // The PodDisruptionBudget allows the eviction of pods that are not ready.
            [pdb] if pdb.always_allow_unhealthy && !pod.ready => {}
            [pdb] => found(Blocker::Pdb(pdb.id.clone()))?,
            several => {
                found(Blocker::SeveralPdbs(several.iter().map(|pdb| pdb.id.clone()).collect()))?;
            }
        }
    }
    ControlFlow::Continue(())
}
