//! Defaults of the smaller kinds.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::object;

/// Sets the defaults of a kind of the core, storage, scheduling and policy groups.
pub(super) fn default(kind: &str, value: &mut Value) {
    match kind {
        "Service" => service(value),
        "Secret" => secret(value),
        "PersistentVolumeClaim" => {
            object::put_default(value, &["spec", "volumeMode"], "Filesystem");
        }
        "PersistentVolume" => {
            object::put_default(value, &["spec", "volumeMode"], "Filesystem");
            object::put_default(value, &["spec", "persistentVolumeReclaimPolicy"], "Retain");
        }
        "Event" => {
            object::put_default(value, &["source"], serde_json::Map::new());
            object::put_default(value, &["type"], "Normal");
        }
        "StorageClass" => {
            object::put_default(value, &["reclaimPolicy"], "Delete");
            object::put_default(value, &["volumeBindingMode"], "Immediate");
        }
        "CSIDriver" => {
            for (field, default) in [("attachRequired", json!(true)), ("podInfoOnMount", json!(false))] {
                object::put_default(value, &["spec", field], default);
            }
            object::put_default(value, &["spec", "fsGroupPolicy"], "ReadWriteOnceWithFSType");
            object::put_default(value, &["spec", "volumeLifecycleModes"], json!(["Persistent"]));
        }
        "PriorityClass" => object::put_default(value, &["preemptionPolicy"], "PreemptLowerPriority"),
        _ => {}
    }
}

/// Moves entries of `stringData` to `data`.
fn secret(value: &mut Value) {
    object::put_default(value, &["type"], "Opaque");
    if let Some(Value::Object(texts)) = object::remove(value, &["stringData"]) {
        for (key, text) in texts {
            let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
            object::put(value, &["data", &key], encoded);
        }
    }
}

fn service(value: &mut Value) {
    object::put_default(value, &["spec", "type"], "ClusterIP");
    object::put_default(value, &["spec", "sessionAffinity"], "None");
    object::put_default(value, &["spec", "internalTrafficPolicy"], "Cluster");
    for port in object::at_mut(value, &["spec", "ports"]).and_then(Value::as_array_mut).into_iter().flatten()
    {
        object::put_default(port, &["protocol"], "TCP");
        let number = port["port"].clone();
        object::put_default(port, &["targetPort"], number);
    }
}

/// A new namespace is active, has the `kubernetes` finalizer and its name as a label.
pub(super) fn prepare_namespace(value: &mut Value) {
    object::put(value, &["spec", "finalizers"], json!(["kubernetes"]));
    object::put(value, &["status", "phase"], "Active");
    label_namespace(value);
}

/// Restores the label with the namespace's name.
pub(super) fn label_namespace(value: &mut Value) {
    let name = object::name(value).to_owned();
    object::put(value, &["metadata", "labels", "kubernetes.io/metadata.name"], name);
}
