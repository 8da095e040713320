//! Watches of a recording, beside those of the controllers: whatever they do, the controllers do not notice.
//!
//! They read objects of any kind as JSON, with the permissions that the controller has. A kind that may not be listed is tried again
//! later.

use std::{sync::Arc, time::Duration};

use fleetwright_core::clock::SharedClock;
use fleetwright_state::fields;
use futures::StreamExt as _;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, WatchEvent, WatchParams},
    core::ApiResource,
};
use serde_json::{Value, json};

use super::{Delivery, Sink};

/// Objects per page of a list.
const PAGE: u32 = 500;
/// Seconds after which the server ends a watch.
const WATCH_SECONDS: u32 = 290;
/// A watch that is silent for longer is dead: bookmarks come every minute.
const SILENCE: Duration = Duration::from_secs(300);
/// The delay before each watch.
const BETWEEN: Duration = Duration::from_millis(100);
/// The delay before another list.
const RETRY: Duration = Duration::from_secs(5);
/// The delay before another list of a kind that the API server refuses.
const REFUSED: Duration = Duration::from_secs(600);

/// What one watch is of.
pub(super) struct Watched {
    pub(super) resource: ApiResource,
    /// Of a NodeClass, what is read beside its conditions.
    pub(super) class: Option<&'static str>,
}

/// Follows one kind until the writer has ended.
pub(super) async fn follow(client: Client, watched: Watched, clock: SharedClock, sink: Arc<Sink>) {
    let api: Api<DynamicObject> = Api::all_with(client, &watched.resource);
    while sink.is_open() {
        let delay = match list_and_watch(&api, &watched, &clock, &sink).await {
            Ok(()) => RETRY,
            Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403 | 404 | 405) => REFUSED,
            Err(error) => {
                tracing::debug!(kind = watched.resource.kind, %error, "recording: cannot list or watch");
                RETRY
            }
        };
        tokio::time::sleep(delay).await;
    }
}

/// Lists, then watches until the version is too old, a delivery was lost or the writer has ended.
async fn list_and_watch(
    api: &Api<DynamicObject>,
    watched: &Watched,
    clock: &SharedClock,
    sink: &Sink,
) -> Result<(), kube::Error> {
    let mut params = ListParams::default().limit(PAGE);
    let (mut objects, mut version) = (Vec::new(), String::new());
    loop {
        let page = api.list(&params).await?;
        objects.extend(page.items.iter().filter_map(|object| watched.projected(object)));
        version = page.metadata.resource_version.unwrap_or(version);
        match page.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => params = params.continue_token(&more),
            None => break,
        }
    }
    let (api_version, kind) = (watched.resource.api_version.clone(), watched.resource.kind.clone());
    if !sink.send(clock.now(), Delivery::List { api_version, kind, objects }) {
        return Ok(());
    }
    let params = WatchParams { timeout: Some(WATCH_SECONDS), bookmarks: true, ..WatchParams::default() };
    while sink.is_open() {
        tokio::time::sleep(BETWEEN).await;
        let mut stream = std::pin::pin!(api.watch(&params, &version).await?);
        while let Ok(Some(event)) = tokio::time::timeout(SILENCE, stream.next()).await {
            let (object, delivery): (_, fn(Value) -> Delivery) = match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, Delivery::Put),
                WatchEvent::Deleted(object) => (object, Delivery::Delete),
                WatchEvent::Bookmark(mark) => {
                    version = mark.metadata.resource_version;
                    continue;
                }
                // The version is too old.
                WatchEvent::Error(_) => return Ok(()),
            };
            if let Some(newer) = &object.metadata.resource_version {
                version.clone_from(newer);
            }
            // After a loss, a new list says what there is.
            if let Some(object) = watched.projected(&object)
                && !sink.send(clock.now(), delivery(object))
            {
                return Ok(());
            }
        }
    }
    Ok(())
}

impl Watched {
    /// The fields that are read.
    fn projected(&self, object: &DynamicObject) -> Option<Value> {
        let mut object = serde_json::to_value(object).ok()?;
        (object["apiVersion"], object["kind"]) =
            (json!(self.resource.api_version), json!(self.resource.kind));
        fields::project(&object, self.class)
    }
}
