//! CustomResourceDefinitions compare by what they accept and store: descriptions, the tool that generated them, and the order of sets
//! mean nothing.

use anyhow::Context as _;
use serde_json::Value;

use super::compare::{Table, table, walk};

/// Where ours differ on purpose, by the end of the path in which they do, and why.
const DIFFERENT: [(&str, &str); 6] = [
    // Karpenter 1.15 takes any kubelet setting; the provider checks those of 1.14 itself.
    ("ec2nodeclasses.karpenter.k8s.aws", "/spec/properties/kubelet"),
    // Of Karpenter 1.15.
    ("ec2nodeclasses.karpenter.k8s.aws", "/spec/properties/enclaveOptions"),
    // An EC2NodeClass without a spec selects nothing.
    ("ec2nodeclasses.karpenter.k8s.aws", "/openAPIV3Schema/required"),
    // Karpenter gives length and pattern of values to the list of them, where they mean nothing.
    ("", "/requirements/items/properties/values"),
    // A comma that Karpenter's other definitions have.
    ("nodeoverlays.karpenter.sh", "/requirements/x-kubernetes-validations/0/message"),
    // Required by Karpenter; here the value that its documentation calls the default.
    ("nodepools.karpenter.sh", "/disruption/properties/consolidateAfter/default"),
];

/// What differs between the definitions that Karpenter's chart renders and those of ours.
///
/// # Errors
/// A definition has no name.
pub(super) fn differences(theirs: Vec<Value>, ours: Vec<Value>) -> anyhow::Result<Vec<String>> {
    let (theirs, ours) = (normal(theirs)?, normal(ours)?);
    let mut found = Vec::new();
    let names = theirs.keys().chain(ours.keys().filter(|name| !theirs.contains_key(*name)));
    for name in names {
        let (theirs, ours) = (theirs.get(name), ours.get(name));
        walk(name, theirs.unwrap_or(&Value::Null), ours.unwrap_or(&Value::Null), &mut found);
    }
    found.retain(|difference| !is_on_purpose(difference.lines().next().unwrap_or_default()));
    Ok(found)
}

fn is_on_purpose(path: &str) -> bool {
    DIFFERENT.iter().any(|(name, part)| {
        path.strip_prefix(name).is_some_and(|rest| {
            rest.find(part)
                .is_some_and(|at| matches!(rest[at + part.len()..].chars().next(), None | Some('/')))
        })
    })
}

/// Definitions by name, without what means nothing.
fn normal(definitions: Vec<Value>) -> anyhow::Result<Table> {
    let mut normal = Table::new();
    for (_, mut object) in table(definitions)? {
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let name = name.context("a definition without a name")?.to_owned();
        if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
        {
            annotations.remove("controller-gen.kubebuilder.io/version");
        }
        if object
            .pointer("/metadata/annotations")
            .is_some_and(|all| all.as_object().is_some_and(|all| all.is_empty()))
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("annotations");
        }
        without_order(&mut object);
        normal.insert(name, object);
    }
    Ok(normal)
}

/// Removes descriptions, and sorts enumerations, required fields, rules, and the lists within rules.
fn without_order(value: &mut Value) {
    match value {
        Value::Object(map) => {
            // A property may be called so; its value is a schema then.
            map.retain(|key, value| !(key == "description" && value.is_string()));
            for (key, value) in map.iter_mut() {
                without_order(value);
                match (key.as_str(), value) {
                    ("enum" | "required" | "x-kubernetes-validations", Value::Array(items)) => {
                        items.sort_by_key(ToString::to_string);
                    }
                    ("rule", Value::String(rule)) => *rule = with_sorted_list(rule),
                    _ => {}
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_order),
        _ => {}
    }
}

/// A CEL rule whose first list of texts is sorted and without repetitions.
fn with_sorted_list(rule: &str) -> String {
    let Some((start, rest)) = rule.split_once(" in [") else { return rule.to_owned() };
    let Some((list, end)) = rest.split_once(']') else { return rule.to_owned() };
    let mut items: Vec<&str> = list.split(',').map(str::trim).collect();
    items.sort_unstable();
    items.dedup();
    format!("{start} in [{}]{end}", items.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(name: &str, requirement: &Value, rules: &[&str]) -> Value {
        let rules: Vec<Value> = rules.iter().map(|rule| json!({"rule": rule})).collect();
        json!({"kind": "CustomResourceDefinition", "metadata": {"name": name, "annotations": {"controller-gen.kubebuilder.io/version": "v1"}},
            "spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"spec": {"description": "text", "properties": {
                "description": {"type": "string"}, "requirements": {"items": {"properties": requirement}},
            }, "x-kubernetes-validations": rules}}}}}]}})
    }

    #[test]
    fn definitions_compare_by_what_they_accept() {
        let requirement = json!({"operator": {"enum": ["In", "NotIn"]}, "values": {"maxLength": 63}});
        let theirs = definition("a", &requirement, &["self in [\"x\",\"y\"]", "b"]);
        let same = json!({"operator": {"enum": ["NotIn", "In"]}, "values": {}});
        let mut ours = definition("a", &same, &["b", "self in [\"y\", \"x\"]"]);
        ours["metadata"]["annotations"] = Value::Null;
        let found = |ours: &Value| differences(vec![theirs.clone()], vec![ours.clone()]).unwrap();
        assert_eq!(found(&ours), Vec::<String>::new());
        let open = json!({"operator": {"enum": ["In"]}, "values": {}});
        assert_eq!(found(&definition("a", &open, &["b", "self in [\"y\", \"x\"]"])).len(), 1);
        assert_eq!(found(&definition("a", &same, &["b"])).len(), 1, "a rule that lacks");
        assert_eq!(found(&definition("b", &same, &[])).len(), 2, "another name");
        let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/description";
        *ours.pointer_mut(schema).unwrap() = json!({"type": "integer"});
        assert_eq!(found(&ours).len(), 1, "a property that is called description");
    }
}
