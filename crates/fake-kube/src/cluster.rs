//! The state of the server: stores, the global revision, indexes for garbage collection, and the primitive changes that all verbs use.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use crate::config::Config;
use crate::manager::Manager;
use crate::object;
use crate::registry::{Registry, Resource};
use crate::seeded::Seeded;
use crate::status::ApiError;
use crate::store::{Change, Key, Store};

/// The place of an object: store and key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Store.
    pub(crate) storage: Arc<str>,
    /// Key within the store.
    pub(crate) key: Key,
}

/// The target of a request.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The resource.
    pub(crate) resource: Arc<Resource>,
    /// Namespace; empty for cluster-scoped resources and for all namespaces.
    pub(crate) namespace: String,
    /// Name; empty for collections.
    pub(crate) name: String,
}

impl Target {
    /// The place of the object.
    pub(crate) fn place(&self) -> Place {
        Place { storage: self.resource.storage.clone(), key: Key::new(&self.namespace, &self.name) }
    }

    /// 404 for this object.
    pub(crate) fn not_found(&self) -> ApiError {
        let info = &self.resource.info;
        ApiError::not_found(&info.group, &info.plural, &self.name)
    }

    /// 409 Conflict for this object.
    pub(crate) fn conflict(&self, why: &str) -> ApiError {
        let info = &self.resource.info;
        ApiError::conflict(&info.group, &info.plural, &self.name, why)
    }

    /// The same resource, another object.
    pub(crate) fn of(resource: &Arc<Resource>, value: &Value) -> Self {
        Self {
            resource: resource.clone(),
            namespace: object::namespace(value).to_owned(),
            name: object::name(value).to_owned(),
        }
    }
}

/// The part of an object that a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything except the status.
    Main,
    /// The status only.
    Status,
    /// Everything: writes of the server itself, such as a binding or a scale.
    Whole,
}

/// Options of a write.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// Compute and validate only.
    pub(crate) dry_run: bool,
    /// Field manager.
    pub(crate) manager: String,
    /// Reject unknown fields.
    pub(crate) strict: bool,
    /// Server-side apply takes the ownership of fields from other managers.
    pub(crate) force: bool,
    /// Part that is written.
    pub(crate) part: Part,
    /// The managers computed by server-side apply.
    pub(crate) applied: Option<Vec<Manager>>,
}

impl Write {
    /// A write of the server's own controllers.
    pub(crate) fn internal(manager: &str) -> Self {
        Self {
            dry_run: false,
            manager: manager.to_owned(),
            strict: false,
            force: false,
            part: Part::Whole,
            applied: None,
        }
    }

    /// The same options for another part.
    #[must_use]
    pub(crate) fn to(&self, part: Part) -> Self {
        Self { part, ..self.clone() }
    }
}

/// Work left for the end of the request.
#[derive(Clone, Debug)]
pub(crate) enum Chore {
    /// An object was removed.
    Gone {
        /// Where it was.
        place: Place,
        /// What it was.
        object: Arc<Value>,
    },
    /// The deletion of an object has begun.
    Deleting(Place),
    /// The owners of an object must be looked up.
    Owners(Place),
}

/// All state of the server.
pub(crate) struct ClusterState {
    /// Configuration.
    pub(crate) config: Config,
    /// Served resources.
    pub(crate) registry: Registry,
    /// Names and UIDs.
    pub(crate) seeded: Seeded,
    /// The last revision.
    pub(crate) revision: u64,
    /// Chores of changes, completed at the end of the request.
    pub(crate) chores: VecDeque<Chore>,
    stores: BTreeMap<Arc<str>, Store>,
    living: BTreeMap<String, Place>,
    owned: BTreeMap<String, BTreeSet<Place>>,
}

impl ClusterState {
    /// An empty state with the built-in resources.
    pub(crate) fn new(config: Config) -> Self {
        let registry = Registry::builtin();
        let seeded = Seeded::new(config.seed);
        let mut cluster = Self {
            config,
            registry,
            seeded,
            revision: 1,
            chores: VecDeque::new(),
            stores: BTreeMap::new(),
            living: BTreeMap::new(),
            owned: BTreeMap::new(),
        };
        let storages: Vec<Arc<str>> = cluster.registry.all().map(|entry| entry.storage.clone()).collect();
        for storage in storages {
            cluster.open(&storage);
        }
        cluster
    }

    /// The current time in whole seconds, as in object metadata.
    pub(crate) fn now(&self) -> String {
        object::time((self.config.now)())
    }

    /// The time `seconds` from now; the current one where that cannot be written.
    pub(crate) fn time_in(&self, seconds: i64) -> String {
        let now = (self.config.now)();
        object::time(now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(now))
    }

    /// The store of a resource, created if absent.
    pub(crate) fn open(&mut self, storage: &Arc<str>) -> &mut Store {
        let (bound, revision) = (self.config.history, self.revision);
        self.stores.entry(storage.clone()).or_insert_with(|| Store::new(bound, revision))
    }

    /// The store of a resource, if it exists.
    pub(crate) fn store(&self, storage: &str) -> Option<&Store> {
        self.stores.get(storage)
    }

    /// Drops all histories.
    pub(crate) fn compact(&mut self) {
        self.stores.values_mut().for_each(Store::compact);
    }

    /// The object at a place.
    pub(crate) fn get(&self, place: &Place) -> Option<&Arc<Value>> {
        self.stores.get(&place.storage)?.get(&place.key)
    }

    /// The object of a request.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn find(&self, target: &Target) -> Result<Arc<Value>, ApiError> {
        self.get(&target.place()).cloned().ok_or_else(|| target.not_found())
    }

    /// An object of a built-in resource in its first version.
    pub(crate) fn lookup(&self, storage: &str, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.stores.get(storage)?.get(&Key::new(namespace, name))
    }

    /// All objects of a store in a namespace (all namespaces when empty).
    pub(crate) fn scan<'a>(
        &'a self,
        storage: &str,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Value>> {
        self.stores
            .get(storage)
            .into_iter()
            .flat_map(move |store| store.scan(namespace))
            .map(|(_, value)| value)
    }

    /// The place of the object with this UID, if it exists.
    pub(crate) fn place_of(&self, uid: &str) -> Option<&Place> {
        self.living.get(uid)
    }

    /// Objects with an owner reference to this UID.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Place> {
        self.owned.get(uid).map(|places| places.iter().cloned().collect()).unwrap_or_default()
    }

    /// Namespaced objects of a namespace, for its deletion.
    pub(crate) fn contents(&self, namespace: &str) -> Vec<Place> {
        let mut places = Vec::new();
        for (storage, store) in &self.stores {
            places.extend(
                store.scan(namespace).map(|(key, _)| Place { storage: storage.clone(), key: key.clone() }),
            );
        }
        places
    }

    /// Stores a new object or version with a new revision.
    pub(crate) fn put(&mut self, place: &Place, mut value: Value) -> Arc<Value> {
        self.revision += 1;
        object::put(&mut value, &["metadata", "resourceVersion"], self.revision.to_string());
        let after = Arc::new(value);
        let before = self.get(place).cloned();
        if let Some(before) = &before {
            self.forget(place, before);
        }
        self.remember(place, &after);
        self.record(place, before, Some(after.clone()), None);
        after
    }

    /// Removes an object with a new revision; returns its last version for watches.
    pub(crate) fn erase(&mut self, place: &Place) -> Option<Arc<Value>> {
        let before = self.get(place).cloned()?;
        self.revision += 1;
        let mut last = Value::clone(&before);
        object::put(&mut last, &["metadata", "resourceVersion"], self.revision.to_string());
        let last = Arc::new(last);
        self.forget(place, &before);
        self.record(place, Some(before.clone()), None, Some(last.clone()));
        self.chores.push_back(Chore::Gone { place: place.clone(), object: before });
        Some(last)
    }

    fn record(
        &mut self,
        place: &Place,
        before: Option<Arc<Value>>,
        after: Option<Arc<Value>>,
        last: Option<Arc<Value>>,
    ) {
        let revision = self.revision;
        let change = Change { revision, before, after, last, key: place.key.clone() };
        self.open(&place.storage).apply(change);
    }

    fn remember(&mut self, place: &Place, value: &Value) {
        self.living.insert(object::uid(value).to_owned(), place.clone());
        for owner in object::owners(value) {
            let uid = object::text(owner, &["uid"]).to_owned();
            self.owned.entry(uid).or_default().insert(place.clone());
        }
    }

    fn forget(&mut self, place: &Place, value: &Value) {
        self.living.remove(object::uid(value));
        for owner in object::owners(value) {
            let uid = object::text(owner, &["uid"]);
            let empty = self.owned.get_mut(uid).is_some_and(|places| {
                places.remove(place);
                places.is_empty()
            });
            if empty {
                self.owned.remove(uid);
            }
        }
    }
}
