//! Deduplicates events and writes them, in order, in the background.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fleetwright_core::{clock::SharedClock, rate::TokenBucket};
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

use super::Event;
use crate::runtime::{Ctx, Names, ReconcileError, Shutdown, later};

/// Events that wait to be written, at most.
const BACKLOG: usize = 1000;
/// Different events that are remembered, at most.
const MEMORY: usize = 10_000;
/// The longest message that the API server accepts.
const MESSAGE_LIMIT: usize = 1024;
/// Who tells.
const COMPONENT: &str = "karpenter";

/// Takes events and writes them. Cloning shares it.
#[derive(Clone)]
pub struct Recorder {
    clock: SharedClock,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    added: Notify,
}

/// What makes two events the same.
type Identity = (&'static str, Vec<String>);

#[derive(Default)]
struct State {
    waiting: VecDeque<Told>,
    known: BTreeMap<Identity, Known>,
    /// The members of `known`, oldest first, for the bound.
    order: VecDeque<Identity>,
    buckets: BTreeMap<&'static str, TokenBucket>,
    dropped: u64,
}

struct Known {
    /// In steady time.
    quiet_until: Timestamp,
    first: Timestamp,
    count: i32,
    /// Name of the Event object, once there is one.
    name: Option<String>,
}

/// An event that is to be written.
struct Told {
    event: Event,
    identity: Identity,
    first: Timestamp,
    last: Timestamp,
    count: i32,
    /// Name of the Event object that it continues.
    name: Option<String>,
}

impl Recorder {
    /// A recorder that remembers and queues; [`Self::run`] writes.
    #[must_use]
    pub fn new(clock: SharedClock) -> Self {
        Self { clock, shared: Arc::new(Shared { state: Mutex::default(), added: Notify::new() }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells an event, unless it was told a short while ago or its reason has used up its rate.
    pub fn publish(&self, event: Event) {
        let (now, steady) = (self.clock.now(), self.clock.steady());
        if self.lock().publish(event, now, steady) {
            self.shared.added.notify_one();
        }
    }

    /// Writes events until shutdown; what waits then is written if it can be done at once.
    pub async fn run(self, ctx: Ctx, mut stop: Shutdown) {
        loop {
            let told = self.lock().waiting.pop_front();
            let Some(told) = told else {
                tokio::select! {
                    biased;
                    () = self.shared.added.notified() => continue,
                    () = stop.requested() => return,
                }
            };
            match write(&ctx, &told).await {
                Ok(name) => {
                    if let Some(known) = self.lock().known.get_mut(&told.identity) {
                        known.name = Some(name);
                    }
                }
                Err(error) => tracing::debug!(reason = told.event.reason, %error, "cannot write an event"),
            }
        }
    }
}

impl State {
    /// Takes an event in; people are shown `now`, and quiet and rates go by `steady`.
    fn publish(&mut self, event: Event, now: Timestamp, steady: Timestamp) -> bool {
        let identity = (event.reason, event.dedupe.clone());
        if self.known.get(&identity).is_some_and(|known| steady < known.quiet_until) {
            return false;
        }
        if let Some((per_second, burst)) = event.rate {
            let bucket =
                self.buckets.entry(event.reason).or_insert_with(|| TokenBucket::new(burst, per_second));
            if bucket.take(steady, 1).is_err() {
                return false;
            }
        }
        let quiet_until = later(steady, event.dedupe_for);
        let known = self.known.entry(identity.clone()).or_insert_with(|| {
            self.order.push_back(identity.clone());
            Known { quiet_until, first: now, count: 0, name: None }
        });
        known.quiet_until = quiet_until;
        known.count = known.count.saturating_add(1);
        let (first, count, name) = (known.first, known.count, known.name.clone());
        self.waiting.push_back(Told { event, identity, first, last: now, count, name });
        while self.order.len() > MEMORY {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
        if self.waiting.len() > BACKLOG {
            self.waiting.pop_front();
            self.dropped = self.dropped.saturating_add(1);
        }
        true
    }
}

/// Writes one event and returns the name of its object.
async fn write(ctx: &Ctx, told: &Told) -> Result<String, ReconcileError> {
    let namespace = told.event.regarding.namespace.as_deref().unwrap_or("default");
    let api: Api<CoreEvent> = ctx.namespaced_api(namespace);
    if let Some(name) = &told.name {
        let patch = json!({"count": told.count, "lastTimestamp": Time(told.last), "message": message(told)});
        let again =
            ctx.call("patch event", api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))).await;
        match again {
            Ok(_) => return Ok(name.clone()),
            // It has expired: begin a new one.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    let event = object(told, namespace, &ctx.names);
    let created = ctx.call("create event", api.create(&PostParams::default(), &event)).await?;
    Ok(created.metadata.name.unwrap_or_default())
}

fn message(told: &Told) -> String {
    let text = &told.event.message;
    if text.len() <= MESSAGE_LIMIT {
        return text.clone();
    }
    let end = (0..=MESSAGE_LIMIT - 3).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}...", &text[..end])
}

fn object(told: &Told, namespace: &str, names: &Names) -> CoreEvent {
    let event = &told.event;
    let mut regarding = event.regarding.clone();
    regarding.resource_version = None;
    let name = regarding.name.as_deref().unwrap_or("unknown");
    CoreEvent {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{}", names.suffix(12))),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: regarding,
        type_: Some(event.event_type.as_str().to_owned()),
        reason: Some(event.reason.to_owned()),
        message: Some(message(told)),
        count: Some(told.count),
        first_timestamp: Some(Time(told.first)),
        last_timestamp: Some(Time(told.last)),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        reporting_component: Some(COMPONENT.to_owned()),
        ..CoreEvent::default()
    }
}

#[cfg(test)]
mod tests;
