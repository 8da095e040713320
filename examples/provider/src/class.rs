//! The NodeClass of the cloud: its definition and its kind.

use fleetwright_api::{condition::Condition, crd};
use fleetwright_core::cloud::{NodeClassKind, NodeClasses};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the servers of NodePools are launched.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "pebble.example",
    version = "v1",
    kind = "PebbleNodeClass",
    plural = "pebblenodeclasses",
    status = "PebbleNodeClassStatus",
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct PebbleNodeClassSpec {
    /// The image that servers boot.
    pub image: String,
    /// The zones that servers may be in; all of them if empty.
    #[serde(default)]
    pub zones: Vec<String>,
}

/// The observed state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PebbleNodeClassStatus {
    /// Signals about the class. The controllers use a class whose condition `Ready` is True.
    pub conditions: Vec<Condition>,
}

impl PebbleNodeClass {
    /// Whether the class may be used for launches; `None` if nobody has said so yet.
    #[must_use]
    pub fn readiness(&self) -> Option<bool> {
        let conditions = self.status.as_ref().map(|status| &status.conditions);
        let mut conditions = conditions.into_iter().flatten();
        conditions.find(|known| known.type_ == "Ready").map(Condition::is_true)
    }
}

/// Every definition that a cluster needs: the class, and the common ones.
#[must_use]
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let class = crd::definition::<PebbleNodeClass, PebbleNodeClassSpec, PebbleNodeClassStatus>(
        "A PebbleNodeClass says how the servers of NodePools are launched.",
    );
    std::iter::once(class).chain(crd::base()).collect()
}

/// The classes of a cluster.
pub type Classes = NodeClasses<PebbleNodeClass>;

/// The classes of a cluster, not listed yet: launches wait.
#[must_use]
pub fn node_classes() -> Classes {
    NodeClasses::new(NodeClassKind::new("pebble.example", "v1", "PebbleNodeClass", "pebblenodeclasses"))
}
