//! Workloads: selectors, templates, replicas.

use serde_json::{Value, json};

use super::{meta, pod};
use crate::object;
use crate::selector::Labels;
use crate::status::Cause;

/// Checks a kind of apps or batch.
pub(super) fn check(kind: &str, value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for field in ["replicas", "parallelism", "completions", "backoffLimit"] {
        if let Some(number) = object::integer(value, &["spec", field]).filter(|number| *number < 0) {
            let detail = "must be greater than or equal to 0";
            causes.push(Cause::invalid(format!("spec.{field}"), &json!(number), detail));
        }
    }
    match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => {
            selector(kind, value, &mut causes);
            template(value, &["spec", "template"], pod::Owner::Service, &mut causes);
        }
        "Job" => template(value, &["spec", "template"], pod::Owner::Job, &mut causes),
        "CronJob" => {
            if object::text(value, &["spec", "schedule"]).is_empty() {
                causes.push(Cause::required("spec.schedule", ""));
            }
            template(value, &["spec", "jobTemplate", "spec", "template"], pod::Owner::Job, &mut causes);
        }
        _ => {}
    }
    causes
}

fn selector(kind: &str, value: &Value, causes: &mut Vec<Cause>) {
    let given = object::at(value, &["spec", "selector"]);
    let labels = object::at(value, &["spec", "template", "metadata", "labels"]);
    let empty = given.is_none_or(|selector| {
        object::at(selector, &["matchLabels"]).is_none()
            && object::list(selector, &["matchExpressions"]).is_empty()
    });
    match given.filter(|selector| selector.is_object()) {
        None => causes.push(Cause::required("spec.selector", "")),
        Some(selector) if empty => {
            let detail = format!("empty selector is invalid for {}", kind.to_lowercase());
            causes.push(Cause::invalid("spec.selector", selector, &detail));
        }
        Some(selector) => {
            if !Labels::of_value(Some(selector)).is_some_and(|wanted| wanted.matches(labels)) {
                let shown = labels.cloned().unwrap_or_else(|| json!({}));
                let detail = "`selector` does not match template `labels`";
                causes.push(Cause::invalid("spec.template.metadata.labels", &shown, detail));
            }
        }
    }
}

fn template(value: &Value, path: &[&str], owner: pod::Owner, causes: &mut Vec<Cause>) {
    let shown = path.join(".");
    let Some(template) = object::at(value, path) else {
        causes.push(Cause::required(shown, ""));
        return;
    };
    let labels = object::at(template, &["metadata", "labels"]);
    causes.extend(meta::labels(labels, &format!("{shown}.labels")));
    causes.extend(pod::spec(&template["spec"], &format!("{shown}.spec"), owner));
}

/// Errors of changed immutable fields.
pub(super) fn immutable(kind: &str, old: &Value, new: &Value) -> Vec<Cause> {
    let fixed: &[&str] = match kind {
        "Deployment" | "ReplicaSet" | "DaemonSet" => &["selector"],
        "Job" => &["selector", "completions", "completionMode"],
        _ => &[],
    };
    let mut causes: Vec<Cause> = fixed
        .iter()
        .filter(|field| old["spec"][**field] != new["spec"][**field])
        .map(|field| Cause::invalid(format!("spec.{field}"), &new["spec"][*field], "field is immutable"))
        .collect();
    if kind == "StatefulSet" {
        const FREE: &[&str] = &[
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ];
        let rest = |value: &Value| {
            let mut spec = value["spec"].clone();
            if let Some(fields) = spec.as_object_mut() {
                fields.retain(|field, _| !FREE.contains(&field.as_str()));
            }
            spec
        };
        if rest(old) != rest(new) {
            let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
            causes.push(Cause::forbidden("spec", detail));
        }
    }
    let template = |value: &Value| value["spec"]["template"]["spec"].clone();
    if kind == "Job" && template(old) != template(new) && new["spec"]["suspend"] != json!(true) {
        causes.push(Cause::invalid("spec.template", &new["spec"]["template"], "field is immutable"));
    }
    causes
}
