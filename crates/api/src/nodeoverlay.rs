//! NodeOverlay: the user's correction of prices and capacities of instance types.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::schema::{self, QUALIFIED_NAME, rules};
use crate::shared::{IN_HAS_VALUES, KEY_RULES, NUMERIC_HAS_ONE_VALUE, Operator, Quantities};

/// Which instance types are corrected, and how.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    plural = "nodeoverlays",
    doc = "A NodeOverlay corrects the price or the capacity of the instance types that it selects.",
    category = "karpenter",
    shortname = "overlays",
    status = "NodeOverlayStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Weight", "type": "integer", "jsonPath": ".spec.weight", "priority": 1}"#
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend(
    "required" = ["requirements"],
    "x-kubernetes-validations" = rules(&[(
        "!has(self.price) || !has(self.priceAdjustment)",
        "cannot set both 'price' and 'priceAdjustment'",
    )])
))]
pub struct NodeOverlaySpec {
    /// Extended resources that the instance types have in addition. Not for cpu, memory, ephemeral-storage and pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantities", extend("x-kubernetes-validations" = rules(&[(
        "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
        "invalid resource restricted",
    )])))]
    pub capacity: Option<Quantities>,
    /// The price per hour that replaces the cloud's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^\d+(\.\d+)?$"))]
    pub price: Option<String>,
    /// What is added to the cloud's price: a signed amount per hour, or a signed percentage of at least -100%.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$"))]
    pub price_adjustment: Option<String>,
    /// Which instance types and offerings are meant, by their labels and those of the NodePools.
    #[schemars(extend(
        "maxItems" = 100,
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = rules(REQUIREMENTS_RULES)
    ))]
    pub requirements: Vec<OverlayRequirement>,
    /// The overlay with more weight wins; none counts as 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 10000))]
    pub weight: Option<i32>,
}

const REQUIREMENTS_RULES: &[(&str, &str)] = &[
    (
        "self.all(x, x.operator == 'NotIn' ? x.values.size() != 0 : true)",
        "requirements with operator 'NotIn' must have a value defined",
    ),
    IN_HAS_VALUES,
    NUMERIC_HAS_ONE_VALUE,
];

/// A condition on a label of instance types, offerings or NodePools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["key", "operator"]))]
pub struct OverlayRequirement {
    /// The label that is looked at.
    #[schemars(extend("maxLength" = 316, "pattern" = QUALIFIED_NAME, "x-kubernetes-validations" = rules(KEY_RULES)))]
    pub key: String,
    /// How the key relates to the values.
    pub operator: Operator,
    /// The values: at least one for In and NotIn, exactly one integer for Gt, Lt, Gte and Lte, none for the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// The observed state of a NodeOverlay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeOverlayStatus {
    /// Signals about the overlay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
