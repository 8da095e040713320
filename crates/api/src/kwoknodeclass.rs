//! KWOKNodeClass: the node class of Karpenter's simulated provider, served by the fake cloud.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::condition::Condition;
use crate::duration::NillableDuration;
use crate::schema::DURATION;

/// How the simulated nodes behave.
// An object may lack a spec altogether, which serde sees as an absent optional one.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.kwok.sh",
    version = "v1alpha1",
    kind = "KWOKNodeClass",
    root = "KwokNodeClass",
    plural = "kwoknodeclasses",
    doc = "A KWOKNodeClass configures the nodes of the fake cloud.",
    category = "karpenter",
    shortname = "kwoknc",
    shortname = "kwokncs",
    status = "KwokNodeClassStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", from = "Option<Fields>")]
#[schemars(!from)]
pub struct KwokNodeClassSpec {
    /// How long a node takes from its launch until it joins the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = DURATION))]
    pub node_registration_delay: Option<NillableDuration>,
}

/// The spec's fields as read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Fields {
    node_registration_delay: Option<NillableDuration>,
}

impl From<Option<Fields>> for KwokNodeClassSpec {
    fn from(fields: Option<Fields>) -> Self {
        Self { node_registration_delay: fields.and_then(|fields| fields.node_registration_delay) }
    }
}

/// The observed state of a KWOKNodeClass: ready from its creation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-crd-default" = ready_from_birth()))]
pub struct KwokNodeClassStatus {
    /// Signals about the node class.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The status that the API server gives to a new object; nothing else ever writes one.
fn ready_from_birth() -> Value {
    json!({"conditions": [{
        "lastTransitionTime": "2024-01-01T01:01:01Z",
        "message": "",
        "reason": "Ready",
        "status": "True",
        "type": "Ready",
    }]})
}
