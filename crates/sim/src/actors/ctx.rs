//! State shared by actors, and their API calls: with a timeout, and with the result stored in the cache.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fleetwright_core::clock::SharedClock;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
};
use serde_json::Value;
use tokio::sync::Notify;

use super::cache::{Cache, KINDS, Key, WatchedKind};

/// The timeout of a call.
const DEADLINE: Duration = Duration::from_secs(30);

/// State shared by actors. Clones share it.
#[derive(Clone)]
pub(crate) struct Ctx {
    /// The API server.
    pub(crate) client: Client,
    /// The clock.
    pub(crate) clock: SharedClock,
    /// The watched objects.
    pub(crate) cache: Arc<Cache>,
    /// The seed of all random draws.
    pub(crate) seed: u64,
    synced: Arc<Synced>,
}

/// The number of listed kinds. Waiters are woken in the order of their arrival (unlike tokio's watch channel), so that a run is
/// repeatable.
#[derive(Debug, Default)]
struct Synced {
    kinds: AtomicUsize,
    news: Notify,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The API server rejected the call, or was unreachable.
    #[error("{verb} {key}: {source}")]
    Kube {
        /// The verb.
        verb: &'static str,
        /// The object.
        key: String,
        /// The answer.
        source: Box<kube::Error>,
    },
    /// The call timed out; it may have taken effect.
    #[error("{verb} {key}: no answer within {DEADLINE:?}")]
    Deadline {
        /// The verb.
        verb: &'static str,
        /// The object.
        key: String,
    },
}

impl CallError {
    /// The HTTP status of the answer, 0 without one.
    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Kube { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => status.code,
                _ => 0,
            },
            Self::Deadline { .. } => 0,
        }
    }
}

/// Treats "not found" as success: the object no longer exists.
pub(crate) fn ignore_not_found<T>(result: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code() == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

impl Ctx {
    /// An empty cache over a client.
    pub(crate) fn new(client: Client, clock: SharedClock, seed: u64) -> Self {
        Self { client, clock, cache: Arc::default(), seed, synced: Arc::default() }
    }

    /// Completes once every kind has been listed.
    pub(crate) async fn synced(&self) {
        loop {
            let mut news = pin!(self.synced.news.notified());
            // Registers before the count is read, so that no notification is missed.
            news.as_mut().enable();
            if self.synced.kinds.load(Ordering::Acquire) >= KINDS {
                return;
            }
            news.await;
        }
    }

    /// Records that another kind was listed.
    pub(crate) fn one_more_synced(&self) {
        self.synced.kinds.fetch_add(1, Ordering::AcqRel);
        self.synced.news.notify_waiters();
    }

    /// The time in Kubernetes' format: whole seconds.
    pub(crate) fn time(&self) -> Time {
        let now = self.clock.now();
        Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now))
    }

    /// Awaits a call, with a timeout.
    pub(crate) async fn call<T>(
        &self,
        verb: &'static str,
        key: &Key,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, CallError> {
        let answer = tokio::select! {
            biased;
            answer = call => Some(answer),
            () = self.clock.sleep(DEADLINE) => None,
        };
        let shown = || format!("{}/{}", key.namespace, key.name);
        match answer {
            Some(Ok(value)) => Ok(value),
            Some(Err(source)) => Err(CallError::Kube { verb, key: shown(), source: Box::new(source) }),
            None => Err(CallError::Deadline { verb, key: shown() }),
        }
    }

    /// Creates an object.
    pub(crate) async fn create<K: WatchedKind>(&self, object: &K) -> Result<Arc<K>, CallError> {
        let key = Key::of(object.meta());
        let api = K::api(self.client.clone(), &key.namespace);
        let parameters = PostParams::default();
        let created = self.call("create", &key, api.create(&parameters, object)).await?;
        Ok(self.cache.put(created))
    }

    /// Patches an object (merge patch).
    pub(crate) async fn patch<K: WatchedKind>(&self, key: &Key, patch: &Value) -> Result<Arc<K>, CallError> {
        let api = K::api(self.client.clone(), &key.namespace);
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched = self.call("patch", key, api.patch(&key.name, &parameters, &patch)).await?;
        Ok(self.cache.put(patched))
    }

    /// Patches an object's status (merge patch).
    pub(crate) async fn patch_status<K: WatchedKind>(
        &self,
        key: &Key,
        patch: &Value,
    ) -> Result<Arc<K>, CallError> {
        let api = K::api(self.client.clone(), &key.namespace);
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched =
            self.call("patch status of", key, api.patch_status(&key.name, &parameters, &patch)).await?;
        Ok(self.cache.put(patched))
    }

    /// Deletes an object if its UID is unchanged. A grace period of zero removes a pod at once.
    pub(crate) async fn delete<K: WatchedKind>(
        &self,
        object: &K,
        grace: Option<u32>,
    ) -> Result<(), CallError> {
        let key = Key::of(object.meta());
        let api = K::api(self.client.clone(), &key.namespace);
        let parameters = DeleteParams {
            grace_period_seconds: grace,
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions { uid: object.meta().uid.clone(), resource_version: None }),
            ..DeleteParams::default()
        };
        let answer = match self.call("delete", &key, api.delete(&key.name, &parameters)).await {
            // Gone or replaced: the watch reports the current object.
            Err(error) if matches!(error.code(), 404 | 409) => return Ok(()),
            answer => answer?,
        };
        match answer.left() {
            Some(left) if left.meta().deletion_timestamp.is_some() => drop(self.cache.put(left)),
            _ => self.cache.remove::<K>(object.meta()),
        }
        Ok(())
    }
}
