//! The event recorder: deduplicates events and writes them in order in the background.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fleetwright_api::labels;
use fleetwright_core::{clock::SharedClock, rate::TokenBucket};
use fleetwright_state::Feature;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event as CoreEvent, EventSource},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::Notify;

use super::{
    api_client::ApiClient, controller::ReconcileError, features::Features, names::Names, queue::later,
    shutdown::Shutdown,
};
use crate::events::Event;

/// Maximum number of queued events.
const MAX_QUEUED: usize = 1000;
/// Maximum number of distinct events that are remembered.
const MAX_REMEMBERED: usize = 10_000;
/// The longest message that the API server accepts.
const MESSAGE_LIMIT: usize = 1024;
/// The permission that writing needs.
const EVENTS: (&str, &str, &[&str]) = ("", "events", &["create", "patch"]);
/// The reporting component.
const COMPONENT: &str = "karpenter";

/// Queues events and writes them. Clones share one queue.
#[derive(Clone)]
pub struct Recorder {
    clock: SharedClock,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<Backlog>,
    added: Notify,
}

/// Identifies equal events: reason and dedupe values.
type Identity = (Cow<'static, str>, Vec<String>);

#[derive(Default)]
struct Backlog {
    queued: VecDeque<QueuedEvent>,
    published: BTreeMap<Identity, PublishedEvent>,
    /// The keys of `published`, oldest first, for the bound.
    order: VecDeque<Identity>,
    buckets: BTreeMap<Cow<'static, str>, TokenBucket>,
    dropped: u64,
}

/// An event that was published before.
struct PublishedEvent {
    /// In steady time.
    suppressed_until: Timestamp,
    first: Timestamp,
    count: i32,
    /// Name of the Event object, once it is created.
    name: Option<String>,
}

/// An event in the queue.
struct QueuedEvent {
    event: Event,
    identity: Identity,
    first: Timestamp,
    last: Timestamp,
    count: i32,
    /// Name of the Event object whose count it increments.
    name: Option<String>,
}

impl Recorder {
    /// Returns a recorder that deduplicates and queues; [`Self::run`] writes.
    #[must_use]
    pub fn new(clock: SharedClock) -> Self {
        Self { clock, shared: Arc::new(Shared { state: Mutex::default(), added: Notify::new() }) }
    }

    fn lock(&self) -> MutexGuard<'_, Backlog> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an event, unless an equal one was published within its quiet time or its reason exceeds its rate.
    pub fn publish(&self, event: Event) {
        let (now, steady) = (self.clock.now(), self.clock.steady());
        if self.lock().publish(event, now, steady) {
            self.shared.added.notify_one();
        }
    }

    /// Writes events until shutdown.
    pub async fn run(self, client: ApiClient, names: Arc<Names>, features: Features, mut stop: Shutdown) {
        loop {
            let next = self.lock().queued.pop_front();
            let Some(queued) = next else {
                tokio::select! {
                    biased;
                    () = self.shared.added.notified() => continue,
                    () = stop.requested() => return,
                }
            };
            let written = write(&client, &names, &queued).await;
            match features.optional(Feature::Events, EVENTS, written) {
                Ok(None) => {}
                Ok(Some(name)) => {
                    if let Some(published) = self.lock().published.get_mut(&queued.identity) {
                        published.name = Some(name);
                    }
                }
                Err(error) => {
                    // The next equal event is written.
                    if let Some(published) = self.lock().published.get_mut(&queued.identity) {
                        published.suppressed_until = self.clock.steady();
                    }
                    tracing::debug!(reason = &*queued.event.reason, %error, "cannot write an event")
                }
            }
        }
    }
}

impl Backlog {
    /// Queues an event. `now` is written into the object; quiet times and rates use `steady`.
    fn publish(&mut self, event: Event, now: Timestamp, steady: Timestamp) -> bool {
        let identity = (event.reason.clone(), event.dedupe_values.clone());
        if self.published.get(&identity).is_some_and(|published| steady < published.suppressed_until) {
            return false;
        }
        if let Some((per_second, burst)) = event.rate {
            let bucket = self
                .buckets
                .entry(event.reason.clone())
                .or_insert_with(|| TokenBucket::new(burst, per_second));
            if bucket.take(steady, 1).is_err() {
                return false;
            }
        }
        let suppressed_until = later(steady, event.dedupe_timeout);
        let published = self.published.entry(identity.clone()).or_insert_with(|| {
            self.order.push_back(identity.clone());
            PublishedEvent { suppressed_until, first: now, count: 0, name: None }
        });
        published.suppressed_until = suppressed_until;
        published.count = published.count.saturating_add(1);
        let (first, count, name) = (published.first, published.count, published.name.clone());
        self.queued.push_back(QueuedEvent { event, identity, first, last: now, count, name });
        while self.order.len() > MAX_REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.published.remove(&oldest);
            }
        }
        if self.queued.len() > MAX_QUEUED {
            self.queued.pop_front();
            self.dropped = self.dropped.saturating_add(1);
        }
        true
    }
}

/// Writes one event and returns the name of its object.
async fn write(client: &ApiClient, names: &Names, queued: &QueuedEvent) -> Result<String, ReconcileError> {
    let namespace = queued.event.regarding.namespace.as_deref().unwrap_or("default");
    let api: Api<CoreEvent> = client.namespaced(namespace);
    if let Some(name) = &queued.name {
        let patch = json!({
            "metadata": {"annotations": annotations(&queued.event)},
            "count": queued.count,
            "lastTimestamp": Time(queued.last),
            "message": message(queued),
        });
        let again =
            client.call("patch event", api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))).await;
        match again {
            Ok(_) => return Ok(name.clone()),
            // The Event object has expired: create a new one.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    let event = object(queued, namespace, names);
    let created = client.call("create event", api.create(&PostParams::default(), &event)).await?;
    Ok(created.metadata.name.unwrap_or_default())
}

/// Where an event names its decision.
fn annotations(event: &Event) -> BTreeMap<String, String> {
    event.decision.iter().map(|id| (labels::DECISION.to_owned(), id.clone())).collect()
}

fn message(queued: &QueuedEvent) -> String {
    let text = &queued.event.message;
    if text.len() <= MESSAGE_LIMIT {
        return text.clone();
    }
    let end = (0..=MESSAGE_LIMIT - 3).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}...", &text[..end])
}

fn object(queued: &QueuedEvent, namespace: &str, names: &Names) -> CoreEvent {
    let event = &queued.event;
    let mut regarding = event.regarding.clone();
    regarding.resource_version = None;
    let name = regarding.name.as_deref().unwrap_or("unknown");
    CoreEvent {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{}", names.suffix(12))),
            namespace: Some(namespace.to_owned()),
            annotations: Some(annotations(event)).filter(|all| !all.is_empty()),
            ..ObjectMeta::default()
        },
        involved_object: regarding,
        type_: Some(event.event_type.as_str().to_owned()),
        reason: Some(event.reason.to_string()),
        message: Some(message(queued)),
        count: Some(queued.count),
        first_timestamp: Some(Time(queued.first)),
        last_timestamp: Some(Time(queued.last)),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        reporting_component: Some(COMPONENT.to_owned()),
        ..CoreEvent::default()
    }
}

#[cfg(test)]
mod tests;
