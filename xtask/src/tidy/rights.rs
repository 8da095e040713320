//! What the manifests in `deploy/` grant: nothing by wildcard, and nothing from which more rights can be had.

use serde_json::Value;

use super::Violation;

/// Resources that carry credentials, settings of others, or a way into nodes and pods.
const FORBIDDEN_RESOURCES: [&str; 8] = [
    "clusterroles",
    "configmaps",
    "nodes/proxy",
    "pods/attach",
    "pods/exec",
    "roles",
    "secrets",
    "serviceaccounts/token",
];

/// Verbs that turn one right into another.
const FORBIDDEN_VERBS: [&str; 3] = ["bind", "escalate", "impersonate"];

/// Checks every Role and ClusterRole in one file.
pub(super) fn check(file: &str, text: &str) -> Vec<Violation> {
    match serde_saphyr::from_multiple::<Value>(text) {
        Ok(objects) => objects.iter().flat_map(|object| check_object(file, object)).collect(),
        Err(error) => vec![Violation::new(file, format!("is not YAML: {error}"))],
    }
}

fn check_object(file: &str, object: &Value) -> Vec<Violation> {
    if !matches!(text(object, "/kind"), "Role" | "ClusterRole") {
        return Vec::new();
    }
    let rules = object.pointer("/rules").and_then(Value::as_array);
    let refused = rules.into_iter().flatten().flat_map(refused);
    let name = text(object, "/metadata/name");
    refused.map(|right| Violation::new(file, format!("{name} may not grant {right}"))).collect()
}

/// What a rule grants that no manifest of ours may.
fn refused(rule: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for field in ["apiGroups", "resources", "verbs", "nonResourceURLs"] {
        for value in list(rule, field) {
            let forbidden = match field {
                "resources" => FORBIDDEN_RESOURCES.contains(&value),
                "verbs" => FORBIDDEN_VERBS.contains(&value),
                _ => false,
            };
            if forbidden || value.contains('*') {
                found.push(format!("`{value}` in {field}"));
            }
        }
    }
    found
}

fn list<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    rule.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(groups: &str, resources: &str, verbs: &str) -> String {
        let rule = format!("{{apiGroups: [{groups}], resources: [{resources}], verbs: [{verbs}]}}");
        format!("kind: Service\n---\nkind: ClusterRole\nmetadata: {{name: a}}\nrules: [{rule}]\n")
    }

    #[test]
    fn wildcards_and_what_leads_to_more_rights_are_refused() {
        assert_eq!(check("a.yaml", &role("''", "pods, pods/eviction", "get, create")), []);
        let planted = [
            role("'*'", "pods", "get"),
            role("''", "'*'", "get"),
            role("''", "pods", "'*'"),
            role("''", "'nodes/*'", "get"),
            role("''", "pods, secrets", "get"),
            role("''", "pods/exec", "create"),
            role("''", "users", "impersonate"),
        ];
        for text in planted {
            assert_eq!(check("a.yaml", &text).len(), 1, "{text}");
        }
        assert_eq!(check("a.yaml", "kind: [").len(), 1);
    }
}
