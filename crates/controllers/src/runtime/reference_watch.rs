//! Watches the metadata of objects that the index does not keep, for the controllers whose objects refer to them.
//!
//! 1 Ask for the version of the kind (a list of one object), 2 watch from it, 3 enqueue everything that refers to the kind: what
//! changed before the version is read then, what changes later is an event. A watch that breaks begins again at 1. Without a watch
//! controllers notice changes when they poll: nothing else may depend on it.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use fleetwright_core::model::{NamespacedName, Str};
use fleetwright_state::{Key, Refusal, RefusalCause};
use futures::StreamExt;
use kube::{
    Api,
    api::{DynamicObject, ListParams, WatchEvent, WatchParams},
    core::{ApiResource, ObjectMeta},
};

use super::{
    controller::Controller,
    ctx::Ctx,
    limit::RateLimit,
    queue::{Queue, later},
    shutdown::Shutdown,
};
use crate::metrics::runtime as families;

/// Seconds after which the server ends a watch.
const WATCH_SECONDS: u32 = 60;
/// A watch that is silent for longer than the server allows is dead.
const SILENCE: Duration = Duration::from_secs(75);
/// Delays between attempts.
const RETRY: RateLimit = RateLimit::new(Duration::from_secs(2), Duration::from_secs(30), 1, 1);
/// Delay after a refusal by the API server: permissions seldom change.
const REFUSED: Duration = Duration::from_secs(30);
/// Interval at which a kind that nothing refers to is checked.
const UNUSED: Duration = Duration::from_secs(2);
/// How long changes are collected: the usage of a ResourceQuota changes with every pod of its namespace.
const COLLECT: Duration = Duration::from_secs(2);

/// Why a watch ended before its time.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error("{} ({})", .0.message, .0.code)]
    Ended(Box<kube::core::Status>),
    #[error("no answer within {SILENCE:?}")]
    Silent,
    #[error("the list has no resource version")]
    NoVersion,
}

impl WatchError {
    /// The cause, if the API server refuses the kind.
    fn refusal(&self) -> Option<RefusalCause> {
        match self {
            Self::Kube(kube::Error::Api(status)) => RefusalCause::of(status.code),
            Self::Kube(_) | Self::Ended(_) | Self::Silent | Self::NoVersion => None,
        }
    }
}

/// The watch of one kind for one controller. It exists while an object refers to the kind.
pub(super) struct ReferenceWatch {
    ctx: Ctx,
    controller: Arc<dyn Controller>,
    queue: Arc<Queue>,
    kind: ApiResource,
    /// Where the next watch resumes.
    version: Option<String>,
    /// The generations of referenced objects, where the kind has generations: their status changes often.
    generations: BTreeMap<NamespacedName, i64>,
}

impl ReferenceWatch {
    /// The watch of a kind that objects of `controller` refer to.
    pub(super) fn new(
        ctx: Ctx,
        controller: Arc<dyn Controller>,
        queue: Arc<Queue>,
        kind: ApiResource,
    ) -> Self {
        Self { ctx, controller, queue, kind, version: None, generations: BTreeMap::new() }
    }

    /// Follows the kind until shutdown.
    pub(super) async fn follow(mut self, mut stop: Shutdown) {
        tokio::select! {
            biased;
            () = stop.requested() => {}
            () = self.repeat() => {}
        }
    }

    async fn repeat(&mut self) {
        let mut failures: u32 = 0;
        loop {
            let pause = if self.referring(None).is_empty() {
                self.version = None;
                UNUSED
            } else {
                match self.watch(&mut failures).await {
                    Ok(()) => RETRY.base,
                    Err(error) => {
                        failures = failures.saturating_add(1);
                        self.failed(&error, failures)
                    }
                }
            };
            self.ctx.clocks.sleep(pause).await;
        }
    }

    /// Watches until the server ends the watch; resets `failures` once it is open.
    async fn watch(&mut self, failures: &mut u32) -> Result<(), WatchError> {
        let clocks = self.ctx.clocks.clone();
        let api = Api::<DynamicObject>::all_with(self.ctx.client.client(), &self.kind);
        // An error leaves no version: the next watch begins with a list.
        let resumed = self.version.take();
        let is_new = resumed.is_none();
        let mut version = match resumed {
            Some(version) => version,
            None => {
                let params = ListParams::default().limit(1);
                let page = clocks.within(SILENCE, api.list_metadata(&params)).await;
                let version = page.ok_or(WatchError::Silent)??.metadata.resource_version;
                version.filter(|version| !version.is_empty()).ok_or(WatchError::NoVersion)?
            }
        };
        let params = WatchParams { timeout: Some(WATCH_SECONDS), bookmarks: true, ..WatchParams::default() };
        let opened = clocks.within(SILENCE, api.watch_metadata(&params, &version)).await;
        let mut stream = pin!(opened.ok_or(WatchError::Silent)??);
        *failures = 0;
        if is_new {
            self.generations.clear();
            self.ctx.references.set(&self.kind, None);
            self.enqueue(self.referring(None));
        }
        while let Some(event) = clocks.within(SILENCE, stream.next()).await.ok_or(WatchError::Silent)? {
            let (meta, is_deleted) = match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object.metadata, false),
                WatchEvent::Deleted(object) => (object.metadata, true),
                WatchEvent::Bookmark(mark) => {
                    version = mark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) => return Err(WatchError::Ended(status)),
            };
            if let Some(newer) = &meta.resource_version {
                version.clone_from(newer);
            }
            self.changed(meta, is_deleted);
        }
        self.version = Some(version);
        Ok(())
    }

    /// Returns the delay before the next attempt.
    fn failed(&self, error: &WatchError, failures: u32) -> Duration {
        let Some(cause) = error.refusal() else {
            self.ctx.metrics.inc(&families::WATCH_ERRORS, &[&self.kind.kind]);
            tracing::debug!(kind = self.kind.kind, %error, failures, "cannot watch references");
            return RETRY.delay(failures);
        };
        let (group, resource) = (self.kind.group.as_str().into(), self.kind.plural.as_str().into());
        let refusal = Refusal { cause, group, resource, verbs: Refusal::WATCH };
        if self.ctx.references.set(&self.kind, Some(refusal.clone())) {
            tracing::warn!(kind = self.kind.kind, %refusal, "references are polled, not watched");
            self.enqueue(self.referring(None));
        }
        REFUSED
    }

    fn changed(&mut self, meta: ObjectMeta, is_deleted: bool) {
        let (Some(namespace), Some(name)) = (meta.namespace, meta.name) else { return };
        let id = NamespacedName::new(Str::from(namespace), Str::from(name));
        let keys = self.referring(Some(&id));
        let generation = meta.generation.filter(|_| !is_deleted && !keys.is_empty());
        let before = match generation {
            Some(generation) => self.generations.insert(id, generation),
            None => self.generations.remove(&id),
        };
        if generation.is_none() || before != generation {
            self.enqueue(keys);
        }
    }

    /// The keys of the objects that refer to `name`, or to any object of the kind.
    fn referring(&self, name: Option<&NamespacedName>) -> BTreeSet<Key> {
        self.controller.referring(&self.kind, name, &self.ctx.cluster.index()).into_iter().collect()
    }

    fn enqueue(&self, keys: BTreeSet<Key>) {
        let due = later(self.ctx.clocks.steady(), COLLECT);
        keys.into_iter().for_each(|key| self.queue.add_at(key, due));
    }
}
