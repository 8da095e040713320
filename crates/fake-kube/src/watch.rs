//! Watches: a stream of lines that ends with the client, the timeout, a fault or an expired revision.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};

use crate::body::BoxError;
use crate::cluster::{ClusterState, Target};
use crate::faults::WatchFault;
use crate::lines::line;
use crate::route::Query;
use crate::selector::Selector;
use crate::server::Server;
use crate::status::ApiError;
use crate::store::Change;
use crate::verbs::list;
use crate::view_of::ResponseView;

/// Maximum number of events that are read from the history under one lock.
const BATCH: usize = 256;

/// One event in stored form.
#[derive(Clone, Debug)]
struct Event {
    kind: &'static str,
    object: Arc<Value>,
}

/// A running watch.
pub(crate) struct Watch {
    server: Server,
    target: Target,
    selector: Selector,
    view: ResponseView,
    wake: Arc<Notify>,
    /// Events up to this revision have been read.
    seen: u64,
    ready: VecDeque<Event>,
    bookmarks: bool,
    /// The initial events must end with an annotated bookmark.
    initial: bool,
    next_bookmark: Instant,
    deadline: Instant,
    fault: WatchFault,
    sent: u64,
    ended: bool,
}

impl Watch {
    /// Starts a watch.
    ///
    /// # Errors
    /// 400 for invalid parameters, 410 for a revision that is too old.
    pub(crate) fn start(
        server: &Server,
        cluster: &ClusterState,
        target: &Target,
        query: &Query,
        view: ResponseView,
        fault: &crate::faults::Fault,
    ) -> Result<Self, ApiError> {
        let selector = list::selector(target, query)?;
        let revision = query.number("resourceVersion")?.unwrap_or(0);
        let send_initial = initial_events(query, revision)?;
        let store = cluster.store(&target.resource.storage).ok_or_else(ApiError::no_such_route)?;
        let now = Instant::now();
        let timeout = query.number("timeoutSeconds")?.map(Duration::from_secs);
        let mut watch = Self {
            server: server.clone(),
            target: target.clone(),
            selector,
            view,
            wake: store.subscribe(),
            seen: revision,
            ready: VecDeque::new(),
            bookmarks: query.flag("allowWatchBookmarks"),
            initial: query.flag("sendInitialEvents") && send_initial,
            next_bookmark: now + cluster.config.bookmark_interval,
            deadline: now + timeout.unwrap_or(cluster.config.watch_timeout),
            fault: fault.watch.clone(),
            sent: 0,
            ended: false,
        };
        if send_initial {
            let page = list::list(cluster, target, &Query::default(), fault.stale)?;
            watch.seen = page.revision;
            watch.ready = page
                .items
                .into_iter()
                .filter(|value| watch.selector.matches(value))
                .map(|object| Event { kind: "ADDED", object })
                .collect();
        }
        Ok(watch)
    }

    /// The events as lines of JSON.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Bytes, BoxError>> + Send {
        futures::stream::unfold(self, |mut watch| async move {
            let item = watch.next().await?;
            Some((item, watch))
        })
    }

    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if self.ended {
                return None;
            }
            if let Some(stop) = self.fault_now() {
                self.ended = true;
                return stop;
            }
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(self.send(event).await));
            }
            if self.initial {
                self.initial = false;
                return Some(Ok(self.bookmark(true)));
            }
            // Registered before the read, so that no notification is missed.
            let mut news = std::pin::pin!(self.wake.clone().notified_owned());
            news.as_mut().enable();
            if let Err(error) = self.refill() {
                self.ended = true;
                return Some(Ok(line("ERROR", &error.to_value())));
            }
            if !self.ready.is_empty() {
                continue;
            }
            let now = Instant::now();
            if now >= self.deadline {
                return None;
            }
            if self.bookmarks && now >= self.next_bookmark {
                self.next_bookmark = now + self.server.config().bookmark_interval;
                return Some(Ok(self.bookmark(false)));
            }
            let until = if self.bookmarks { self.deadline.min(self.next_bookmark) } else { self.deadline };
            tokio::select! {
                biased;
                () = news.as_mut() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Whether a fault ends the stream here, and how.
    fn fault_now(&self) -> Option<Option<Result<Bytes, BoxError>>> {
        let reached = |bound: Option<u64>| bound.is_some_and(|bound| self.sent >= bound);
        if reached(self.fault.expire_after) {
            let error = ApiError::expired(self.seen, self.seen.saturating_add(1));
            return Some(Some(Ok(line("ERROR", &error.to_value()))));
        }
        if reached(self.fault.break_after) {
            return Some(Some(Err("connection reset by the fault hook".into())));
        }
        reached(self.fault.end_after).then_some(None)
    }

    async fn send(&mut self, event: Event) -> Bytes {
        if !self.fault.lag.is_zero() {
            tokio::time::sleep(self.fault.lag).await;
        }
        self.sent = self.sent.saturating_add(1);
        let shown = self.view.watched(&self.server, &self.target.resource, &event.object);
        let bytes = self.server.line(event.kind, &shown);
        if self.fault.duplicate_every > 0 && self.sent.is_multiple_of(self.fault.duplicate_every) {
            return [bytes.clone(), bytes].concat().into();
        }
        bytes
    }

    fn bookmark(&self, initial: bool) -> Bytes {
        let info = &self.target.resource.info;
        let mut object = json!({
            "kind": info.kind, "apiVersion": info.api_version(),
            "metadata": { "resourceVersion": self.seen.to_string(), "creationTimestamp": null },
        });
        if initial {
            object["metadata"]["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        line("BOOKMARK", &self.view.bookmark(&self.server, &self.target.resource, object))
    }

    /// Reads the events since the last read.
    fn refill(&mut self) -> Result<(), ApiError> {
        let server = self.server.clone();
        let cluster = server.lock();
        let Some(store) = cluster.store(&self.target.resource.storage) else { return Ok(()) };
        while self.ready.len() < BATCH {
            let Some(change) = store.after(self.seen)? else {
                // There are no events of this resource up to the current revision.
                self.seen = self.seen.max(cluster.revision);
                break;
            };
            self.seen = change.revision;
            if let Some(event) = event(change, &self.selector, &self.target.namespace) {
                self.ready.push_back(event);
            }
        }
        Ok(())
    }
}

/// Whether the watch starts with all objects: without a revision, or on request.
fn initial_events(query: &Query, revision: u64) -> Result<bool, ApiError> {
    let matching = query.text("resourceVersionMatch");
    if query.has("sendInitialEvents") {
        if matching != "NotOlderThan" {
            let message = "resourceVersionMatch: Required value: resourceVersionMatch=NotOlderThan must be set when sendInitialEvents is given";
            return Err(ApiError::new(
                422,
                "Invalid",
                format!("ListOptions.meta.k8s.io \"\" is invalid: {message}"),
            ));
        }
        return Ok(
            query.flag("sendInitialEvents") || revision == 0 && query.text("sendInitialEvents") != "false"
        );
    }
    if !matching.is_empty() {
        let message = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        return Err(ApiError::new(
            422,
            "Invalid",
            format!("ListOptions.meta.k8s.io \"\" is invalid: {message}"),
        ));
    }
    Ok(revision == 0)
}

/// The event of a change for a selector.
fn event(change: &Change, selector: &Selector, namespace: &str) -> Option<Event> {
    if !namespace.is_empty() && change.key.namespace != namespace {
        return None;
    }
    let was = change.before.as_deref().is_some_and(|value| selector.matches(value));
    let is = change.after.as_deref().is_some_and(|value| selector.matches(value));
    let (kind, object) = match (was, is) {
        (false, true) => ("ADDED", change.after.clone()?),
        (true, true) => ("MODIFIED", change.after.clone()?),
        (true, false) => ("DELETED", left(change)?),
        (false, false) => return None,
    };
    Some(Event { kind, object })
}

/// The last selected version of an object that no longer matches, with the new revision.
fn left(change: &Change) -> Option<Arc<Value>> {
    if let Some(last) = &change.last {
        return Some(last.clone());
    }
    let mut object = Value::clone(change.before.as_deref()?);
    crate::object::put(&mut object, &["metadata", "resourceVersion"], change.revision.to_string());
    Some(Arc::new(object))
}
