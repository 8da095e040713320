//! What actors share, and their calls: bounded in time, and entered in the cache at once.

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

use super::cache::{Cache, KINDS, Kept, Key};

/// How long a call may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// What actors share. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Ctx {
    /// The API server.
    pub(crate) client: Client,
    /// The time.
    pub(crate) clock: SharedClock,
    /// What is known.
    pub(crate) cache: Arc<Cache>,
    /// Everything that is left to chance follows from it.
    pub(crate) seed: u64,
    synced: Arc<Synced>,
}

/// How many kinds were listed. Waiters are woken in the order in which they came (those of tokio's watch channel are
/// not), so that a run can be repeated.
#[derive(Debug, Default)]
struct Synced {
    kinds: AtomicUsize,
    news: Notify,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The API server refused, or could not be reached.
    #[error("{verb} {key}: {source}")]
    Kube {
        /// What was tried.
        verb: &'static str,
        /// On what.
        key: String,
        /// The answer.
        source: Box<kube::Error>,
    },
    /// No answer came in time; the call may have had its effect.
    #[error("{verb} {key}: no answer within {DEADLINE:?}")]
    Deadline {
        /// What was tried.
        verb: &'static str,
        /// On what.
        key: String,
    },
}

impl CallError {
    /// The HTTP code of the answer, 0 without one.
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

/// Takes "not found" as an answer: what was to be changed is gone.
pub(crate) fn gone_is_ok<T>(result: Result<T, CallError>) -> Result<Option<T>, CallError> {
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

    /// Completes when every kind was listed once.
    pub(crate) async fn synced(&self) {
        loop {
            let mut news = pin!(self.synced.news.notified());
            // Enlists before the count is read, so that no news is missed.
            news.as_mut().enable();
            if self.synced.kinds.load(Ordering::Acquire) >= KINDS {
                return;
            }
            news.await;
        }
    }

    /// One more kind was listed.
    pub(crate) fn one_more_synced(&self) {
        self.synced.kinds.fetch_add(1, Ordering::AcqRel);
        self.synced.news.notify_waiters();
    }

    /// The time as Kubernetes writes it: whole seconds.
    pub(crate) fn time(&self) -> Time {
        let now = self.clock.now();
        Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now))
    }

    /// Waits for a call, within bounds.
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
    pub(crate) async fn create<K: Kept>(&self, object: &K) -> Result<Arc<K>, CallError> {
        let key = Key::of(object.meta());
        let api = K::api(self.client.clone(), &key.namespace);
        let parameters = PostParams::default();
        let created = self.call("create", &key, api.create(&parameters, object)).await?;
        Ok(self.cache.put(created))
    }

    /// Merges a patch into an object.
    pub(crate) async fn patch<K: Kept>(&self, key: &Key, patch: &Value) -> Result<Arc<K>, CallError> {
        let api = K::api(self.client.clone(), &key.namespace);
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched = self.call("patch", key, api.patch(&key.name, &parameters, &patch)).await?;
        Ok(self.cache.put(patched))
    }

    /// Merges a patch into an object's status.
    pub(crate) async fn patch_status<K: Kept>(&self, key: &Key, patch: &Value) -> Result<Arc<K>, CallError> {
        let api = K::api(self.client.clone(), &key.namespace);
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched =
            self.call("patch status of", key, api.patch_status(&key.name, &parameters, &patch)).await?;
        Ok(self.cache.put(patched))
    }

    /// Deletes an object, if it is still the one that is known. A grace period of zero removes a pod at once.
    pub(crate) async fn delete<K: Kept>(&self, object: &K, grace: Option<u32>) -> Result<(), CallError> {
        let key = Key::of(object.meta());
        let api = K::api(self.client.clone(), &key.namespace);
        let parameters = DeleteParams {
            grace_period_seconds: grace,
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions { uid: object.meta().uid.clone(), resource_version: None }),
            ..DeleteParams::default()
        };
        let answer = match self.call("delete", &key, api.delete(&key.name, &parameters)).await {
            // Gone, or another one of the same name: the watch tells what there is now.
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
