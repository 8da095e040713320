//! Blockers outside the node: PodDisruptionBudgets, looked up once for all pods with the same labels, and whether
//! too many nodes are NotReady.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;

use jiff::Timestamp;

use crate::model::{Pod, PodDisruptionBudget, Snapshot, StateNode, pdb::is_currently_reschedulable};

/// The PodDisruptionBudgets of a snapshot, by namespace, with a cache by pod labels.
pub(super) struct ClusterBlockers<'a> {
    by_namespace: BTreeMap<&'a str, Vec<&'a PodDisruptionBudget>>,
    /// By namespace and address of the labels, which live as long as the snapshot.
    budgets_by_labels:
        RefCell<HashMap<(&'a str, usize), Vec<&'a PodDisruptionBudget>, foldhash::fast::FixedState>>,
    /// The number of NotReady nodes and of all nodes, during an [`outage`].
    pub(super) outage: Option<(usize, usize)>,
}

/// This number of NotReady nodes is never an outage.
const OUTAGE_MIN_NODES: usize = 3;
/// This percentage of NotReady nodes is no outage.
const OUTAGE_PERCENT: usize = 45;

/// Returns the number of NotReady nodes and of all managed nodes if more than a few and nearly half are NotReady: then the
/// network or the control plane probably failed, not the nodes, and each disruption makes it worse.
#[must_use]
pub fn outage<'n>(nodes: impl IntoIterator<Item = &'n StateNode>) -> Option<(usize, usize)> {
    let joined = nodes.into_iter().filter(|node| node.is_managed() && node.is_initialized());
    let (mut unready, mut all) = (0_usize, 0_usize);
    for node in joined {
        all += 1;
        unready += usize::from(node.node.as_ref().is_some_and(|node| !node.ready));
    }
    (unready > OUTAGE_MIN_NODES && unready * 100 > all * OUTAGE_PERCENT).then_some((unready, all))
}

impl<'a> ClusterBlockers<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let mut by_namespace: BTreeMap<&str, Vec<&PodDisruptionBudget>> = BTreeMap::new();
        for pdb in &snapshot.pdbs {
            by_namespace.entry(&pdb.id.namespace).or_default().push(pdb);
        }
        let outage = outage(snapshot.nodes.iter().map(|node| &**node));
        Self { by_namespace, budgets_by_labels: RefCell::default(), outage }
    }

    /// The PodDisruptionBudgets that cover `pod`, in the order of the snapshot.
    pub(super) fn covering(&self, pod: &'a Pod) -> Vec<&'a PodDisruptionBudget> {
        let Some(all) = self.by_namespace.get(&*pod.id.namespace) else { return Vec::new() };
        let key = (&*pod.id.namespace, Arc::as_ptr(&pod.labels).addr());
        let mut budgets_by_labels = self.budgets_by_labels.borrow_mut();
        let found = budgets_by_labels
            .entry(key)
            .or_insert_with(|| all.iter().copied().filter(|pdb| pdb.covers_pod(pod)).collect::<Vec<_>>());
        found.clone()
    }

    /// Whether `pod` has to be rescheduled as soon as its node drains.
    pub(super) fn is_currently_reschedulable(&self, pod: &'a Pod, now: Timestamp) -> bool {
        is_currently_reschedulable(pod, self.covering(pod), now)
    }
}
