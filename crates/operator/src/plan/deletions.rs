//! `$patch: delete` of `--what-if`: deleted objects, and what goes with them.
//!
//! The directive is that of Kubernetes' strategic merge patches, which kustomize reads in files, too. What goes with a deleted object is what
//! garbage collection and the finalizers of a cluster delete: what it owns, the objects of a Namespace, the pods of a workload, the
//! NodeClaims of a NodePool, and a NodeClaim with its Node. Nodes drain: their pods are placed again.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use fleetwright_core::{
    clock::Clock as _,
    model::{Snapshot, labels::NODEPOOL},
    suggest::did_you_mean,
};
use serde_json::{Value, json};

use crate::{
    clock::SystemClock,
    input::{
        Item,
        load::class_kinds,
        object::set,
        select::identity,
        workloads::{self, Replicas},
    },
};

/// Whether a document deletes the object that it names.
pub(super) fn is_deletion(document: &Value) -> bool {
    document["$patch"] == "delete"
}

/// The position of the object that a document deletes.
///
/// # Errors
/// If the input does not have it: a mistyped name must not look like a change without an effect.
pub(super) fn position(document: &Item, items: &[Item]) -> anyhow::Result<usize> {
    let wanted = identity(&document.value);
    // Of two with one name, the last counts.
    if let Some(at) = items.iter().rposition(|item| identity(&item.value) == wanted) {
        return Ok(at);
    }
    let (group, kind, namespace, name) = wanted;
    let alike = items.iter().map(|item| identity(&item.value));
    let alike = alike.filter(|id| (&id.0, &id.1, &id.2) == (&group, &kind, &namespace));
    let names: Vec<String> = alike.map(|id| id.3).collect();
    let meant = did_you_mean(&name, names.iter().map(String::as_str));
    bail!("{}: $patch: delete: the input has no {kind} {name}{meant}", document.source)
}

/// Deletes the objects at some positions with what goes with them, and removes those that are `replaced`. The controller of a deleted pod
/// creates another one.
pub(super) fn delete(
    items: &mut Vec<Item>,
    positions: BTreeSet<usize>,
    replaced: BTreeSet<usize>,
    replicas: &mut Vec<Replicas>,
) {
    for pod in positions.iter().filter(|at| items[**at].value["kind"] == "Pod") {
        let owners = (0..items.len()).filter(|at| workloads::pods_of(items, *at).contains(pod));
        replicas.extend(owners.filter_map(|at| workloads::wanted_replicas(&items[at].value)));
    }
    let mut gone = with_dependents(items, positions);
    gone.extend(replaced);
    let classes: BTreeSet<_> = class_kinds(items)
        .into_iter()
        .map(|class| (class.group.to_string(), class.kind.to_string()))
        .collect();
    let now = json!(SystemClock.now());
    // Finalizers keep these until nodes are drained, and NodeClasses until no NodeClaim names them.
    let finalized = |value: &Value| {
        let (group, kind, ..) = identity(value);
        matches!(&*kind, "Node" | "NodeClaim") || classes.contains(&(group, kind))
    };
    let mut at = 0;
    items.retain_mut(|item| {
        at += 1;
        if !gone.contains(&(at - 1)) {
            return true;
        }
        let stays = finalized(&item.value);
        if stays && item.value["metadata"]["deletionTimestamp"].is_null() {
            set(&mut item.value, &["metadata", "deletionTimestamp"], now.clone());
        }
        stays
    });
}

/// The positions with those of the objects that are deleted with them.
fn with_dependents(items: &[Item], positions: BTreeSet<usize>) -> BTreeSet<usize> {
    let dependents = Dependents::of(items);
    let mut gone = positions.clone();
    let mut new: Vec<usize> = positions.into_iter().collect();
    while let Some(at) = new.pop() {
        let mut more = workloads::pods_of(items, at);
        more.extend(dependents.owned_by(items, at));
        new.extend(more.into_iter().filter(|at| gone.insert(*at)));
    }
    gone
}

/// What of an input depends on what, as positions.
struct Dependents<'a> {
    /// Objects by kind and name of their controller.
    owned: BTreeMap<(&'a str, &'a str), Vec<usize>>,
    of_namespace: BTreeMap<&'a str, Vec<usize>>,
    /// NodeClaims.
    of_pool: BTreeMap<&'a str, Vec<usize>>,
    /// The NodeClaim and the Node of each instance.
    of_instance: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Dependents<'a> {
    fn of(items: &'a [Item]) -> Self {
        let (owned, of_namespace) = (BTreeMap::new(), BTreeMap::new());
        let mut found = Self { owned, of_namespace, of_pool: BTreeMap::new(), of_instance: BTreeMap::new() };
        for (at, Item { value, .. }) in items.iter().enumerate() {
            let metadata = &value["metadata"];
            for owner in metadata["ownerReferences"].as_array().into_iter().flatten() {
                if let (true, Some(kind), Some(name)) =
                    (owner["controller"] == true, owner["kind"].as_str(), owner["name"].as_str())
                {
                    found.owned.entry((kind, name)).or_default().push(at);
                }
            }
            if let Some(namespace) = metadata["namespace"].as_str() {
                found.of_namespace.entry(namespace).or_default().push(at);
            }
            if let Some(pool) = metadata["labels"][NODEPOOL].as_str().filter(|_| value["kind"] == "NodeClaim")
            {
                found.of_pool.entry(pool).or_default().push(at);
            }
            if let Some(id) = provider_id(value) {
                found.of_instance.entry(id).or_default().push(at);
            }
        }
        found
    }

    /// What is deleted because the object at a position is.
    fn owned_by(&self, items: &[Item], at: usize) -> Vec<usize> {
        let deleted = &items[at].value;
        let (_, kind, namespace, name) = identity(deleted);
        let uid = &deleted["metadata"]["uid"];
        let is_owned = |at: &usize| {
            let object = &items[*at].value;
            let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            let is_it = |owner: &Value| {
                owner["kind"] == *kind
                    && owner["name"] == *name
                    && (uid.is_null() || owner["uid"].is_null() || owner["uid"] == *uid)
            };
            // A Node controls its static pods, of any namespace.
            let is_near = kind == "Node" || identity(object).2 == namespace;
            is_near && owners.into_iter().flatten().any(is_it)
        };
        let all = |found: Option<&Vec<usize>>| found.cloned().unwrap_or_default();
        let mut more = all(self.owned.get(&(&*kind, &*name)));
        more.retain(is_owned);
        more.extend(match &*kind {
            "Namespace" => all(self.of_namespace.get(&*name)),
            "NodePool" => all(self.of_pool.get(&*name)),
            "Node" | "NodeClaim" => all(provider_id(deleted).and_then(|id| self.of_instance.get(id))),
            _ => Vec::new(),
        });
        more
    }
}

fn provider_id(value: &Value) -> Option<&str> {
    let at = match value["kind"].as_str()? {
        "Node" => "/spec/providerID",
        "NodeClaim" => "/status/providerID",
        _ => return None,
    };
    value.pointer(at)?.as_str().filter(|id| !id.is_empty())
}

/// The nodes that drain after a change and did not before, with the number of their pods to place again.
pub(super) fn drained(now: &Snapshot, then: &Snapshot) -> (Vec<String>, usize) {
    let is_deleting = |node: &&std::sync::Arc<fleetwright_core::model::StateNode>| node.is_deleting();
    let before: BTreeSet<&str> = now.nodes.iter().filter(is_deleting).map(|node| node.name()).collect();
    let mut pods = 0;
    let nodes = then.nodes.iter().filter(is_deleting).filter(|node| !before.contains(node.name()));
    let names = nodes.map(|node| {
        pods += node.pods.iter().filter(|pod| then.is_currently_reschedulable(pod, then.taken_at)).count();
        node.name().to_string()
    });
    (names.collect(), pods)
}
