//! `--what-if FILE`: the plan for a cluster or dump to which changed objects are applied, compared with the plan without them.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_core::model::{Snapshot, nodeclaim::ConditionType};
use serde_json::Value;

use super::{deletions, fleet::Leaving};
use crate::{
    catalogue::{Catalogues, ClassChange},
    input::{
        Item, class_drift,
        select::identity,
        workloads::{self, Replicas},
    },
};

/// A changed input.
pub(super) struct Changed {
    pub(super) items: Vec<Item>,
    /// The objects that were applied, as `kind/name`, with whether they exist in the input.
    pub(super) objects: Vec<(String, bool)>,
    /// The objects that are deleted, as `kind/name`.
    pub(super) deleted: Vec<String>,
    /// What the change may do beyond what is planned.
    pub(super) notes: Vec<String>,
    /// How many running pods are replaced because the template of their workload changes.
    pub(super) restarted: usize,
}

/// Applies objects over an input: each replaces the one with its kind, namespace and name, whose status it keeps, or deletes it.
///
/// # Errors
/// If the input does not have an object to delete.
pub(super) fn apply(
    mut items: Vec<Item>,
    changes: Vec<Item>,
    replicas: &mut Vec<Replicas>,
    catalogues: &Catalogues,
) -> anyhow::Result<Changed> {
    let (deletions, changes): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|change| deletions::is_deletion(&change.value));
    let mut known: BTreeMap<_, usize> =
        items.iter().enumerate().map(|(at, item)| (identity(&item.value), at)).collect();
    let (mut objects, mut gone, mut restarted) = (Vec::new(), BTreeSet::new(), 0);
    let (mut drifting, mut notes) = (Vec::new(), Vec::new());
    for mut change in changes {
        let id = identity(&change.value);
        objects.push((format!("{}/{}", id.1, id.3), known.contains_key(&id)));
        let Some(at) = known.get(&id).copied() else {
            known.insert(id, items.len());
            items.push(change);
            continue;
        };
        keep_identity(&items[at].value, &mut change.value);
        if let Some(template) = workloads::pod_template(&items[at].value) {
            // Where only the number changes, pods stay, and the surplus is removed.
            if workloads::pod_template(&change.value) != Some(template) {
                let pods = workloads::pods_of(&items, at);
                // Daemons restart where they are: the new ones count on each node as those that do not run yet.
                if change.value["kind"] != "DaemonSet" {
                    restarted += pods.iter().filter(|at| is_bound(&items[**at].value)).count();
                }
                gone.extend(pods);
            }
            replicas.extend(workloads::wanted_replicas(&change.value));
        }
        match class_drift::of(&items[at].value, &change.value, &items, catalogues) {
            Some(ClassChange::Drifts) => drifting.push(change.value.clone()),
            Some(ClassChange::Unknown(why)) => notes.push(why),
            Some(ClassChange::Stays) | None => {}
        }
        items[at] = change;
    }
    drifting.iter().for_each(|class| class_drift::mark(&mut items, class));
    let mut removed = BTreeSet::new();
    let mut deleted = Vec::new();
    for document in &deletions {
        removed.insert(deletions::position(document, &items)?);
        let (_, kind, _, name) = identity(&document.value);
        deleted.push(format!("{kind}/{name}"));
    }
    deletions::delete(&mut items, removed, gone, replicas);
    Ok(Changed { items, objects, deleted, notes, restarted })
}

/// A manifest has neither UID nor status: they are those of the object that it replaces.
fn keep_identity(old: &Value, new: &mut Value) {
    for at in ["uid", "creationTimestamp", "generation"] {
        if new["metadata"][at].is_null() && !old["metadata"][at].is_null() && new["metadata"].is_object() {
            new["metadata"][at] = old["metadata"][at].clone();
        }
    }
    if new["status"].is_null() && !old["status"].is_null() && new.is_object() {
        new["status"] = old["status"].clone();
    }
}

fn is_bound(pod: &Value) -> bool {
    pod.pointer("/spec/nodeName").and_then(Value::as_str).is_some_and(|node| !node.is_empty())
}

/// The drifted NodeClaims.
pub(super) fn drifted(snapshot: &Snapshot) -> Leaving {
    let claims = snapshot.nodes.iter().filter_map(|node| node.claim.as_ref());
    claims.filter(|claim| claim.is(ConditionType::Drifted)).map(|claim| claim.name.to_string()).collect()
}
