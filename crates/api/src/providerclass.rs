//! Class objects of providers that have types of their own, as everybody else sees them: that they are there, and whether they are
//! ready.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

/// An EC2NodeClass without what only its provider knows. Read, never written: its definition is the provider's.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.k8s.aws",
    version = "v1",
    kind = "EC2NodeClass",
    root = "Ec2NodeClassView",
    plural = "ec2nodeclasses",
    status = "ProviderClassStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(from = "serde::de::IgnoredAny")]
#[schemars(!from)]
pub struct Unseen {}

impl From<serde::de::IgnoredAny> for Unseen {
    fn from(_: serde::de::IgnoredAny) -> Self {
        Self {}
    }
}

/// What a class came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderClassStatus {
    /// Signals about the class.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    //! Whatever else stands there.
    use serde_json::json;

    use super::*;

    #[test]
    fn the_conditions_are_all_that_counts() {
        let class: Ec2NodeClassView = serde_json::from_value(json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "a", "generation": 3},
            "spec": {"role": "node", "kubelet": {"maxPods": "min(1, 2)"}},
            "status": {"amis": [1, "x"], "conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap();
        assert_eq!(class.metadata.generation, Some(3));
        assert!(class.status.unwrap().conditions[0].is_true());
    }
}
