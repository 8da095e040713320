//! DaemonSets: one representative pod for each, as the next one will be created.

use std::{
    collections::{BTreeMap, btree_map},
    sync::Arc,
};

use fleetwright_core::model::{NamespacedName, Pod, PodUid, pod::PodSpec};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;

/// All DaemonSets and what their pods request.
#[derive(Debug, Default)]
pub(crate) struct DaemonTable {
    /// Each DaemonSet, and a pod of its template.
    templates: BTreeMap<NamespacedName, (Arc<DaemonSet>, Arc<Pod>)>,
    /// The pods of each DaemonSet, the newest last.
    pods: BTreeMap<NamespacedName, BTreeMap<(Timestamp, PodUid), Arc<PodSpec>>>,
    /// The pod of each template with the requests of the newest pod.
    effective: BTreeMap<NamespacedName, Arc<Pod>>,
}

impl DaemonTable {
    /// Puts a DaemonSet in, or takes it out. Returns whether it was there.
    pub(crate) fn put(&mut self, id: NamespacedName, template: Option<(Arc<DaemonSet>, Arc<Pod>)>) -> bool {
        let before = match template {
            Some(template) => self.templates.insert(id.clone(), template),
            None => self.templates.remove(&id),
        };
        self.update(id);
        before.is_some()
    }

    /// Replaces a pod by its newer version. Only pods of DaemonSets count.
    pub(crate) fn put_pod(&mut self, before: Option<&Pod>, after: Option<&Pod>) {
        if let (Some(before), Some(after)) = (before, after)
            && Arc::ptr_eq(&before.spec, &after.spec)
            && before.uid == after.uid
            && of(before) == of(after)
        {
            return;
        }
        if let Some((pod, id)) = before.and_then(|pod| Some((pod, of(pod)?))) {
            if let btree_map::Entry::Occupied(mut pods) = self.pods.entry(id.clone()) {
                pods.get_mut().remove(&(pod.created, pod.uid.clone()));
                if pods.get().is_empty() {
                    pods.remove();
                }
            }
            self.update(id);
        }
        if let Some((pod, id)) = after.and_then(|pod| Some((pod, of(pod)?))) {
            let pods = self.pods.entry(id.clone()).or_default();
            pods.insert((pod.created, pod.uid.clone()), Arc::clone(&pod.spec));
            self.update(id);
        }
    }

    /// The DaemonSets of a namespace.
    pub(crate) fn sets_of(&self, namespace: &str) -> Vec<(NamespacedName, Arc<DaemonSet>)> {
        let of_namespace = self.templates.iter().filter(|(id, _)| *id.namespace == *namespace);
        of_namespace.map(|(id, (set, _))| (id.clone(), set.clone())).collect()
    }

    /// One pod per DaemonSet, by namespace and name. What admission adds to a template (LimitRange defaults, webhooks,
    /// VerticalPodAutoscaler) is seen on its newest pod: that is what the next one requests.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.effective.values()
    }

    fn update(&mut self, id: NamespacedName) {
        let Some((_, template)) = self.templates.get(&id) else {
            self.effective.remove(&id);
            return;
        };
        let newest = self.pods.get(&id).and_then(|pods| pods.values().next_back());
        let pod = match newest.filter(|newest| newest.requests != template.spec.requests) {
            None => Arc::clone(template),
            Some(newest) => {
                let spec = PodSpec {
                    requests: newest.requests.clone(),
                    limits: newest.limits.clone(),
                    ..(*template.spec).clone()
                };
                Arc::new(Pod { spec: Arc::new(spec), ..(**template).clone() })
            }
        };
        self.effective.insert(id, pod);
    }
}

/// The DaemonSet that owns a pod whose requests are known.
fn of(pod: &Pod) -> Option<NamespacedName> {
    let owner = pod.owner.as_ref().filter(|_| pod.is_daemon() && pod.unreadable.is_none())?;
    Some(NamespacedName::new(pod.id.namespace.clone(), owner.name.clone()))
}
