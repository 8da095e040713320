//! Defaults of workloads.

use serde_json::{Value, json};

use super::pod;
use crate::object;

/// Sets the defaults of a kind of apps, batch and autoscaling.
pub(super) fn default(kind: &str, value: &mut Value) {
    match kind {
        "Deployment" => deployment(value),
        "ReplicaSet" | "ReplicationController" => {
            object::put_default(value, &["spec", "replicas"], 1);
            pod::default_template(value, &["spec", "template"]);
        }
        "StatefulSet" => stateful_set(value),
        "DaemonSet" => {
            object::put_default(value, &["spec", "revisionHistoryLimit"], 10);
            rolling(value, "updateStrategy", &[("maxSurge", json!(0)), ("maxUnavailable", json!(1))]);
            pod::default_template(value, &["spec", "template"]);
        }
        "Job" => job(value),
        "CronJob" => {
            for (field, default) in [
                ("concurrencyPolicy", json!("Allow")),
                ("suspend", json!(false)),
                ("successfulJobsHistoryLimit", json!(3)),
                ("failedJobsHistoryLimit", json!(1)),
            ] {
                object::put_default(value, &["spec", field], default);
            }
            pod::default_template(value, &["spec", "jobTemplate", "spec", "template"]);
        }
        "HorizontalPodAutoscaler" => object::put_default(value, &["spec", "minReplicas"], 1),
        _ => {}
    }
}

fn rolling(value: &mut Value, field: &str, parameters: &[(&str, Value)]) {
    object::put_default(value, &["spec", field, "type"], "RollingUpdate");
    if object::text(value, &["spec", field, "type"]) == "RollingUpdate" {
        for (name, default) in parameters {
            object::put_default(value, &["spec", field, "rollingUpdate", name], default.clone());
        }
    }
}

fn deployment(value: &mut Value) {
    for (field, default) in [("replicas", 1), ("revisionHistoryLimit", 10), ("progressDeadlineSeconds", 600)]
    {
        object::put_default(value, &["spec", field], default);
    }
    rolling(value, "strategy", &[("maxSurge", json!("25%")), ("maxUnavailable", json!("25%"))]);
    pod::default_template(value, &["spec", "template"]);
}

fn stateful_set(value: &mut Value) {
    for (field, default) in [
        ("replicas", json!(1)),
        ("revisionHistoryLimit", json!(10)),
        ("podManagementPolicy", json!("OrderedReady")),
        ("persistentVolumeClaimRetentionPolicy", json!({ "whenDeleted": "Retain", "whenScaled": "Retain" })),
    ] {
        object::put_default(value, &["spec", field], default);
    }
    rolling(value, "updateStrategy", &[("partition", json!(0))]);
    let templates = object::at_mut(value, &["spec", "volumeClaimTemplates"]).and_then(Value::as_array_mut);
    for claim in templates.into_iter().flatten() {
        object::put_default(claim, &["apiVersion"], "v1");
        object::put_default(claim, &["kind"], "PersistentVolumeClaim");
        object::put_default(claim, &["status", "phase"], "Pending");
        super::misc::default("PersistentVolumeClaim", claim);
    }
    pod::default_template(value, &["spec", "template"]);
}

/// Jobs select their pods by the job's UID and label them with it, unless the spec sets a selector.
fn job(value: &mut Value) {
    let both_absent = ["completions", "parallelism"]
        .iter()
        .all(|field| object::at(value, &["spec", field]).is_none_or(Value::is_null));
    if both_absent {
        object::put(value, &["spec", "completions"], 1);
    }
    for (field, default) in [
        ("parallelism", json!(1)),
        ("backoffLimit", json!(6)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("manualSelector", json!(false)),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
    ] {
        object::put_default(value, &["spec", field], default);
    }
    let (uid, name) = (object::uid(value).to_owned(), object::name(value).to_owned());
    if value["spec"]["manualSelector"] != json!(true) && !uid.is_empty() {
        let labels = ["metadata", "labels"];
        for (label, text) in [
            ("controller-uid", &uid),
            ("batch.kubernetes.io/controller-uid", &uid),
            ("job-name", &name),
            ("batch.kubernetes.io/job-name", &name),
        ] {
            let path = [&["spec", "template"][..], &labels, &[label]].concat();
            object::put(value, &path, text.as_str());
        }
        let selector = ["spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid"];
        object::put_default(value, &selector, uid);
    }
    pod::default_template(value, &["spec", "template"]);
}

/// The status of a new workload: the counters that are always present.
pub(super) fn initial_status(kind: &str) -> Value {
    match kind {
        "ReplicaSet" | "StatefulSet" | "ReplicationController" => json!({ "replicas": 0 }),
        "DaemonSet" => json!({
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        }),
        "PodDisruptionBudget" => json!({
            "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
        }),
        _ => json!({}),
    }
}
