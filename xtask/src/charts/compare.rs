//! Objects as tables that compare by meaning, and what differs between two of them.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use serde_json::{Map, Value, json};

/// Objects by kind, namespace and name.
pub(super) type Table = BTreeMap<String, Value>;

/// The labels that carry the chart's own version.
const VERSIONS: [&str; 2] = ["helm.sh/chart", "app.kubernetes.io/version"];
/// The table of `objects`: without nulls, versions of the chart, and the form in which RBAC rules are written.
///
/// # Errors
/// An object has no kind or name, or stands there twice.
pub(super) fn table(objects: Vec<Value>) -> anyhow::Result<Table> {
    let mut table = Table::new();
    for mut object in objects {
        without_nulls(&mut object);
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let (kind, name) =
            text("/kind").zip(text("/metadata/name")).context("an object without kind or name")?;
        let key = format!("{kind} {}/{name}", text("/metadata/namespace").unwrap_or_default());
        if let Some(labels) = object.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.retain(|label, _| !VERSIONS.contains(&label.as_str()));
        }
        if let Some(rules) = object.get("rules").and_then(Value::as_array) {
            let flat = permissions(rules);
            object["rules"] = json!(flat);
        }
        ensure!(table.insert(key.clone(), object).is_none(), "{key} is rendered twice");
    }
    Ok(table)
}

/// A null is no field for the API server.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// What rules grant, as a sorted set of single permissions; how they are grouped into rules means nothing.
fn permissions(rules: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    for rule in rules {
        // A table that was read is flat already.
        if let Some(text) = rule.as_str() {
            found.push(text.to_owned());
            continue;
        }
        let names = list(rule, "resourceNames").join(",");
        for group in list(rule, "apiGroups") {
            for resource in list(rule, "resources") {
                for verb in list(rule, "verbs") {
                    found.push(format!("{verb} {group}/{resource} {names}").trim_end().to_owned());
                }
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

fn list<'a>(rule: &'a Value, field: &str) -> Vec<&'a str> {
    rule.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The images of the controllers' containers; in the table, the place of each holds nothing.
pub(super) fn images(table: &Table) -> Vec<String> {
    let deployments = table.iter().filter(|(key, _)| key.starts_with("Deployment "));
    let image = |(_, object): (_, &Value)| {
        object
            .pointer("/spec/template/spec/containers/0/image")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    deployments.map(image).collect()
}

/// Every place in which two tables differ, but for the image of a Deployment's first container.
pub(super) fn differences(theirs: &Table, ours: &Table) -> Vec<String> {
    let mut found = Vec::new();
    for (key, object) in theirs {
        match ours.get(key) {
            Some(own) => walk(key, object, own, &mut found),
            None => found.push(format!("- {key}")),
        }
    }
    found.extend(ours.keys().filter(|key| !theirs.contains_key(*key)).map(|key| format!("+ {key}")));
    found
}

pub(super) fn walk(path: &str, theirs: &Value, ours: &Value, found: &mut Vec<String>) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            let keys = theirs.keys().chain(ours.keys().filter(|key| !theirs.contains_key(*key)));
            for key in keys {
                let path = format!("{path}/{key}");
                if path.starts_with("Deployment ") && path.ends_with("/spec/template/spec/containers/0/image")
                {
                    continue;
                }
                walk(&path, field(theirs, key), field(ours, key), found);
            }
        }
        (Value::Array(theirs), Value::Array(ours)) if theirs.len() == ours.len() => {
            for (position, (theirs, ours)) in theirs.iter().zip(ours).enumerate() {
                walk(&format!("{path}/{position}"), theirs, ours, found);
            }
        }
        (theirs, ours) if theirs != ours => found.push(format!("{path}\n  - {theirs}\n  + {ours}")),
        _ => {}
    }
}

fn field<'a>(map: &'a Map<String, Value>, key: &str) -> &'a Value {
    map.get(key).unwrap_or(&Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(image: &str, replicas: u64) -> Value {
        json!({"kind": "Deployment", "metadata": {"name": "a", "namespace": "n", "annotations": null,
                   "labels": {"helm.sh/chart": format!("karpenter-{replicas}"), "a": "b"}},
               "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"image": image, "ports": [1, 2]}]}}}})
    }

    fn of(objects: &[Value]) -> Table {
        table(objects.to_vec()).unwrap()
    }

    #[test]
    fn image_versions_and_nulls_are_no_difference_and_everything_else_is() {
        let (theirs, ours) =
            (of(&[object("karpenter:1@sha256:a", 2)]), of(&[object("fleetwright:0.1.0", 2)]));
        assert_eq!(differences(&theirs, &ours), Vec::<String>::new());
        assert_eq!(images(&ours), ["fleetwright:0.1.0"]);
        let three = differences(&theirs, &of(&[object("fleetwright:0.1.0", 3)]));
        assert_eq!(three, ["Deployment n/a/spec/replicas\n  - 2\n  + 3"]);
        let mut planted = object("fleetwright:0.1.0", 2);
        planted["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
        planted["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([1]);
        assert_eq!(differences(&theirs, &of(&[planted])).len(), 2);
        let service = json!({"kind": "Service", "metadata": {"name": "b"}});
        assert_eq!(differences(&of(std::slice::from_ref(&service)), &Table::new()), ["- Service /b"]);
        assert_eq!(differences(&Table::new(), &of(std::slice::from_ref(&service))), ["+ Service /b"]);
        assert!(table(vec![service.clone(), service]).is_err());
    }

    #[test]
    fn rules_compare_by_what_they_grant() {
        let role = |rules: Value| of(&[json!({"kind": "Role", "metadata": {"name": "r"}, "rules": rules})]);
        let rule = |resources: &[&str], verbs: &[&str]| json!({"apiGroups": [""], "resources": resources, "verbs": verbs});
        let two = role(json!([rule(&["pods"], &["get"]), rule(&["nodes"], &["get"])]));
        let one = role(json!([rule(&["nodes", "pods"], &["get"])]));
        assert_eq!(differences(&two, &one), Vec::<String>::new());
        assert_eq!(differences(&two, &role(json!([rule(&["nodes", "pods", "secrets"], &["get"])]))).len(), 1);
        let named =
            json!([{"apiGroups": ["a"], "resources": ["b"], "verbs": ["get"], "resourceNames": ["c"]}]);
        assert_eq!(role(named)["Role /r"]["rules"], json!(["get a/b c"]));
    }
}
