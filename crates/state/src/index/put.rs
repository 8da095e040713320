//! Into which table an object goes, and what becomes stale by it.

use std::sync::Arc;

use fleetwright_api::{self as api, condition, labels::condition::READY};
use fleetwright_core::model::{NamespacedName, NodeClassRef, PoolName, Str};
use k8s_openapi::{
    Resource as _,
    api::{
        apps::v1::DaemonSet,
        core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod},
        policy::v1::PodDisruptionBudget,
        storage::v1::{CSINode, StorageClass, VolumeAttachment},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{ClassState, Index, PoolEntry};
use crate::{
    change::Object,
    kind::{Key, Kind},
    lower::{self, Invalid},
    nodes::{ClaimEntry, NodeEntry},
};

pub(super) type Put = (Option<Object>, Option<Object>);

/// Of kinds whose content is looked up, not carried.
pub(super) fn other(before: bool, after: bool) -> Put {
    (before.then_some(Object::Other), after.then_some(Object::Other))
}

fn class_ref(group: &str, kind: &str, key: &Key) -> NodeClassRef {
    NodeClassRef { group: group.into(), kind: kind.into(), name: key.name.clone() }
}

fn class_state(metadata: &ObjectMeta, conditions: &[condition::Condition]) -> ClassState {
    let ready = condition::find(conditions, READY);
    ClassState {
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

impl Index {
    /// Takes a lowered object, or notes why there is none.
    pub(super) fn accept<T>(
        &mut self,
        kind: Kind,
        key: &Key,
        lowered: Option<Result<T, Invalid>>,
    ) -> Option<T> {
        let id = (kind, key.clone());
        match lowered {
            Some(Ok(value)) => {
                self.invalid.remove(&id);
                Some(value)
            }
            Some(Err(invalid)) => {
                self.invalid.insert(id, invalid);
                None
            }
            None => {
                self.invalid.remove(&id);
                None
            }
        }
    }

    pub(crate) fn put_pod(&mut self, key: &Key, pod: Option<Arc<Pod>>) -> Put {
        let lowered = pod.as_deref().map(|raw| lower::pod::pod(raw, &self.schema, &mut self.interner));
        // What means nothing has no place in plans, but holds the node that it is on.
        let held = match (&pod, &lowered) {
            (Some(raw), Some(Err(why))) => lower::pod::unreadable(raw, why, &mut self.interner),
            _ => None,
        };
        let pod = self.accept(Kind::Pod, key, lowered).or(held).map(Arc::new);
        let before = self.pods.put(&NamespacedName::from(key), pod.clone());
        for node in [&before, &pod].into_iter().flatten().filter_map(|pod| pod.node.as_ref()) {
            self.nodes.touch_node(node);
        }
        // A nomination ends when its pod is bound, ended, gone, or another one under its name.
        if let Some(before) = &before {
            let lives_on = pod.as_ref().is_some_and(|pod| pod.uid == before.uid);
            if !lives_on {
                self.settle_pod(&before.uid);
            }
        }
        if let Some(pod) = pod.as_ref().filter(|pod| pod.node.is_some() || !pod.is_active()) {
            self.settle_pod(&pod.uid);
        }
        if let Some(pod) = pod.as_ref().filter(|pod| pod.node.is_none() && pod.unschedulable) {
            self.hear_refusal(pod);
        }
        self.stale = true;
        (before.map(Object::Pod), pod.map(Object::Pod))
    }

    pub(crate) fn put_node(&mut self, key: &Key, node: Option<Arc<Node>>) -> Put {
        let lowered = node.as_deref().map(lower::node::node);
        let model = self.accept(Kind::Node, key, lowered).map(Arc::new);
        let entry = node.clone().map(|raw| NodeEntry { raw, model });
        let before = self.nodes.put_node(&key.name.clone().into(), entry);
        (before.map(|entry| Object::Node(entry.raw)), node.map(Object::Node))
    }

    pub(crate) fn put_claim(&mut self, key: &Key, claim: Option<Arc<api::NodeClaim>>) -> Put {
        let class = claim.as_deref().map(|claim| &claim.spec.node_class_ref);
        let ours = class.is_some_and(|class| self.is_managed(&class.group, &class.kind));
        let lowered = claim.as_deref().filter(|_| ours).map(|claim| lower::claim::claim(claim, &self.schema));
        let model = self.accept(Kind::NodeClaim, key, lowered).map(Arc::new);
        let entry = claim.clone().map(|raw| ClaimEntry { raw, model: model.clone() });
        let before = self.nodes.put_claim(&key.name.clone().into(), entry);
        let was = before.as_ref().and_then(|entry| entry.model.as_deref());
        self.answers.change(was, model.as_deref());
        self.answers_stale = true;
        (before.map(|entry| Object::NodeClaim(entry.raw)), claim.map(Object::NodeClaim))
    }

    pub(crate) fn put_pool(&mut self, key: &Key, pool: Option<Arc<api::NodePool>>) -> Put {
        let class = pool.as_deref().map(|pool| &pool.spec.template.spec.node_class_ref);
        let ours = class.is_some_and(|class| self.is_managed(&class.group, &class.kind));
        let lowered = pool.as_deref().filter(|_| ours).map(|pool| lower::pool::pool(pool, &self.schema));
        let model = self.accept(Kind::NodePool, key, lowered).map(Arc::new);
        let name: PoolName = key.name.clone().into();
        let observed = |entry: Option<&PoolEntry>| {
            let model = entry.and_then(|entry| entry.model.as_ref());
            model.map(|model| model.observed.clone()).unwrap_or_default()
        };
        let before = match pool.clone() {
            Some(raw) => self.pools.insert(name.clone(), PoolEntry { raw, model }),
            None => self.pools.remove(&name),
        };
        if observed(before.as_ref()) != observed(self.pools.get(&name)) {
            self.apply_observed(&name);
        }
        self.overlays.touch();
        self.stale = true;
        (before.map(|entry| Object::NodePool(entry.raw)), pool.map(Object::NodePool))
    }

    pub(crate) fn put_kwok_class(&mut self, key: &Key, class: Option<Arc<api::KwokNodeClass>>) -> Put {
        let state = class.map(|class| {
            let conditions = class.status.as_ref().map_or(&[][..], |status| &status.conditions);
            class_state(&class.metadata, conditions)
        });
        self.put_class(class_ref(api::labels::KWOK_GROUP, "KWOKNodeClass", key), state)
    }

    pub(crate) fn put_ec2_class(&mut self, key: &Key, class: Option<Arc<api::Ec2NodeClassView>>) -> Put {
        let state = class.map(|class| {
            let conditions = class.status.as_ref().map_or(&[][..], |status| &status.conditions);
            class_state(&class.metadata, conditions)
        });
        self.put_class(class_ref("karpenter.k8s.aws", "EC2NodeClass", key), state)
    }

    /// Notes the state of a provider's class object; `None` where it is gone.
    pub fn put_class(&mut self, id: NodeClassRef, state: Option<ClassState>) -> Put {
        let after = state.is_some();
        let before = match state {
            Some(state) => self.node_classes.insert(id, state),
            None => self.node_classes.remove(&id),
        };
        other(before.is_some(), after)
    }

    pub(crate) fn put_namespace(&mut self, key: &Key, namespace: Option<Arc<Namespace>>) -> Put {
        let labels = namespace.map(|namespace| lower::labels(namespace.metadata.labels.as_ref()));
        let after = labels.is_some();
        let all = Arc::make_mut(&mut self.namespaces);
        let before = match labels {
            Some(labels) => all.insert(key.name.clone(), labels),
            None => all.remove(&key.name),
        };
        self.stale = true;
        other(before.is_some(), after)
    }

    pub(crate) fn put_pdb(&mut self, key: &Key, pdb: Option<Arc<PodDisruptionBudget>>) -> Put {
        let existed = pdb.is_some();
        let lowered = pdb.as_deref().map(lower::pdb::pdb);
        let pdb = self.accept(Kind::PodDisruptionBudget, key, lowered).map(Arc::new);
        let id = NamespacedName::from(key);
        let before = match pdb {
            Some(pdb) => self.pdbs.insert(id, pdb),
            None => self.pdbs.remove(&id),
        };
        self.stale = true;
        other(before.is_some(), existed)
    }

    pub(crate) fn put_daemon_set(&mut self, key: &Key, set: Option<Arc<DaemonSet>>) -> Put {
        let existed = set.is_some();
        let lowered = set.as_deref().and_then(|set| {
            let template = &set.spec.as_ref()?.template;
            let interner = &mut self.interner;
            Some(lower::pod::of_template(&set.metadata, DaemonSet::KIND, template, &self.schema, interner))
        });
        let pod = self.accept(Kind::DaemonSet, key, lowered).map(Arc::new);
        let id = NamespacedName::from(key);
        let before = match pod {
            Some(pod) => self.daemons.insert(id, pod),
            None => self.daemons.remove(&id),
        };
        self.stale = true;
        other(before.is_some(), existed)
    }

    pub(crate) fn put_csi_node(&mut self, key: &Key, node: Option<Arc<CSINode>>) -> Put {
        let limits = node.as_deref().map(lower::volume::attach_limits);
        let after = limits.is_some();
        let before = self.nodes.put_limits(&key.name, limits);
        other(before, after)
    }

    pub(crate) fn put_attachment(&mut self, key: &Key, attachment: Option<Arc<VolumeAttachment>>) -> Put {
        let after = attachment.is_some();
        let attached = attachment.as_deref().and_then(|attachment| {
            let name = attachment.spec.source.persistent_volume_name.as_deref()?;
            let volume = self.volumes.get(name).map(|volume| &**volume);
            let node = Str::from(&*attachment.spec.node_name);
            Some((node, lower::volume::attached(attachment, volume)?))
        });
        self.nodes.put_attached(&key.name, attached);
        let before = match attachment {
            Some(attachment) => self.attachments.insert(key.name.clone(), attachment),
            None => self.attachments.remove(&key.name),
        };
        other(before.is_some(), after)
    }

    pub(crate) fn put_storage_class(&mut self, key: &Key, class: Option<Arc<StorageClass>>) -> Put {
        let after = class.is_some();
        let lowered = class.as_deref().map(|class| lower::volume::class(class, &self.schema));
        if self.class_models.get(&key.name) != lowered.as_ref() {
            let models = Arc::make_mut(&mut self.class_models);
            match lowered {
                Some(lowered) => models.insert(key.name.clone(), lowered),
                None => models.remove(&key.name),
            };
            self.stale = true;
        }
        let before = match class {
            Some(class) => self.storage_classes.insert(key.name.clone(), class),
            None => self.storage_classes.remove(&key.name),
        };
        self.lower_claims(|claim| lower::volume::class_name(claim) == Some(&*key.name));
        other(before.is_some(), after)
    }

    pub(crate) fn put_volume(&mut self, key: &Key, volume: Option<Arc<PersistentVolume>>) -> Put {
        let after = volume.is_some();
        let before = match volume {
            Some(volume) => self.volumes.insert(key.name.clone(), volume),
            None => self.volumes.remove(&key.name),
        };
        self.lower_claims(|claim| lower::volume::volume_name(claim) == Some(&*key.name));
        other(before.is_some(), after)
    }

    pub(crate) fn put_volume_claim(&mut self, key: &Key, claim: Option<Arc<PersistentVolumeClaim>>) -> Put {
        let id = NamespacedName::from(key);
        let after = claim.is_some();
        let before = match claim {
            Some(claim) => self.claims.insert(id.clone(), claim),
            None => {
                Arc::make_mut(&mut self.volume_claims).remove(&id);
                self.claims.remove(&id)
            }
        };
        self.lower_claim(&id);
        self.stale = true;
        other(before.is_some(), after)
    }

    /// Lowers again the claims that refer to what has changed.
    fn lower_claims(&mut self, refers: impl Fn(&PersistentVolumeClaim) -> bool) {
        let ids: Vec<NamespacedName> =
            self.claims.iter().filter(|(_, claim)| refers(claim)).map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.lower_claim(&id);
        }
    }

    fn lower_claim(&mut self, id: &NamespacedName) {
        let Some(claim) = self.claims.get(id) else { return };
        let find = |name: Option<&str>| name.map(Str::from);
        let volume = find(lower::volume::volume_name(claim)).and_then(|name| self.volumes.get(&name));
        let class = find(lower::volume::class_name(claim)).and_then(|name| self.storage_classes.get(&name));
        let lowered = lower::volume::claim(claim, volume.map(|v| &**v), class.map(|c| &**c), &self.schema);
        if self.volume_claims.get(id) != Some(&lowered) {
            Arc::make_mut(&mut self.volume_claims).insert(id.clone(), lowered);
            self.stale = true;
        }
    }
}
