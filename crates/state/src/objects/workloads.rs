//! Objects that select pods. They are watched only if the settings have default spread constraints.

use std::sync::Arc;

use fleetwright_core::model::{LabelSelector, Labels, NamespacedName, Str, Workloads};
use k8s_openapi::{
    Resource as _,
    api::{
        apps::v1::{ReplicaSet, StatefulSet},
        core::v1::{ReplicationController, Service},
    },
};

use super::invalid::InvalidObjects;
use crate::{
    change::{Put, by_key},
    kind::{Key, WatchedKind},
    lower::{self, Invalid},
};

/// The selectors of Services and workload controllers.
#[derive(Debug, Default)]
pub(crate) struct WorkloadTable {
    workloads: Arc<Workloads>,
    /// Whether a selector changed since the last snapshot.
    pub(super) changed: bool,
}

/// A workload controller as it was read.
struct Controller {
    kind: WatchedKind,
    /// Its kind's name in owner references.
    name: &'static str,
    exists: bool,
    selector: Option<Result<LabelSelector, Invalid>>,
}

impl WorkloadTable {
    /// All selectors.
    pub(crate) fn all(&self) -> &Arc<Workloads> {
        &self.workloads
    }

    pub(super) fn put_service(&mut self, key: &Key, service: Option<Arc<Service>>) -> Put {
        let exists = service.is_some();
        let selector = service.and_then(|service| service.spec.as_ref()?.selector.clone());
        let selector: Option<Labels> =
            selector.filter(|wanted| !wanted.is_empty()).map(|wanted| lower::labels(Some(&wanted)));
        let all = &mut Arc::make_mut(&mut self.workloads).services;
        let id = NamespacedName::from(key);
        let before = match selector {
            Some(selector) => all.insert(id, selector),
            None => all.remove(&id),
        };
        self.changed = true;
        by_key(before.is_some(), exists)
    }

    pub(super) fn put_replication_controller(
        &mut self,
        key: &Key,
        controller: Option<Arc<ReplicationController>>,
        invalid: &mut InvalidObjects,
    ) -> Put {
        let exists = controller.is_some();
        let labels = controller.and_then(|controller| controller.spec.as_ref()?.selector.clone());
        let equal = |labels: Labels| LabelSelector {
            terms: labels.iter().flat_map(|(key, value)| LabelSelector::of(key, value).terms).collect(),
        };
        let selector = labels.map(|labels| Ok(equal(lower::labels(Some(&labels)))));
        let (kind, name) = (WatchedKind::ReplicationController, ReplicationController::KIND);
        self.put_controller(key, Controller { kind, name, exists, selector }, invalid)
    }

    pub(super) fn put_replica_set(
        &mut self,
        key: &Key,
        set: Option<Arc<ReplicaSet>>,
        invalid: &mut InvalidObjects,
    ) -> Put {
        let exists = set.is_some();
        let selector =
            set.and_then(|set| lower::affinity::selector(Some(&set.spec.as_ref()?.selector)).transpose());
        let (kind, name) = (WatchedKind::ReplicaSet, ReplicaSet::KIND);
        self.put_controller(key, Controller { kind, name, exists, selector }, invalid)
    }

    pub(super) fn put_stateful_set(
        &mut self,
        key: &Key,
        set: Option<Arc<StatefulSet>>,
        invalid: &mut InvalidObjects,
    ) -> Put {
        let exists = set.is_some();
        let selector =
            set.and_then(|set| lower::affinity::selector(Some(&set.spec.as_ref()?.selector)).transpose());
        let (kind, name) = (WatchedKind::StatefulSet, StatefulSet::KIND);
        self.put_controller(key, Controller { kind, name, exists, selector }, invalid)
    }

    fn put_controller(&mut self, key: &Key, controller: Controller, invalid: &mut InvalidObjects) -> Put {
        let selector = invalid.accept(controller.kind, key, controller.selector);
        let id = (Str::from(controller.name), NamespacedName::from(key));
        let known = self.workloads.controllers.get(&id);
        let existed = known.is_some();
        // Status changes all the time, selectors hardly ever.
        if known != selector.as_ref() {
            let all = &mut Arc::make_mut(&mut self.workloads).controllers;
            match selector {
                Some(selector) => all.insert(id, selector),
                None => all.remove(&id),
            };
            self.changed = true;
        }
        by_key(existed, controller.exists)
    }
}
