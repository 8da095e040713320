//! The KWOKNodeClasses as the provider reads them.

use std::time::Duration;

use fleetwright_core::cloud::{NodeClassKind, NodeClasses};
use serde::Deserialize;
use serde_json::Value;

use crate::{labels, quantities::parse_duration};

/// The fields of a KWOKNodeClass that a launch needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Value")]
pub struct NodeClass {
    /// Whether its `Ready` condition is True.
    pub ready: bool,
    /// The message of a condition that is not True.
    pub message: String,
    /// Delay between the boot of an instance and the registration of its node.
    pub registration_delay: Duration,
}

impl NodeClass {
    /// A class that is ready, without delay.
    #[must_use]
    pub fn ready() -> Self {
        Self { ready: true, ..Self::default() }
    }
}

/// The KWOKNodeClasses of a cluster, not listed yet: launches wait.
#[must_use]
pub fn node_classes() -> NodeClasses<NodeClass> {
    NodeClasses::new(NodeClassKind::new(
        labels::GROUP,
        "v1alpha1",
        labels::NODE_CLASS_KIND,
        "kwoknodeclasses",
    ))
}

impl From<Value> for NodeClass {
    /// Reads the fields that a launch needs. A class without a condition is ready: its CRD defaults the condition.
    fn from(object: Value) -> Self {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let message = match ready {
            None => String::new(),
            Some(condition) => {
                format!("{} {}", text(condition, "reason"), text(condition, "message")).trim().to_owned()
            }
        };
        let delay = object.pointer("/spec/nodeRegistrationDelay").and_then(Value::as_str);
        Self {
            ready: ready.is_none_or(|condition| condition["status"] == "True"),
            message,
            registration_delay: delay.and_then(parse_duration).unwrap_or(Duration::ZERO),
        }
    }
}

#[cfg(test)]
mod tests {
    //! What a KWOKNodeClass says.
    use serde_json::json;

    use super::*;

    #[test]
    fn classes_are_read() {
        let class = NodeClass::from(json!({
            "spec": {"nodeRegistrationDelay": "1m30s"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }));
        assert!(class.ready && class.registration_delay.as_secs() == 90);
        let broken = json!({"type": "Ready", "status": "False", "reason": "Broken", "message": "no subnet"});
        let class = NodeClass::from(json!({"status": {"conditions": [broken]}}));
        assert_eq!((class.ready, class.message.as_str()), (false, "Broken no subnet"));
        let unknown = json!({"type": "Ready", "status": "Unknown"});
        assert!(!NodeClass::from(json!({"status": {"conditions": [unknown]}})).ready);
        assert!(NodeClass::from(json!({})).ready);
    }
}
