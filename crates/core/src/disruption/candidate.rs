//! Which machines may be disrupted, and what is known of them.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    blocker::{Blocked, Blocker},
    cost::{self, DisruptionCost},
};
use crate::model::{InstanceType, NodePool, Pod, Price, Snapshot, StateNode, labels};

/// A machine that may be disrupted.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Index into [`Snapshot::nodes`].
    pub index: usize,
    /// The machine.
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

    /// Orders by saving per disruption, best first: `price / cost`, compared without division; then by name.
    #[must_use]
    pub fn by_savings_ratio(a: &Self, b: &Self) -> std::cmp::Ordering {
        let weigh = |price: Price, cost: DisruptionCost| i128::from(price.nanos()) * i128::from(cost.units());
        weigh(b.price, a.cost).cmp(&weigh(a.price, b.cost)).then_with(|| a.name().cmp(b.name()))
    }
}

/// All machines that may be disrupted, by name, and the blocked ones with what blocks them. `eventual` looks past pods
/// that object where a terminationGracePeriod ends the wait.
#[must_use]
pub fn candidates(snapshot: &Snapshot, now: Timestamp, eventual: bool) -> (Vec<Candidate>, Vec<Blocked>) {
    let (mut eligible, mut blocked) = (Vec::new(), Vec::new());
    for index in 0..snapshot.nodes.len() {
        match candidate(snapshot, index, now, eventual) {
            Ok(candidate) => eligible.push(candidate),
            Err(blocker) => blocked.push(Blocked { node: snapshot.nodes[index].clone(), blocker }),
        }
    }
    (eligible, blocked)
}

/// The machine at `index` as a candidate.
///
/// # Errors
/// The first thing that blocks it, in Karpenter's order.
pub fn candidate(
    snapshot: &Snapshot,
    index: usize,
    now: Timestamp,
    eventual: bool,
) -> Result<Candidate, Blocker> {
    let node = snapshot.nodes.get(index).ok_or(Blocker::NotManaged)?;
    check_node(node, now)?;
    let pool_name = node.label(labels::NODEPOOL).ok_or(Blocker::MissingLabel(labels::NODEPOOL))?;
    let pool = snapshot.pool(pool_name).ok_or_else(|| Blocker::NoPool(pool_name.into()))?;
    let catalog = snapshot.catalog(pool_name).ok_or_else(|| Blocker::NoPool(pool_name.into()))?;
    let deadline = node.claim.as_ref().is_some_and(|claim| claim.termination_grace_period.is_some());
    if !(eventual && deadline) {
        check_pods(snapshot, node, now)?;
    }
    let label = |key| node.label(key).unwrap_or_default();
    let type_name = label(labels::INSTANCE_TYPE);
    let price = catalog.price(type_name, label(labels::ZONE), label(labels::CAPACITY_TYPE));
    let pods: Vec<_> = node.pods.iter().filter(|pod| pod.is_reschedulable()).cloned().collect();
    Ok(Candidate {
        index,
        node: node.clone(),
        pool: pool.clone(),
        instance_type: catalog.get(type_name).cloned(),
        price: price.unwrap_or_default(),
        cost: cost::of_machine(pods.iter().map(|pod| &**pod)),
        pods,
    })
}

fn check_node(node: &StateNode, now: Timestamp) -> Result<(), Blocker> {
    if node.claim.is_none() {
        return Err(Blocker::NotManaged);
    }
    if node.marked_for_deletion {
        return Err(Blocker::Queued);
    }
    let Some(kube_node) = &node.node else { return Err(Blocker::NoNode) };
    if !node.is_initialized() {
        return Err(Blocker::NotInitialized);
    }
    if node.is_deleting() || kube_node.deleting.is_some() {
        return Err(Blocker::Deleting);
    }
    if let Some(nomination) = node.nominated(now) {
        return Err(Blocker::Nominated(nomination.pod.clone(), nomination.until));
    }
    if node.annotation(labels::DO_NOT_DISRUPT) == Some("true") {
        return Err(Blocker::DoNotDisruptNode);
    }
    Ok(())
}

fn check_pods(snapshot: &Snapshot, node: &StateNode, now: Timestamp) -> Result<(), Blocker> {
    let staying = || node.pods.iter().filter(|pod| pod.is_active() && !pod.is_static());
    if let Some((pod, until)) = staying().find_map(|pod| Some((pod, pod.protected_until(now)?))) {
        return Err(Blocker::DoNotDisruptPod(pod.id.clone(), until));
    }
    for pod in staying().filter(|pod| !pod.is_daemon()) {
        let covering: Vec<_> = snapshot.pdbs.iter().filter(|pdb| pdb.covers_pod(pod)).collect();
        match covering.as_slice() {
            [] => {}
            [pdb] if pdb.disruptions_allowed > 0 => {}
            // A pod that is not ready may be evicted where its budget says so.
            [pdb] if pdb.always_allow_unhealthy && !pod.ready => {}
            [pdb] => return Err(Blocker::Pdb(pdb.id.clone())),
            several => return Err(Blocker::SeveralPdbs(several.iter().map(|pdb| pdb.id.clone()).collect())),
        }
    }
    Ok(())
}
