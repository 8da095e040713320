//! Stores each object in its table, with the dependent changes.

use std::sync::Arc;

use fleetwright_api::{self as api, condition, labels::condition::READY};
use fleetwright_core::model::{NamespacedName, NodeClaim, NodeClassRef, Observed, Pod, PoolName};
use k8s_openapi::{
    Resource as _,
    api::{
        apps::v1::{DaemonSet, ReplicaSet, StatefulSet},
        core::v1::{
            LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod as KubePod,
            ReplicationController, Service,
        },
        policy::v1::PodDisruptionBudget,
        resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice},
        storage::v1::{CSINode, StorageClass, VolumeAttachment},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{
    NodeClassStatus, Objects,
    nodes::{ClaimEntry, NodeEntry},
    pools::PoolEntry,
};
use crate::{
    change::{Object, Put, by_key},
    kind::{Key, WatchedKind},
    lower::{self, Invalid},
};

/// A lowered object before and after a change.
pub(crate) type Lowered<T> = (Option<Arc<T>>, Option<Arc<T>>);

fn class_status(metadata: &ObjectMeta, conditions: &[condition::Condition]) -> NodeClassStatus {
    let ready = condition::find(conditions, READY);
    NodeClassStatus {
        ready: ready.filter(|ready| ready.is_true() || ready.is_false()).map(condition::Condition::is_true),
        why: ready.map_or_else(
            || ("".into(), "".into()),
            |ready| (ready.reason.as_str().into(), ready.message.as_str().into()),
        ),
        generation: metadata.generation.unwrap_or(0),
        deleting: metadata.deletion_timestamp.as_ref().map(|time| time.0),
        conditions: conditions.to_vec(),
    }
}

impl Objects {
    /// With `malformed`, `pod` is what could be read of it.
    pub(crate) fn put_pod(
        &mut self,
        key: &Key,
        pod: Option<Arc<KubePod>>,
        malformed: Option<Invalid>,
    ) -> Lowered<Pod> {
        let lowered = pod.as_deref().map(|raw| match malformed {
            Some(why) => Err(why),
            None => lower::pod::pod(raw, &self.schema, &mut self.interner),
        });
        // An invalid pod is in no plan, but it keeps its node.
        let unreadable = match (&pod, &lowered) {
            (Some(raw), Some(Err(why))) => lower::pod::unreadable(raw, why, &mut self.interner),
            _ => None,
        };
        let pod = self.invalid.accept(WatchedKind::Pod, key, lowered).or(unreadable).map(Arc::new);
        let before = self.pods.put(&NamespacedName::from(key), pod.clone());
        self.daemons.put_pod(before.as_deref(), pod.as_deref());
        for node in [&before, &pod].into_iter().flatten().filter_map(|pod| pod.node.as_ref()) {
            self.nodes.mark_node(node);
        }
        self.changed = true;
        (before, pod)
    }

    pub(crate) fn put_node(&mut self, key: &Key, node: Option<Arc<Node>>) -> Put {
        let lowered = node.as_deref().map(lower::node::node);
        let model = self.invalid.accept(WatchedKind::Node, key, lowered).map(Arc::new);
        let entry = node.clone().map(|raw| NodeEntry { raw, model });
        let before = self.nodes.put_node(&key.name.clone().into(), entry);
        (before.map(|entry| Object::Node(entry.raw)), node.map(Object::Node))
    }

    pub(crate) fn put_claim(
        &mut self,
        key: &Key,
        claim: Option<Arc<api::NodeClaim>>,
    ) -> (Put, Lowered<NodeClaim>) {
        let ours = |claim: &&api::NodeClaim| {
            let class = &claim.spec.node_class_ref;
            self.is_managed(&class.group, &class.kind)
        };
        let lowered = claim.as_deref().filter(ours).map(|claim| lower::claim::claim(claim, &self.schema));
        let model = self.invalid.accept(WatchedKind::NodeClaim, key, lowered).map(Arc::new);
        let entry = claim.clone().map(|raw| ClaimEntry { raw, model: model.clone() });
        let before = self.nodes.put_claim(&key.name.clone().into(), entry);
        let lowered = (before.as_ref().and_then(|entry| entry.model.clone()), model);
        let put = (before.map(|entry| Object::NodeClaim(entry.raw)), claim.map(Object::NodeClaim));
        (put, lowered)
    }

    /// Returns too whether the observations of the NodePool changed.
    pub(crate) fn put_pool(&mut self, key: &Key, pool: Option<Arc<api::NodePool>>) -> (Put, bool) {
        let ours = |pool: &&api::NodePool| {
            let class = &pool.spec.template.spec.node_class_ref;
            self.is_managed(&class.group, &class.kind)
        };
        let lowered = pool.as_deref().filter(ours).map(|pool| lower::pool::pool(pool, &self.schema));
        let model = self.invalid.accept(WatchedKind::NodePool, key, lowered).map(Arc::new);
        let name: PoolName = key.name.clone().into();
        let observed = |entry: Option<&PoolEntry>| -> Observed {
            let model = entry.and_then(|entry| entry.model.as_ref());
            model.map(|model| model.observed.clone()).unwrap_or_default()
        };
        let before = self.pools.put(&name, pool.clone().map(|raw| PoolEntry { raw, model }));
        let observations_changed = observed(before.as_ref()) != observed(self.pools.get(&name));
        self.changed = true;
        let put = (before.map(|entry| Object::NodePool(entry.raw)), pool.map(Object::NodePool));
        (put, observations_changed)
    }

    pub(crate) fn put_class_object(
        &mut self,
        id: NodeClassRef,
        class: Option<Arc<api::NodeClassView>>,
    ) -> Put {
        self.put_class(id, class.map(|class| class_status(&class.metadata, class.conditions())))
    }

    pub(crate) fn put_class(&mut self, id: NodeClassRef, status: Option<NodeClassStatus>) -> Put {
        let exists = status.is_some();
        let before = match status {
            Some(status) => self.node_classes.insert(id, status),
            None => self.node_classes.remove(&id),
        };
        by_key(before.is_some(), exists)
    }

    pub(crate) fn put_namespace(&mut self, key: &Key, namespace: Option<Arc<Namespace>>) -> Put {
        let labels = namespace.map(|namespace| lower::labels(namespace.metadata.labels.as_ref()));
        let exists = labels.is_some();
        let all = Arc::make_mut(&mut self.namespaces);
        let before = match labels {
            Some(labels) => all.insert(key.name.clone(), labels),
            None => all.remove(&key.name),
        };
        self.changed = true;
        by_key(before.is_some(), exists)
    }

    pub(crate) fn put_pdb(&mut self, key: &Key, pdb: Option<Arc<PodDisruptionBudget>>) -> Put {
        let exists = pdb.is_some();
        let lowered = pdb.as_deref().map(lower::pdb::pdb);
        let pdb = self.invalid.accept(WatchedKind::PodDisruptionBudget, key, lowered).map(Arc::new);
        let id = NamespacedName::from(key);
        let before = match pdb {
            Some(pdb) => self.pdbs.insert(id, pdb),
            None => self.pdbs.remove(&id),
        };
        self.changed = true;
        by_key(before.is_some(), exists)
    }

    pub(crate) fn put_daemon_set(&mut self, key: &Key, set: Option<Arc<DaemonSet>>) -> Put {
        let exists = set.is_some();
        let lowered = set.as_deref().and_then(|set| {
            let template = &set.spec.as_ref()?.template;
            let (schema, interner) = (&self.schema, &mut self.interner);
            let defaults = self.limit_ranges.defaults(&key.namespace);
            Some(lower::pod::of_template(
                &set.metadata,
                DaemonSet::KIND,
                template,
                &defaults,
                schema,
                interner,
            ))
        });
        let pod = self.invalid.accept(WatchedKind::DaemonSet, key, lowered).map(Arc::new);
        let existed = self.daemons.put(NamespacedName::from(key), set.zip(pod));
        self.changed = true;
        by_key(existed, exists)
    }

    pub(crate) fn put_limit_range(&mut self, key: &Key, range: Option<Arc<LimitRange>>) -> Put {
        let exists = range.is_some();
        let existed = self.limit_ranges.put(key, range);
        for (id, set) in self.daemons.sets_of(&key.namespace) {
            self.put_daemon_set(&Key::new(id.namespace, id.name), Some(set));
        }
        by_key(existed, exists)
    }

    pub(crate) fn put_csi_node(&mut self, key: &Key, node: Option<Arc<CSINode>>) -> Put {
        let limits = node.as_deref().map(lower::volume::attach_limits);
        let exists = limits.is_some();
        let existed = self.nodes.put_limits(&key.name, limits);
        by_key(existed, exists)
    }

    pub(crate) fn put_attachment(&mut self, key: &Key, attachment: Option<Arc<VolumeAttachment>>) -> Put {
        let attached = attachment.as_deref().and_then(|attachment| self.volumes.attached(attachment));
        self.nodes.put_attached(&key.name, attached);
        self.volumes.put_attachment(key, attachment)
    }

    pub(crate) fn put_storage_class(&mut self, key: &Key, class: Option<Arc<StorageClass>>) -> Put {
        self.volumes.put_class(key, class, &self.schema)
    }

    pub(crate) fn put_volume(&mut self, key: &Key, volume: Option<Arc<PersistentVolume>>) -> Put {
        self.volumes.put_volume(key, volume, &self.schema)
    }

    pub(crate) fn put_volume_claim(&mut self, key: &Key, claim: Option<Arc<PersistentVolumeClaim>>) -> Put {
        self.volumes.put_claim(key, claim, &self.schema)
    }

    pub(crate) fn put_service(&mut self, key: &Key, service: Option<Arc<Service>>) -> Put {
        self.workloads.put_service(key, service)
    }

    pub(crate) fn put_replication_controller(
        &mut self,
        key: &Key,
        controller: Option<Arc<ReplicationController>>,
    ) -> Put {
        self.workloads.put_replication_controller(key, controller, &mut self.invalid)
    }

    pub(crate) fn put_replica_set(&mut self, key: &Key, set: Option<Arc<ReplicaSet>>) -> Put {
        self.workloads.put_replica_set(key, set, &mut self.invalid)
    }

    pub(crate) fn put_stateful_set(&mut self, key: &Key, set: Option<Arc<StatefulSet>>) -> Put {
        self.workloads.put_stateful_set(key, set, &mut self.invalid)
    }

    pub(crate) fn put_device_class(&mut self, key: &Key, class: Option<Arc<DeviceClass>>) -> Put {
        self.devices.put_class(key, class, &mut self.invalid)
    }

    pub(crate) fn put_resource_slice(&mut self, key: &Key, slice: Option<Arc<ResourceSlice>>) -> Put {
        self.devices.put_slice(key, slice, &self.schema, &mut self.invalid)
    }

    pub(crate) fn put_claim_template(
        &mut self,
        key: &Key,
        template: Option<Arc<ResourceClaimTemplate>>,
    ) -> Put {
        self.devices.put_template(key, template, &mut self.invalid)
    }

    pub(crate) fn put_resource_claim(&mut self, key: &Key, claim: Option<Arc<ResourceClaim>>) -> Put {
        self.devices.put_claim(key, claim, &self.schema, &mut self.invalid)
    }
}
