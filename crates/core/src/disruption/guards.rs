//! Which PodDisruptionBudgets cover which pods: looked up once for all pods with the same labels.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;

use crate::model::{Pod, PodDisruptionBudget, Snapshot};

/// The budgets of a snapshot, by namespace, with what is known of labels that pods share.
pub(super) struct Guards<'a> {
    by_namespace: BTreeMap<&'a str, Vec<&'a PodDisruptionBudget>>,
    /// By namespace and address of the labels, which live as long as the snapshot.
    known: RefCell<HashMap<(&'a str, usize), Vec<&'a PodDisruptionBudget>, foldhash::fast::FixedState>>,
}

impl<'a> Guards<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let mut by_namespace: BTreeMap<&str, Vec<&PodDisruptionBudget>> = BTreeMap::new();
        for pdb in &snapshot.pdbs {
            by_namespace.entry(&pdb.id.namespace).or_default().push(pdb);
        }
        Self { by_namespace, known: RefCell::default() }
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
}
