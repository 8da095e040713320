//! The controller manager's garbage collectors, run at the end of the request that causes the work: owner references, foreground and
//! orphan deletion, contents of namespaces, instances of CRDs.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::{Chore, ClusterState, Place};
use crate::propagation::{FOREGROUND, ORPHAN, Propagation};
use crate::registry::Resource;
use crate::{crds, object};

/// How an owner reference resolves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Solid,
    Waiting,
    Absent,
}

impl ClusterState {
    /// Completes all chores. Each one deletes something or ends, so this terminates.
    pub(crate) fn run_chores(&mut self) {
        while let Some(chore) = self.chores.pop_front() {
            match chore {
                Chore::Gone { place, object } => self.after_gone(&place, &object),
                Chore::Deleting(place) => self.advance_deletion(&place),
                Chore::Owners(place) => self.check_owners(&place),
            }
        }
    }

    /// Bookkeeping after a creation.
    pub(crate) fn after_create(&mut self, resource: &Resource, place: &Place, value: &Value) {
        if crds::is_definition(resource) {
            crds::register(self, value);
        }
        if !object::owners(value).is_empty() {
            self.chores.push_back(Chore::Owners(place.clone()));
        }
    }

    /// Bookkeeping after an update.
    pub(crate) fn after_update(&mut self, resource: &Resource, place: &Place, old: &Value, new: &Value) {
        if crds::is_definition(resource) {
            crds::register(self, new);
        }
        if object::owners(old) != object::owners(new) {
            self.chores.push_back(Chore::Owners(place.clone()));
        }
        if object::deleting(new) {
            self.chores.push_back(Chore::Deleting(place.clone()));
        }
    }

    /// Whether nothing holds a terminating object any more.
    pub(crate) fn deletion_is_over(&self, resource: &Resource, value: &Value) -> bool {
        object::deleting(value)
            && object::finalizers(value).next().is_none()
            && object::integer(value, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0
            && (!resource.is("", "Namespace") || object::list(value, &["spec", "finalizers"]).is_empty())
    }

    fn after_gone(&mut self, place: &Place, value: &Arc<Value>) {
        for dependent in self.dependents(object::uid(value)) {
            self.check_owners(&dependent);
        }
        for owner in object::owners(value) {
            if let Some(owner) = self.place_of(object::text(owner, &["uid"])).cloned() {
                self.finish_foreground(&owner);
            }
        }
        let namespace =
            Place { storage: "namespaces.".into(), key: crate::store::Key::new("", &place.key.namespace) };
        if self.get(&namespace).is_some_and(|found| object::deleting(found)) {
            self.finish_namespace(&namespace);
        }
        match self.registry.of_storage(&place.storage) {
            Some(resource) if crds::is_definition(&resource) => self.registry.unregister(value),
            Some(resource) => {
                let definition =
                    resource.custom.as_ref().map(|custom| object::name(&custom.definition).to_owned());
                if let Some(name) = definition {
                    crds::finish(self, &name);
                }
            }
            None => {}
        }
    }

    fn advance_deletion(&mut self, place: &Place) {
        let Some(value) = self.get(place).cloned().filter(|value| object::deleting(value)) else { return };
        if &*place.storage == "namespaces." {
            for content in self.contents(&place.key.name) {
                self.delete_place(&content, Propagation::Background);
            }
            self.finish_namespace(place);
        } else if &*place.storage == crds::STORAGE {
            crds::delete_instances(self, &value);
            crds::finish(self, &place.key.name);
        }
        if object::finalizers(&value).any(|name| name == ORPHAN) {
            for dependent in self.dependents(object::uid(&value)) {
                self.drop_references(&dependent, &|uid| uid == object::uid(&value));
            }
            self.drop_finalizer(place, ORPHAN);
        }
        if object::finalizers(&value).any(|name| name == FOREGROUND) {
            for dependent in self.dependents(object::uid(&value)) {
                self.check_owners(&dependent);
            }
            self.finish_foreground(place);
        }
    }

    fn resolve(&self, dependent: &Place, reference: &Value) -> Owner {
        let version = object::text(reference, &["apiVersion"]);
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let kind = object::text(reference, &["kind"]);
        let Some(resource) = self.registry.all().find(|entry| entry.is(group, kind)) else {
            // The absence of a kind that is not served cannot be proven.
            return Owner::Solid;
        };
        let found = self.place_of(object::text(reference, &["uid"])).filter(|place| {
            place.storage == resource.storage
                && (!resource.info.namespaced || place.key.namespace == dependent.key.namespace)
        });
        match found.and_then(|place| self.get(place)) {
            Some(owner)
                if object::deleting(owner) && object::finalizers(owner).any(|name| name == FOREGROUND) =>
            {
                Owner::Waiting
            }
            Some(_) => Owner::Solid,
            None => Owner::Absent,
        }
    }

    fn check_owners(&mut self, place: &Place) {
        let Some(value) = self.get(place).cloned() else { return };
        let resolved: Vec<(String, Owner)> = object::owners(&value)
            .iter()
            .map(|owner| (object::text(owner, &["uid"]).to_owned(), self.resolve(place, owner)))
            .collect();
        if resolved.iter().all(|(_, owner)| *owner == Owner::Solid) {
            return;
        }
        if resolved.iter().any(|(_, owner)| *owner == Owner::Solid) {
            let lost =
                |uid: &str| resolved.iter().any(|(known, owner)| known == uid && *owner != Owner::Solid);
            self.drop_references(place, &lost);
        } else if resolved.iter().any(|(_, owner)| *owner == Owner::Waiting)
            && !self.dependents(object::uid(&value)).is_empty()
        {
            self.delete_place(place, Propagation::Foreground);
        } else {
            self.delete_place(place, Propagation::Background);
        }
    }

    /// Removes owner references by UID.
    fn drop_references(&mut self, place: &Place, lost: &dyn Fn(&str) -> bool) {
        let Some(value) = self.get(place) else { return };
        let mut new = Value::clone(value);
        let kept: Vec<Value> = object::owners(value)
            .iter()
            .filter(|owner| !lost(object::text(owner, &["uid"])))
            .cloned()
            .collect();
        if kept.is_empty() {
            object::remove(&mut new, &["metadata", "ownerReferences"]);
        } else {
            object::put(&mut new, &["metadata", "ownerReferences"], kept);
        }
        self.put(place, new);
    }

    /// Removes a finalizer, and the object with the last one.
    pub(crate) fn drop_finalizer(&mut self, place: &Place, finalizer: &str) {
        let (Some(value), Some(resource)) = (self.get(place), self.registry.of_storage(&place.storage))
        else {
            return;
        };
        if !object::finalizers(value).any(|name| name == finalizer) {
            return;
        }
        let kept: Vec<Value> =
            object::finalizers(value).filter(|name| *name != finalizer).map(|name| json!(name)).collect();
        let mut new = Value::clone(value);
        if kept.is_empty() {
            object::remove(&mut new, &["metadata", "finalizers"]);
        } else {
            object::put(&mut new, &["metadata", "finalizers"], kept);
        }
        if self.deletion_is_over(&resource, &new) {
            self.erase(place);
        } else {
            self.put(place, new);
        }
    }

    /// Completes a foreground deletion once no dependent blocks it.
    fn finish_foreground(&mut self, place: &Place) {
        let Some(owner) = self.get(place) else { return };
        if !object::deleting(owner) || !object::finalizers(owner).any(|name| name == FOREGROUND) {
            return;
        }
        let uid = object::uid(owner).to_owned();
        let blocks = |reference: &Value| {
            object::text(reference, &["uid"]) == uid && reference["blockOwnerDeletion"] == json!(true)
        };
        let blocked = self
            .dependents(&uid)
            .iter()
            .filter_map(|dependent| self.get(dependent))
            .any(|dependent| object::owners(dependent).iter().any(blocks));
        if !blocked {
            self.drop_finalizer(place, FOREGROUND);
        }
    }

    /// Removes a terminating namespace once it is empty.
    fn finish_namespace(&mut self, place: &Place) {
        let Some(value) = self.get(place) else { return };
        if !self.contents(&place.key.name).is_empty() {
            return;
        }
        let mut new = Value::clone(value);
        object::remove(&mut new, &["spec", "finalizers"]);
        if object::finalizers(&new).next().is_none() {
            self.erase(place);
        } else if new != **value {
            self.put(place, new);
        }
    }
}
