//! Nodes and the smaller kinds.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::meta;
use crate::object;
use crate::status::Cause;

/// Largest value of a priority class that is not the system's.
const LARGEST_PRIORITY: i64 = 1_000_000_000;

/// Checks a kind.
pub(super) fn check(kind: &str, value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    match kind {
        "Node" => taints(value, &mut causes),
        "Service" => {
            let headless = object::text(value, &["spec", "clusterIP"]) == "None";
            let external = object::text(value, &["spec", "type"]) == "ExternalName";
            if object::list(value, &["spec", "ports"]).is_empty() && !headless && !external {
                causes.push(Cause::required("spec.ports", ""));
            }
        }
        "PersistentVolumeClaim" => {
            if object::list(value, &["spec", "accessModes"]).is_empty() {
                causes.push(Cause::required("spec.accessModes", "at least 1 access mode is required"));
            }
            if object::at(value, &["spec", "resources", "requests", "storage"]).is_none() {
                causes.push(Cause::required("spec.resources[storage]", ""));
            }
        }
        "PodDisruptionBudget" => {
            let spec = &value["spec"];
            if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
                let detail = "minAvailable and maxUnavailable cannot be both set";
                causes.push(Cause::invalid("spec", spec, detail));
            }
        }
        "Event" => {
            let (own, involved) =
                (object::namespace(value), object::text(value, &["involvedObject", "namespace"]));
            if own != if involved.is_empty() { "default" } else { involved } && !own.is_empty() {
                let detail = "does not match event.namespace";
                causes.push(Cause::invalid("involvedObject.namespace", &json!(involved), detail));
            }
        }
        "Lease" => {
            for field in ["leaseDurationSeconds", "leaseTransitions"] {
                let least = i64::from(field == "leaseDurationSeconds");
                if let Some(number) =
                    object::integer(value, &["spec", field]).filter(|number| *number < least)
                {
                    let detail = if least == 1 {
                        "must be greater than 0"
                    } else {
                        "must be greater than or equal to 0"
                    };
                    causes.push(Cause::invalid(format!("spec.{field}"), &json!(number), detail));
                }
            }
        }
        "PriorityClass" => {
            let number = object::integer(value, &["value"]).unwrap_or(0);
            let system = object::name(value).starts_with("system-");
            if number > LARGEST_PRIORITY && !system {
                let detail =
                    format!("maximum allowed value of a user defined priority is {LARGEST_PRIORITY}");
                causes.push(Cause::forbidden("value", &detail));
            }
        }
        "StorageClass" if object::text(value, &["provisioner"]).is_empty() => {
            causes.push(Cause::required("provisioner", ""));
        }
        _ => {}
    }
    causes
}

fn taints(value: &Value, causes: &mut Vec<Cause>) {
    let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let mut seen = BTreeSet::new();
    for (index, taint) in object::list(value, &["spec", "taints"]).iter().enumerate() {
        let path = format!("spec.taints[{index}]");
        let (key, effect) = (object::text(taint, &["key"]), object::text(taint, &["effect"]));
        if let Some(problem) = meta::qualified_name(key) {
            causes.push(Cause::invalid(format!("{path}.key"), &json!(key), &problem));
        }
        if let Some(problem) = meta::label_value(object::text(taint, &["value"])) {
            causes.push(Cause::invalid(format!("{path}.value"), &taint["value"], problem));
        }
        if effect.is_empty() {
            causes.push(Cause::required(format!("{path}.effect"), ""));
        } else if !supported.contains(&effect) {
            causes.push(Cause::not_supported(format!("{path}.effect"), &json!(effect), &supported));
        }
        if !seen.insert((key, effect)) {
            let mut cause = Cause::duplicate(path, taint);
            cause.message.push_str(": taints must be unique by key and effect pair");
            causes.push(cause);
        }
    }
}

/// Errors of changed immutable fields.
pub(super) fn immutable(kind: &str, old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    match kind {
        "Node" => {
            let before = object::text(old, &["spec", "providerID"]);
            if !before.is_empty() && before != object::text(new, &["spec", "providerID"]) {
                let detail = "node updates may not change providerID except from \"\" to valid";
                causes.push(Cause::forbidden("spec.providerID", detail));
            }
        }
        "StorageClass" => {
            for field in ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"] {
                if old[field] != new[field] {
                    causes.push(Cause::forbidden(field, &format!("updates to {field} are forbidden.")));
                }
            }
        }
        "PriorityClass" if old["value"] != new["value"] => {
            causes.push(Cause::forbidden("value", "may not be changed in an update."));
        }
        "Secret" | "ConfigMap" if old["immutable"] == json!(true) => {
            for field in ["data", "binaryData", "stringData"] {
                if old[field] != new[field] {
                    causes.push(Cause::forbidden(field, "field is immutable when `immutable` is set"));
                }
            }
        }
        _ => {}
    }
    causes
}
