//! Requirements of one pod that exclude each other.
//!
//! The algebra of requirements calls their intersection empty, which also means that the label must not exist. No node
//! satisfies both, whether it has the label or not: new NodeClaim nodes for such a pod would never end.

use std::{
    borrow::Cow,
    collections::{BTreeMap, btree_map::Entry},
};

use crate::model::{LabelSchema, Pod, Requirement};

/// A key that no node has: what contradicts itself asks for it, and so finds no place.
pub(crate) const NOWHERE: &str = "fleetwright.dev/nowhere";

/// The first two of `all` that exclude each other, the former intersected with those before it.
pub(crate) fn first<'a>(
    schema: &'a LabelSchema,
    all: impl Iterator<Item = &'a Requirement>,
) -> Option<(Requirement, Requirement)> {
    let mut known: BTreeMap<&str, Cow<'_, Requirement>> = BTreeMap::new();
    for wanted in all {
        match known.entry(schema.normalize(wanted.key())) {
            Entry::Vacant(free) => drop(free.insert(Cow::Borrowed(wanted))),
            Entry::Occupied(mut before) => {
                let both = before.get().intersection(wanted);
                let missing = before.get().allows_missing() && wanted.allows_missing();
                if both.is_empty() && !missing {
                    return Some((before.get().clone().into_owned(), wanted.clone()));
                }
                before.insert(Cow::Owned(both));
            }
        }
    }
    None
}

/// Why the required terms of a pod contradict themselves, every alternative of them.
pub(crate) fn of_pod(schema: &LabelSchema, pod: &Pod) -> Option<String> {
    let selector = selector(pod);
    let within = |term: &[Requirement]| first(schema, selector.iter().chain(term));
    let terms = &pod.spec.required_node_terms;
    let contradiction = match terms.split_first() {
        None => within(&[])?,
        Some((term, others)) => {
            let contradiction = within(term)?;
            others.iter().all(|term| within(term).is_some()).then_some(contradiction)?
        }
    };
    let (one, other) = contradiction;
    Some(format!("requirements of the pod contradict each other ({one} and {other}): change one of them"))
}

/// `nodeSelector` as requirements.
pub(crate) fn selector(pod: &Pod) -> Vec<Requirement> {
    let selector = pod.spec.node_selector.iter();
    selector.map(|(key, value)| Requirement::is_in(key.clone(), [value.clone()])).collect()
}
