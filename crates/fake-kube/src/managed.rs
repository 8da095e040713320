//! Field managers: `metadata.managedFields`, read, updated and written back.

use serde_json::{Value, json};

use crate::cluster::{ClusterState, Part, Write};
use crate::manager::Manager;
use crate::object;
use crate::patch::fields::{FieldSet, Rules};
use crate::registry::Resource;

/// The managers of an object.
pub(crate) fn read(value: &Value) -> Vec<Manager> {
    object::list(value, &["metadata", "managedFields"])
        .iter()
        .map(|entry| {
            let text = |field: &str| object::text(entry, &[field]).to_owned();
            Manager {
                name: text("manager"),
                operation: text("operation"),
                version: text("apiVersion"),
                subresource: text("subresource"),
                time: text("time"),
                fields: FieldSet::from_value(&entry["fieldsV1"]),
            }
        })
        .collect()
}

/// Writes the managers with fields to an object.
pub(crate) fn write(value: &mut Value, managers: &[Manager]) {
    let entries: Vec<Value> = managers
        .iter()
        .filter(|manager| !manager.fields.is_empty())
        .map(|manager| {
            let mut entry = json!({
                "manager": manager.name, "operation": manager.operation, "apiVersion": manager.version,
                "time": manager.time, "fieldsType": "FieldsV1", "fieldsV1": manager.fields.to_value(),
            });
            if !manager.subresource.is_empty() {
                entry["subresource"] = manager.subresource.as_str().into();
            }
            entry
        })
        .collect();
    if entries.is_empty() {
        object::remove(value, &["metadata", "managedFields"]);
    } else {
        object::put(value, &["metadata", "managedFields"], entries);
    }
}

/// Whether a write resets all managers: `managedFields: [{}]` or an empty list.
pub(crate) fn is_reset(value: &Value) -> bool {
    object::at(value, &["metadata", "managedFields"])
        .and_then(Value::as_array)
        .is_some_and(|list| list.is_empty() || list.iter().all(|entry| entry == &json!({})))
}

/// The manager of a write.
pub(crate) fn author(cluster: &ClusterState, resource: &Resource, write: &Write, operation: &str) -> Manager {
    Manager {
        name: write.manager.clone(),
        operation: operation.to_owned(),
        version: resource.info.api_version(),
        subresource: if write.part == Part::Status { "status".to_owned() } else { String::new() },
        time: cluster.now(),
        fields: FieldSet::default(),
    }
}

/// Updates the managers after a write: its author owns the changed fields, others lose them, and removed fields have no owner.
pub(crate) fn on_write(
    cluster: &ClusterState,
    resource: &Resource,
    old: Option<&Value>,
    new: &mut Value,
    write: &Write,
) {
    if let Some(applied) = &write.applied {
        self::write(new, applied);
        return;
    }
    let untracked =
        !cluster.config.track_updates && object::list(new, &["metadata", "managedFields"]).is_empty();
    if untracked {
        object::remove(new, &["metadata", "managedFields"]);
        return;
    }
    if is_reset(new) {
        object::remove(new, &["metadata", "managedFields"]);
        return;
    }
    let rules = Rules::of(resource);
    let nothing = json!({});
    let mut changed = FieldSet::changed(old.unwrap_or(&nothing), new, rules, &mut Vec::new());
    changed.strip();
    let mut managers = read(new);
    let me = author(cluster, resource, write, "Update");
    for manager in &mut managers {
        if !manager.is(&me) {
            manager.fields = manager.fields.minus(&changed);
        }
        manager.fields = manager.fields.present(new, rules, &mut Vec::new());
    }
    if cluster.config.track_updates && !changed.is_empty() {
        match managers.iter_mut().find(|manager| manager.is(&me)) {
            Some(mine) => {
                mine.fields.add(&changed);
                mine.time = me.time;
            }
            None => managers.push(Manager { fields: changed, ..me }),
        }
    }
    self::write(new, &managers);
}
