//! What keeps nodes beyond themselves: PodDisruptionBudgets, looked up once for all pods with the same labels, and whether
//! so many nodes are not ready that none is ended.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;

use jiff::Timestamp;

use crate::model::{Pod, PodDisruptionBudget, Snapshot, StateNode, pdb::is_currently_reschedulable};

/// The budgets of a snapshot, by namespace, with what is known of labels that pods share.
pub(super) struct Guards<'a> {
    by_namespace: BTreeMap<&'a str, Vec<&'a PodDisruptionBudget>>,
    /// By namespace and address of the labels, which live as long as the snapshot.
    known: RefCell<HashMap<(&'a str, usize), Vec<&'a PodDisruptionBudget>, foldhash::fast::FixedState>>,
    /// How many of all nodes are not ready, where that is an [`outage`].
    pub(super) outage: Option<(usize, usize)>,
}

/// So many nodes may always be not ready.
const FEW: usize = 3;
/// And so many percent of all.
const PERCENT: usize = 45;

/// How many of how many nodes of ours are not ready, where that is more than a few and nearly half: then it is rather the
/// network or the control plane that fails than the nodes, and whatever is ended now makes it worse.
#[must_use]
pub fn outage<'n>(nodes: impl IntoIterator<Item = &'n StateNode>) -> Option<(usize, usize)> {
    let joined = nodes.into_iter().filter(|node| node.is_managed() && node.is_initialized());
    let (mut unready, mut all) = (0_usize, 0_usize);
    for node in joined {
        all += 1;
        unready += usize::from(node.node.as_ref().is_some_and(|node| !node.ready));
    }
    (unready > FEW && unready * 100 > all * PERCENT).then_some((unready, all))
}

impl<'a> Guards<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let mut by_namespace: BTreeMap<&str, Vec<&PodDisruptionBudget>> = BTreeMap::new();
        for pdb in &snapshot.pdbs {
            by_namespace.entry(&pdb.id.namespace).or_default().push(pdb);
        }
        let outage = outage(snapshot.nodes.iter().map(|node| &**node));
        Self { by_namespace, known: RefCell::default(), outage }
    }

    /// The budgets that cover `pod`, in the snapshot's order.
    pub(super) fn covering(&self, pod: &'a Pod) -> Vec<&'a PodDisruptionBudget> {
        let Some(all) = self.by_namespace.get(&*pod.id.namespace) else { return Vec::new() };
        let key = (&*pod.id.namespace, Arc::as_ptr(&pod.labels).addr());
        let mut known = self.known.borrow_mut();
        let found = known
            .entry(key)
            .or_insert_with(|| all.iter().copied().filter(|pdb| pdb.covers_pod(pod)).collect::<Vec<_>>());
        found.clone()
    }

    /// Whether `pod` needs another node as soon as its node drains.
    pub(super) fn is_currently_reschedulable(&self, pod: &'a Pod, now: Timestamp) -> bool {
        pod.is_reschedulable() && is_currently_reschedulable(pod, self.covering(pod), now)
    }
}
