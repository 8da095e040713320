//! Which NodeClaims drift because their NodeClass changes, as far as the input and the cloud of the class say it.

use fleetwright_core::model::{NodeClassRef, nodeclaim::ConditionType};
use serde_json::{Value, json};

use super::{Item, select::identity};
use crate::catalogue::{Catalogues, ClassChange};

/// What a change does to the nodes of a NodeClass; `None` for objects of other kinds and where the spec stays.
pub(crate) fn of(old: &Value, new: &Value, items: &[Item], catalogues: &Catalogues) -> Option<ClassChange> {
    let (group, kind, _, name) = identity(old);
    let is_class = |class: &NodeClassRef| *class.group == *group && *class.kind == *kind;
    if !super::load::class_kinds(items).iter().any(is_class) || old["spec"] == new["spec"] {
        return None;
    }
    let class = NodeClassRef { group: group.into(), kind: kind.clone().into(), name: name.clone().into() };
    let change = catalogues.class_change(&class, old, new);
    Some(match change {
        ClassChange::Unknown(why) => {
            ClassChange::Unknown(format!("{kind}/{name}: {why}: none of them is planned as drifted"))
        }
        known => known,
    })
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
