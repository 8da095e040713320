//! S15: writes are valid by the schemas. S16: writes are bounded in size. S18: messages to users are not empty, are bounded, and contain
//! no secret.

use serde_json::Value;

use super::{Check, Findings, Observation, observation::*};
use crate::seeds::{log::Entry, script::SECRET};

/// The maximum size of a change, in bytes of its texts: far below the limit of etcd, and enough for a NodeClaim with the names of its
/// pods.
const CHANGE_MAX: usize = 64 * 1024;
/// The maximum size of a message, in bytes: the limit for events and conditions.
const MESSAGE_MAX: usize = 1024;

/// S15, S16 and S18.
pub(super) struct Writes;

impl Check for Writes {
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        for entry in observation.log {
            if let Entry::Refused(request, code) = entry {
                let (verb, resource, name) = (&request.verb, &request.resource, &request.name);
                let what = format!("{verb} {resource} {name} is rejected as invalid ({code})");
                found.add("S15", what, [&*request.body]);
            }
        }
        for request in observation.asked() {
            let of = format!("{} {} {}", request.verb, request.resource, request.name);
            let mut weight = 0_usize;
            let mut has_secret = false;
            texts(&request.body, &mut |text| {
                weight = weight.saturating_add(text.len());
                has_secret |= text.contains(SECRET);
            });
            if weight > CHANGE_MAX {
                found.add("S16", format!("{of} is {weight} bytes long"), [&*request.body]);
            }
            if has_secret {
                found.add("S18", format!("{of} contains a secret"), [&*request.body]);
            }
            for message in messages(&request.resource, &request.body) {
                if message.is_empty() || message.len() > MESSAGE_MAX {
                    found.add(
                        "S18",
                        format!("{of} has a message of {} bytes", message.len()),
                        [&*request.body],
                    );
                }
            }
        }
    }
}

/// Messages to users: the note of an event, and of each condition that is not True.
fn messages<'a>(resource: &str, body: &'a Value) -> Vec<&'a str> {
    if resource == "events" {
        // A patch of the count has no message.
        let notes = ["/note", "/message"].into_iter().filter_map(|at| field(body, at)?.as_str());
        return notes.collect();
    }
    let conditions = field(body, "/status/conditions").and_then(Value::as_array);
    let unmet = conditions.into_iter().flatten().filter(|condition| condition["status"] == "False");
    unmet.map(|condition| text(condition, "/message")).collect()
}

/// Every text within a value.
fn texts(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, visit)),
        Value::Object(map) => map.iter().for_each(|(key, item)| {
            visit(key);
            texts(item, visit);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
