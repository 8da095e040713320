//! The fleet in its three views (NodeClaims, Nodes, instances), and what has to hold between them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::cloud::Instance;

/// One look at everything that is an instance, or should be.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    pub(crate) claims: Vec<Value>,
    pub(crate) nodes: Vec<Value>,
    pub(crate) instances: Vec<Instance>,
}

impl Fleet {
    /// Whether nothing is left, in any view.
    pub(crate) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.nodes.is_empty() && self.instances.is_empty()
    }

    /// The sizes of the three views, for messages.
    pub(crate) fn sizes(&self) -> String {
        let (claims, nodes) = (self.claims.len(), self.nodes.len());
        format!("{claims} NodeClaims, {nodes} Nodes, {} instances", self.instances.len())
    }

    /// Everything that keeps the views from corresponding one to one. An instance with two claims or two nodes is a
    /// duplicate; one without is an orphan; a claim or node without an instance is a ghost. Empty means all is well.
    pub(crate) fn discrepancies(&self) -> Vec<String> {
        #[derive(Default)]
        struct Views {
            claims: Vec<String>,
            nodes: Vec<String>,
            instances: usize,
        }
        let mut found = Vec::new();
        let mut instances: BTreeMap<String, Views> = BTreeMap::new();
        for claim in &self.claims {
            match claim["status"]["providerID"].as_str() {
                Some(id) => instances.entry(id.to_owned()).or_default().claims.push(name(claim)),
                None => found.push(format!("NodeClaim {} has no instance", name(claim))),
            }
        }
        for node in &self.nodes {
            match node["spec"]["providerID"].as_str() {
                Some(id) => instances.entry(id.to_owned()).or_default().nodes.push(name(node)),
                None => found.push(format!("Node {} has no provider id", name(node))),
            }
        }
        for instance in &self.instances {
            instances.entry(instance.provider_id.clone()).or_default().instances += 1;
        }
        for (id, Views { claims, nodes, instances }) in instances {
            if (claims.len(), nodes.len(), instances) != (1, 1, 1) {
                found.push(format!("{id}: NodeClaims {claims:?}, Nodes {nodes:?}, {instances} instances"));
            }
        }
        found
    }
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// The status of a condition: `True`, `False`, `Unknown`, or nothing when the object does not have it.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Whether the condition is there and true.
pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Whether a pod is bound, running and ready, and not on its way out.
pub(crate) fn is_serving(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null()
        && pod["spec"]["nodeName"].is_string()
        && is_true(pod, "Ready")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(name: &str, id: Option<&str>) -> Value {
        json!({"metadata": {"name": name}, "status": {"providerID": id}})
    }

    fn node(name: &str, id: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": {"providerID": id}})
    }

    fn instance(id: &str) -> Instance {
        Instance { provider_id: id.to_owned(), price_nanos: 0 }
    }

    #[test]
    fn one_to_one_is_well() {
        let fleet = Fleet {
            claims: vec![claim("c", Some("x"))],
            nodes: vec![node("n", "x")],
            instances: vec![instance("x")],
        };
        assert_eq!(fleet.discrepancies(), Vec::<String>::new());
        assert!(!fleet.is_empty() && Fleet::default().is_empty());
    }

    #[test]
    fn every_kind_of_mismatch_is_named() {
        let cases = [
            (Fleet { claims: vec![claim("c", None)], ..Fleet::default() }, "NodeClaim c has no instance"),
            (Fleet { claims: vec![claim("c", Some("x"))], ..Fleet::default() }, "0 instances"),
            (Fleet { nodes: vec![node("n", "x")], ..Fleet::default() }, "NodeClaims []"),
            (Fleet { instances: vec![instance("x")], ..Fleet::default() }, "Nodes []"),
            (
                Fleet {
                    claims: vec![claim("c", Some("x")), claim("d", Some("x"))],
                    nodes: vec![node("n", "x")],
                    instances: vec![instance("x")],
                },
                r#"NodeClaims ["c", "d"]"#,
            ),
            (
                Fleet {
                    claims: vec![claim("c", Some("x"))],
                    nodes: vec![node("n", "x")],
                    instances: vec![instance("x"), instance("x")],
                },
                "2 instances",
            ),
        ];
        for (fleet, message) in cases {
            let found = fleet.discrepancies();
            assert!(found.len() == 1 && found[0].contains(message), "{found:?} lacks {message}");
        }
    }

    #[test]
    fn a_terminating_pod_serves_nobody() {
        let conditions = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let mut pod = json!({"metadata": {}, "spec": {"nodeName": "n"}, "status": conditions});
        assert!(is_serving(&pod));
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(!is_serving(&pod));
    }
}
