//! What the CRDs promise: their CEL rules and their printer columns, read from the manifests.

use std::collections::BTreeSet;

use serde_json::Value;

/// A column of `kubectl get`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) path: String,
    /// `string`, `integer`, `date`, …
    pub(crate) kind: String,
    /// Shown only by `-o wide`.
    pub(crate) wide: bool,
}

/// The CRD of `kind` among `crds`.
pub(crate) fn of_kind<'a>(crds: &'a [Value], kind: &str) -> Option<&'a Value> {
    crds.iter().find(|crd| crd["spec"]["names"]["kind"] == kind)
}

/// The path of a CRD's collection on the API server, for objects in `namespace` if the CRD is namespaced.
pub(crate) fn collection(crd: &Value, namespace: &str) -> Option<String> {
    let spec = &crd["spec"];
    let group = spec["group"].as_str()?;
    let version = spec["versions"][0]["name"].as_str()?;
    let plural = spec["names"]["plural"].as_str()?;
    Some(match spec["scope"].as_str()? {
        "Namespaced" => format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}"),
        _ => format!("/apis/{group}/{version}/{plural}"),
    })
}

/// The messages of all CEL rules in a CRD's schemas; a rule without a message counts with the message that the server
/// makes for it. A set: one rule at two places (taints and startup taints) is one message.
pub(crate) fn rule_messages(crd: &Value) -> BTreeSet<String> {
    let mut messages = BTreeSet::new();
    let mut pending: Vec<&Value> = crd["spec"]["versions"].as_array().into_iter().flatten().collect();
    while let Some(value) = pending.pop() {
        match value {
            Value::Object(fields) => {
                let rules = fields.get("x-kubernetes-validations").and_then(Value::as_array);
                for rule in rules.into_iter().flatten() {
                    messages.insert(rule_message(rule));
                }
                pending.extend(fields.values());
            }
            Value::Array(items) => pending.extend(items),
            _ => {}
        }
    }
    messages
}

fn rule_message(rule: &Value) -> String {
    match rule["message"].as_str() {
        Some(message) => message.to_owned(),
        None => format!("failed rule: {}", rule["rule"].as_str().unwrap_or_default().trim()),
    }
}

/// The printer columns of a CRD's first version, in their order. A CRD that has none shows the age.
pub(crate) fn columns(crd: &Value) -> Vec<Column> {
    let columns = crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let Some(columns) = columns else {
        let path = ".metadata.creationTimestamp".to_owned();
        return vec![Column { name: "Age".to_owned(), path, kind: "date".to_owned(), wide: false }];
    };
    columns
        .iter()
        .map(|column| Column {
            name: text(&column["name"]),
            path: text(&column["jsonPath"]),
            kind: text(&column["type"]),
            wide: column["priority"].as_i64().unwrap_or(0) > 0,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd() -> Value {
        json!({"spec": {
            "group": "example.dev", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
            "versions": [{
                "name": "v1",
                "additionalPrinterColumns": [
                    {"name": "Ready", "type": "string", "jsonPath": ".status.ready"},
                    {"name": "Weight", "type": "integer", "jsonPath": ".spec.weight", "priority": 1},
                ],
                "schema": {"openAPIV3Schema": {
                    "x-kubernetes-validations": [{"rule": "a", "message": "A"}],
                    "properties": {"list": {"items": {"x-kubernetes-validations": [
                        {"rule": "b", "message": "B"}, {"rule": " self.c "}, {"rule": "again", "message": "A"}]}}},
                }},
            }],
        }})
    }

    #[test]
    fn rules_are_found_at_every_depth() {
        let messages: Vec<String> = rule_messages(&crd()).into_iter().collect();
        assert_eq!(messages, ["A", "B", "failed rule: self.c"]);
    }

    #[test]
    fn columns_keep_their_order_and_width() {
        let columns = columns(&crd());
        let seen: Vec<(&str, bool)> = columns.iter().map(|c| (c.name.as_str(), c.wide)).collect();
        assert_eq!(seen, [("Ready", false), ("Weight", true)]);
        let bare = json!({"spec": {"versions": [{"name": "v1"}]}});
        assert_eq!(super::columns(&bare).len(), 1, "the age is shown by default");
    }

    #[test]
    fn collections_follow_the_scope() {
        let mut crd = crd();
        let path = "/apis/example.dev/v1/namespaces/ns/things";
        assert_eq!(collection(&crd, "ns").as_deref(), Some(path));
        crd["spec"]["scope"] = json!("Cluster");
        assert_eq!(collection(&crd, "ns").as_deref(), Some("/apis/example.dev/v1/things"));
        assert!(of_kind(&[crd.clone()], "Thing").is_some() && of_kind(&[crd], "Other").is_none());
    }
}
