//! The template that a NodePool's NodeClaims are made from.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::duration::NillableDuration;
use crate::schema::{self, DURATION, DURATION_OR_NEVER, LABEL_VALUE, rules};
use crate::shared::{NodeClassRef, REQUIREMENTS_RULES, Requirement, Taint};

/// What the pool's nodes look like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["spec"]))]
pub struct NodeClaimTemplate {
    /// Labels and annotations of the nodes.
    #[serde(skip_serializing_if = "TemplateMeta::is_empty")]
    pub metadata: TemplateMeta,
    /// Everything else about the nodes.
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations of the nodes. An empty map differs from an absent one, because the drift hashes differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateMeta {
    /// Annotations of the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "granular"))]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Labels of the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = label_values, extend(
        "maxProperties" = 100,
        "x-kubernetes-map-type" = "atomic",
        "x-kubernetes-validations" = rules(LABEL_RULES)
    ))]
    pub labels: Option<BTreeMap<String, String>>,
}

impl TemplateMeta {
    fn is_empty(&self) -> bool {
        self.annotations.is_none() && self.labels.is_none()
    }
}

/// A NodeClaim's spec without the resources, which come from the pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["nodeClassRef", "requirements"]))]
pub struct NodeClaimTemplateSpec {
    /// How old a node may get before it is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-crd-default" = "720h", "pattern" = DURATION_OR_NEVER))]
    pub expire_after: Option<NillableDuration>,
    /// The object that configures the cloud's side of the nodes. Its name may change, its group and kind may not.
    #[schemars(extend("x-kubernetes-validations" = rules(&[
        ("self.group == oldSelf.group", "nodeClassRef.group is immutable"),
        ("self.kind == oldSelf.kind", "nodeClassRef.kind is immutable"),
    ])))]
    pub node_class_ref: NodeClassRef,
    /// Constraints on the labels of the nodes.
    #[schemars(transform = nodepool_key_is_ours, extend(
        "maxItems" = 100,
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = rules(REQUIREMENTS_RULES)
    ))]
    pub requirements: Vec<Requirement>,
    /// Taints that something on the node takes away while it starts. Pods need not tolerate them to get a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub startup_taints: Option<Vec<Taint>>,
    /// Taints of the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub taints: Option<Vec<Taint>>,
    /// How long a node may drain. After that its pods go, whatever their disruption budgets and annotations say. Unset
    /// means for as long as it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = DURATION))]
    pub termination_grace_period: Option<NillableDuration>,
}

const LABEL_RULES: &[(&str, &str)] = &[
    (
        r#"self.all(x, x in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || !x.find("^([^/]+)").endsWith("karpenter.sh"))"#,
        r#"label domain "karpenter.sh" is restricted"#,
    ),
    (r#"self.all(x, x != "karpenter.sh/nodepool")"#, r#"label "karpenter.sh/nodepool" is restricted"#),
    (r#"self.all(x, x != "kubernetes.io/hostname")"#, r#"label "kubernetes.io/hostname" is restricted"#),
];

/// Constrains the values of a label map.
fn label_values(schema: &mut Schema) {
    if let Some(values) = schema.get_mut("additionalProperties") {
        values["maxLength"] = 63.into();
        values["pattern"] = LABEL_VALUE.into();
    }
}

/// A NodePool's requirements may not name the NodePool label.
fn nodepool_key_is_ours(schema: &mut Schema) {
    if let Some(key) = schema.get_mut("items").and_then(|item| item.pointer_mut("/properties/key")) {
        let rule = (r#"self != "karpenter.sh/nodepool""#, r#"label "karpenter.sh/nodepool" is restricted"#);
        schema::append_rules(key, &[rule]);
    }
}
