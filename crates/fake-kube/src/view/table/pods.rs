//! Pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{condition, int, list, name, text, text_or};
use super::{Printer, age};

pub(super) fn printer(key: (&str, &str)) -> Option<Printer> {
    (key == ("", "pods")).then(|| Printer::new(&HEADERS, cells))
}

const HEADERS: [&str; 9] =
    ["Name", "Ready", "Status", "Restarts", "Age", "*IP", "*Node", "*Nominated Node", "*Readiness Gates"];

/// The condition of a row of a pod that has ended, by which clients can grey it out.
pub(super) fn completion(object: &Value) -> Option<Value> {
    if object.get("kind").and_then(Value::as_str) != Some("Pod") {
        return None;
    }
    let (reason, message) = match text(object, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!({"type": "Completed", "status": "True", "reason": reason, "message": message}))
}

/// What the statuses of containers add up to.
#[derive(Default)]
struct Summary {
    reason: String,
    ready: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Summary {
    fn count_restart(&mut self, status: &Value) {
        self.restarts += int(status, "/restartCount");
        let ended = text(status, "/lastState/terminated/finishedAt").parse().ok();
        self.last_restart = self.last_restart.max(ended);
    }
}

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let init_specs = list(pod, "/spec/initContainers");
    let sidecars = init_specs.iter().filter(|container| is_sidecar(container)).count();
    let total = list(pod, "/spec/containers").len() + sidecars;
    let summary = summarise(pod, init_specs);
    let mut restarts = summary.restarts.to_string();
    if let (1.., Some(last)) = (summary.restarts, summary.last_restart) {
        restarts = format!("{restarts} ({} ago)", age::human_duration(now.duration_since(last)));
    }
    vec![
        name(pod),
        json!(format!("{}/{total}", summary.ready)),
        json!(summary.reason),
        json!(restarts),
        age::cell(pod, now),
        json!(text_or(pod, "/status/podIPs/0/ip", "<none>")),
        json!(text_or(pod, "/spec/nodeName", "<none>")),
        json!(text_or(pod, "/status/nominatedNodeName", "<none>")),
        json!(readiness_gates(pod)),
    ]
}

fn is_sidecar(container: &Value) -> bool {
    text(container, "/restartPolicy") == "Always"
}

fn summarise(pod: &Value, init_specs: &[Value]) -> Summary {
    let phase = text(pod, "/status/phase");
    let mut summary =
        Summary { reason: text_or(pod, "/status/reason", phase).to_owned(), ..Summary::default() };
    let gated = list(pod, "/status/conditions").iter().any(|condition| {
        text(condition, "/type") == "PodScheduled" && text(condition, "/reason") == "SchedulingGated"
    });
    if gated {
        summary.reason = "SchedulingGated".to_owned();
    }
    let mut sidecars = Summary::default();
    let initializing = init_containers(pod, init_specs, &mut summary, &mut sidecars);
    if !initializing || condition(pod, "Initialized") == Some("True") {
        // Restarts of ordinary init containers stop to count once the pod runs.
        (summary.restarts, summary.last_restart) = (sidecars.restarts, sidecars.last_restart);
        containers(pod, &mut summary);
    }
    if pod.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()) {
        if text(pod, "/status/reason") == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            summary.reason = "Terminating".to_owned();
        }
    }
    summary
}

/// Goes through init containers up to the first that is not done. Returns whether there is one.
fn init_containers(pod: &Value, specs: &[Value], summary: &mut Summary, sidecars: &mut Summary) -> bool {
    for (index, status) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
        let spec = specs.iter().find(|spec| text(spec, "/name") == text(status, "/name"));
        let sidecar = spec.is_some_and(is_sidecar);
        summary.count_restart(status);
        if sidecar {
            sidecars.count_restart(status);
        }
        let terminated = status.pointer("/state/terminated");
        let waiting = text(status, "/state/waiting/reason");
        if terminated.is_some_and(|state| int(state, "/exitCode") == 0) {
            continue;
        }
        if sidecar && status.get("started") == Some(&Value::Bool(true)) {
            summary.ready += usize::from(status.get("ready") == Some(&Value::Bool(true)));
            continue;
        }
        summary.reason = match terminated {
            Some(state) => format!("Init:{}", exit_reason(state)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
            None => format!("Init:{index}/{}", specs.len()),
        };
        return true;
    }
    false
}

fn exit_reason(terminated: &Value) -> String {
    match (text(terminated, "/reason"), int(terminated, "/signal")) {
        ("", 0) => format!("ExitCode:{}", int(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn containers(pod: &Value, summary: &mut Summary) {
    let mut running = false;
    let mut error = String::new();
    for status in list(pod, "/status/containerStatuses").iter().rev() {
        summary.count_restart(status);
        let waiting = text(status, "/state/waiting/reason");
        if !waiting.is_empty() {
            summary.reason = waiting.to_owned();
        } else if let Some(terminated) = status.pointer("/state/terminated") {
            summary.reason = exit_reason(terminated);
            if int(terminated, "/exitCode") != 0 {
                error.clone_from(&summary.reason);
            }
        } else if status.get("ready") == Some(&Value::Bool(true))
            && status.pointer("/state/running").is_some()
        {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" {
        if running && condition(pod, "Ready") == Some("True") {
            summary.reason = "Running".to_owned();
        } else if !error.is_empty() {
            summary.reason = error;
        } else if running {
            summary.reason = "NotReady".to_owned();
        }
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let met =
        gates.iter().filter(|gate| condition(pod, text(gate, "/conditionType")) == Some("True")).count();
    format!("{met}/{}", gates.len())
}
