//! Pod specs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::meta;
use crate::status::Cause;
use crate::{object, quantity};

/// The owner of a pod spec, which decides the allowed restart policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A pod.
    Pod,
    /// A controller of long-running pods.
    Service,
    /// A job.
    Job,
}

/// Checks a pod spec at a path.
pub(super) fn spec(spec: &Value, path: &str, owner: Owner) -> Vec<Cause> {
    let mut causes = restart_policy(spec, path, owner);
    if object::list(spec, &["containers"]).is_empty() {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    let volumes: BTreeSet<&str> =
        object::list(spec, &["volumes"]).iter().map(|volume| object::text(volume, &["name"])).collect();
    let mut names = BTreeSet::new();
    for list in ["initContainers", "containers"] {
        for (index, entry) in object::list(spec, &[list]).iter().enumerate() {
            let path = format!("{path}.{list}[{index}]");
            let name = object::text(entry, &["name"]);
            if !name.is_empty() && !names.insert(name) {
                causes.push(Cause::duplicate(format!("{path}.name"), &json!(name)));
            }
            container(entry, &path, &volumes, &mut causes);
        }
    }
    causes.extend(meta::labels(spec.get("nodeSelector"), &format!("{path}.nodeSelector")));
    tolerations(spec, path, &mut causes);
    spread(spec, path, &mut causes);
    causes
}

fn restart_policy(spec: &Value, path: &str, owner: Owner) -> Vec<Cause> {
    let given = &spec["restartPolicy"];
    let allowed: &[&str] = match owner {
        Owner::Pod => &["Always", "OnFailure", "Never"],
        Owner::Service => &["Always"],
        Owner::Job => &["OnFailure", "Never"],
    };
    if given.as_str().is_some_and(|given| allowed.contains(&given)) {
        return Vec::new();
    }
    let field = format!("{path}.restartPolicy");
    if owner == Owner::Job && given == "Always" {
        return vec![Cause::required(field, "valid values: \"OnFailure\", \"Never\"")];
    }
    vec![Cause::not_supported(field, given, allowed)]
}

fn container(entry: &Value, path: &str, volumes: &BTreeSet<&str>, causes: &mut Vec<Cause>) {
    let name = object::text(entry, &["name"]);
    if name.is_empty() {
        causes.push(Cause::required(format!("{path}.name"), ""));
    } else if let Some(problem) = meta::dns_label(name) {
        causes.push(Cause::invalid(format!("{path}.name"), &json!(name), problem));
    }
    let image = object::text(entry, &["image"]);
    if image.is_empty() {
        causes.push(Cause::required(format!("{path}.image"), ""));
    } else if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        causes.push(Cause::invalid(format!("{path}.image"), &json!(image), detail));
    }
    for (index, mount) in object::list(entry, &["volumeMounts"]).iter().enumerate() {
        let volume = object::text(mount, &["name"]);
        if !volumes.contains(volume) {
            causes.push(Cause {
                field: format!("{path}.volumeMounts[{index}].name"),
                reason: "FieldValueNotFound".to_owned(),
                message: format!("Not found: {volume:?}"),
            });
        }
    }
    for (index, port) in object::list(entry, &["ports"]).iter().enumerate() {
        let number = object::integer(port, &["containerPort"]).unwrap_or(0);
        if !(1..=65535).contains(&number) {
            let detail = "must be between 1 and 65535, inclusive";
            causes.push(Cause::invalid(
                format!("{path}.ports[{index}].containerPort"),
                &json!(number),
                detail,
            ));
        }
    }
    resources(entry, path, causes);
}

fn resources(entry: &Value, path: &str, causes: &mut Vec<Cause>) {
    let amount = |value: Option<&Value>| value.and_then(Value::as_str).and_then(quantity::parse);
    let limits = object::at(entry, &["resources", "limits"]);
    for list in ["limits", "requests"] {
        let entries = object::at(entry, &["resources", list]).and_then(Value::as_object);
        for (name, value) in entries.into_iter().flatten() {
            let field = format!("{path}.resources.{list}[{name}]");
            if let Some(problem) = meta::qualified_name(name) {
                causes.push(Cause::invalid(format!("{path}.resources.{list}"), &json!(name), &problem));
            } else if !name.contains('/') && !is_standard(name) {
                let detail = "must be a standard resource type or fully qualified";
                causes.push(Cause::invalid(format!("{path}.resources.{list}[{name}]"), &json!(name), detail));
            }
            let Some(parsed) = amount(Some(value)) else { continue };
            if parsed.is_negative() {
                causes.push(Cause::invalid(field, value, "must be greater than or equal to 0"));
            } else if name.contains('/') && !parsed.is_whole() {
                causes.push(Cause::invalid(field, value, "must be an integer"));
            } else if list == "requests"
                && let Some(limit) = amount(limits.and_then(|limits| limits.get(name)))
                && parsed > limit
            {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                causes.push(Cause::invalid(format!("{path}.resources.requests"), value, &detail));
            }
        }
    }
}

fn is_standard(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage" | "storage") || name.starts_with("hugepages-")
}

fn tolerations(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, toleration) in object::list(spec, &["tolerations"]).iter().enumerate() {
        let path = format!("{path}.tolerations[{index}]");
        let text = |field: &str| object::text(toleration, &[field]);
        if !text("key").is_empty()
            && let Some(problem) = meta::qualified_name(text("key"))
        {
            causes.push(Cause::invalid(format!("{path}.key"), &json!(text("key")), &problem));
        }
        if text("key").is_empty() && text("operator") != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            causes.push(Cause::invalid(format!("{path}.operator"), &json!(text("operator")), detail));
        }
        if toleration.get("tolerationSeconds").is_some() && text("effect") != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            causes.push(Cause::invalid(format!("{path}.effect"), &json!(text("effect")), detail));
        }
        match text("operator") {
            "" | "Equal" | "Lt" | "Gt" => {}
            "Exists" if text("value").is_empty() => {}
            "Exists" => {
                let detail = "value must be empty when `operator` is 'Exists'";
                causes.push(Cause::invalid(format!("{path}.operator"), &toleration.clone(), detail));
            }
            other => {
                let supported = ["Equal", "Exists"];
                causes.push(Cause::not_supported(format!("{path}.operator"), &json!(other), &supported));
            }
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if !text("effect").is_empty() && !effects.contains(&text("effect")) {
            causes.push(Cause::not_supported(format!("{path}.effect"), &json!(text("effect")), &effects));
        }
    }
}

fn spread(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, constraint) in object::list(spec, &["topologySpreadConstraints"]).iter().enumerate() {
        let path = format!("{path}.topologySpreadConstraints[{index}]");
        let skew = object::integer(constraint, &["maxSkew"]).unwrap_or(0);
        if skew <= 0 {
            causes.push(Cause::invalid(format!("{path}.maxSkew"), &json!(skew), "must be greater than zero"));
        }
        if object::text(constraint, &["topologyKey"]).is_empty() {
            causes.push(Cause::required(format!("{path}.topologyKey"), "can not be empty"));
        }
        let action = object::text(constraint, &["whenUnsatisfiable"]);
        let supported = ["DoNotSchedule", "ScheduleAnyway"];
        if !supported.contains(&action) {
            causes.push(Cause::not_supported(
                format!("{path}.whenUnsatisfiable"),
                &json!(action),
                &supported,
            ));
        }
    }
}

/// A pod's spec is immutable, except images, deadlines, more tolerations and fewer scheduling gates.
pub(super) fn immutable(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (before, after) =
        (object::list(old, &["spec", "tolerations"]), object::list(new, &["spec", "tolerations"]));
    if !before.iter().all(|toleration| after.contains(toleration)) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        causes.push(Cause::forbidden("spec.tolerations", detail));
    }
    let gates = |pod: &Value| object::list(pod, &["spec", "schedulingGates"]).to_vec();
    let (old_gates, new_gates) = (gates(old), gates(new));
    if let Some(added) = new_gates.iter().find(|gate| !old_gates.contains(gate)) {
        let detail = format!(
            "only deletion is allowed, but found new scheduling gate '{}'",
            object::text(added, &["name"])
        );
        causes.push(Cause::forbidden("spec.schedulingGates", &detail));
    }
    let gated = !old_gates.is_empty();
    if comparable(old, gated) != comparable(new, gated) {
        let detail = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        causes.push(Cause::forbidden("spec", detail));
    }
    causes
}

/// The spec without mutable fields; gated pods may also narrow their node selection.
fn comparable(pod: &Value, gated: bool) -> Value {
    let mut spec = pod["spec"].clone();
    let mut free = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if gated {
        free.extend(["nodeSelector", "affinity"]);
    }
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|field, _| !free.contains(&field.as_str()));
    }
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for fields in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            fields.remove("image");
        }
    }
    spec
}
