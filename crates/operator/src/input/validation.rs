//! What the API server finds wrong with pods, workloads and PodDisruptionBudgets: the rules of `pkg/apis/{core,apps,batch,policy}/validation` of
//! Kubernetes 1.35 that manifests break in practice. Objects that an API server stored have kept them. `plan` leaves out what these rules
//! refuse, and `lint` reports it.
//!
//! - [`fields`]: fields that a type does not have, and values of another type.
//! - [`quantities`]: amounts of resources; [`placement`]: affinity, spread and tolerations.

mod fields;
mod placement;
mod quantities;

use std::collections::BTreeSet;

use fleetwright_core::{model::Quantity, suggest};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::{CronJob, Job},
    core::v1::{LimitRange, PersistentVolumeClaim, Pod, ReplicationController, ResourceQuota},
    policy::v1::PodDisruptionBudget,
    storage::v1::StorageClass,
};
use serde_json::{Map, Value};

pub(crate) use self::{
    fields::{Reading, UnknownField},
    quantities::parts_of_bytes,
};
use super::{
    Item, Source,
    invalid::{Invalid, add, one_of},
    prepare, template,
};

/// Reads an object as the type of its kind.
type Read = fn(&Value) -> Reading;

/// Letters of an invalid name in a message.
const NAME_SHOWN: usize = 80;

/// The kinds whose fields are compared with their type.
const TYPES: [(&str, &str, Read); 13] = [
    ("v1", "Pod", fields::read::<Pod>),
    ("v1", "ReplicationController", fields::read::<ReplicationController>),
    ("v1", "PersistentVolumeClaim", fields::read::<PersistentVolumeClaim>),
    ("v1", "LimitRange", fields::read::<LimitRange>),
    ("v1", "ResourceQuota", fields::read::<ResourceQuota>),
    ("apps/v1", "Deployment", fields::read::<Deployment>),
    ("apps/v1", "ReplicaSet", fields::read::<ReplicaSet>),
    ("apps/v1", "StatefulSet", fields::read::<StatefulSet>),
    ("apps/v1", "DaemonSet", fields::read::<DaemonSet>),
    ("batch/v1", "Job", fields::read::<Job>),
    ("batch/v1", "CronJob", fields::read::<CronJob>),
    ("policy/v1", "PodDisruptionBudget", fields::read::<PodDisruptionBudget>),
    ("storage.k8s.io/v1", "StorageClass", fields::read::<StorageClass>),
];

/// Whether an object is a manifest: no API server has stored and so validated it.
pub(crate) fn is_manifest(item: &Item) -> bool {
    matches!(item.source, Source::File { .. })
        && !prepare::is_dump(&item.value)
        && item.value["metadata"]["uid"].as_str().is_none_or(str::is_empty)
}

/// What reading an object as the type of its kind finds; `None` for other kinds.
pub(crate) fn read(value: &Value) -> Option<Reading> {
    let (_, _, read) =
        TYPES.iter().find(|(version, kind, _)| value["apiVersion"] == *version && value["kind"] == *kind)?;
    Some(read(value))
}

/// Notes on the fields of manifests that their types do not have: no decision reads them. Equal ones are one note.
pub(crate) fn ignored_fields(items: &[Item]) -> Vec<String> {
    let mut found: Vec<(UnknownField, &Value, String, usize)> = Vec::new();
    for item in items.iter().filter(|item| is_manifest(item)) {
        for field in read(&item.value).into_iter().flat_map(|reading| reading.unknown) {
            let kind = &item.value["kind"];
            match found.iter_mut().find(|(known, of, ..)| *known == field && *of == kind) {
                Some((.., count)) => *count += 1,
                None => found.push((field, kind, item.source.to_string(), 1)),
            }
        }
    }
    let note = |(field, kind, place, count): (UnknownField, &Value, String, usize)| {
        let kind = kind.as_str().unwrap_or_default();
        let meant = field.meant.map_or_else(String::new, |meant| format!(": did you mean {meant:?}?"));
        let of = if count > 1 { format!(", in {count} objects") } else { String::new() };
        format!("{place}: {kind} has an unknown field {}, which is ignored{of}{meant}", field.path)
    };
    found.into_iter().map(note).collect()
}

/// Notes on parts of bytes in manifests: a plan with `memory: 512m` is one for pods without memory. Equal ones are one note.
pub(crate) fn rounded_up(items: &[Item]) -> Vec<String> {
    let mut found: Vec<(String, String, usize)> = Vec::new();
    for item in items.iter().filter(|item| is_manifest(item)) {
        let Some((spec, path)) = pod_spec(&item.value) else { continue };
        for (path, container) in containers(spec, path) {
            for amount in parts_of_bytes(container, &path) {
                let note = format!("{}: {amount}", item.value["kind"].as_str().unwrap_or_default());
                match found.iter_mut().find(|(known, ..)| *known == note) {
                    Some((.., count)) => *count += 1,
                    None => found.push((note, item.source.to_string(), 1)),
                }
            }
        }
    }
    let of = |count: usize| if count > 1 { format!(" (in {count} objects)") } else { String::new() };
    found.into_iter().map(|(note, place, count)| format!("{place}: {note}{}", of(count))).collect()
}

/// Removes the LimitRanges and ResourceQuotas that the API server refuses: they change no pod. Returns notes on them.
pub(crate) fn drop_refused(items: &mut Vec<Item>) -> Vec<String> {
    let mut notes = Vec::new();
    items.retain(|item| {
        let kind = item.value["kind"].as_str().unwrap_or_default();
        if !matches!(kind, "LimitRange" | "ResourceQuota") || !is_manifest(item) {
            return true;
        }
        let Some(first) = invalid(&item.value).into_iter().next() else { return true };
        let name = item.value["metadata"]["name"].as_str().unwrap_or_default();
        notes.push(format!("{}: {kind} {name} is invalid and left out: {first}", item.source));
        false
    });
    notes
}

/// What the API server refuses of an object, by its rules on the kind, but for [`invalid_names`].
pub(crate) fn invalid(value: &Value) -> Vec<Invalid> {
    let mut found = Vec::new();
    let (kind, spec) = (value["kind"].as_str().unwrap_or_default(), &value["spec"]);
    match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => {
            selector(spec, &mut found);
            restart_policy(&spec["template"], "spec.template", &["Always"], &mut found);
        }
        "Job" => job(spec, "spec", &mut found),
        "CronJob" => job(&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec", &mut found),
        "LimitRange" => quantities::limit_range(spec, &mut found),
        "ResourceQuota" => quantities::amounts(&spec["hard"], "spec.hard", &mut found),
        "PersistentVolumeClaim" => {
            let path = "spec.resources.requests";
            quantities::amounts(&spec["resources"]["requests"], path, &mut found);
        }
        "PodDisruptionBudget" => disruption_budget(spec, &mut found),
        _ => {}
    }
    if let Some((spec, path)) = pod_spec(value) {
        pod(spec, path, &mut found);
    }
    found
}

/// The spec of the pods of an object, and where it is.
fn pod_spec(value: &Value) -> Option<(&Value, &'static str)> {
    let path = match value["kind"].as_str()? {
        "Pod" => "spec",
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "ReplicationController" | "Job" => {
            "spec.template.spec"
        }
        "CronJob" => "spec.jobTemplate.spec.template.spec",
        _ => return None,
    };
    Some((path.split('.').fold(value, |value, field| &value[field]), path))
}

/// `ValidateObjectMeta` and `ValidatePodSpec`, of the names of objects and containers: the API server refuses such an object as well, and no decision
/// depends on how they are written.
pub(crate) fn invalid_names(value: &Value) -> Vec<Invalid> {
    let (mut found, mut names) = (Vec::new(), BTreeSet::new());
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    if !name.is_empty() && !is_subdomain(name) {
        let shown: String = name.chars().take(NAME_SHOWN).collect();
        let message = format!("Invalid value: {shown:?}: no lowercase RFC 1123 subdomain");
        let fix =
            "use lower case letters, digits, '-' and '.', at most 253, with a letter or digit at both ends";
        add(&mut found, "metadata.name".to_owned(), message, fix);
    }
    let Some((spec, path)) = pod_spec(value) else { return found };
    for (path, container) in containers(spec, path) {
        let name = container["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            add(&mut found, format!("{path}.name"), "Required value".to_owned(), "name the container");
        } else if !names.insert(name) {
            let message = format!("Duplicate value: {name:?}");
            add(&mut found, format!("{path}.name"), message, "give each container another name");
        }
    }
    found
}

/// `IsDNS1123Subdomain`.
fn is_subdomain(name: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// The containers of a pod, each with where it is.
fn containers<'a>(spec: &'a Value, path: &str) -> impl Iterator<Item = (String, &'a Value)> {
    ["initContainers", "containers"].into_iter().flat_map(move |list| {
        let all = spec[list].as_array().into_iter().flatten().enumerate();
        all.map(move |(at, container)| (format!("{path}.{list}[{at}]"), container))
    })
}

/// The resource that a name without a domain means. A GPU is no misspelt CPU.
pub(crate) fn meant_resource<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    suggest::nearest(name, known.iter().copied()).filter(|_| !name.to_ascii_lowercase().starts_with("gpu"))
}

/// `ValidateDeploymentSpec` and its likes: a selector that is not empty and selects the pods of the template.
fn selector(spec: &Value, found: &mut Vec<Invalid>) {
    let selector = &spec["selector"];
    let path = || "spec.selector".to_owned();
    let fix = "select the labels of the template with matchLabels";
    if selector.is_null() {
        return add(found, path(), "Required value".to_owned(), fix);
    }
    let is_empty = |part: &str| {
        selector[part].as_object().is_none_or(Map::is_empty)
            && selector[part].as_array().is_none_or(Vec::is_empty)
    };
    if is_empty("matchLabels") && is_empty("matchExpressions") {
        return add(found, path(), "Invalid value: an empty selector is invalid".to_owned(), fix);
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if !template::selects_labels(selector, labels) {
        let written = if labels.is_null() { "{}".to_owned() } else { labels.to_string() };
        add(
            found,
            "spec.template.metadata.labels".to_owned(),
            format!("Invalid value: {written}: `selector` does not match template `labels`"),
            "give the template the labels that spec.selector has",
        );
    }
}

/// `ValidatePodDisruptionBudgetSpec`.
fn disruption_budget(spec: &Value, found: &mut Vec<Invalid>) {
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let message = "Invalid value: minAvailable and maxUnavailable cannot be both set";
        add(found, "spec".to_owned(), message.to_owned(), "remove one of them");
    }
    for field in ["minAvailable", "maxUnavailable"] {
        let written = &spec[field];
        let path = format!("spec.{field}");
        if let Some(text) = written.as_str() {
            let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<u32>().ok());
            if percent.is_none_or(|percent| percent > 100) {
                let message = format!(
                    "Invalid value: {text:?}: a valid percent string must be a numeric string followed by an ending '%'"
                );
                let fix = if text.parse::<u32>().is_ok() {
                    format!("write {text} without quotes")
                } else {
                    "write a number, or a percentage such as 50%".to_owned()
                };
                add(found, path, message, fix);
            }
        } else if written.as_i64().is_some_and(|number| number < 0) {
            let message = format!("Invalid value: {written}: must be greater than or equal to 0");
            add(found, path, message, "write zero or more");
        }
    }
    placement::label_selector(&spec["selector"], "spec.selector", found);
}

fn job(spec: &Value, path: &str, found: &mut Vec<Invalid>) {
    restart_policy(&spec["template"], &format!("{path}.template"), &["OnFailure", "Never"], found);
}

fn restart_policy(template: &Value, path: &str, allowed: &[&str], found: &mut Vec<Invalid>) {
    // Unset means Always.
    let written = template["spec"]["restartPolicy"].as_str().unwrap_or("Always");
    if template.is_object() && !allowed.contains(&written) {
        let quoted: Vec<String> = allowed.iter().map(|value| format!("{value:?}")).collect();
        let message = format!("Unsupported value: {written:?}: supported values: {}", quoted.join(", "));
        add(found, format!("{path}.spec.restartPolicy"), message, one_of(written, allowed));
    }
}

/// `ValidatePodSpec`: there is a container, requests agree with limits, quantities and constraints are well formed.
fn pod(spec: &Value, path: &str, found: &mut Vec<Invalid>) {
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        let fix = "give the pod a container";
        add(found, format!("{path}.containers"), "Required value".to_owned(), fix);
    }
    for (path, container) in containers(spec, path) {
        resources(&container["resources"], &format!("{path}.resources"), found);
    }
    for part in ["limits", "requests"] {
        quantities::amounts(&spec["resources"][part], &format!("{path}.resources.{part}"), found);
    }
    quantities::amounts(&spec["overhead"], &format!("{path}.overhead"), found);
    placement::pod(spec, path, found);
}

/// `validateResourceRequirements`.
fn resources(resources: &Value, path: &str, found: &mut Vec<Invalid>) {
    let of = |part: &str| resources[part].as_object().into_iter().flatten();
    for part in ["limits", "requests"] {
        for (name, value) in of(part) {
            quantities::of_container(name, value, &format!("{path}.{part}[{name}]"), found);
        }
    }
    for (name, written) in of("requests") {
        let Some(request) = quantity(written) else { continue };
        let is_shared = is_overcommit_allowed(name);
        let at = || format!("{path}.requests[{name}]");
        match resources["limits"].get(name).filter(|limit| !limit.is_null()) {
            None if !is_shared => {
                let message = "Required value: Limit must be set for non overcommitable resources";
                add(found, format!("{path}.limits"), message.to_owned(), "write the request as the limit");
            }
            None => {}
            Some(limit) => {
                let (Some(most), shown) = (quantity(limit), plain(limit)) else { continue };
                let written = plain(written);
                if !is_shared && request != most {
                    let message =
                        format!("Invalid value: {written:?}: must be equal to {name} limit of {shown}");
                    add(found, at(), message, "write the same amount as request and limit");
                } else if request > most {
                    let message = format!(
                        "Invalid value: {written:?}: must be less than or equal to {name} limit of {shown}"
                    );
                    add(found, at(), message, "raise the limit, or lower the request");
                }
            }
        }
    }
    let all = || of("limits").chain(of("requests")).map(|(name, _)| name.as_str());
    if all().any(is_huge_page) && !all().any(|name| matches!(name, "cpu" | "memory")) {
        let message = "Forbidden: HugePages require cpu or memory";
        add(found, path.to_owned(), message.to_owned(), "request cpu or memory too");
    }
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// A quantity as it is written, text or number.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn quantity(value: &Value) -> Option<Quantity> {
    plain(value).parse().ok()
}

#[cfg(test)]
mod tests;
