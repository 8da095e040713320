//! Server-side apply: merge, prune the manager's former fields, reject conflicts with other managers.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::fields::{FieldSet, FieldStep, Rules, key_step};
use super::keys::ListRule;
use crate::cluster::{ClusterState, Part, Target, Write};
use crate::managed;
use crate::manager::Manager;
use crate::status::{ApiError, Cause};
use crate::verbs::{create, shape, update};
use crate::{events, object, quantity};

/// Applies a configuration. The flag is true if the object was created.
///
/// # Errors
/// 400, 404 (status of an absent object), 409 for conflicts with other managers, 422.
pub(crate) fn apply(
    cluster: &mut ClusterState,
    target: &Target,
    body: &Value,
    write: &Write,
) -> Result<(Arc<Value>, bool), ApiError> {
    let resource = target.resource.clone();
    let config = configuration(target, body, write)?;
    let old = cluster.get(&target.place()).cloned();
    let revision = object::text(body, &["metadata", "resourceVersion"]);
    let live = match &old {
        Some(old) => Value::clone(&events::present(&resource, old)),
        None if write.part == Part::Status || !revision.is_empty() => return Err(target.not_found()),
        None => {
            json!({ "apiVersion": resource.info.api_version(), "kind": resource.info.kind, "metadata": {} })
        }
    };
    if !revision.is_empty() && revision != object::text(&live, &["metadata", "resourceVersion"]) {
        return Err(ApiError::modified(&resource.info.group, &resource.info.plural, &target.name));
    }
    let rules = Rules::of(&resource);
    let mut managers = managed::read(&live);
    let mut me = managed::author(cluster, &resource, write, "Apply");
    me.fields = FieldSet::of(&config, rules, &mut Vec::new(), false);
    me.fields.strip();
    let mut merged = merge(&live, &config, rules, &mut Vec::new());
    prune(&mut merged, &managers, &me, rules);
    let mut changed = FieldSet::changed(&live, &merged, rules, &mut Vec::new());
    changed.strip();
    take_over(&mut managers, &me, &changed, write.force)?;
    for manager in &mut managers {
        manager.fields = manager.fields.present(&merged, rules, &mut Vec::new());
    }
    match managers.iter_mut().find(|manager| manager.is(&me)) {
        Some(mine) if mine.fields == me.fields => {}
        Some(mine) => *mine = me,
        None => managers.push(me),
    }
    let write = Write { applied: Some(managers), ..write.clone() };
    match old {
        Some(old) => update::save(cluster, target, &old, merged, &write).map(|stored| (stored, false)),
        None => create::create(cluster, target, merged, &write).map(|stored| (stored, true)),
    }
}

/// Validates the body and keeps the fields that may be applied to this part of the object.
fn configuration(target: &Target, body: &Value, write: &Write) -> Result<Value, ApiError> {
    let resource = &target.resource;
    let info = &resource.info;
    let mut config = body.clone();
    for field in ["apiVersion", "kind"] {
        if object::text(&config, &[field]).is_empty() {
            return Err(ApiError::bad_request(format!("Object '{field}' is missing in '{body}'")));
        }
    }
    shape::check_type(resource, &mut config)?;
    if !object::list(&config, &["metadata", "managedFields"]).is_empty() {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    if object::name(&config).is_empty() {
        let cause = Cause::required("metadata.name", "name is required");
        return Err(ApiError::invalid(&info.group, &info.kind, &target.name, &[cause]));
    }
    shape::check_identity(target, &mut config)?;
    object::remove(&mut config, &["metadata", "resourceVersion"]);
    if let Some(fields) = config.as_object_mut() {
        match write.part {
            Part::Status if resource.custom.is_some() => {
                let metadata = json!({ "name": target.name });
                fields.retain(|key, _| matches!(key.as_str(), "apiVersion" | "kind" | "status"));
                fields.insert("metadata".to_owned(), metadata);
            }
            Part::Status => fields.retain(|key, _| key != "spec"),
            Part::Main if info.has("status") => {
                fields.remove("status");
            }
            Part::Main | Part::Whole => {}
        }
    }
    let mut config = without_nulls(&config);
    if resource.custom.is_none() {
        // The stored object has canonical quantities: another spelling is the same value.
        quantity::canonicalise(&mut config).map_err(ApiError::bad_request)?;
    }
    Ok(config)
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, field)| !field.is_null())
                .map(|(key, field)| (key.clone(), without_nulls(field)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

fn merge<'p>(live: &Value, config: &'p Value, rules: Rules<'_>, path: &mut Vec<&'p str>) -> Value {
    match (live, config) {
        (Value::Object(present), Value::Object(wanted)) if !rules.atomic_map(path) => {
            let mut merged = present.clone();
            for (key, field) in wanted {
                path.push(key);
                let below = merge(present.get(key).unwrap_or(&Value::Null), field, rules, path);
                path.pop();
                merged.insert(key.clone(), below);
            }
            Value::Object(merged)
        }
        (Value::Array(present), Value::Array(wanted)) => match rules.list(path) {
            ListRule::Atomic => config.clone(),
            ListRule::Set => {
                let mut merged = present.clone();
                merged.extend(wanted.iter().filter(|entry| !present.contains(entry)).cloned());
                Value::Array(merged)
            }
            ListRule::Map(names) => merge_entries(present, wanted, &names, rules, path),
        },
        _ => config.clone(),
    }
}

fn merge_entries<'p>(
    present: &[Value],
    wanted: &'p [Value],
    names: &[String],
    rules: Rules<'_>,
    path: &mut Vec<&'p str>,
) -> Value {
    let mut merged = present.to_vec();
    for entry in wanted {
        let step = key_step(entry, names);
        path.push("*");
        match merged.iter_mut().find(|other| key_step(other, names) == step) {
            Some(slot) => *slot = merge(slot, entry, rules, path),
            None => merged.push(entry.clone()),
        }
        path.pop();
    }
    Value::Array(merged)
}

/// Removes the fields that the manager had applied before, does not apply now, and shares with no other.
fn prune(merged: &mut Value, managers: &[Manager], me: &Manager, rules: Rules<'_>) {
    let Some(before) = managers.iter().find(|manager| manager.is(me)) else { return };
    let mut kept = me.fields.clone();
    for other in managers.iter().filter(|manager| !manager.is(me)) {
        kept.add(&other.fields);
    }
    let given_up = before.fields.minus(&kept);
    cut(merged, &given_up, &kept, rules, &mut Vec::new());
}

fn cut<'p>(
    value: &mut Value,
    given_up: &'p FieldSet,
    kept: &FieldSet,
    rules: Rules<'_>,
    path: &mut Vec<&'p str>,
) {
    let nothing = FieldSet::default();
    for (step, child) in given_up.steps() {
        let kept = kept.child(step).unwrap_or(&nothing);
        let whole = child.owns() && kept.is_empty();
        match (step, &mut *value) {
            (FieldStep::Field(name), Value::Object(map)) => {
                path.push(name);
                if whole {
                    map.remove(name);
                } else if let Some(field) = map.get_mut(name) {
                    cut(field, child, kept, rules, path);
                    let emptied = matches!(field, Value::Object(inner) if inner.is_empty())
                        || matches!(field, Value::Array(inner) if inner.is_empty());
                    if emptied && kept.is_empty() {
                        map.remove(name);
                    }
                }
                path.pop();
            }
            (FieldStep::Value(text), Value::Array(list)) => list.retain(|entry| !is_json(entry, text)),
            (FieldStep::Key(_), Value::Array(list)) => {
                let ListRule::Map(names) = rules.list(path) else { continue };
                if whole {
                    list.retain(|entry| key_step(entry, &names) != *step);
                } else if let Some(entry) = list.iter_mut().find(|entry| key_step(entry, &names) == *step) {
                    path.push("*");
                    cut(entry, child, kept, rules, path);
                    path.pop();
                }
            }
            _ => {}
        }
    }
}

/// Whether a text is the JSON of a value.
fn is_json(value: &Value, text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|parsed| parsed == *value)
}

/// Rejects changes of fields of other managers, or takes their ownership.
fn take_over(
    managers: &mut [Manager],
    me: &Manager,
    changed: &FieldSet,
    force: bool,
) -> Result<(), ApiError> {
    let mut conflicts: Vec<(String, Vec<String>)> = Vec::new();
    for manager in managers.iter_mut().filter(|manager| !manager.is(me)) {
        let contested = manager.fields.intersect(changed).intersect(&me.fields);
        if contested.is_empty() {
            continue;
        }
        if force {
            manager.fields = manager.fields.minus(&contested);
        } else {
            let mut paths = Vec::new();
            contested.paths("", &mut paths);
            conflicts.push((manager.shown(), paths));
        }
    }
    if conflicts.is_empty() { Ok(()) } else { Err(conflict(&conflicts)) }
}

fn conflict(conflicts: &[(String, Vec<String>)]) -> ApiError {
    let count: usize = conflicts.iter().map(|(_, paths)| paths.len()).sum();
    let message = match conflicts {
        [(manager, paths)] if paths.len() == 1 => {
            format!("Apply failed with 1 conflict: conflict with {manager}: {}", paths[0])
        }
        many => {
            let lines: Vec<String> = many
                .iter()
                .map(|(manager, paths)| format!("conflicts with {manager}:\n- {}", paths.join("\n- ")))
                .collect();
            format!(
                "Apply failed with {count} conflict{}: {}",
                if count == 1 { "" } else { "s" },
                lines.join("\n")
            )
        }
    };
    let mut error = ApiError::new(409, "Conflict", message);
    error.details = Value::Object(Map::new());
    for (manager, paths) in conflicts {
        for path in paths {
            error = error.cause("FieldManagerConflict", &format!("conflict with {manager}"), path);
        }
    }
    error
}
