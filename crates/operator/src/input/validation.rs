//! What the API server finds wrong with pods, workloads and PodDisruptionBudgets: the rules of `pkg/apis/{core,apps,batch,policy}/validation` of
//! Kubernetes 1.35 that manifests break in practice. Objects that an API server stored have kept them.

mod fields;

use std::collections::BTreeSet;

use fleetwright_core::{model::Quantity, suggest};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::{CronJob, Job},
    core::v1::{PersistentVolumeClaim, Pod, ReplicationController},
    policy::v1::PodDisruptionBudget,
    storage::v1::StorageClass,
};
use serde_json::{Map, Value};

pub(crate) use self::fields::{Reading, UnknownField};
use super::{Item, Source, prepare, template};

/// Reads an object as the type of its kind.
type Read = fn(&Value) -> Reading;

/// The kinds whose fields are compared with their type.
const TYPES: [(&str, &str, Read); 11] = [
    ("v1", "Pod", fields::read::<Pod>),
    ("v1", "ReplicationController", fields::read::<ReplicationController>),
    ("v1", "PersistentVolumeClaim", fields::read::<PersistentVolumeClaim>),
    ("apps/v1", "Deployment", fields::read::<Deployment>),
    ("apps/v1", "ReplicaSet", fields::read::<ReplicaSet>),
    ("apps/v1", "StatefulSet", fields::read::<StatefulSet>),
    ("apps/v1", "DaemonSet", fields::read::<DaemonSet>),
    ("batch/v1", "Job", fields::read::<Job>),
    ("batch/v1", "CronJob", fields::read::<CronJob>),
    ("policy/v1", "PodDisruptionBudget", fields::read::<PodDisruptionBudget>),
    ("storage.k8s.io/v1", "StorageClass", fields::read::<StorageClass>),
];

/// A field that the API server refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invalid {
    pub(crate) path: String,
    pub(crate) message: String,
    pub(crate) fix: &'static str,
}

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: {}", self.path, self.message, self.fix)
    }
}

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
        "PodDisruptionBudget" if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() => {
            add(
                &mut found,
                "spec".to_owned(),
                "Invalid value: minAvailable and maxUnavailable cannot be both set".to_owned(),
                "remove one of them",
            );
        }
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

/// `ValidatePodSpec`, of the names of containers: the API server refuses such an object as well, and no decision reads them.
pub(crate) fn invalid_names(value: &Value) -> Vec<Invalid> {
    let (mut found, mut names) = (Vec::new(), BTreeSet::new());
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

/// The containers of a pod, each with where it is.
fn containers<'a>(spec: &'a Value, path: &str) -> impl Iterator<Item = (String, &'a Value)> {
    ["initContainers", "containers"].into_iter().flat_map(move |list| {
        let all = spec[list].as_array().into_iter().flatten().enumerate();
        all.map(move |(at, container)| (format!("{path}.{list}[{at}]"), container))
    })
}

fn add(found: &mut Vec<Invalid>, path: String, message: String, fix: &'static str) {
    found.push(Invalid { path, message, fix });
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

fn job(spec: &Value, path: &str, found: &mut Vec<Invalid>) {
    restart_policy(&spec["template"], &format!("{path}.template"), &["OnFailure", "Never"], found);
}

fn restart_policy(template: &Value, path: &str, allowed: &[&str], found: &mut Vec<Invalid>) {
    // Unset means Always.
    let written = template["spec"]["restartPolicy"].as_str().unwrap_or("Always");
    if template.is_object() && !allowed.contains(&written) {
        let allowed: Vec<String> = allowed.iter().map(|value| format!("{value:?}")).collect();
        let message = format!("Unsupported value: {written:?}: supported values: {}", allowed.join(", "));
        add(found, format!("{path}.spec.restartPolicy"), message, "change the value");
    }
}

/// `ValidatePodSpec`, of its containers: there is one, and requests agree with limits.
fn pod(spec: &Value, path: &str, found: &mut Vec<Invalid>) {
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        let fix = "give the pod a container";
        add(found, format!("{path}.containers"), "Required value".to_owned(), fix);
    }
    for (path, container) in containers(spec, path) {
        resources(&container["resources"], &format!("{path}.resources"), found);
    }
}

/// `validateResourceRequirements`.
fn resources(resources: &Value, path: &str, found: &mut Vec<Invalid>) {
    let of = |part: &str| resources[part].as_object().into_iter().flatten();
    for part in ["limits", "requests"] {
        for (name, value) in of(part) {
            resource(name, value, &format!("{path}.{part}.{name}"), found);
        }
    }
    for (name, written) in of("requests") {
        // A malformed quantity is reported where the pod is read.
        let Some(request) = quantity(written) else { continue };
        let is_shared = is_overcommit_allowed(name);
        let at = || format!("{path}.requests.{name}");
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

/// `validateContainerResourceName` and `ValidateResourceQuantityValue`.
fn resource(name: &str, value: &Value, path: &str, found: &mut Vec<Invalid>) {
    let is_standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_page(name);
    if !name.contains('/') && !is_standard {
        let meant = suggest::nearest(name, ["cpu", "memory", "ephemeral-storage"]);
        let fix = match meant {
            Some("cpu") => "write cpu",
            Some("memory") => "write memory",
            Some(_) => "write ephemeral-storage",
            None => "write the whole name, such as nvidia.com/gpu",
        };
        let message = format!("Invalid value: {name:?}: must be a standard resource for containers");
        add(found, path.to_owned(), message, fix);
    }
    let is_whole = |amount: Quantity| amount.nanos() % 1_000_000_000 == 0;
    if !is_native(name) && quantity(value).is_some_and(|amount| !is_whole(amount)) {
        let message = format!("Invalid value: {:?}: must be an integer", plain(value));
        add(found, path.to_owned(), message, "write a whole number");
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
mod tests {
    //! Manifests that no API server would store.
    use std::path::Path;

    use rstest::rstest;

    use super::*;
    use crate::input::files;

    fn items(text: &str) -> Vec<Item> {
        let mut items = Vec::new();
        files::parse(Path::new("in.yaml"), text, &mut items).unwrap();
        items
    }

    fn web(spec: &str, template: &str) -> String {
        format!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{{spec}, template: {{metadata: {{labels: {{app: web}}}}, spec: {{{template}}}}}}}}}"
        )
    }

    const SELECTOR: &str = "selector: {matchLabels: {app: web}}";
    const CONTAINER: &str = "containers: [{name: c}]";

    fn job(policy: &str) -> String {
        format!("{{apiVersion: batch/v1, kind: Job, spec: {{template: {{spec: {{{policy}{CONTAINER}}}}}}}}}")
    }

    fn pod(containers: &str) -> String {
        format!("{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [{containers}]}}}}")
    }

    fn with(resources: &str) -> String {
        pod(&format!("{{name: c, resources: {{{resources}}}}}"))
    }

    #[rstest]
    #[case::valid(web(SELECTOR, CONTAINER), None)]
    #[case::no_selector(web("replicas: 2", CONTAINER), Some("spec.selector: Required value"))]
    #[case::an_empty_selector(
        web("selector: {}", CONTAINER),
        Some("spec.selector: Invalid value: an empty selector")
    )]
    #[case::another_selector(
        web("selector: {matchLabels: {app: wbe}}", CONTAINER),
        Some("spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match")
    )]
    #[case::an_expression(
        web("selector: {matchExpressions: [{key: app, operator: In, values: [web]}]}", CONTAINER),
        None
    )]
    #[case::an_expression_of_another(
        web(
            "selector: {matchLabels: {app: web}, matchExpressions: [{key: app, operator: DoesNotExist}]}",
            CONTAINER
        ),
        Some("spec.template.metadata.labels: Invalid value")
    )]
    #[case::that_ends(
        web(SELECTOR, &format!("restartPolicy: Never, {CONTAINER}")),
        Some("spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"")
    )]
    #[case::a_job(job("restartPolicy: Never, "), None)]
    #[case::a_job_that_never_ends(
        job(""),
        Some(
            "spec.template.spec.restartPolicy: Unsupported value: \"Always\": supported values: \"OnFailure\", \"Never\""
        )
    )]
    #[case::no_containers(pod(""), Some("spec.containers: Required value"))]
    #[case::one_name_twice(
        pod("{name: c}, {name: c}"),
        Some("spec.containers[1].name: Duplicate value: \"c\"")
    )]
    #[case::a_request_above_the_limit(
        with("requests: {cpu: 3}, limits: {cpu: 1500m}"),
        Some(
            "spec.containers[0].resources.requests.cpu: Invalid value: \"3\": must be less than or equal to cpu limit of 1500m"
        )
    )]
    #[case::a_request_at_the_limit(with("requests: {cpu: 1500m}, limits: {cpu: 1.5}"), None)]
    #[case::a_device(with("limits: {nvidia.com/gpu: 1}"), None)]
    #[case::half_a_device(
        with("limits: {nvidia.com/gpu: 0.5}"),
        Some(
            "spec.containers[0].resources.limits.nvidia.com/gpu: Invalid value: \"0.5\": must be an integer"
        )
    )]
    #[case::a_device_without_limit(
        with("requests: {nvidia.com/gpu: 1}"),
        Some("spec.containers[0].resources.limits: Required value: Limit must be set")
    )]
    #[case::fewer_devices_than_the_limit(
        with("requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}"),
        Some(
            "spec.containers[0].resources.requests.nvidia.com/gpu: Invalid value: \"1\": must be equal to nvidia.com/gpu limit of 2"
        )
    )]
    #[case::huge_pages(
        with("limits: {hugepages-2Mi: 2Mi}"),
        Some("spec.containers[0].resources: Forbidden: HugePages")
    )]
    #[case::huge_pages_with_memory(with("requests: {memory: 1Gi}, limits: {hugepages-2Mi: 2Mi}"), None)]
    #[case::no_resource(
        with("requests: {cpus: 1}"),
        Some(
            "spec.containers[0].resources.requests.cpus: Invalid value: \"cpus\": must be a standard resource for containers: write cpu"
        )
    )]
    #[case::both(
        "{apiVersion: policy/v1, kind: PodDisruptionBudget, spec: {minAvailable: 1, maxUnavailable: 1}}".to_owned(),
        Some("spec: Invalid value: minAvailable and maxUnavailable")
    )]
    fn what_is_refused(#[case] text: String, #[case] expected: Option<&str>) {
        let value = &items(&text)[0].value;
        let found = invalid(value).into_iter().chain(invalid_names(value));
        let found: Vec<String> = found.map(|invalid| invalid.to_string()).collect();
        assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
        assert!(found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected)), "{found:?}");
    }

    #[test]
    fn fields_that_a_type_does_not_have() {
        let pod = "spec: {toleration: [], tolerations: [{key: a, opertor: Exists}], nodeSelector: {opertor: a}, containers: [{name: c, resource: {}}]}";
        let text = format!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replica: 3, {SELECTOR}, template: {{{pod}}}}}}}\n---\n{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: other}}, spec: {{replica: 3, {SELECTOR}, template: {{}}}}}}\n---\n{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: stored, uid: u}}, spec: {{replica: 3}}}}"
        );
        assert_eq!(
            ignored_fields(&items(&text)),
            [
                "in.yaml:1: Deployment has an unknown field spec.replica, which is ignored, in 2 objects: did you mean \"replicas\"?",
                "in.yaml:1: Deployment has an unknown field spec.template.spec.containers[0].resource, which is ignored: did you mean \"resources\"?",
                "in.yaml:1: Deployment has an unknown field spec.template.spec.toleration, which is ignored: did you mean \"tolerations\"?",
                "in.yaml:1: Deployment has an unknown field spec.template.spec.tolerations[0].opertor, which is ignored: did you mean \"operator\"?",
            ]
        );
    }

    #[test]
    fn a_value_of_another_type_is_named() {
        let text =
            "{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {a: true}}, spec: {containers: []}}";
        let (path, why) = read(&items(text)[0].value).unwrap().error.unwrap();
        assert_eq!(path, "metadata.labels.a");
        assert!(why.contains("expected a string"), "{why}");
    }
}
