//! Volumes, claims and storage classes.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{list, name, text, text_or};
use super::{Printer, age};

pub(super) fn printer(key: (&str, &str)) -> Option<Printer> {
    Some(match key {
        ("", "persistentvolumes") => Printer::new(
            &[
                "Name",
                "Capacity",
                "Access Modes",
                "Reclaim Policy",
                "Status",
                "Claim",
                "StorageClass",
                "VolumeAttributesClass",
                "Reason",
                "Age",
                "*VolumeMode",
            ],
            volume,
        ),
        ("", "persistentvolumeclaims") => Printer::new(
            &[
                "Name",
                "Status",
                "Volume",
                "Capacity",
                "Access Modes",
                "StorageClass",
                "VolumeAttributesClass",
                "Age",
                "*VolumeMode",
            ],
            claim,
        ),
        ("storage.k8s.io", "storageclasses") => Printer::new(
            &["Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"],
            class,
        ),
        _ => return None,
    })
}

fn phase(object: &Value) -> &str {
    let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
    if deleting { "Terminating" } else { text(object, "/status/phase") }
}

fn access_modes(object: &Value, pointer: &str) -> String {
    // The short forms stand in this order whatever the order of the list.
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let modes = list(object, pointer);
    let has = |mode: &str| modes.iter().any(|given| given.as_str() == Some(mode));
    SHORT.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

/// The storage class of the deprecated annotation, else of the field.
fn storage_class(object: &Value) -> &str {
    let annotation = text(object, "/metadata/annotations/volume.beta.kubernetes.io~1storage-class");
    if annotation.is_empty() { text(object, "/spec/storageClassName") } else { annotation }
}

fn volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let claim = object.pointer("/spec/claimRef").filter(|claim| !claim.is_null());
    let claim = claim
        .map_or_else(String::new, |claim| format!("{}/{}", text(claim, "/namespace"), text(claim, "/name")));
    vec![
        name(object),
        json!(text_or(object, "/spec/capacity/storage", "0")),
        json!(access_modes(object, "/spec/accessModes")),
        json!(text(object, "/spec/persistentVolumeReclaimPolicy")),
        json!(phase(object)),
        json!(claim),
        json!(storage_class(object)),
        json!(text_or(object, "/spec/volumeAttributesClassName", "<unset>")),
        json!(text(object, "/status/reason")),
        age::cell(object, now),
        json!(text_or(object, "/spec/volumeMode", "<unset>")),
    ]
}

fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let volume = text(object, "/spec/volumeName");
    let (capacity, modes) = if volume.is_empty() {
        ("", String::new())
    } else {
        (text_or(object, "/status/capacity/storage", "0"), access_modes(object, "/status/accessModes"))
    };
    vec![
        name(object),
        json!(phase(object)),
        json!(volume),
        json!(capacity),
        json!(modes),
        json!(storage_class(object)),
        json!(text_or(object, "/spec/volumeAttributesClassName", "<unset>")),
        age::cell(object, now),
        json!(text_or(object, "/spec/volumeMode", "<unset>")),
    ]
}

fn class(object: &Value, now: Timestamp) -> Vec<Value> {
    let is_default =
        ["storageclass.kubernetes.io~1is-default-class", "storageclass.beta.kubernetes.io~1is-default-class"]
            .iter()
            .any(|key| text(object, &format!("/metadata/annotations/{key}")) == "true");
    let suffix = if is_default { " (default)" } else { "" };
    vec![
        json!(format!("{}{suffix}", text(object, "/metadata/name"))),
        json!(text(object, "/provisioner")),
        json!(text_or(object, "/reclaimPolicy", "Delete")),
        json!(text_or(object, "/volumeBindingMode", "Immediate")),
        json!(object.get("allowVolumeExpansion").and_then(Value::as_bool).unwrap_or(false)),
        age::cell(object, now),
    ]
}
