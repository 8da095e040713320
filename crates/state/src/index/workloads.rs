//! What selects pods: followed only where default spread constraints are set.

use std::sync::Arc;

use fleetwright_core::model::{LabelSelector, Labels, NamespacedName, Str};
use k8s_openapi::{
    Resource as _,
    api::{
        apps::v1::{ReplicaSet, StatefulSet},
        core::v1::{ReplicationController, Service},
    },
};

use super::{Index, put};
use crate::{
    kind::{Key, Kind},
    lower::{self, Invalid},
};

impl Index {
    pub(crate) fn put_service(&mut self, key: &Key, service: Option<Arc<Service>>) -> put::Put {
        let after = service.is_some();
        let selector = service.and_then(|service| service.spec.as_ref()?.selector.clone());
        let selector: Option<Labels> =
            selector.filter(|wanted| !wanted.is_empty()).map(|wanted| lower::labels(Some(&wanted)));
        let all = &mut Arc::make_mut(&mut self.workloads).services;
        let id = NamespacedName::from(key);
        let before = match selector {
            Some(selector) => all.insert(id, selector),
            None => all.remove(&id),
        };
        self.stale = true;
        put::other(before.is_some(), after)
    }

    pub(crate) fn put_replication_controller(
        &mut self,
        key: &Key,
        controller: Option<Arc<ReplicationController>>,
    ) -> put::Put {
        let after = controller.is_some();
        let labels = controller.and_then(|controller| controller.spec.as_ref()?.selector.clone());
        let equal = |labels: Labels| LabelSelector {
            terms: labels.iter().flat_map(|(key, value)| LabelSelector::of(key, value).terms).collect(),
        };
        let selector = labels.map(|labels| equal(lower::labels(Some(&labels))));
        self.put_selector(
            (Kind::ReplicationController, ReplicationController::KIND),
            key,
            selector.map(Ok),
            after,
        )
    }

    pub(crate) fn put_replica_set(&mut self, key: &Key, set: Option<Arc<ReplicaSet>>) -> put::Put {
        let after = set.is_some();
        let selector =
            set.and_then(|set| lower::affinity::selector(Some(&set.spec.as_ref()?.selector)).transpose());
        self.put_selector((Kind::ReplicaSet, ReplicaSet::KIND), key, selector, after)
    }

    pub(crate) fn put_stateful_set(&mut self, key: &Key, set: Option<Arc<StatefulSet>>) -> put::Put {
        let after = set.is_some();
        let selector =
            set.and_then(|set| lower::affinity::selector(Some(&set.spec.as_ref()?.selector)).transpose());
        self.put_selector((Kind::StatefulSet, StatefulSet::KIND), key, selector, after)
    }

    fn put_selector(
        &mut self,
        (kind, name): (Kind, &str),
        key: &Key,
        selector: Option<Result<LabelSelector, Invalid>>,
        after: bool,
    ) -> put::Put {
        let selector = self.accept(kind, key, selector);
        let id = (Str::from(name), NamespacedName::from(key));
        let known = self.workloads.controllers.get(&id);
        let before = known.is_some();
        // Status changes all the time, selectors hardly ever.
        if known != selector.as_ref() {
            let all = &mut Arc::make_mut(&mut self.workloads).controllers;
            match selector {
                Some(selector) => all.insert(id, selector),
                None => all.remove(&id),
            };
            self.stale = true;
        }
        put::other(before, after)
    }
}
