//! NodeClaim: one node that is asked for, from the launch to the end.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::{self, Condition};
use crate::duration::NillableDuration;
use crate::schema::{self, DURATION, DURATION_OR_NEVER, rules};
use crate::shared::{NodeClassRef, Quantities, REQUIREMENTS_RULES, Requirement, Taint};

/// What is asked for. It never changes.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodeClaim",
    plural = "nodeclaims",
    doc = "A NodeClaim requests one node and reports the progress of its launch.",
    category = "karpenter",
    status = "NodeClaimStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".metadata.labels.node\\.kubernetes\\.io/instance-type"}"#,
    printcolumn = r#"{"name": "Capacity", "type": "string", "jsonPath": ".metadata.labels.karpenter\\.sh/capacity-type"}"#,
    printcolumn = r#"{"name": "Zone", "type": "string", "jsonPath": ".metadata.labels.topology\\.kubernetes\\.io/zone"}"#,
    printcolumn = r#"{"name": "Node", "type": "string", "jsonPath": ".status.nodeName"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "ImageID", "type": "string", "jsonPath": ".status.imageID", "priority": 1}"#,
    printcolumn = r#"{"name": "ID", "type": "string", "jsonPath": ".status.providerID", "priority": 1}"#,
    printcolumn = r#"{"name": "NodePool", "type": "string", "jsonPath": ".metadata.labels.karpenter\\.sh/nodepool", "priority": 1}"#,
    printcolumn = r#"{"name": "NodeClass", "type": "string", "jsonPath": ".spec.nodeClassRef.name", "priority": 1}"#,
    printcolumn = r#"{"name": "Drifted", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Drifted\")].status", "priority": 1}"#
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend(
    "required" = ["nodeClassRef", "requirements"],
    "x-kubernetes-validations" = rules(&[("self == oldSelf", "spec is immutable")])
))]
pub struct NodeClaimSpec {
    /// How old the node may get before it is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-crd-default" = "720h", "pattern" = DURATION_OR_NEVER))]
    pub expire_after: Option<NillableDuration>,
    /// The object that configures the cloud's side of the node.
    pub node_class_ref: NodeClassRef,
    /// Constraints on the labels of the node.
    #[schemars(extend(
        "maxItems" = 100,
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = rules(REQUIREMENTS_RULES)
    ))]
    pub requirements: Vec<Requirement>,
    /// What the node must have room for.
    #[serde(skip_serializing_if = "ResourceRequirements::is_empty")]
    pub resources: ResourceRequirements,
    /// Taints that something on the node takes away while it starts. Pods need not tolerate them to get a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub startup_taints: Option<Vec<Taint>>,
    /// Taints of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub taints: Option<Vec<Taint>>,
    /// How long the node may drain. After that its pods go, whatever their disruption budgets and annotations say.
    /// Unset means for as long as it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = DURATION))]
    pub termination_grace_period: Option<NillableDuration>,
}

/// What a node must have room for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceRequirements {
    /// The least that the node must be able to give to pods.
    #[serde(skip_serializing_if = "Quantities::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub requests: Quantities,
}

impl ResourceRequirements {
    fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

/// The observed state of a NodeClaim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaimStatus {
    /// What the node can give to pods, as far as is known.
    #[serde(skip_serializing_if = "Quantities::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub allocatable: Quantities,
    /// What the node has, as far as is known.
    #[serde(skip_serializing_if = "Quantities::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub capacity: Quantities,
    /// Signals about the claim.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        transform = condition::as_in_old_nodeclaims,
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
    /// The image that the node runs.
    #[serde(rename = "imageID", skip_serializing_if = "String::is_empty")]
    pub image_id: String,
    /// When a pod was last bound to the node or left it; a completed or terminating pod has left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_pod_event_time: Option<Time>,
    /// Name of the Node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// The cloud's name for the instance.
    #[serde(rename = "providerID", skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
}
