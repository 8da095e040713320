//! The change of a call, as text that is equal for calls of one kind.

use std::fmt;

use http::Method;
use serde_json::Value;

/// A call that changes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    verb: &'static str,
    /// Resource and subresource; empty for a call to the cloud.
    resource: String,
    /// What of the object changes.
    detail: String,
}

impl Change {
    /// The change of a call with this method, path and body; `None` for a read.
    pub(crate) fn of(method: &Method, path: &str, body: &Value) -> Option<Self> {
        let verb = match *method {
            Method::POST => "create",
            Method::PUT => "replace",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => return None,
        };
        let cloud = |verb| Some(Self { verb, resource: String::new(), detail: String::new() });
        match path {
            "/launch" => return cloud("launch"),
            "/terminate" => return cloud("terminate"),
            _ => {}
        }
        let detail = if verb == "patch" { patched(body) } else { String::new() };
        Some(Self { verb, resource: resource(path), detail })
    }

    /// Whether it is a step in the life of an instance, or of the pods on it.
    pub(crate) fn is_of_instance(&self) -> bool {
        let resource = self.resource.split('/').next().unwrap_or_default();
        matches!(resource, "" | "nodeclaims" | "nodes" | "pods")
    }

    /// Whether it is the lease by which a leader is elected.
    pub(crate) fn is_lease(&self) -> bool {
        self.resource == "leases"
    }

    /// Whether it asks the cloud for instances.
    pub(crate) fn is_launch(&self) -> bool {
        self.verb == "launch"
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [self.verb, &self.resource, &self.detail];
        let filled: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        f.write_str(&filled.join(" "))
    }
}

/// `nodeclaims/status` of `/apis/karpenter.sh/v1/nodeclaims/x/status`.
fn resource(path: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let prefix = if parts.first() == Some(&"apis") { 3 } else { 2 };
    parts.drain(..prefix.min(parts.len()));
    if parts.first() == Some(&"namespaces") && parts.len() > 2 {
        parts.drain(..2);
    }
    match (parts.first(), parts.get(2)) {
        (Some(resource), Some(subresource)) => format!("{resource}/{subresource}"),
        (Some(resource), None) => (*resource).to_owned(),
        (None, _) => String::new(),
    }
}

/// The fields of a merge patch that matter, with the values that tell one step from another.
fn patched(body: &Value) -> String {
    let mut parts = Vec::new();
    if let Some(finalizers) = body["metadata"]["finalizers"].as_array() {
        parts.push(if finalizers.is_empty() { "-finalizer".to_owned() } else { "+finalizer".to_owned() });
    }
    for field in ["annotations", "labels"] {
        let entries = body["metadata"][field].as_object().into_iter().flatten();
        parts.extend(entries.map(|(key, value)| {
            let name = key.rsplit('/').next().unwrap_or(key);
            format!("{}{name}", if value.is_null() { '-' } else { '+' })
        }));
    }
    if let Some(taints) = body["spec"]["taints"].as_array() {
        let keys: Vec<&str> = taints.iter().filter_map(|taint| taint["key"].as_str()).collect();
        parts.push(format!("taints[{}]", keys.join(",")));
    }
    if let Some(conditions) = body["status"]["conditions"].as_array() {
        let holding = conditions.iter().filter(|condition| condition["status"] == "True");
        let types: Vec<&str> = holding.filter_map(|condition| condition["type"].as_str()).collect();
        parts.push(types.join(","));
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(method: Method, path: &str, body: Value) -> Option<String> {
        Change::of(&method, path, &body).map(|change| change.to_string())
    }

    #[test]
    fn changes_are_told_apart_by_what_they_change() {
        let claim = "/apis/karpenter.sh/v1/nodeclaims/a";
        let status = json!({"status": {"conditions": [
            {"type": "Launched", "status": "True"}, {"type": "Registered", "status": "Unknown"}]}});
        let marks = json!({"metadata": {"annotations": {"fleetwright.dev/x": null, "karpenter.sh/y": "1"}}});
        let taints = json!({"spec": {"taints": [{"key": "karpenter.sh/disrupted"}]}});
        let cases = [
            (Method::POST, "/apis/karpenter.sh/v1/nodeclaims", json!({}), "create nodeclaims"),
            (Method::PATCH, &format!("{claim}/status"), status, "patch nodeclaims/status Launched"),
            (Method::PATCH, claim, marks, "patch nodeclaims -x +y"),
            (Method::PATCH, claim, json!({"metadata": {"finalizers": []}}), "patch nodeclaims -finalizer"),
            (Method::PATCH, "/api/v1/nodes/n", taints, "patch nodes taints[karpenter.sh/disrupted]"),
            (Method::POST, "/api/v1/namespaces/d/pods/p/eviction", json!({}), "create pods/eviction"),
            (Method::POST, "/launch", json!({}), "launch"),
            (Method::DELETE, claim, json!({}), "delete nodeclaims"),
        ];
        for (method, path, body, expected) in cases {
            assert_eq!(text(method, path, body).as_deref(), Some(expected));
        }
        assert_eq!(text(Method::GET, claim, json!({})), None);
    }

    #[test]
    fn only_instances_and_their_pods_are_of_instances() {
        let of = |path: &str| Change::of(&Method::POST, path, &Value::Null).unwrap();
        assert!(of("/launch").is_of_instance() && of("/launch").is_launch());
        assert!(of("/api/v1/namespaces/d/pods/p/eviction").is_of_instance());
        assert!(!of("/apis/events.k8s.io/v1/namespaces/d/events").is_of_instance());
        let lease = of("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases");
        assert!(lease.is_lease() && !lease.is_of_instance());
    }
}
