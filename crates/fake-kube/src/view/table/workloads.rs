//! Controllers of pods, and budgets.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{condition, int, int_or_text, labels, name, selector, template_containers, text};
use super::{Printer, age};

pub(super) fn printer(key: (&str, &str)) -> Option<Printer> {
    Some(match key {
        ("apps", "deployments") => Printer::new(
            &["Name", "Ready", "Up-to-date", "Available", "Age", "*Containers", "*Images", "*Selector"],
            deployment,
        ),
        ("apps", "replicasets") => Printer::new(
            &[
                "Name",
                "Desired:integer",
                "Current:integer",
                "Ready:integer",
                "Age",
                "*Containers",
                "*Images",
                "*Selector",
            ],
            replica_set,
        ),
        ("apps", "statefulsets") => {
            Printer::new(&["Name", "Ready", "Age", "*Containers", "*Images"], stateful_set)
        }
        ("apps", "daemonsets") => Printer::new(
            &[
                "Name",
                "Desired:integer",
                "Current:integer",
                "Ready:integer",
                "Up-to-date:integer",
                "Available:integer",
                "Node Selector",
                "Age",
                "*Containers",
                "*Images",
                "*Selector",
            ],
            daemon_set,
        ),
        ("batch", "jobs") => Printer::new(
            &["Name", "Status", "Completions", "Duration", "Age", "*Containers", "*Images", "*Selector"],
            job,
        ),
        ("policy", "poddisruptionbudgets") => Printer::new(
            &["Name", "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age"],
            budget,
        ),
        _ => return None,
    })
}

/// The desired replicas; one by default.
fn desired(object: &Value) -> i64 {
    object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1)
}

fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = template_containers(object);
    vec![
        name(object),
        json!(format!("{}/{}", int(object, "/status/readyReplicas"), desired(object))),
        json!(int(object, "/status/updatedReplicas")),
        json!(int(object, "/status/availableReplicas")),
        age::cell(object, now),
        containers,
        images,
        json!(selector(object.pointer("/spec/selector"))),
    ]
}

fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = template_containers(object);
    vec![
        name(object),
        json!(desired(object)),
        json!(int(object, "/status/replicas")),
        json!(int(object, "/status/readyReplicas")),
        age::cell(object, now),
        containers,
        images,
        json!(selector(object.pointer("/spec/selector"))),
    ]
}

fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = template_containers(object);
    let ready = format!("{}/{}", int(object, "/status/readyReplicas"), desired(object));
    vec![name(object), json!(ready), age::cell(object, now), containers, images]
}

fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = template_containers(object);
    vec![
        name(object),
        json!(int(object, "/status/desiredNumberScheduled")),
        json!(int(object, "/status/currentNumberScheduled")),
        json!(int(object, "/status/numberReady")),
        json!(int(object, "/status/updatedNumberScheduled")),
        json!(int(object, "/status/numberAvailable")),
        json!(labels(object.pointer("/spec/template/spec/nodeSelector"))),
        age::cell(object, now),
        containers,
        images,
        json!(selector(object.pointer("/spec/selector"))),
    ]
}

fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = template_containers(object);
    vec![
        name(object),
        json!(job_status(object)),
        json!(completions(object)),
        json!(job_duration(object, now)),
        age::cell(object, now),
        containers,
        images,
        json!(selector(object.pointer("/spec/selector"))),
    ]
}

fn completions(job: &Value) -> String {
    let succeeded = int(job, "/status/succeeded");
    match (job.pointer("/spec/completions").and_then(Value::as_i64), int(job, "/spec/parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn job_duration(job: &Value, now: Timestamp) -> String {
    let at = |pointer| text(job, pointer).parse::<Timestamp>().ok();
    let Some(started) = at("/status/startTime") else { return String::new() };
    age::human_duration(at("/status/completionTime").unwrap_or(now).duration_since(started))
}

fn job_status(job: &Value) -> &'static str {
    let has = |kind| condition(job, kind) == Some("True");
    if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if job.pointer("/metadata/deletionTimestamp").is_some() {
        "Terminating"
    } else if has("Suspended") {
        "Suspended"
    } else if has("FailureTarget") {
        "FailureTarget"
    } else if has("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |pointer| object.pointer(pointer).map_or_else(|| "N/A".to_owned(), int_or_text);
    vec![
        name(object),
        json!(bound("/spec/minAvailable")),
        json!(bound("/spec/maxUnavailable")),
        json!(int(object, "/status/disruptionsAllowed")),
        age::cell(object, now),
    ]
}
