//! Everything that happens to the fleet, recorded as it happens: a look now and then would miss what lasts a moment.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use serde_json::Value;
use tokio::time::Instant;

use super::{rest::Rest, watches::Watches};

/// What is recorded.
const FOLLOWED: [(RecordedKind, &str); 3] = [
    (RecordedKind::NodeClaim, "/apis/karpenter.sh/v1/nodeclaims"),
    (RecordedKind::Node, "/api/v1/nodes"),
    (RecordedKind::Pod, "/api/v1/pods"),
];

/// A kind of object that is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordedKind {
    NodeClaim,
    Node,
    Pod,
}

/// One state of one object.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// The store's version of it: one sequence for all kinds, in both servers.
    pub(crate) version: u64,
    /// When we heard of it.
    pub(crate) at: Instant,
    pub(crate) kind: RecordedKind,
    /// Whether this is its last state.
    pub(crate) gone: bool,
    pub(crate) object: Value,
}

/// A record that is being written. Dropping it ends the recording.
pub(crate) struct History {
    seen: Arc<Mutex<Vec<Seen>>>,
    watches: Watches,
}

impl History {
    /// Records from the present state on.
    pub(crate) async fn start(client: kube::Client) -> anyhow::Result<Self> {
        let rest = Rest::new(client.clone());
        let mut history = Self { seen: Arc::default(), watches: Watches::default() };
        for (kind, path) in FOLLOWED {
            let list = rest.get(path).await?.with_context(|| format!("{path} is not served"))?;
            let version = list["metadata"]["resourceVersion"].as_str().context("a list without version")?;
            for object in list["items"].as_array().context("a list without items")? {
                let seen = seen(kind, false, object.clone())?;
                lock(&history.seen).push(seen);
            }
            let record = history.seen.clone();
            history.watches.add(client.clone(), path, version, move |gone, object: Value| {
                let seen = seen(kind, gone, object)?;
                lock(&record).push(seen);
                Ok(())
            });
        }
        Ok(history)
    }

    /// What has been seen, though a watch may have ended since.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        lock(&self.seen).clone()
    }

    /// What has been seen so far, in the order in which it happened.
    ///
    /// # Errors
    /// If a watch has ended: its later events are missing.
    pub(crate) async fn so_far(&mut self) -> anyhow::Result<Vec<Seen>> {
        self.watches.check().await?;
        let mut seen = lock(&self.seen).clone();
        seen.sort_by_key(|seen| seen.version);
        Ok(seen)
    }
}

fn lock(seen: &Mutex<Vec<Seen>>) -> MutexGuard<'_, Vec<Seen>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn seen(kind: RecordedKind, gone: bool, object: Value) -> anyhow::Result<Seen> {
    let version = object["metadata"]["resourceVersion"].as_str().context("an object without version")?;
    let version = version.parse().with_context(|| format!("version {version:?} is no number"))?;
    Ok(Seen { version, at: Instant::now(), kind, gone, object })
}
