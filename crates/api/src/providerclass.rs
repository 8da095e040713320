//! NodeClasses of any provider, as the controllers see them: they exist, and they are ready or not.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

/// A NodeClass without its spec. Its kind is known at run time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClassView {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Status.
    pub status: Option<NodeClassViewStatus>,
}

/// The part of a NodeClass's status that all providers share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClassViewStatus {
    /// Conditions.
    pub conditions: Vec<Condition>,
}

impl NodeClassView {
    /// The API group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The conditions.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}

impl kube::Resource for NodeClassView {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    //! The spec and foreign parts of the status do not matter.
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_conditions_are_read() {
        let class: NodeClassView = serde_json::from_value(json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "a", "generation": 3},
            "spec": {"role": "node", "kubelet": {"maxPods": "min(1, 2)"}},
            "status": {"amis": [1, "x"], "conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap();
        assert_eq!((class.group(), class.metadata.generation), ("karpenter.k8s.aws", Some(3)));
        assert!(class.conditions()[0].is_true());
    }
}
