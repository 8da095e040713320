//! CapacityBuffer: room that is kept ready for pods to come. The kind is the cluster-autoscaler's.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::schema::{self, rules};
use crate::shared::Quantities;

/// The strategy that is served: chunks of the buffer are made real by nodes.
pub const ACTIVE_CAPACITY: &str = "buffer.x-k8s.io/active-capacity";

/// The shape of one chunk and the number of chunks.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1beta1",
    kind = "CapacityBuffer",
    plural = "capacitybuffers",
    doc = "A CapacityBuffer keeps capacity for future pods: a number of chunks, each of the size of one pod.",
    namespaced,
    category = "autoscaling",
    shortname = "cb",
    status = "CapacityBufferStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Strategy", "type": "string", "jsonPath": ".spec.provisioningStrategy", "description": "How the room is kept."}"#,
    printcolumn = r#"{"name": "PodTemplate", "type": "string", "jsonPath": ".status.podTemplateRef.name", "description": "The PodTemplate that gives the shape of a chunk."}"#,
    printcolumn = r#"{"name": "Replicas", "type": "integer", "jsonPath": ".status.replicas", "description": "How many chunks there are."}"#,
    printcolumn = r#"{"name": "ConditionsType", "type": "string", "jsonPath": ".status.conditions[*].type", "description": "Types of all conditions."}"#,
    printcolumn = r#"{"name": "ConditionsStatus", "type": "string", "jsonPath": ".status.conditions[*].status", "description": "Statuses of all conditions."}"#,
    printcolumn = r#"{"name": "ConditionsReason", "type": "string", "jsonPath": ".status.conditions[*].reason", "description": "Reasons of all conditions."}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the buffer was made."}"#
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
        "If podTemplateRef is set, replicas or limits must also be set",
    ),
    (
        "!(has(self.podTemplateRef) && has(self.scalableRef))",
        "You must define either PodTemplateRef or ScalableRef, but not both",
    ),
])))]
pub struct CapacityBufferSpec {
    /// The most that all chunks together may ask for. Without replicas and percentage, as many chunks as fit in here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantities")]
    pub limits: Option<Quantities>,
    /// How many chunks, in percent of the replicas of scalableRef, rounded up and at least one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub percentage: Option<i32>,
    /// The PodTemplate in this namespace that gives the shape of a chunk. Excludes scalableRef.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalRef>,
    /// How the room is kept; the default keeps it by nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-crd-default" = ACTIVE_CAPACITY))]
    pub provisioning_strategy: Option<String>,
    /// How many chunks. With percentage, the smaller of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub replicas: Option<i32>,
    /// The workload in this namespace whose pods give the shape of a chunk. Excludes podTemplateRef.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableRef>,
}

/// Reference to an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct LocalRef {
    /// Name of the object.
    #[schemars(extend("minLength" = 1))]
    pub name: String,
}

/// Reference to an object with a scale subresource in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["kind", "name"]))]
pub struct ScalableRef {
    /// API group of the object; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// Kind of the object.
    #[schemars(extend("minLength" = 1))]
    pub kind: String,
    /// Name of the object.
    #[schemars(extend("minLength" = 1))]
    pub name: String,
}

/// The observed state of a CapacityBuffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityBufferStatus {
    /// Signals about the buffer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Generation of the PodTemplate that this status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// The PodTemplate that gives the shape of a chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalRef>,
    /// How the room is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// How many chunks there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}
