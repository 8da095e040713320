//! Pieces that several kinds are made of: taints, requirements, the reference to a node class, quantities.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{self, QUALIFIED_NAME, rules};
use crate::text::words;

/// Resource names and amounts, as Kubernetes writes them.
pub type Quantities = BTreeMap<String, Quantity>;

words! {
    /// How a requirement's key relates to its values.
    Operator {
        /// The label has one of the values.
        In = "In",
        /// The label is absent or has none of the values.
        NotIn = "NotIn",
        /// The label is present.
        Exists = "Exists",
        /// The label is absent.
        DoesNotExist = "DoesNotExist",
        /// The label is an integer above the value.
        Gt = "Gt",
        /// The label is an integer below the value.
        Lt = "Lt",
        /// The label is an integer, at least the value.
        Gte = "Gte",
        /// The label is an integer, at most the value.
        Lte = "Lte",
    }
}

words! {
    /// What a taint does to pods that do not tolerate it.
    TaintEffect {
        /// They are not scheduled here.
        NoSchedule = "NoSchedule",
        /// They are scheduled here only when nothing else fits.
        PreferNoSchedule = "PreferNoSchedule",
        /// They are not scheduled here, and evicted when they already run.
        NoExecute = "NoExecute",
    }
}

impl Default for Operator {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl Default for TaintEffect {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

/// A taint of the nodes to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["effect", "key"]))]
pub struct Taint {
    /// What the taint does to pods that do not tolerate it.
    pub effect: TaintEffect,
    /// Key of the taint, a qualified name.
    #[schemars(extend("minLength" = 1, "pattern" = QUALIFIED_NAME))]
    pub key: String,
    /// When a NoExecute taint was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Time>,
    /// Value of the taint.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("pattern" = QUALIFIED_NAME))]
    pub value: String,
}

/// A constraint on a label of the nodes to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["key", "operator"]))]
pub struct Requirement {
    /// The label that is constrained.
    #[schemars(extend("maxLength" = 316, "pattern" = QUALIFIED_NAME, "x-kubernetes-validations" = rules(KEY_RULES)))]
    pub key: String,
    /// How many different values a launch must be able to choose from, at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::no_format, extend("minimum" = 1, "maximum" = 50))]
    pub min_values: Option<i64>,
    /// How the key relates to the values.
    pub operator: Operator,
    /// The values: at least one for In, exactly one integer for Gt, Lt, Gte and Lte, none for Exists and DoesNotExist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// Reference to the cluster-scoped object that configures the cloud's side of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["group", "kind", "name"]))]
pub struct NodeClassRef {
    /// API group of the node class, without a version.
    #[schemars(extend(
        "pattern" = "^[^/]*$",
        "x-kubernetes-validations" = rules(&[("self != ''", "group may not be empty")])
    ))]
    pub group: String,
    /// Kind of the node class.
    #[schemars(extend("x-kubernetes-validations" = rules(&[("self != ''", "kind may not be empty")])))]
    pub kind: String,
    /// Name of the node class.
    #[schemars(extend("x-kubernetes-validations" = rules(&[("self != ''", "name may not be empty")])))]
    pub name: String,
}

/// Rules for a requirement's key in every kind. The domain test is by ending, so that it also catches
/// `foo-karpenter.sh`; run-time validation is exact about the domain.
pub(crate) const KEY_RULES: &[(&str, &str)] = &[
    (
        r#"self in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || !self.find("^([^/]+)").endsWith("karpenter.sh")"#,
        r#"label domain "karpenter.sh" is restricted"#,
    ),
    (r#"self != "kubernetes.io/hostname""#, r#"label "kubernetes.io/hostname" is restricted"#),
];

/// Every In requirement has a value.
pub(crate) const IN_HAS_VALUES: (&str, &str) = (
    "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",
    "requirements with operator 'In' must have a value defined",
);

/// Numeric operators have one integer.
pub(crate) const NUMERIC_HAS_ONE_VALUE: (&str, &str) = (
    "self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator == 'Lte') ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
    "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
);

/// Rules for a list of [`Requirement`]s.
pub(crate) const REQUIREMENTS_RULES: &[(&str, &str)] = &[
    IN_HAS_VALUES,
    NUMERIC_HAS_ONE_VALUE,
    (
        "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
        "requirements with 'minValues' must have at least that many values specified in the 'values' field",
    ),
];
