//! Events are stored in the form of the core group and read through both groups.

use std::sync::Arc;

use serde_json::Value;

use crate::object;
use crate::registry::Resource;

/// Names of fields: in the core group, in events.k8s.io.
const RENAMED: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

fn is_new_form(resource: &Resource) -> bool {
    resource.info.plural == "events" && resource.info.group == "events.k8s.io"
}

fn rename(value: &mut Value, from: impl Fn(&(&'static str, &'static str)) -> (&'static str, &'static str)) {
    let Some(map) = value.as_object_mut() else { return };
    for pair in RENAMED {
        let (old, new) = from(pair);
        if let Some(moved) = map.remove(old) {
            map.insert(new.to_owned(), moved);
        }
    }
}

/// Converts an event of events.k8s.io to the stored form.
pub(crate) fn to_storage(resource: &Resource, value: &mut Value) {
    if is_new_form(resource) {
        rename(value, |&(core, new)| (new, core));
        object::put(value, &["apiVersion"], "v1");
    }
}

/// Converts a stored object to the form of `resource`: its version, and for events its field names.
pub(crate) fn present(resource: &Resource, value: &Arc<Value>) -> Arc<Value> {
    let wanted = resource.info.api_version();
    if object::text(value, &["apiVersion"]) == wanted {
        return value.clone();
    }
    let mut shown = Value::clone(value);
    if is_new_form(resource) {
        rename(&mut shown, |&(core, new)| (core, new));
    }
    object::put(&mut shown, &["apiVersion"], wanted);
    Arc::new(shown)
}
