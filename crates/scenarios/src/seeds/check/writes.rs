//! S15: what is written obeys the schemas. S16: what is written is bounded in size. S18: what people are told says something,
//! is bounded, and holds no secret.

use serde_json::Value;

use super::{Check, Findings, Look, look::*};
use crate::seeds::{log::Entry, script::SECRET};

/// The longest change, in bytes of its texts: far below what etcd takes, and enough for a NodeClaim that names its pods.
const CHANGE_MAX: usize = 64 * 1024;
/// The longest message to people, in bytes: what events and conditions may have.
const MESSAGE_MAX: usize = 1024;

/// S15, S16 and S18.
pub(super) struct Writes;

impl Check for Writes {
    fn step(&mut self, look: &Look<'_>, found: &mut Findings) {
        for entry in look.log {
            if let Entry::Refused(request, code) = entry {
                let (verb, resource, name) = (&request.verb, &request.resource, &request.name);
                let what = format!("{verb} {resource} {name} is refused as wrong ({code})");
                found.add("S15", what, [&*request.body]);
            }
        }
        for request in look.asked() {
            let of = format!("{} {} {}", request.verb, request.resource, request.name);
            let mut weight = 0_usize;
            let mut told = false;
            texts(&request.body, &mut |text| {
                weight = weight.saturating_add(text.len());
                told |= text.contains(SECRET);
            });
            if weight > CHANGE_MAX {
                found.add("S16", format!("{of} is {weight} bytes long"), [&*request.body]);
            }
            if told {
                found.add("S18", format!("{of} tells a secret"), [&*request.body]);
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

/// What people are told: the note of an event, and of each condition that does not hold why.
fn messages<'a>(resource: &str, body: &'a Value) -> Vec<&'a str> {
    if resource == "events" {
        // A patch that only counts says nothing new.
        let notes = ["/note", "/message"].into_iter().filter_map(|at| field(body, at)?.as_str());
        return notes.collect();
    }
    let conditions = field(body, "/status/conditions").and_then(Value::as_array);
    let unmet = conditions.into_iter().flatten().filter(|condition| condition["status"] == "False");
    unmet.map(|condition| text(condition, "/message")).collect()
}

/// Every text within a value.
fn texts(value: &Value, tell: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => tell(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, tell)),
        Value::Object(map) => map.iter().for_each(|(key, item)| {
            tell(key);
            texts(item, tell);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
