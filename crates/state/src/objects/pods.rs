//! The table of pods: by name, by node, and those without a node.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_core::model::{NamespacedName, NodeName, Pod, PodUid};

type ByName = BTreeMap<NamespacedName, Arc<Pod>>;

/// All pods.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    all: ByName,
    by_node: BTreeMap<NodeName, ByName>,
    by_uid: BTreeMap<PodUid, NamespacedName>,
    /// Pending for capacity, those that are nominated to a node among them.
    pending: ByName,
    /// How many of these are nominated to a node.
    nominated: usize,
    /// Unbound and not pending: kube-scheduler has not tried them, or they are gated.
    unscheduled: ByName,
}

impl Pods {
    /// Puts a pod in, or takes it out; returns the earlier one.
    pub(crate) fn put(&mut self, id: &NamespacedName, pod: Option<Arc<Pod>>) -> Option<Arc<Pod>> {
        let before = match &pod {
            Some(pod) => self.all.insert(id.clone(), pod.clone()),
            None => self.all.remove(id),
        };
        if let Some(before) = &before {
            self.unfile(before);
        }
        if let Some(pod) = pod {
            self.file(id, pod);
        }
        before
    }

    fn unfile(&mut self, pod: &Pod) {
        self.by_uid.remove(&pod.uid);
        if self.pending.remove(&pod.id).is_some() && pod.nominated_node.is_some() {
            self.nominated = self.nominated.saturating_sub(1);
        }
        self.unscheduled.remove(&pod.id);
        if let Some(node) = &pod.node
            && let Some(on_node) = self.by_node.get_mut(node)
        {
            on_node.remove(&pod.id);
            if on_node.is_empty() {
                self.by_node.remove(node);
            }
        }
    }

    fn file(&mut self, id: &NamespacedName, pod: Arc<Pod>) {
        self.by_uid.insert(pod.uid.clone(), id.clone());
        if let Some(node) = pod.node.clone() {
            self.by_node.entry(node).or_default().insert(id.clone(), pod);
        } else if pod.is_provisionable() {
            self.nominated = self.nominated.saturating_add(usize::from(pod.nominated_node.is_some()));
            self.pending.insert(id.clone(), pod);
        } else if pod.is_active() && !pod.is_daemon() {
            self.unscheduled.insert(id.clone(), pod);
        }
    }

    pub(crate) fn get(&self, id: &NamespacedName) -> Option<&Arc<Pod>> {
        self.all.get(id)
    }

    pub(crate) fn by_uid(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.all.get(self.by_uid.get(uid)?)
    }

    /// Pods bound to a node, by namespace and name; terminal ones too.
    pub(crate) fn on_node(&self, node: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.by_node.get(node).into_iter().flat_map(BTreeMap::values)
    }

    pub(crate) fn pending(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pending.values()
    }

    /// Whether any pending pod is nominated to a node.
    pub(crate) fn has_nominated(&self) -> bool {
        self.nominated > 0
    }

    pub(crate) fn unscheduled(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.unscheduled.values()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.all.values()
    }
}
