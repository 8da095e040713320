//! Prepares manifests for decisions: defaults and validation of the API server, and the status of pods in files.

use std::{collections::BTreeMap, sync::OnceLock};

use fleetwright_api::{
    self as api,
    condition::{Condition, ConditionStatus},
    crd,
    labels::condition::READY,
};
use serde_json::{Value, json};

use super::{definition::Definition, invalid::Invalid};

/// The schemas of the custom resources, by kind.
pub(super) struct Schemas(BTreeMap<String, Served>);

/// The served version of a kind.
struct Served {
    /// Group and version, as objects name them.
    version: String,
    definition: Definition,
}

impl Schemas {
    /// Those of Karpenter's own kinds, parsed once. Label rules differ by cloud and are checked later, as the controller does.
    ///
    /// # Errors
    /// If a CRD of this build is invalid.
    pub(super) fn shared() -> anyhow::Result<&'static Self> {
        static LOADED: OnceLock<Schemas> = OnceLock::new();
        if let Some(known) = LOADED.get() {
            return Ok(known);
        }
        let loaded = Self::load()?;
        Ok(LOADED.get_or_init(|| loaded))
    }

    fn load() -> anyhow::Result<Self> {
        let mut schemas = BTreeMap::new();
        for crd in crd::kwok() {
            let Some(version) = crd.spec.versions.first() else { continue };
            let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
            let Some(schema) = schema else { continue };
            let definition = Definition::parse(serde_json::to_value(schema)?)?;
            let version = format!("{}/{}", crd.spec.group, version.name);
            schemas.insert(crd.spec.names.kind, Served { version, definition });
        }
        Ok(Self(schemas))
    }

    /// Prunes nulls and applies defaults as the API server does. Returns why the API server would refuse the object, if so.
    pub(super) fn admit(&self, kind: &str, value: &mut Value) -> Vec<Invalid> {
        let Some(Served { version, definition }) = self.0.get(kind) else { return Vec::new() };
        let written = value["apiVersion"].as_str().unwrap_or_default();
        if written == version {
            return definition.admit(value);
        }
        let (path, message) = ("apiVersion".to_owned(), format!("{written} is not served"));
        vec![Invalid { path, message, fix: format!("convert it to {version}").into() }]
    }
}

/// Sets the namespace, if the object needs one, and a UID, as an API server does.
pub(super) fn identify(value: &mut Value, namespaced: bool) {
    let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    // Resource versions are comparable within one server only.
    meta.remove("resourceVersion");
    let filled = |meta: &serde_json::Map<String, Value>, key: &str| {
        meta.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
    };
    if namespaced && !filled(meta, "namespace") {
        meta.insert("namespace".to_owned(), json!("default"));
    }
    if !filled(meta, "uid") {
        let text = |key: &str| meta.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let uid = format!("{}/{}", text("namespace"), text("name"));
        meta.insert("uid".to_owned(), json!(uid));
    }
}

/// Whether an object of a file was dumped from an API server, with its status, which is then used unchanged.
pub(super) fn is_dump(value: &Value) -> bool {
    let has_status = value["status"].as_object().is_some_and(|status| !status.is_empty());
    let is_stored = |key: &str| value["metadata"][key].as_str().is_some_and(|text| !text.is_empty());
    has_status && (is_stored("uid") || is_stored("resourceVersion"))
}

/// Adds the fields to a manifest that controllers of a cluster would have written.
pub(super) fn manifest(kind: &str, value: &mut Value) {
    match kind {
        "Pod" => pending(value),
        "PersistentVolumeClaim" => bound(value),
        _ => {}
    }
}

/// A pod of a manifest without a node is pending: a manifest has no status of the scheduler.
fn pending(value: &mut Value) {
    if !text(value, "/spec/nodeName").is_empty()
        || matches!(text(value, "/status/phase"), "Succeeded" | "Failed")
        || !text(value, "/metadata/deletionTimestamp").is_empty()
        || value
            .pointer("/spec/schedulingGates")
            .and_then(Value::as_array)
            .is_some_and(|gates| !gates.is_empty())
    {
        return;
    }
    let Some(object) = value.as_object_mut() else { return };
    let status = object.entry("status").or_insert_with(|| json!({}));
    if status.is_null() {
        *status = json!({});
    }
    let Some(status) = status.as_object_mut() else { return };
    let said = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "lastProbeTime": null, "lastTransitionTime": null,
    });
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|condition| condition["type"] != "PodScheduled");
        conditions.push(said);
    } else if conditions.is_null() {
        *conditions = json!([said]);
    }
}

/// The label that the API server gives every namespace: its name.
pub(super) fn named(value: &mut Value) {
    let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(name) = meta.get("name").cloned() else { return };
    let labels = meta.entry("labels").or_insert_with(|| json!({}));
    if labels.is_null() {
        *labels = json!({});
    }
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name);
    }
}

/// A PersistentVolumeClaim of a manifest with a volume name is bound: the annotation of the binder is not part of a manifest.
fn bound(value: &mut Value) {
    if text(value, "/spec/volumeName").is_empty() {
        return;
    }
    let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let annotations = meta.entry("annotations").or_insert_with(|| json!({}));
    if annotations.is_null() {
        *annotations = json!({});
    }
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.entry("pv.kubernetes.io/bind-completed").or_insert_with(|| json!("yes"));
    }
}

/// Whether kube-scheduler reported that a pod fits no node.
pub(super) fn is_refused(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let refused = |condition: &Value| {
        condition["type"] == "PodScheduled"
            && condition["status"] == "False"
            && condition["reason"] == "Unschedulable"
    };
    conditions.is_some_and(|conditions| conditions.iter().any(refused))
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Sets the Ready condition of a NodePool.
pub(super) fn set_ready(pool: &mut api::NodePool, ready: Result<(), (&str, String)>) {
    let conditions = &mut pool.status.get_or_insert_default().conditions;
    conditions.retain(|condition| condition.type_ != READY);
    let (status, reason, message) = match ready {
        Ok(()) => (ConditionStatus::True, READY.to_owned(), String::new()),
        Err((reason, message)) => (ConditionStatus::False, reason.to_owned(), message),
    };
    conditions.push(Condition { type_: READY.to_owned(), status, reason, message, ..Condition::default() });
}

/// The drift hash of a NodePool as an API server would hold it; `None` for one that it would refuse.
pub(crate) fn pool_hash(pool: &Value) -> Option<String> {
    let mut pool = pool.clone();
    if !Schemas::shared().ok()?.admit("NodePool", &mut pool).is_empty() {
        return None;
    }
    serde_json::from_value::<api::NodePool>(pool).ok().map(|pool| pool.drift_hash())
}

/// Writes the drift hash of a NodePool, as the hash controller does.
pub(super) fn stamp(pool: &mut api::NodePool) {
    let hash = pool.drift_hash();
    let annotations = pool.metadata.annotations.get_or_insert_default();
    annotations.insert(api::labels::NODEPOOL_HASH.to_owned(), hash);
    let version = api::labels::CURRENT_NODEPOOL_HASH_VERSION.to_owned();
    annotations.insert(api::labels::NODEPOOL_HASH_VERSION.to_owned(), version);
}
