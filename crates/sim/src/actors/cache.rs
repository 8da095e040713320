//! The shared cache of the actors: all watched objects, ordered and indexed.
//!
//! One cache serves all actors, so that each object is decoded once. Watches and the answers to the actors' own writes
//! update it, so that no actor acts twice because of a late watch event.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
        batch::v1::Job,
        coordination::v1::Lease,
        core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod},
        policy::v1::PodDisruptionBudget,
        storage::v1::{CSINode, StorageClass, VolumeAttachment},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Api, Client, Resource};
use serde::{Serialize, de::DeserializeOwned};

/// Called for each change, with the tables locked: it must be cheap.
type Listener = Box<dyn Fn(&Change, &Tables) + Send + Sync>;

/// Namespace and name; the namespace is empty for cluster-scoped objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Namespace.
    pub(crate) namespace: String,
    /// Name.
    pub(crate) name: String,
}

impl Key {
    /// The key of these metadata.
    pub(crate) fn of(meta: &ObjectMeta) -> Self {
        Self::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }

    /// A key.
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// A watched kind.
pub(crate) trait WatchedKind:
    Resource<DynamicType = ()>
    + Clone
    + std::fmt::Debug
    + PartialEq
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// Its table.
    fn table(tables: &Tables) -> &BTreeMap<Key, Arc<Self>>;
    /// Its table, mutable.
    fn table_mut(tables: &mut Tables) -> &mut BTreeMap<Key, Arc<Self>>;
    /// Wraps an object of the kind.
    fn wrap(object: Arc<Self>) -> Object;
    /// The API of a namespace, or of the cluster for a cluster-scoped kind.
    fn api(client: Client, namespace: &str) -> Api<Self>;
}

/// Something that is done for each watched kind.
pub(crate) trait KindVisitor {
    /// Does it for one kind.
    fn visit<K: WatchedKind>(&mut self);
}

macro_rules! kept {
    ($($field:ident: $kind:ident $scope:ident),* $(,)?) => {
        /// All objects by kind, and indexes over pods.
        #[derive(Debug, Default)]
        pub(crate) struct Tables {
            $(pub(crate) $field: BTreeMap<Key, Arc<$kind>>,)*
            /// Pods by the UID of their controller.
            by_owner: BTreeMap<String, BTreeSet<Key>>,
            /// Pods by the node that they are bound to; those without a node by the empty name.
            by_node: BTreeMap<String, BTreeSet<Key>>,
        }

        /// An object of any watched kind.
        #[derive(Clone, Debug)]
        pub(crate) enum Object { $($kind(Arc<$kind>),)* }

        impl Object {
            /// Its metadata.
            pub(crate) fn meta(&self) -> &ObjectMeta {
                match self { $(Self::$kind(object) => &object.metadata,)* }
            }
        }

        $(impl WatchedKind for $kind {
            fn table(tables: &Tables) -> &BTreeMap<Key, Arc<Self>> { &tables.$field }
            fn table_mut(tables: &mut Tables) -> &mut BTreeMap<Key, Arc<Self>> { &mut tables.$field }
            fn wrap(object: Arc<Self>) -> Object { Object::$kind(object) }
            fn api(client: Client, namespace: &str) -> Api<Self> { kept!(@api $scope client namespace) }
        })*

        /// Visits every watched kind.
        pub(crate) fn each_kind(visitor: &mut impl KindVisitor) {
            $(visitor.visit::<$kind>();)*
        }
        /// The number of watched kinds.
        pub(crate) const KINDS: usize = [$(stringify!($kind)),*].len();
    };
    (@api namespaced $client:ident $namespace:ident) => {
        if $namespace.is_empty() { Api::all($client) } else { Api::namespaced($client, $namespace) }
    };
    (@api cluster $client:ident $namespace:ident) => {{
        let _ = $namespace;
        Api::all($client)
    }};
}

kept! {
    namespaces: Namespace cluster,
    nodes: Node cluster,
    csi_nodes: CSINode cluster,
    classes: StorageClass cluster,
    volumes: PersistentVolume cluster,
    claims: PersistentVolumeClaim namespaced,
    attachments: VolumeAttachment cluster,
    leases: Lease namespaced,
    deployments: Deployment namespaced,
    replica_sets: ReplicaSet namespaced,
    stateful_sets: StatefulSet namespaced,
    daemon_sets: DaemonSet namespaced,
    jobs: Job namespaced,
    budgets: PodDisruptionBudget namespaced,
    pods: Pod namespaced,
}

/// One object before and after.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Its key.
    pub(crate) key: Key,
    /// The previous version.
    pub(crate) old: Option<Object>,
    /// The new version; `None` if it is gone.
    pub(crate) new: Option<Object>,
}

impl Change {
    /// Both versions, old first.
    pub(crate) fn sides(&self) -> impl Iterator<Item = &Object> {
        self.old.iter().chain(&self.new)
    }
}

impl Tables {
    /// One object.
    pub(crate) fn get<K: WatchedKind>(&self, key: &Key) -> Option<Arc<K>> {
        K::table(self).get(key).cloned()
    }

    /// Objects of a namespace, in order of name.
    pub(crate) fn within<'a, K: WatchedKind>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Arc<K>> {
        K::table(self)
            .range(Key::new(namespace, "")..)
            .take_while(move |(key, _)| key.namespace == namespace)
            .map(|(_, object)| object)
    }

    /// Pods of this controller, by key.
    pub(crate) fn pods_of(&self, uid: &str) -> Vec<Arc<Pod>> {
        self.by_owner.get(uid).into_iter().flatten().filter_map(|key| self.get(key)).collect()
    }

    /// Pods bound to this node, by key; with an empty name, those without a node.
    pub(crate) fn pods_on(&self, node: &str) -> Vec<Arc<Pod>> {
        self.by_node.get(node).into_iter().flatten().filter_map(|key| self.get(key)).collect()
    }

    fn index(&mut self, key: &Key, object: &Object, add: bool) {
        let Object::Pod(pod) = object else { return };
        let node = Some(pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default());
        let owner = controller_of(&pod.metadata).map(|owner| owner.uid.clone());
        for (index, at) in [(&mut self.by_node, node), (&mut self.by_owner, owner)] {
            let Some(at) = at else { continue };
            if add {
                index.entry(at).or_default().insert(key.clone());
            } else if let Some(keys) = index.get_mut(&at) {
                keys.remove(key);
                if keys.is_empty() {
                    index.remove(&at);
                }
            }
        }
    }

    fn put<K: WatchedKind>(&mut self, object: Arc<K>) -> Option<Change> {
        let key = Key::of(object.meta());
        let old = self.get::<K>(&key);
        if let Some(old) = &old {
            let (known, given) = (version(old.meta()), version(object.meta()));
            if known >= given {
                return None;
            }
        }
        let (old, new) = (old.map(K::wrap), K::wrap(object.clone()));
        if let Some(old) = &old {
            self.index(&key, old, false);
        }
        K::table_mut(self).insert(key.clone(), object);
        self.index(&key, &new, true);
        Some(Change { key, old, new: Some(new) })
    }

    fn remove<K: WatchedKind>(&mut self, key: &Key) -> Option<Change> {
        let old = K::wrap(K::table_mut(self).remove(key)?);
        self.index(key, &old, false);
        Some(Change { key: key.clone(), old: Some(old), new: None })
    }
}

/// The owner that controls an object.
pub(crate) fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Versions are increasing numbers; any other version counts as newer.
fn version(meta: &ObjectMeta) -> Option<u64> {
    meta.resource_version.as_deref().and_then(|text| text.parse().ok())
}

/// The shared cache.
#[derive(Default)]
pub(crate) struct Cache {
    tables: Mutex<Tables>,
    listeners: Mutex<Vec<Listener>>,
}

impl Cache {
    /// The tables, read-only.
    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls this too for each change from now on.
    pub(crate) fn subscribe(&self, listener: impl Fn(&Change, &Tables) + Send + Sync + 'static) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(listener));
    }

    /// Stores an object, unless a newer version is stored.
    pub(crate) fn put<K: WatchedKind>(&self, object: K) -> Arc<K> {
        let object = Arc::new(object);
        let mut tables = self.tables();
        if let Some(change) = tables.put(object.clone()) {
            self.publish(&change, &tables);
        }
        object
    }

    /// Removes an object. An object of the same name with another UID stays.
    pub(crate) fn remove<K: WatchedKind>(&self, meta: &ObjectMeta) {
        let key = Key::of(meta);
        let mut tables = self.tables();
        let same = tables.get::<K>(&key).is_some_and(|known| known.meta().uid == meta.uid);
        if let Some(change) = same.then(|| tables.remove::<K>(&key)).flatten() {
            self.publish(&change, &tables);
        }
    }

    /// Replaces all objects of a kind with a complete list.
    pub(crate) fn reset<K: WatchedKind>(&self, objects: Vec<K>) {
        let listed: BTreeSet<Key> = objects.iter().map(|object| Key::of(object.meta())).collect();
        {
            let mut tables = self.tables();
            let gone: Vec<Key> =
                K::table(&tables).keys().filter(|key| !listed.contains(key)).cloned().collect();
            for key in gone {
                if let Some(change) = tables.remove::<K>(&key) {
                    self.publish(&change, &tables);
                }
            }
        }
        for object in objects {
            self.put(object);
        }
    }

    fn publish(&self, change: &Change, tables: &Tables) {
        for listener in self.listeners.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            listener(change, tables);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Versions and indexes.
    use serde_json::json;

    use super::*;

    fn pod(version: u64, node: &str) -> Pod {
        let pod = json!({
            "metadata": { "name": "p", "namespace": "n", "uid": "u", "resourceVersion": version.to_string(),
                "ownerReferences": [{ "apiVersion": "v1", "kind": "Job", "name": "j", "uid": "j", "controller": true }] },
            "spec": { "containers": [], "nodeName": node },
        });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn an_older_version_is_ignored() {
        let cache = Cache::default();
        cache.put(pod(5, "n2"));
        cache.put(pod(4, ""));
        cache.put(pod(5, "n1"));
        assert_eq!(cache.tables().pods_on("n2").len(), 1);
        cache.put(pod(10, "n1"));
        let tables = cache.tables();
        assert_eq!((tables.pods_on("n1").len(), tables.pods_on("n2").len()), (1, 0));
        assert_eq!(tables.pods_of("j").len(), 1);
    }

    #[test]
    fn a_list_removes_missing_objects_but_not_recreated_ones() {
        let cache = Cache::default();
        cache.put(pod(5, "n1"));
        let mut other = pod(6, "n1").metadata;
        other.uid = Some("v".to_owned());
        cache.remove::<Pod>(&other);
        assert_eq!(cache.tables().pods.len(), 1);
        cache.reset::<Pod>(Vec::new());
        let tables = cache.tables();
        assert!(tables.pods.is_empty() && tables.pods_on("n1").is_empty() && tables.pods_of("j").is_empty());
    }
}
