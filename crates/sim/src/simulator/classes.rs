//! Makes KWOKNodeClasses ready, as Karpenter's class controller does: there is nothing to check. An existing condition is not changed.

use std::{pin::pin, time::Duration};

use fleetwright_core::clock::SharedClock;
use futures::StreamExt as _;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
    runtime::watcher::{self, Event},
};
use serde_json::json;

/// Delay after a failed call.
const RETRY: Duration = Duration::from_secs(1);

/// Makes every class ready, forever.
pub(super) async fn run(client: Client, clock: SharedClock) {
    let kind = GroupVersionKind::gvk("karpenter.kwok.sh", "v1alpha1", "KWOKNodeClass");
    let api: Api<DynamicObject> =
        Api::all_with(client, &ApiResource::from_gvk_with_plural(&kind, "kwoknodeclasses"));
    let mut events = pin!(watcher::watcher(api.clone(), watcher::Config::default()));
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(class) | Event::InitApply(class)) => make_ready(&api, &class, &clock).await,
            Ok(_) => {}
            Err(_) => clock.sleep(RETRY).await,
        }
    }
}

async fn make_ready(api: &Api<DynamicObject>, class: &DynamicObject, clock: &SharedClock) {
    let generation = class.metadata.generation;
    let conditions = class.data.pointer("/status/conditions").and_then(serde_json::Value::as_array);
    let is_judged = conditions.into_iter().flatten().any(|condition| {
        condition["type"] == "Ready"
            && (condition["status"] != "True" || condition["observedGeneration"].as_i64() == generation)
    });
    if is_judged || class.metadata.deletion_timestamp.is_some() {
        return;
    }
    let patch = json!({ "status": { "conditions": [{
        "type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": clock.now().to_string(), "observedGeneration": generation,
    }] } });
    let parameters = PatchParams::default();
    for _ in 0..10 {
        match api.patch_status(&class.name_any(), &parameters, &Patch::Merge(&patch)).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.code == 404 => return,
            Err(error) => {
                tracing::debug!(%error, "node class not made ready yet");
                clock.sleep(RETRY).await;
            }
        }
    }
}
