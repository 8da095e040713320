//! Watches KWOKNodeClasses for the provider.

use std::{collections::BTreeMap, time::Duration};

use fleetwright_core::clock::SharedClock;
use futures::StreamExt;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::watcher::Event,
};
use serde_json::Value;

use super::run::watch;
use crate::{
    classes::{NodeClass, NodeClasses},
    labels::{GROUP, NODE_CLASS_KIND},
    quantities::parse_duration,
};

/// Watches the KWOKNodeClasses of the cluster forever and keeps `classes` current.
pub async fn watch_classes(client: Client, classes: NodeClasses, clock: SharedClock) {
    let kind = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(GROUP, "v1alpha1", NODE_CLASS_KIND),
        "kwoknodeclasses",
    );
    let api: Api<DynamicObject> = Api::all_with(client, &kind);
    let mut events = watch(api, clock, Duration::from_secs(1));
    let mut listed = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => {
                listed.insert(object.name_any(), read(&object.data));
            }
            Event::InitDone => classes.replace(std::mem::take(&mut listed)),
            Event::Apply(object) => classes.set(&object.name_any(), read(&object.data)),
            Event::Delete(object) => classes.remove(&object.name_any()),
        }
    }
}

/// Reads the fields that a launch needs. A class without a condition is ready: its CRD defaults the condition.
pub(super) fn read(object: &Value) -> NodeClass {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let message = match ready {
        None => String::new(),
        Some(condition) => {
            format!("{} {}", text(condition, "reason"), text(condition, "message")).trim().to_owned()
        }
    };
    let delay = object.pointer("/spec/nodeRegistrationDelay").and_then(Value::as_str);
    NodeClass {
        ready: ready.is_none_or(|condition| condition["status"] == "True"),
        message,
        registration_delay: delay.and_then(parse_duration).unwrap_or(Duration::ZERO),
    }
}
