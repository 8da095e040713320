//! C1xx: the custom resource definitions, their versions, schemas, what is stored, and webhooks of Karpenter's first releases.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_api::{installed, labels};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::{
    finding::Finding,
    keywords,
    objects::{ClusterObjects, count, display, list, name, some, text},
};

const GROUP: &str = "apiextensions.k8s.io";
const KIND: &str = "CustomResourceDefinition";
/// Definitions without which the controller does not start.
const REQUIRED: [&str; 2] = ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh"];
/// Definitions of optional features: objects of the kind are read only with a feature gate.
const OPTIONAL: [(&str, &str); 2] = [
    ("nodeoverlays.karpenter.sh", "NodeOverlay"),
    ("capacitybuffers.autoscaling.x-k8s.io", "CapacityBuffer"),
];
const INSTALL: &str = "upgrade the chart karpenter-crd, or apply the output of `fleetwright crds`";

/// Checks the definitions of the cluster against `ours`; `gates` are the feature gates that are on.
pub(super) fn check(
    cluster: &ClusterObjects,
    ours: &[CustomResourceDefinition],
    gates: &BTreeSet<&str>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    let installed: BTreeMap<&str, &Value> =
        cluster.of(GROUP, KIND).map(|definition| (name(definition), definition)).collect();
    if installed.is_empty() && !cluster.is_live {
        let what = "the input has no custom resource definitions: they are not checked";
        let fix = "add the output of `kubectl get customresourcedefinitions -o yaml`";
        return vec![Finding::warning("C100", "input", what).fix(fix)];
    }
    if cluster.denied.iter().any(|kind| kind == KIND) {
        return Vec::new();
    }
    for wanted in ours {
        let wanted_name = wanted.metadata.name.as_deref().unwrap_or_default();
        match installed.get(wanted_name) {
            Some(definition) => one(definition, wanted, &mut found),
            None => absent(cluster, wanted, wanted_name, gates, &mut found),
        }
    }
    found
}

fn absent(
    cluster: &ClusterObjects,
    wanted: &CustomResourceDefinition,
    wanted_name: &str,
    gates: &BTreeSet<&str>,
    found: &mut Vec<Finding>,
) {
    let object = format!("{KIND} {wanted_name}");
    let optional = OPTIONAL.iter().find(|(known, _)| *known == wanted_name);
    // The NodeClass definition of a cloud is required if a NodePool references its kind.
    let (group, kind) = (&wanted.spec.group, &wanted.spec.names.kind);
    let is_referred_to = cluster.of(labels::GROUP, "NodePool").any(|pool| {
        let class = "/spec/template/spec/nodeClassRef";
        text(pool, &format!("{class}/group")) == group && text(pool, &format!("{class}/kind")) == kind
    });
    if REQUIRED.contains(&wanted_name) || is_referred_to {
        let what = "is not installed: the controller does not start without it";
        found.push(Finding::blocker("C101", object, what).fix(INSTALL));
    } else if let Some((_, gate)) = optional {
        if gates.contains(gate) {
            let what =
                format!("is not installed, and the feature gate {gate} is on: the feature does nothing");
            found.push(Finding::warning("C102", object, what).fix(INSTALL));
        } else {
            let what = format!("is not installed; the feature gate {gate} is off, so nothing needs it");
            found.push(Finding::note("C102", object, what));
        }
    }
}

fn one(definition: &Value, wanted: &CustomResourceDefinition, found: &mut Vec<Finding>) {
    let object = display(definition);
    let Some(read) = wanted.spec.versions.iter().find(|version| version.storage) else { return };
    let schema = |definition: &Value| {
        let versions = list(definition, "/spec/versions");
        let version = versions.into_iter().find(|version| version["name"] == *read.name)?;
        version.pointer("/schema/openAPIV3Schema").cloned()
    };
    if !text(definition, "/metadata/deletionTimestamp").is_empty() {
        let what = "is being deleted, with all its objects";
        let fix = "find out who deletes it; wait until it is gone and install it again";
        found.push(Finding::blocker("C103", object.clone(), what).fix(fix));
    }
    let refused = list(definition, "/status/conditions").find(|condition| {
        matches!(text(condition, "/type"), "Established" | "NamesAccepted") && condition["status"] == "False"
    });
    if let Some(condition) = refused {
        let (kind, why) = (text(condition, "/type"), text(condition, "/message"));
        let what = format!("is not served: {kind} is False ({why})");
        found.push(Finding::blocker("C103", object.clone(), what).fix(INSTALL));
    }
    let Some(served) = schema(definition) else {
        let names: Vec<&str> =
            list(definition, "/spec/versions").map(|version| text(version, "/name")).collect();
        let has = if names.is_empty() { "no version at all".to_owned() } else { names.join(", ") };
        let what = format!("has {has} and no schema of {}: the controller does not start", read.name);
        found.push(Finding::blocker("C104", object, what).fix(INSTALL));
        return;
    };
    stored(definition, &object, &read.name, found);
    let expected = read.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    let Some(expected) = expected.and_then(|schema| serde_json::to_value(schema).ok()) else { return };
    level(&object, wanted, &served, &expected, found);
}

/// Whether stored objects can be read as version `read` without the conversion webhook of Karpenter.
fn stored(definition: &Value, object: &str, read: &str, found: &mut Vec<Finding>) {
    let others: Vec<&str> = list(definition, "/status/storedVersions")
        .filter_map(Value::as_str)
        .filter(|version| *version != read)
        .collect();
    let has_webhook = text(definition, "/spec/conversion/strategy") == "Webhook";
    let rewrite = "while Karpenter still runs, write each object again (`kubectl get KIND -o yaml | kubectl replace -f -`), then take the \
                   version out of status.storedVersions";
    if !others.is_empty() {
        let lost = installed::unreadable_storage(definition, read);
        let why = if lost.is_empty() {
            "only the webhook of an old Karpenter converts them, and it ends with the switch"
        } else {
            "nothing converts them, so that they cannot be listed"
        };
        let what = format!("objects may be stored as {}: {why}", others.join(", "));
        found.push(Finding::blocker("C105", object, what).fix(rewrite));
    } else if has_webhook {
        let what = "has a conversion webhook, a leftover of Karpenter 1.0; Fleetwright serves none";
        let fix = "set spec.conversion.strategy to None; the definitions of karpenter-crd 1.1 and newer do";
        found.push(Finding::warning("C106", object, what).fix(fix));
    }
    let old: Vec<&str> = list(definition, "/spec/versions")
        .filter(|version| version["served"] == true)
        .map(|version| text(version, "/name"))
        .filter(|version| *version != read && version.contains("beta"))
        .collect();
    if !old.is_empty() {
        let what =
            format!("still serves {}: clients that write it bypass the rules of {read}", old.join(", "));
        found.push(Finding::warning("C107", object, what).fix(INSTALL));
    }
}

/// Compares the served schema with ours.
fn level(
    object: &str,
    wanted: &CustomResourceDefinition,
    served: &Value,
    expected: &Value,
    found: &mut Vec<Finding>,
) {
    let (theirs, ours) = (fields(served), fields(expected));
    let kind = &wanted.spec.names.kind;
    let document = serde_json::json!({"components": {"schemas": {"of": with_kind(served, kind)}}});
    let prefix = format!("{kind}.");
    let mut needed: Vec<String> = installed::missing(&document);
    needed.retain(|field| field.starts_with(&prefix));
    if !needed.is_empty() {
        let what = format!("lacks {}, which would be lost: the controller does not start", some(&needed));
        found.push(Finding::blocker("C108", object, what).fix(INSTALL));
    }
    let older: Vec<&String> =
        ours.difference(&theirs).filter(|field| !needed.contains(&format!("{prefix}{field}"))).collect();
    if !older.is_empty() {
        let what = format!(
            "is older than Fleetwright's: it lacks {} ({}); the API server drops what is written there",
            count(older.len(), "field"),
            some(&older)
        );
        found.push(Finding::note("C109", object, what).fix(INSTALL));
    }
    let newer: Vec<&String> = theirs.difference(&ours).filter(|field| !takes_any(expected, field)).collect();
    if !newer.is_empty() {
        let what = format!(
            "is newer than Fleetwright's: it has {} that Fleetwright does not read ({})",
            count(newer.len(), "field"),
            some(&newer)
        );
        let fix = "see whether C202 names objects that use them; keep the definition";
        found.push(Finding::warning("C110", object, what).fix(fix));
    }
    let others = keywords::differences(served, expected);
    if !others.is_empty() {
        let what = format!(
            "differs from Fleetwright's in {} of what the API server writes and refuses: {}",
            count(others.len(), "point"),
            listed(&others)
        );
        let fix = format!("keep it, or for Fleetwright's defaults and rules {INSTALL}");
        found.push(Finding::note("C111", object, what).fix(fix));
    }
}

/// Whether a schema takes any field at `path`: the kubelet block of an EC2NodeClass is open.
fn takes_any(schema: &Value, path: &str) -> bool {
    let mut at = schema;
    for step in path.split('.') {
        if at["x-kubernetes-preserve-unknown-fields"] == true {
            return true;
        }
        at = if step == "[]" { &at["items"] } else { &at["properties"][step] };
    }
    false
}

/// The first points, and the number of the others.
fn listed(points: &[String]) -> String {
    const SHOWN: usize = 5;
    let first = points.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("; ");
    match points.len().saturating_sub(SHOWN) {
        0 => first,
        more => format!("{first}; and {more} more"),
    }
}

fn with_kind(schema: &Value, kind: &str) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        let versions = serde_json::json!([{"group": labels::GROUP, "version": "v1", "kind": kind}]);
        fields.insert("x-kubernetes-group-version-kind".to_owned(), versions);
    }
    schema
}

/// The paths of all fields of a schema, as `spec.limits`; `[]` stands for the items of a list.
pub(super) fn fields(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    walk(schema, "", &mut found);
    found
}

fn walk(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for (field, inner) in schema["properties"].as_object().into_iter().flatten() {
        // The API server has the schema of metadata.
        if path.is_empty() && matches!(field.as_str(), "metadata" | "apiVersion" | "kind") {
            continue;
        }
        let dot = if path.is_empty() { "" } else { "." };
        let path = format!("{path}{dot}{field}");
        walk(inner, &path, found);
        found.insert(path);
    }
    if let Some(items) = schema.get("items") {
        walk(items, &format!("{path}.[]"), found);
    }
}

#[cfg(test)]
mod tests {
    //! Which definitions are newer.
    use serde_json::json;

    use super::*;

    /// The findings on Karpenter's definition of EC2NodeClasses with `change` at a place of its spec.
    fn found(place: &str, change: &Value) -> Vec<String> {
        let wanted =
            fleetwright_aws_api::crds().into_iter().find(|crd| crd.spec.names.kind == "EC2NodeClass");
        let wanted = wanted.unwrap();
        let mut theirs = serde_json::to_value(&wanted).unwrap();
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
        *theirs.pointer_mut(&format!("{spec}{place}")).unwrap() = change.clone();
        let mut found = Vec::new();
        one(&theirs, &wanted, &mut found);
        found.into_iter().map(|finding| format!("{} {}", finding.id, finding.message)).collect()
    }

    #[test]
    fn what_an_open_block_takes_is_not_newer() {
        // Karpenter 1.14 lists the fields of the kubelet block, 1.15 and Fleetwright take any.
        let kubelet = json!({"type": "object", "properties": {"maxPods": {"type": "integer"}}});
        assert_eq!(found("/properties/kubelet", &kubelet), [""; 0]);
        let newer = found("/properties/cpuOptions", &json!({"type": "object", "properties": {"later": {}}}));
        assert!(
            newer.iter().any(|text| text.starts_with("C110") && text.contains("cpuOptions.later")),
            "{newer:?}"
        );
    }

    #[test]
    fn other_rules_are_named() {
        let all = found("/properties/detailedMonitoring", &json!({"type": "boolean", "default": true}));
        let expected = "C111 differs from Fleetwright's in 1 point of what the API server writes and refuses: \
                        spec.detailedMonitoring: has default true";
        assert_eq!(all, [expected]);
    }
}
