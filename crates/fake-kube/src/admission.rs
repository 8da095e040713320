//! Defaults and default admission plugins, by kind.

use serde_json::{Map, Value};

use crate::cluster::{ClusterState, Part};
use crate::object;
use crate::registry::Resource;
use crate::status::ApiError;

mod limit_range;
mod misc;
mod node;
mod pod;
mod workload;

pub(crate) use pod::effective_phase_ready;

/// Whether objects of the resource have generations.
pub(crate) fn has_generation(resource: &Resource) -> bool {
    const COUNTED: &[&str] = &[
        "ControllerRevision",
        "CronJob",
        "CustomResourceDefinition",
        "DaemonSet",
        "Deployment",
        "DeviceClass",
        "EndpointSlice",
        "Ingress",
        "Job",
        "MutatingWebhookConfiguration",
        "NetworkPolicy",
        "Pod",
        "PodDisruptionBudget",
        "PriorityClass",
        "ReplicaSet",
        "ReplicationController",
        "ResourceSlice",
        "StatefulSet",
        "ValidatingAdmissionPolicy",
        "ValidatingWebhookConfiguration",
    ];
    resource.custom.is_some() || COUNTED.contains(&resource.info.kind.as_str())
}

/// Whether an update without a resourceVersion is accepted.
pub(crate) fn unconditional_update(resource: &Resource) -> bool {
    let kind = resource.info.kind.as_str();
    resource.custom.is_none() && !matches!(kind, "Lease" | "PodDisruptionBudget" | "CustomResourceDefinition")
}

/// Whether an update of an absent object creates it.
pub(crate) fn creates_on_update(resource: &Resource) -> bool {
    resource.custom.is_none() && matches!(resource.info.kind.as_str(), "Lease" | "Event")
}

/// Fills in the defaults of a kind. Runs on creation and on every update; must be idempotent.
pub(crate) fn default(resource: &Resource, value: &mut Value) {
    let info = &resource.info;
    match (info.group.as_str(), info.kind.as_str()) {
        ("", "Pod") => pod::default(value),
        ("", "PodTemplate") => pod::default_template(value, &["template"]),
        ("", "Node") => node::default(value),
        ("", "LimitRange") => limit_range::default(value),
        ("", "ReplicationController") => workload::default(&info.kind, value),
        ("", _) | ("storage.k8s.io" | "scheduling.k8s.io" | "policy", _) => misc::default(&info.kind, value),
        ("apps" | "batch" | "autoscaling", kind) => workload::default(kind, value),
        _ => {}
    }
}

/// Resets fields that a client may not set at creation.
pub(crate) fn prepare_create(resource: &Resource, value: &mut Value) {
    let info = &resource.info;
    if info.has("status") && !resource.is("", "Node") && !crate::crds::is_definition(resource) {
        object::remove(value, &["status"]);
    }
    match (info.group.as_str(), info.kind.as_str()) {
        ("", "Pod") => pod::prepare_create(value),
        ("", "Namespace") => misc::prepare_namespace(value),
        ("", "PersistentVolumeClaim" | "PersistentVolume") => {
            object::put(value, &["status", "phase"], "Pending")
        }
        ("", "Service") => object::put(value, &["status", "loadBalancer"], Map::new()),
        ("apps" | "batch" | "policy" | "autoscaling", _) if info.has("status") => {
            object::put(value, &["status"], workload::initial_status(&info.kind));
        }
        _ => {}
    }
}

/// The admission plugins at creation.
///
/// # Errors
/// 403 with the plugin's message.
pub(crate) fn admit_create(
    cluster: &ClusterState,
    resource: &Resource,
    value: &mut Value,
) -> Result<(), ApiError> {
    match (resource.info.group.as_str(), resource.info.kind.as_str()) {
        ("", "Pod") => {
            limit_range::admit(cluster, value);
            pod::admit(cluster, value)
        }
        ("", "Node") => {
            node::admit(value);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The admission plugins at an update.
///
/// # Errors
/// 403 as the plugin words it.
pub(crate) fn admit_update(
    _world: &ClusterState,
    resource: &Resource,
    old: &Value,
    new: &mut Value,
    part: Part,
) -> Result<(), ApiError> {
    if resource.is("", "Pod") && part == Part::Main {
        for field in ["priority", "preemptionPolicy", "serviceAccountName", "serviceAccount", "nodeName"] {
            if object::at(new, &["spec", field]).is_none() {
                object::copy(old, new, &["spec", field]);
            }
        }
    }
    if resource.is("", "Pod") {
        pod::tolerate_by_default(new);
    }
    if resource.is("", "Namespace") {
        misc::label_namespace(new);
    }
    Ok(())
}
