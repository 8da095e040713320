//! Rules about one object.

use fleetwright_core::suggest;
use serde_json::Value;

use super::LintReport;
use crate::{
    catalogue::Catalogues,
    input::{
        Item,
        invalid::Invalid,
        validation::{meant_resource, parts_of_bytes},
    },
};

/// A drain deadline above this keeps a node that nobody wants for days.
const LONG_GRACE_HOURS: i64 = 72;
/// The resources of nodes that limits of NodePools have, beside those of devices.
const LIMITED: [&str; 5] = ["cpu", "memory", "nodes", "pods", "ephemeral-storage"];
pub(super) fn check(item: &Item, catalogues: &Catalogues, report: &mut LintReport) {
    let kind = item.value["kind"].as_str().unwrap_or_default();
    match kind {
        "NodePool" => node_pool(item, report),
        "StorageClass" => storage_class(item, report),
        "PodDisruptionBudget" => budget(item, report),
        _ => {}
    }
    for image in catalogues.moving_images(&item.value) {
        report.add("L108", item, &image.field, image.message, image.fix);
    }
    if let Some((path, template)) = pod_template(&item.value) {
        pod(item, &path, template, report);
    }
}

/// The pod of an object, and its path.
pub(super) fn pod_template(value: &Value) -> Option<(String, &Value)> {
    let path = match value["kind"].as_str()? {
        "Pod" => "",
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "ReplicationController" => {
            "spec.template"
        }
        "CronJob" => "spec.jobTemplate.spec.template",
        _ => return None,
    };
    let pointer = if path.is_empty() { String::new() } else { format!("/{}", path.replace('.', "/")) };
    Some((path.to_owned(), value.pointer(&pointer)?))
}

fn join(path: &str, rest: &str) -> String {
    if path.is_empty() { rest.to_owned() } else { format!("{path}.{rest}") }
}

fn node_pool(item: &Item, report: &mut LintReport) {
    let spec = &item.value["spec"];
    let template = &spec["template"]["spec"];
    if spec["limits"].as_object().is_none_or(serde_json::Map::is_empty) && spec["replicas"].is_null() {
        report.add(
            "L110",
            item,
            "spec",
            "the NodePool has no limits: a mistake in a workload may launch any number of nodes",
            "set spec.limits.cpu or spec.limits.nodes",
        );
    }
    limits(item, &spec["limits"], report);
    requirements(item, "spec.template.spec.requirements", &template["requirements"], report);
    template_labels(item, report);
    if let Some(grace) = template["terminationGracePeriod"]
        .as_str()
        .and_then(|text| fleetwright_api::duration::parse(text).ok())
        && grace.as_hours() > LONG_GRACE_HOURS
    {
        report.add(
            "L103",
            item,
            "spec.template.spec.terminationGracePeriod",
            format!("a node may drain for {} hours, which is paid for", grace.as_hours()),
            format!("use at most {LONG_GRACE_HOURS}h"),
        );
    }
}

/// Limits of resources that no node has: they never hold.
fn limits(item: &Item, limits: &Value, report: &mut LintReport) {
    let is_known =
        |name: &str| LIMITED.contains(&name) || name.contains('/') || name.starts_with("hugepages-");
    for (name, _) in limits.as_object().into_iter().flatten().filter(|(name, _)| !is_known(name)) {
        let fix = meant_resource(name, &LIMITED).map_or_else(
            || format!("write one of {}, or a whole name such as nvidia.com/gpu", LIMITED.join(", ")),
            |meant| format!("did you mean {meant:?}?"),
        );
        let message = format!("no node has the resource {name}: the limit never holds");
        report.add("L123", item, &format!("spec.limits[{name}]"), message, fix);
    }
}

/// Requirements of NodePools: values that do not exist, and sets that exclude each other.
fn requirements(item: &Item, path: &str, requirements: &Value, report: &mut LintReport) {
    let all = requirements.as_array().map(Vec::as_slice).unwrap_or_default();
    for (at, wanted) in all.iter().enumerate() {
        let values = wanted["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for (number, value) in values.enumerate() {
            known_value(item, &format!("{path}[{at}].values[{number}]"), &wanted["key"], value, report);
        }
    }
    for (at, wanted) in all.iter().enumerate().filter(|(_, wanted)| wanted["operator"] == "In") {
        let allows = |value: &Value| {
            all.iter().filter(|other| other["key"] == wanted["key"]).all(|other| {
                let named = other["values"].as_array().is_some_and(|values| values.contains(value));
                match other["operator"].as_str() {
                    Some("In") => named,
                    Some("NotIn") => !named,
                    Some("DoesNotExist") => false,
                    _ => true,
                }
            })
        };
        let values = wanted["values"].as_array();
        if values.is_some_and(|values| !values.is_empty() && !values.iter().any(allows)) {
            let key = wanted["key"].as_str().unwrap_or_default();
            report.add(
                "L111",
                item,
                &format!("{path}[{at}]"),
                format!("the requirements on {key} exclude each other: no value meets all of them"),
                "remove one of them",
            );
        }
    }
}

/// Labels of a NodePool's template: with its requirements, they are what its nodes have.
fn template_labels(item: &Item, report: &mut LintReport) {
    let labels = item.value.pointer("/spec/template/metadata/labels").and_then(Value::as_object);
    let wanted = item.value.pointer("/spec/template/spec/requirements").and_then(Value::as_array);
    for (key, value) in labels.into_iter().flatten() {
        let path = format!("spec.template.metadata.labels[{key}]");
        let value = value.as_str().unwrap_or_default();
        known_value(item, &path, &Value::from(key.as_str()), value, report);
        let mut of_key = wanted.into_iter().flatten().filter(|wanted| wanted["key"] == *key);
        if let Some(excludes) = of_key.find(|wanted| !is_met(wanted, value)) {
            let operator = excludes["operator"].as_str().unwrap_or_default();
            let values = excludes["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let values = values.collect::<Vec<_>>().join(", ");
            report.add(
                "L119",
                item,
                &path,
                format!(
                    "the requirement {} excludes the label {key}={value}: no node is launched",
                    format!("{key} {operator} {values}").trim_end()
                ),
                "remove the label or the requirement: a requirement of one value labels the nodes too",
            );
        }
    }
}

/// Whether a label value meets a requirement. One that is not well formed has other findings.
fn is_met(wanted: &Value, value: &str) -> bool {
    let values = || wanted["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let compared = |is_met: fn(&i64, &i64) -> bool| {
        let bound = values().next().and_then(|bound| bound.parse().ok());
        bound.is_none_or(|bound| value.parse().is_ok_and(|value| is_met(&value, &bound)))
    };
    match wanted["operator"].as_str() {
        Some("In") => values().any(|known| known == value),
        Some("NotIn") => values().all(|known| known != value),
        Some("DoesNotExist") => false,
        Some("Gt") => compared(i64::gt),
        Some("Lt") => compared(i64::lt),
        Some("Gte") => compared(i64::ge),
        Some("Lte") => compared(i64::le),
        _ => true,
    }
}

fn known_value(item: &Item, path: &str, key: &Value, value: &str, report: &mut LintReport) {
    let Some((key, known)) = suggest::KNOWN_VALUES.iter().find(|(known, _)| key == known) else { return };
    if !known.contains(&value) {
        let fix = match suggest::nearest(value, known.iter().copied()) {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => format!("use one of {}", known.join(", ")),
        };
        report.add("L112", item, path, format!("no node has {key}={value}"), fix);
    }
}

fn storage_class(item: &Item, report: &mut LintReport) {
    let provisioner = item.value["provisioner"].as_str().unwrap_or_default();
    let is_zonal = ["ebs.csi", "aws-ebs", "pd.csi", "gce-pd", "disk.csi", "azure-disk", "cinder"]
        .iter()
        .any(|known| provisioner.contains(known));
    let mode = item.value["volumeBindingMode"].as_str().unwrap_or("Immediate");
    if is_zonal && mode == "Immediate" {
        report.add(
            "L101",
            item,
            "volumeBindingMode",
            "volumes are bound to a zone before their pod has a node: a node in another zone is launched for nothing",
            "set volumeBindingMode: WaitForFirstConsumer",
        );
    }
}

fn budget(item: &Item, report: &mut LintReport) {
    let spec = &item.value["spec"];
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let message =
        "the budget never allows an eviction: nodes of its pods are not consolidated and cannot be drained";
    let fix = "allow at least one pod to be unavailable";
    if matches!(text(&spec["maxUnavailable"]).as_str(), "0" | "0%") {
        report.add("L115", item, "spec.maxUnavailable", message, fix);
    }
    if text(&spec["minAvailable"]) == "100%" {
        report.add("L115", item, "spec.minAvailable", message, fix);
    }
}

fn pod(item: &Item, path: &str, template: &Value, report: &mut LintReport) {
    let spec = &template["spec"];
    let selected = spec["nodeSelector"].as_object();
    for (key, value) in selected.into_iter().flatten() {
        let at = join(path, &format!("spec.nodeSelector[{key}]"));
        known_value(item, &at, &Value::from(key.as_str()), value.as_str().unwrap_or_default(), report);
    }
    let terms = spec
        .pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms");
    for (number, term) in terms.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let base =
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
        let at = join(path, &format!("{base}[{number}].matchExpressions"));
        requirements(item, &at, &term["matchExpressions"], report);
    }
    for list in ["containers", "initContainers"] {
        for (number, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            self::container(item, &join(path, &format!("spec.{list}[{number}]")), container, list, report);
        }
    }
    let annotation = &template["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"];
    let is_replicated =
        matches!(item.value["kind"].as_str(), Some("Deployment" | "StatefulSet" | "ReplicaSet"));
    if annotation == "true" && is_replicated {
        report.add(
            "L104",
            item,
            &join(path, "metadata.annotations[karpenter.sh/do-not-disrupt]"),
            "every node with a pod of this workload is kept for as long as the pod lives",
            "use a PodDisruptionBudget, or a duration such as 30m as the value of the annotation",
        );
    }
}

fn container(item: &Item, path: &str, container: &Value, list: &str, report: &mut LintReport) {
    let resources = &container["resources"];
    for Invalid { path, message, fix } in parts_of_bytes(container, path) {
        report.add("L113", item, &path, message, fix);
    }
    if list == "containers" {
        let has = |name: &str| !resources["requests"][name].is_null() || !resources["limits"][name].is_null();
        let (_, _, namespace, _) = crate::input::select::identity(&item.value);
        let of_namespace = report.defaults.get(&namespace);
        let is_given = |name: &str| of_namespace.is_some_and(|given| given.contains(name));
        let missing: Vec<&str> =
            ["cpu", "memory"].into_iter().filter(|name| !has(name) && !is_given(name)).collect();
        if !missing.is_empty() {
            report.add(
                "L114",
                item,
                path,
                format!(
                    "the container requests no {}: nodes are chosen as if it needed none",
                    missing.join(" and ")
                ),
                "set resources.requests",
            );
        }
    }
}
