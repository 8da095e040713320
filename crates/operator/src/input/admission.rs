//! What admission plugins of the API server write into new pods and claims: pods of manifests and workloads have not been through it.
//!
//! - RuntimeClass: the overhead, node selector and tolerations of the class.
//! - LimitRanger: the default requests and limits of containers in the namespace.
//! - DefaultStorageClass: the class of a PersistentVolumeClaim that names none.
//!
//! Objects that an API server stored have been through it and stay as they are.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_state::lower::{limit_range::ContainerDefaults, requests};
use k8s_openapi::api::core::v1::{LimitRange, PodSpec};
use serde_json::{Map, Value, json};

use super::{
    Item,
    object::{id_of, namespace_of},
    prepare,
};

/// The annotation that marks the default StorageClass, and the one before it.
const IS_DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// Admits the pods and PersistentVolumeClaims that no API server has stored. Returns notes on what could not be applied.
pub(super) fn admit(items: &mut [Item]) -> Vec<String> {
    let runtimes = of_kind(items, "RuntimeClass").map(|value| (id_of(value).1, value.clone())).collect();
    let ranges = ranges(items);
    let storage = default_storage_class(items);
    let mut notes = Notes::default();
    for Item { value, .. } in items.iter_mut() {
        match value["kind"].as_str() {
            Some("Pod") if is_new(value) => {
                apply_runtime_class(value, &runtimes, &mut notes);
                if let Some(defaults) = ranges.get(&namespace_of(value)) {
                    apply_limit_ranges(value, defaults);
                }
            }
            Some("PersistentVolumeClaim") if !prepare::is_dump(value) => {
                apply_storage_class(value, storage.as_deref());
            }
            _ => {}
        }
    }
    notes.lines()
}

fn of_kind<'a>(items: &'a [Item], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    items.iter().map(|item| &item.value).filter(move |value| value["kind"] == kind)
}

/// Whether a pod was made by a tool or stands in a manifest: an API server gives each pod a UID.
pub(super) fn is_new(pod: &Value) -> bool {
    !prepare::is_dump(pod) && pod["metadata"]["uid"].as_str().is_none_or(str::is_empty)
}

/// RuntimeClasses that the input lacks, with the pods that name them.
#[derive(Default)]
struct Notes {
    lacking: BTreeMap<String, BTreeSet<(String, String)>>,
    conflicts: Vec<String>,
}

impl Notes {
    fn lines(self) -> Vec<String> {
        let lacking = self.lacking.into_iter().map(|(class, pods)| {
            let pods = if pods.len() == 1 { "1 pod".to_owned() } else { format!("{} pods", pods.len()) };
            format!(
                "no RuntimeClass {class} in the input: its overhead and its node selector are not counted for {pods}"
            )
        });
        lacking.chain(self.conflicts).collect()
    }
}

/// The defaults for containers, by namespace.
fn ranges(items: &[Item]) -> BTreeMap<String, ContainerDefaults> {
    let mut found: BTreeMap<String, BTreeMap<String, LimitRange>> = BTreeMap::new();
    for value in of_kind(items, "LimitRange") {
        // A malformed one is reported where it is loaded.
        if let Ok(range) = serde_json::from_value::<LimitRange>(value.clone()) {
            found.entry(namespace_of(value)).or_default().insert(id_of(value).1, range);
        }
    }
    found.into_iter().map(|(namespace, ranges)| (namespace, ContainerDefaults::of(ranges.values()))).collect()
}

/// The name of the default StorageClass: of several the newest, as the API server chooses, then the first by name.
fn default_storage_class(items: &[Item]) -> Option<String> {
    let is_default =
        |value: &&Value| IS_DEFAULT_CLASS.iter().any(|key| value["metadata"]["annotations"][*key] == "true");
    let created = |value: &Value| {
        let time = value.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
        time.unwrap_or_default().to_owned()
    };
    let name = |value: &Value| id_of(value).1;
    let defaults = of_kind(items, "StorageClass").filter(is_default);
    defaults.max_by_key(|value| (created(value), std::cmp::Reverse(name(value)))).map(name)
}

fn apply_storage_class(claim: &mut Value, class: Option<&str>) {
    let text = |pointer: &str| claim.pointer(pointer).and_then(Value::as_str);
    let annotated = text("/metadata/annotations/volume.beta.kubernetes.io~1storage-class").is_some();
    // An empty name asks for none.
    if text("/spec/storageClassName").is_some() || annotated {
        return;
    }
    if let (Some(class), Some(spec)) = (class, claim["spec"].as_object_mut()) {
        spec.insert("storageClassName".to_owned(), json!(class));
    }
}

fn apply_limit_ranges(pod: &mut Value, defaults: &ContainerDefaults) {
    // A malformed pod is reported where it is loaded.
    let Ok(spec) = serde_json::from_value::<PodSpec>(pod["spec"].clone()) else { return };
    let mut spec = requests::defaulted(&spec);
    defaults.apply(&mut spec);
    if let Ok(spec) = serde_json::to_value(spec) {
        pod["spec"] = spec;
    }
}

fn apply_runtime_class(pod: &mut Value, classes: &BTreeMap<String, Value>, notes: &mut Notes) {
    let name = pod["spec"]["runtimeClassName"].as_str().filter(|name| !name.is_empty());
    let Some(name) = name.map(str::to_owned) else { return };
    let id = id_of(pod);
    let Some(spec) = pod["spec"].as_object_mut() else { return };
    let Some(class) = classes.get(&name) else {
        if spec.get("overhead").is_none_or(Value::is_null) {
            notes.lacking.entry(name).or_default().insert(id);
        }
        return;
    };
    if let Some(overhead) = class.pointer("/overhead/podFixed").filter(|fixed| fixed.is_object()) {
        spec.insert("overhead".to_owned(), overhead.clone());
    }
    let wanted = class.pointer("/scheduling/nodeSelector").and_then(Value::as_object);
    if let Some((key, value, own)) = wanted.and_then(|wanted| merge_selector(spec, wanted)) {
        notes.conflicts.push(format!(
            "pod {}/{}: its node selector {key}={own} conflicts with {value} of RuntimeClass {name}: the API server refuses the pod",
            id.0, id.1
        ));
    }
    let tolerations = class.pointer("/scheduling/tolerations").and_then(Value::as_array);
    if let Some(tolerations) = tolerations.filter(|all| !all.is_empty()) {
        let own = spec.entry("tolerations").or_insert_with(|| json!([]));
        if own.is_null() {
            *own = json!([]);
        }
        if let Some(own) = own.as_array_mut() {
            for toleration in tolerations {
                if !own.contains(toleration) {
                    own.push(toleration.clone());
                }
            }
        }
    }
}

/// Adds the labels to the node selector of a pod. Returns a label for which it has another value: key, value of the class, own value.
fn merge_selector(
    spec: &mut Map<String, Value>,
    wanted: &Map<String, Value>,
) -> Option<(String, String, String)> {
    let own = spec.entry("nodeSelector").or_insert_with(|| json!({}));
    if own.is_null() {
        *own = json!({});
    }
    let own = own.as_object_mut()?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut conflict = None;
    for (key, value) in wanted {
        match own.get(key) {
            Some(known) if known != value => conflict = Some((key.clone(), text(value), text(known))),
            _ => _ = own.insert(key.clone(), value.clone()),
        }
    }
    conflict
}

#[cfg(test)]
mod tests {
    //! Manifests as an API server stores them.
    use std::path::Path;

    use rstest::rstest;

    use super::*;
    use crate::input::files;

    const CLUSTER: &str = "
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: kata}, handler: kata, overhead: {podFixed: {cpu: 250m}}, scheduling: {nodeSelector: {a: b}, tolerations: [{key: kata}]}}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: r, namespace: limited}, spec: {limits: [{type: Container, defaultRequest: {cpu: 500m}}]}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: gp2, annotations: {storageclass.kubernetes.io/is-default-class: \"true\"}}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: other}}
---
";

    fn admitted(text: &str) -> (Value, Vec<String>) {
        let mut items = Vec::new();
        files::parse(Path::new("in.yaml"), &format!("{CLUSTER}{text}"), &mut items).unwrap();
        let notes = admit(&mut items);
        (items.pop().unwrap().value, notes)
    }

    #[rstest]
    #[case::runtime_class(
        "{kind: Pod, metadata: {name: p}, spec: {runtimeClassName: kata, nodeSelector: {c: d}, containers: []}}",
        "/spec",
        json!({"runtimeClassName": "kata", "overhead": {"cpu": "250m"}, "nodeSelector": {"a": "b", "c": "d"}, "tolerations": [{"key": "kata"}], "containers": []}),
        &[]
    )]
    #[case::runtime_class_of_a_stored_pod(
        "{kind: Pod, metadata: {name: p, uid: u}, spec: {runtimeClassName: kata}, status: {phase: Pending}}",
        "/spec",
        json!({"runtimeClassName": "kata"}),
        &[]
    )]
    #[case::runtime_class_not_in_the_input(
        "{kind: Pod, metadata: {name: p}, spec: {runtimeClassName: gvisor}}",
        "/spec",
        json!({"runtimeClassName": "gvisor"}),
        &["no RuntimeClass gvisor in the input: its overhead and its node selector are not counted for 1 pod"]
    )]
    #[case::runtime_class_in_conflict(
        "{kind: Pod, metadata: {name: p}, spec: {runtimeClassName: kata, nodeSelector: {a: c}}}",
        "/spec/nodeSelector",
        json!({"a": "c"}),
        &["pod default/p: its node selector a=c conflicts with b of RuntimeClass kata: the API server refuses the pod"]
    )]
    #[case::limit_range(
        "{kind: Pod, metadata: {name: p, namespace: limited}, spec: {containers: [{name: c}]}}",
        "/spec/containers/0/resources/requests",
        json!({"cpu": "500m"}),
        &[]
    )]
    #[case::a_limit_is_the_request(
        "{kind: Pod, metadata: {name: p, namespace: limited}, spec: {containers: [{name: c, resources: {limits: {cpu: 2}}}]}}",
        "/spec/containers/0/resources/requests",
        json!({"cpu": "2"}),
        &[]
    )]
    #[case::another_namespace("{kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}", "/spec/containers", json!([{"name": "c"}]), &[])]
    #[case::default_class("{kind: PersistentVolumeClaim, metadata: {name: c}, spec: {}}", "/spec", json!({"storageClassName": "gp2"}), &[])]
    #[case::no_class("{kind: PersistentVolumeClaim, metadata: {name: c}, spec: {storageClassName: ''}}", "/spec", json!({"storageClassName": ""}), &[])]
    fn as_stored(#[case] text: &str, #[case] pointer: &str, #[case] expected: Value, #[case] notes: &[&str]) {
        let (value, found) = admitted(&text.replacen('{', "{apiVersion: v1, ", 1));
        assert_eq!(value.pointer(pointer), Some(&expected));
        assert_eq!(found, notes);
    }
}
