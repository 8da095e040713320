//! The controller manager's garbage collectors, run at the end of the request that causes the work: owner references, foreground and
//! orphan deletion, contents of namespaces, instances of CRDs.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::{Chore, ClusterState, Place};
use crate::propagation::{FOREGROUND, ORPHAN, Propagation};
use crate::registry::Resource;
use crate::verbs::delete;
use crate::{crds, finalizers, object};

/// How an owner reference resolves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Solid,
    Waiting,
    Absent,
}

/// Completes all chores. Each one deletes something or ends, so this terminates.
pub(crate) fn run_chores(cluster: &mut ClusterState) {
    while let Some(chore) = cluster.chores.pop_front() {
        match chore {
            Chore::Gone { place, object } => after_gone(cluster, &place, &object),
            Chore::Deleting(place) => advance_deletion(cluster, &place),
            Chore::Owners(place) => check_owners(cluster, &place),
        }
    }
}

/// Bookkeeping after a creation.
pub(crate) fn after_create(cluster: &mut ClusterState, resource: &Resource, place: &Place, value: &Value) {
    if crds::is_definition(resource) {
        crds::register(cluster, value);
    }
    if !object::owners(value).is_empty() {
        cluster.chores.push_back(Chore::Owners(place.clone()));
    }
}

/// Bookkeeping after an update.
pub(crate) fn after_update(
    cluster: &mut ClusterState,
    resource: &Resource,
    place: &Place,
    old: &Value,
    new: &Value,
) {
    if crds::is_definition(resource) {
        crds::register(cluster, new);
    }
    if object::owners(old) != object::owners(new) {
        cluster.chores.push_back(Chore::Owners(place.clone()));
    }
    if object::deleting(new) {
        cluster.chores.push_back(Chore::Deleting(place.clone()));
    }
}

fn after_gone(cluster: &mut ClusterState, place: &Place, value: &Arc<Value>) {
    for dependent in cluster.dependents(object::uid(value)) {
        check_owners(cluster, &dependent);
    }
    for owner in object::owners(value) {
        if let Some(owner) = cluster.place_of(object::text(owner, &["uid"])).cloned() {
            finish_foreground(cluster, &owner);
        }
    }
    let namespace =
        Place { storage: "namespaces.".into(), key: crate::store::Key::new("", &place.key.namespace) };
    if cluster.get(&namespace).is_some_and(|found| object::deleting(found)) {
        finish_namespace(cluster, &namespace);
    }
    match cluster.registry.of_storage(&place.storage) {
        Some(resource) if crds::is_definition(&resource) => cluster.registry.unregister(value),
        Some(resource) => {
            let definition =
                resource.custom.as_ref().map(|custom| object::name(&custom.definition).to_owned());
            if let Some(name) = definition {
                crds::finish(cluster, &name);
            }
        }
        None => {}
    }
}

fn advance_deletion(cluster: &mut ClusterState, place: &Place) {
    let Some(value) = cluster.get(place).cloned().filter(|value| object::deleting(value)) else { return };
    if &*place.storage == "namespaces." {
        for content in cluster.contents(&place.key.name) {
            delete::delete_place(cluster, &content, Propagation::Background);
        }
        finish_namespace(cluster, place);
    } else if &*place.storage == crds::STORAGE {
        crds::delete_instances(cluster, &value);
        crds::finish(cluster, &place.key.name);
    }
    if object::finalizers(&value).any(|name| name == ORPHAN) {
        for dependent in cluster.dependents(object::uid(&value)) {
            drop_references(cluster, &dependent, &|uid| uid == object::uid(&value));
        }
        finalizers::drop(cluster, place, ORPHAN);
    }
    if object::finalizers(&value).any(|name| name == FOREGROUND) {
        for dependent in cluster.dependents(object::uid(&value)) {
            check_owners(cluster, &dependent);
        }
        finish_foreground(cluster, place);
    }
}

fn resolve(cluster: &ClusterState, dependent: &Place, reference: &Value) -> Owner {
    let version = object::text(reference, &["apiVersion"]);
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let kind = object::text(reference, &["kind"]);
    let Some(resource) = cluster.registry.all().find(|entry| entry.is(group, kind)) else {
        // The absence of a kind that is not served cannot be proven.
        return Owner::Solid;
    };
    let found = cluster.place_of(object::text(reference, &["uid"])).filter(|place| {
        place.storage == resource.storage
            && (!resource.info.namespaced || place.key.namespace == dependent.key.namespace)
    });
    match found.and_then(|place| cluster.get(place)) {
        Some(owner)
            if object::deleting(owner) && object::finalizers(owner).any(|name| name == FOREGROUND) =>
        {
            Owner::Waiting
        }
        Some(_) => Owner::Solid,
        None => Owner::Absent,
    }
}

fn check_owners(cluster: &mut ClusterState, place: &Place) {
    let Some(value) = cluster.get(place).cloned() else { return };
    let resolved: Vec<(String, Owner)> = object::owners(&value)
        .iter()
        .map(|owner| (object::text(owner, &["uid"]).to_owned(), resolve(cluster, place, owner)))
        .collect();
    if resolved.iter().all(|(_, owner)| *owner == Owner::Solid) {
        return;
    }
    if resolved.iter().any(|(_, owner)| *owner == Owner::Solid) {
        let lost = |uid: &str| resolved.iter().any(|(known, owner)| known == uid && *owner != Owner::Solid);
        drop_references(cluster, place, &lost);
    } else if resolved.iter().any(|(_, owner)| *owner == Owner::Waiting)
        && !cluster.dependents(object::uid(&value)).is_empty()
    {
        delete::delete_place(cluster, place, Propagation::Foreground);
    } else {
        delete::delete_place(cluster, place, Propagation::Background);
    }
}

/// Removes owner references by UID.
fn drop_references(cluster: &mut ClusterState, place: &Place, lost: &dyn Fn(&str) -> bool) {
    let Some(value) = cluster.get(place) else { return };
    let mut new = Value::clone(value);
    let kept: Vec<Value> =
        object::owners(value).iter().filter(|owner| !lost(object::text(owner, &["uid"]))).cloned().collect();
    if kept.is_empty() {
        object::remove(&mut new, &["metadata", "ownerReferences"]);
    } else {
        object::put(&mut new, &["metadata", "ownerReferences"], kept);
    }
    cluster.put(place, new);
}

/// Completes a foreground deletion once no dependent blocks it.
fn finish_foreground(cluster: &mut ClusterState, place: &Place) {
    let Some(owner) = cluster.get(place) else { return };
    if !object::deleting(owner) || !object::finalizers(owner).any(|name| name == FOREGROUND) {
        return;
    }
    let uid = object::uid(owner).to_owned();
    let blocks = |reference: &Value| {
        object::text(reference, &["uid"]) == uid && reference["blockOwnerDeletion"] == json!(true)
    };
    let blocked = cluster
        .dependents(&uid)
        .iter()
        .filter_map(|dependent| cluster.get(dependent))
        .any(|dependent| object::owners(dependent).iter().any(blocks));
    if !blocked {
        finalizers::drop(cluster, place, FOREGROUND);
    }
}

/// Removes a terminating namespace once it is empty.
fn finish_namespace(cluster: &mut ClusterState, place: &Place) {
    let Some(value) = cluster.get(place) else { return };
    if !cluster.contents(&place.key.name).is_empty() {
        return;
    }
    let mut new = Value::clone(value);
    object::remove(&mut new, &["spec", "finalizers"]);
    if object::finalizers(&new).next().is_none() {
        cluster.erase(place);
    } else if new != **value {
        cluster.put(place, new);
    }
}
