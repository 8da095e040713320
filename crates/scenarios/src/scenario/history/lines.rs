//! Formats one change as lines.

use serde_json::{Map, Value};

use super::{Change, text};

/// Labels of Nodes that are reported.
const LABELS: [&str; 3] = [
    "karpenter.sh/registered",
    "karpenter.sh/initialized",
    "node.kubernetes.io/exclude-from-external-load-balancers",
];
/// The deadline of a drain.
const DEADLINE: &str = "/metadata/annotations/karpenter.sh~1nodeclaim-termination-timestamp";

/// The lines of a change, each with the word by which `report-changes` selects it.
pub(super) fn of(change: &Change) -> Vec<(String, String)> {
    let object = change.after.as_ref().or(change.before.as_ref()).unwrap_or(&Value::Null);
    if change.kind == "Event" {
        return event(change).into_iter().collect();
    }
    let place = match text(object, "/metadata/namespace") {
        "" => String::new(),
        namespace => format!("{namespace}/"),
    };
    let who = format!("{} {place}{}", change.kind, text(object, "/metadata/name"));
    let mut lines = Vec::new();
    let mut say = |word: &str, what: &str| lines.push((word.to_owned(), format!("{who}: {what}")));
    let Some(after) = &change.after else {
        say("gone", "gone");
        return lines;
    };
    let nothing = Value::Null;
    let before = change.before.as_ref().unwrap_or(&nothing);
    if before.is_null() {
        say("created", "created");
    }
    if change.kind == "Node" {
        for taint in missing(taints(after), &taints(before)) {
            say("taint", &format!("taint {taint}"));
        }
        for taint in missing(taints(before), &taints(after)) {
            say("taint", &format!("taint {taint} removed"));
        }
        for label in LABELS {
            let is = &after["metadata"]["labels"][label];
            if is != &before["metadata"]["labels"][label] {
                say("label", &format!("label {label}={}", is.as_str().unwrap_or("none")));
            }
        }
    }
    let node = text(after, "/spec/nodeName");
    if change.kind == "Pod" && node != text(before, "/spec/nodeName") {
        say("bound", &format!("bound to {node}"));
    }
    let deadline = text(after, DEADLINE);
    if change.kind == "NodeClaim" && deadline != text(before, DEADLINE) {
        say("deadline", &format!("deadline {deadline}"));
    }
    let deleting = |object: &Value| !text(object, "/metadata/deletionTimestamp").is_empty();
    if deleting(after) && !deleting(before) {
        say("deleting", "deleting");
    }
    if change.kind != "Pod" {
        conditions(before, after, change.kind, &mut say);
    }
    lines
}

fn event(change: &Change) -> Option<(String, String)> {
    let event = change.after.as_ref().filter(|_| change.before.is_none())?;
    let (reason, about) = (text(event, "/reason"), &event["involvedObject"]);
    let line = format!(
        "{} {reason} on {} {}: {}",
        text(event, "/type"),
        text(about, "/kind"),
        text(about, "/name"),
        text(event, "/message"),
    );
    Some((reason.to_owned(), line))
}

fn taints(node: &Value) -> Vec<String> {
    let taints = node.pointer("/spec/taints").and_then(Value::as_array);
    let format_taint = |taint: &Value| {
        let value = match text(taint, "/value") {
            "" => String::new(),
            value => format!("={value}"),
        };
        format!("{}{value}:{}", text(taint, "/key"), text(taint, "/effect"))
    };
    taints.into_iter().flatten().map(format_taint).collect()
}

fn missing(from: Vec<String>, others: &[String]) -> Vec<String> {
    from.into_iter().filter(|one| !others.contains(one)).collect()
}

fn found(object: &Value) -> impl Iterator<Item = &Map<String, Value>> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().filter_map(Value::as_object)
}

/// Conditions whose status, reason or message changed; of a Node only Ready.
fn conditions(before: &Value, after: &Value, kind: &str, say: &mut impl FnMut(&str, &str)) {
    let is_reported = |condition: &&Map<String, Value>| kind != "Node" || condition["type"] == "Ready";
    let field = |condition: &Map<String, Value>, name: &str| -> String {
        condition.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let says =
        |condition: &Map<String, Value>| ["status", "reason", "message"].map(|name| field(condition, name));
    for condition in found(after).filter(is_reported) {
        let name = field(condition, "type");
        let was = found(before).find(|was| was.get("type") == condition.get("type"));
        if was.is_some_and(|was| says(was) == says(condition)) {
            continue;
        }
        let [status, reason, message] = says(condition);
        let reason = if reason.is_empty() || reason == name { String::new() } else { format!("/{reason}") };
        let message = if message.is_empty() { message } else { format!(": {message}") };
        say(&name, &format!("{name}={status}{reason}{message}"));
    }
    for was in found(before).filter(is_reported) {
        if !found(after).any(|is| is.get("type") == was.get("type")) {
            let name = field(was, "type");
            say(&name, &format!("{name} removed"));
        }
    }
}
