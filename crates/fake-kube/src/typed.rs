//! Converts built-in objects through their Rust types: invalid types are rejected, unknown fields and nulls dropped and timestamps
//! normalized, as decoding into Go structs does.

use k8s_openapi::api::{
    admissionregistration::v1 as admission, apps::v1 as apps, autoscaling::v2 as autoscaling,
    batch::v1 as batch, coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery,
    networking::v1 as networking, policy::v1 as policy, rbac::v1 as rbac, resource::v1 as resource,
    scheduling::v1 as scheduling, storage::v1 as storage,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Decodes and encodes an object; `None` for kinds without a type here.
///
/// # Errors
/// The decoder's message.
pub(crate) fn normalise(group: &str, kind: &str, value: &Value) -> Option<Result<Value, String>> {
    let normalised = match (group, kind) {
        ("", kind) => return core_group(kind, value),
        ("apps", "ControllerRevision") => through::<apps::ControllerRevision>(value),
        ("apps", "DaemonSet") => through::<apps::DaemonSet>(value),
        ("apps", "Deployment") => through::<apps::Deployment>(value),
        ("apps", "ReplicaSet") => through::<apps::ReplicaSet>(value),
        ("apps", "StatefulSet") => through::<apps::StatefulSet>(value),
        ("autoscaling", "HorizontalPodAutoscaler") => through::<autoscaling::HorizontalPodAutoscaler>(value),
        ("batch", "CronJob") => through::<batch::CronJob>(value),
        ("batch", "Job") => through::<batch::Job>(value),
        ("coordination.k8s.io", "Lease") => through::<coordination::Lease>(value),
        ("discovery.k8s.io", "EndpointSlice") => through::<discovery::EndpointSlice>(value),
        ("networking.k8s.io", "Ingress") => through::<networking::Ingress>(value),
        ("networking.k8s.io", "NetworkPolicy") => through::<networking::NetworkPolicy>(value),
        ("policy", "PodDisruptionBudget") => through::<policy::PodDisruptionBudget>(value),
        ("scheduling.k8s.io", "PriorityClass") => through::<scheduling::PriorityClass>(value),
        (group, kind) => return other_groups(group, kind, value),
    };
    Some(normalised)
}

fn core_group(kind: &str, value: &Value) -> Option<Result<Value, String>> {
    Some(match kind {
        "ConfigMap" => through::<core::ConfigMap>(value),
        "Endpoints" => through::<core::Endpoints>(value),
        "Event" => through::<core::Event>(value),
        "LimitRange" => through::<core::LimitRange>(value),
        "Namespace" => through::<core::Namespace>(value),
        "Node" => through::<core::Node>(value),
        "PersistentVolume" => through::<core::PersistentVolume>(value),
        "PersistentVolumeClaim" => through::<core::PersistentVolumeClaim>(value),
        "Pod" => through::<core::Pod>(value),
        "PodTemplate" => through::<core::PodTemplate>(value),
        "ReplicationController" => through::<core::ReplicationController>(value),
        "ResourceQuota" => through::<core::ResourceQuota>(value),
        "Secret" => through::<core::Secret>(value),
        "Service" => through::<core::Service>(value),
        "ServiceAccount" => through::<core::ServiceAccount>(value),
        _ => return None,
    })
}

fn other_groups(group: &str, kind: &str, value: &Value) -> Option<Result<Value, String>> {
    Some(match (group, kind) {
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => {
            through::<admission::MutatingWebhookConfiguration>(value)
        }
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => {
            through::<admission::ValidatingWebhookConfiguration>(value)
        }
        ("rbac.authorization.k8s.io", "ClusterRole") => through::<rbac::ClusterRole>(value),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => through::<rbac::ClusterRoleBinding>(value),
        ("rbac.authorization.k8s.io", "Role") => through::<rbac::Role>(value),
        ("rbac.authorization.k8s.io", "RoleBinding") => through::<rbac::RoleBinding>(value),
        ("resource.k8s.io", "DeviceClass") => through::<resource::DeviceClass>(value),
        ("resource.k8s.io", "ResourceClaim") => through::<resource::ResourceClaim>(value),
        ("resource.k8s.io", "ResourceClaimTemplate") => through::<resource::ResourceClaimTemplate>(value),
        ("resource.k8s.io", "ResourceSlice") => through::<resource::ResourceSlice>(value),
        ("storage.k8s.io", "CSIDriver") => through::<storage::CSIDriver>(value),
        ("storage.k8s.io", "CSINode") => through::<storage::CSINode>(value),
        ("storage.k8s.io", "CSIStorageCapacity") => through::<storage::CSIStorageCapacity>(value),
        ("storage.k8s.io", "StorageClass") => through::<storage::StorageClass>(value),
        ("storage.k8s.io", "VolumeAttachment") => through::<storage::VolumeAttachment>(value),
        _ => return None,
    })
}

/// Decodes and encodes `metadata`, for objects without a type here.
///
/// # Errors
/// The decoder's message.
pub(crate) fn metadata(value: &Value) -> Result<Value, String> {
    through::<ObjectMeta>(value)
}

fn through<T: DeserializeOwned + Serialize>(value: &Value) -> Result<Value, String> {
    let typed: T = T::deserialize(value).map_err(|error| error.to_string())?;
    serde_json::to_value(typed).map_err(|error| error.to_string())
}

/// Fields of `given` that decoding dropped because the type does not have them.
pub(crate) fn unknown(given: &Value, kept: &Value, path: &str, found: &mut Vec<String>) {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => {
            for (key, value) in given.iter().filter(|(_, value)| !value.is_null()) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match kept.get(key) {
                    Some(kept) => unknown(value, kept, &path, found),
                    None => found.push(path),
                }
            }
        }
        (Value::Array(given), Value::Array(kept)) => {
            for (index, (value, kept)) in given.iter().zip(kept).enumerate() {
                unknown(value, kept, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// Lists that are kept when empty.
const KEPT_LISTS: &[&str] = &["rules", "containers", "items", "values", "accessModes", "subsets"];
/// Maps that are dropped when empty.
const DROPPED_MAPS: &[&str] = &[
    "labels",
    "annotations",
    "nodeSelector",
    "limits",
    "requests",
    "matchLabels",
    "data",
    "capacity",
    "allocatable",
    "overhead",
    "parameters",
];

/// Drops empty lists and maps, as Go's `omitempty` does.
pub(crate) fn omit_empty(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(omit_empty);
            map.retain(|key, value| match value {
                Value::Array(list) => !list.is_empty() || KEPT_LISTS.contains(&key.as_str()),
                Value::Object(inner) => !inner.is_empty() || !DROPPED_MAPS.contains(&key.as_str()),
                _ => true,
            });
        }
        Value::Array(list) => list.iter_mut().for_each(omit_empty),
        _ => {}
    }
}
