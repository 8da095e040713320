//! Whether the custom resource definitions that a cluster has hold every field that keeps nodes and pods safe.
//!
//! An API server prunes what its definitions do not know: with old ones a budget would be gone as soon as it is written, and a
//! deadline would never come. Definitions of another release that merely lack what is new are fine.

use serde_json::Value;

/// The document of the group: path below an API server.
pub const DOCUMENT: &str = "/openapi/v3/apis/karpenter.sh/v1";

/// The fields that the controller requires, by kind. `[]` means the items of a list.
const NEEDED: [(&str, &[&str]); 2] = [
    (
        "NodePool",
        &[
            "spec.disruption.budgets.[].nodes",
            "spec.disruption.budgets.[].reasons",
            "spec.disruption.budgets.[].schedule",
            "spec.disruption.budgets.[].duration",
            "spec.disruption.consolidateAfter",
            "spec.disruption.consolidationPolicy",
            "spec.limits",
            "spec.template.spec.expireAfter",
            "spec.template.spec.requirements.[].values",
            "spec.template.spec.startupTaints",
            "spec.template.spec.taints",
            "spec.template.spec.terminationGracePeriod",
        ],
    ),
    (
        "NodeClaim",
        &[
            "spec.expireAfter",
            "spec.requirements.[].values",
            "spec.resources.requests",
            "spec.startupTaints",
            "spec.taints",
            "spec.terminationGracePeriod",
            "status.conditions",
            "status.lastPodEventTime",
            "status.nodeName",
            "status.providerID",
        ],
    ),
];

/// What the OpenAPI document of the group lacks, as `NodePool.spec.limits`; a kind that is not there at all by its name.
#[must_use]
pub fn missing(document: &Value) -> Vec<String> {
    let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
    let mut missing = Vec::new();
    for (kind, fields) in NEEDED {
        match schemas.and_then(|all| all.values().find(|schema| is_of(schema, kind))) {
            None => missing.push(kind.to_owned()),
            Some(schema) => {
                let lacks = fields.iter().filter(|field| !holds(schema, field));
                missing.extend(lacks.map(|field| format!("{kind}.{field}")));
            }
        }
    }
    missing
}

/// The definitions whose stored versions are looked at, with the version that is read here.
pub const STORED: [(&str, &str); 2] = [("nodepools.karpenter.sh", "v1"), ("nodeclaims.karpenter.sh", "v1")];

/// The versions of [`STORED`] in which objects of a definition (as the API server holds it) may be stored, other than `read`, and
/// that the API server cannot give back as that: it has forgotten the version (then not even a list can be had), or it
/// only changes the version's name and drops what `read` has under another one. A webhook converts.
#[must_use]
pub fn unreadable_storage(definition: &Value, read: &str) -> Vec<String> {
    let array = |at: &str| definition.pointer(at).and_then(Value::as_array).into_iter().flatten();
    let known: Vec<&str> = array("/spec/versions").filter_map(|version| version["name"].as_str()).collect();
    let converts = definition.pointer("/spec/conversion/strategy").and_then(Value::as_str) == Some("Webhook");
    let stored = array("/status/storedVersions").filter_map(Value::as_str);
    let lost = stored.filter(|stored| *stored != read && !(converts && known.contains(stored)));
    lost.map(str::to_owned).collect()
}

fn is_of(schema: &Value, kind: &str) -> bool {
    let kinds = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
    kinds.into_iter().flatten().any(|known| known["kind"] == kind && known["version"] == "v1")
}

/// Whether a schema has a field, or allows any content above it.
fn holds(schema: &Value, field: &str) -> bool {
    let mut at = schema;
    for part in field.split('.') {
        if at.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
            return true;
        }
        let next =
            if part == "[]" { at.get("items") } else { at.get("properties").and_then(|all| all.get(part)) };
        let Some(next) = next else { return false };
        at = next;
    }
    true
}

#[cfg(test)]
mod tests {
    //! Whole definitions, old ones, and none.
    use serde_json::json;

    use super::*;

    /// The document of definitions as this release has them.
    fn document() -> Value {
        let mut schemas = serde_json::Map::new();
        for crd in crate::crd::kwok() {
            let kind = crd.spec.names.kind;
            let version = crd.spec.versions.into_iter().find(|version| version.name == "v1");
            let Some(schema) = version.and_then(|version| version.schema?.open_api_v3_schema) else {
                continue;
            };
            let mut schema = serde_json::to_value(schema).unwrap();
            schema["x-kubernetes-group-version-kind"] =
                json!([{"group": "karpenter.sh", "version": "v1", "kind": kind}]);
            schemas.insert(format!("sh.karpenter.v1.{kind}"), schema);
        }
        json!({"components": {"schemas": schemas}})
    }

    #[test]
    fn our_own_definitions_hold_all() {
        assert_eq!(missing(&document()), Vec::<String>::new());
    }

    #[test]
    fn what_is_lacking_is_named() {
        let mut old = document();
        let pool =
            &mut old["components"]["schemas"]["sh.karpenter.v1.NodePool"]["properties"]["spec"]["properties"];
        pool["disruption"]["properties"]["budgets"]["items"]["properties"]
            .as_object_mut()
            .unwrap()
            .remove("reasons");
        pool.as_object_mut().unwrap().remove("limits");
        assert_eq!(missing(&old), ["NodePool.spec.disruption.budgets.[].reasons", "NodePool.spec.limits"]);
        old["components"]["schemas"].as_object_mut().unwrap().remove("sh.karpenter.v1.NodePool");
        assert_eq!(missing(&old), ["NodePool"]);
        assert_eq!(missing(&json!({})), ["NodePool", "NodeClaim"]);
    }

    #[test]
    fn versions_in_storage_must_be_readable() {
        let of = |stored: &[&str], known: &[&str], strategy: &str| {
            let versions: Vec<Value> = known.iter().map(|name| json!({ "name": name })).collect();
            let definition = json!({"spec": {"versions": versions, "conversion": {"strategy": strategy}},
                "status": {"storedVersions": stored}});
            unreadable_storage(&definition, "v1")
        };
        let none: &[&str] = &[];
        assert_eq!(of(&["v1"], &["v1"], "None"), none);
        assert_eq!(of(&["v1beta1", "v1"], &["v1beta1", "v1"], "Webhook"), none, "a webhook converts");
        assert_eq!(of(&["v1beta1", "v1"], &["v1beta1", "v1"], "None"), ["v1beta1"], "nothing converts");
        assert_eq!(of(&["v1beta1", "v1"], &["v1"], "Webhook"), ["v1beta1"], "it is not known any more");
        assert_eq!(unreadable_storage(&json!({}), "v1"), none, "nothing was ever stored");
    }

    #[test]
    fn what_keeps_unknown_fields_lacks_nothing() {
        let mut open = document();
        open["components"]["schemas"]["sh.karpenter.v1.NodeClaim"]["properties"]["spec"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        assert_eq!(missing(&open), Vec::<String>::new());
    }
}
