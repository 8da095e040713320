//! NodePool: which nodes may be made, how many, and how they may be disrupted.

mod budget;
mod hash;
mod template;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use budget::{Budget, DisruptionReason};
pub use template::{NodeClaimTemplate, NodeClaimTemplateSpec, TemplateMeta};

use crate::condition::Condition;
use crate::duration::NillableDuration;
use crate::schema::{self, DURATION_OR_NEVER, rules};
use crate::shared::Quantities;
use crate::text::words;

words! {
    /// Which nodes consolidation may touch.
    #[derive(Default)]
    ConsolidationPolicy {
        /// Only nodes on which nothing would have to move.
        WhenEmpty = "WhenEmpty",
        /// Every node that can be removed or replaced at a gain.
        #[default]
        WhenEmptyOrUnderutilized = "WhenEmptyOrUnderutilized",
        /// Nodes whose gain is worth the disruption.
        Balanced = "Balanced",
    }
}

/// What the user asks of a NodePool.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    plural = "nodepools",
    doc = "A NodePool says which nodes may be made for pending pods, and how they may be disrupted later.",
    category = "karpenter",
    status = "NodePoolStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.nodes"),
    printcolumn = r#"{"name": "NodeClass", "type": "string", "jsonPath": ".spec.template.spec.nodeClassRef.name"}"#,
    printcolumn = r#"{"name": "Nodes", "type": "string", "jsonPath": ".status.nodes"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Weight", "type": "integer", "jsonPath": ".spec.weight", "priority": 1}"#,
    printcolumn = r#"{"name": "CPU", "type": "string", "jsonPath": ".status.resources.cpu", "priority": 1}"#,
    printcolumn = r#"{"name": "Memory", "type": "string", "jsonPath": ".status.resources.memory", "priority": 1}"#
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["template"], "x-kubernetes-validations" = rules(SPEC_RULES)))]
pub struct NodePoolSpec {
    /// When and how fast nodes of the pool may be disrupted.
    #[schemars(extend("x-crd-default" = json!({"consolidateAfter": "0s"})))]
    pub disruption: Disruption,
    /// The most that the pool may hold, by resource; "nodes" counts nodes. A static pool takes "nodes" only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantities")]
    pub limits: Option<Quantities>,
    /// How many nodes a static pool holds. A pool without replicas follows the pending pods. This field is alpha.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub replicas: Option<i64>,
    /// What the nodes look like.
    pub template: NodeClaimTemplate,
    /// Pools with more weight are tried first; none counts as 0. Not for static pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 100))]
    pub weight: Option<i32>,
}

const SPEC_RULES: &[(&str, &str)] = &[
    (
        "has(self.replicas) == has(oldSelf.replicas)",
        "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
    ),
    (
        "!has(self.replicas) || (!has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits))",
        "only 'limits.nodes' is supported on static NodePools",
    ),
    ("!has(self.replicas) || !has(self.weight)", "'weight' is not supported on static NodePools"),
];

/// When and how fast nodes may be disrupted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["consolidateAfter"]))]
pub struct Disruption {
    /// How many nodes may be on their way out at once. The strictest active budget counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "x-crd-default" = json!([{"nodes": "10%"}]),
        "maxItems" = 50,
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = rules(&[(
            "self.all(x, has(x.schedule) == has(x.duration))",
            "'schedule' must be set with 'duration'",
        )])
    ))]
    pub budgets: Option<Vec<Budget>>,
    /// How long a node must see no pod come or go before it may be consolidated. Without effect on static pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-crd-default" = "0s", "pattern" = DURATION_OR_NEVER))]
    pub consolidate_after: Option<NillableDuration>,
    /// Which nodes consolidation may touch. Without effect on static pools.
    #[schemars(extend("x-crd-default" = "WhenEmptyOrUnderutilized"))]
    pub consolidation_policy: ConsolidationPolicy,
}

/// What was observed of a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePoolStatus {
    /// Signals about the pool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Generation of the node class that NodeRegistrationHealthy was computed against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// How many nodes the pool has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-crd-default" = 0))]
    pub nodes: Option<i64>,
    /// What the pool's nodes sum up to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantities")]
    pub resources: Option<Quantities>,
}
