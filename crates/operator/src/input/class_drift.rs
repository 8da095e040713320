//! Which NodeClaims drift because their NodeClass changes, as far as the input says it.

use fleetwright_aws_api::{
    Ec2NodeClass,
    labels::{GROUP, NODE_CLASS_KIND},
};
use fleetwright_core::model::{NodeClassRef, nodeclaim::ConditionType};
use fleetwright_kube_schema::Structural;
use serde_json::{Value, json};

use super::{Item, select::identity};

/// The fields of an EC2NodeClass that are no part of its hash: what they select is known to AWS alone.
const SELECTORS: [&str; 4] = [
    "amiSelectorTerms",
    "subnetSelectorTerms",
    "securityGroupSelectorTerms",
    "capacityReservationSelectorTerms",
];

/// What the change of a NodeClass does to its nodes.
pub(crate) enum ClassChange {
    /// They drift: its hash is another one.
    Drifts,
    /// Their provider alone knows, for the reason in the text.
    Unknown(String),
}

/// What a change does to the nodes of a NodeClass; `None` where it does nothing, and for objects of other kinds.
pub(crate) fn of(old: &Value, new: &Value, items: &[Item]) -> Option<ClassChange> {
    let (group, kind, _, name) = identity(old);
    let is_class = |class: &NodeClassRef| *class.group == *group && *class.kind == *kind;
    if !super::load::class_kinds(items).iter().any(is_class) || old["spec"] == new["spec"] {
        return None;
    }
    let unknown = |what: &str| {
        Some(ClassChange::Unknown(format!("{kind}/{name}: {what}: none of them is planned as drifted")))
    };
    if (&*group, &*kind) != (GROUP, NODE_CLASS_KIND) {
        return unknown("which of its nodes drift by the change is known to its provider alone");
    }
    let (old, new) = (admitted(old)?, admitted(new)?);
    match (drift_hash(&old), drift_hash(&new)) {
        (Some(old), Some(new)) if old != new => return Some(ClassChange::Drifts),
        (Some(_), Some(_)) => {}
        _ => return unknown("it cannot be read, before or after the change"),
    }
    let changed: Vec<&str> =
        SELECTORS.into_iter().filter(|field| old["spec"][*field] != new["spec"][*field]).collect();
    if changed.is_empty() {
        return None;
    }
    unknown(&format!("which of its nodes drift by another {} is known to AWS alone", changed.join(", ")))
}

/// Writes the condition that the provider's drift has onto the NodeClaims of a NodeClass.
pub(crate) fn mark(items: &mut [Item], class: &Value) {
    let (group, kind, _, name) = identity(class);
    for Item { value, .. } in items.iter_mut().filter(|item| item.value["kind"] == "NodeClaim") {
        let of = &value["spec"]["nodeClassRef"];
        if of["group"] != *group || of["kind"] != *kind || of["name"] != *name {
            continue;
        }
        let Some(conditions) = value.pointer_mut("/status/conditions").and_then(Value::as_array_mut) else {
            continue;
        };
        let drifted = ConditionType::Drifted.as_str();
        if conditions.iter().any(|known| known["type"] == drifted && known["status"] == "True") {
            continue;
        }
        conditions.retain(|known| known["type"] != drifted);
        // Since when decides the order of replacements, which is not planned.
        conditions.push(json!({
            "type": drifted, "status": "True", "reason": "NodeClassDrift", "message": "NodeClassDrift",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }));
    }
}

/// The object as the API server would store it, with its defaults.
fn admitted(class: &Value) -> Option<Value> {
    let crds = fleetwright_aws_api::crds();
    let crd = crds.iter().find(|crd| crd.spec.names.kind == NODE_CLASS_KIND)?;
    let schema = crd.spec.versions.first()?.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    let schema = Structural::parse(&serde_json::to_value(schema).ok()?).ok()?;
    let mut value = class.clone();
    schema.prune_nulls(&mut value);
    schema.default(&mut value);
    Some(value)
}

/// The hash of a class. The certificate authority, which is part of it, is the same before and after.
fn drift_hash(class: &Value) -> Option<String> {
    serde_json::from_value::<Ec2NodeClass>(class.clone()).ok().map(|class| class.drift_hash(""))
}
