//! `eviction-queue`: evicts pods through the Eviction API, which respects PodDisruptionBudgets, with their UID as a
//! precondition. Past the termination deadline of their node, pods are deleted.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_core::{
    model::Pod as Model,
    safety::{Act, Facts},
};
use fleetwright_state::Key;
use k8s_openapi::{
    api::{core::v1::Pod, policy::v1::Eviction},
    apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions},
};
use kube::api::{DeleteParams, PostParams};

use super::{
    cache::{EVICTION_QUEUE, LifecycleCache, QueuedEviction},
    executor::only,
    families,
};
use crate::{
    events::{Event, regarding, regarding_pod},
    metrics::Metrics,
    runtime::{
        ApiClient, Clocks, Cluster, Controller, Ctx, RateLimit, ReconcileError, Recorder, Requeue,
        ignore_not_found,
    },
    safety::Safety,
    settings::Settings,
};

/// Evicts one pod per key.
pub struct EvictionQueue {
    client: ApiClient,
    cluster: Cluster,
    clocks: Clocks,
    safety: Safety,
    recorder: Recorder,
    metrics: Arc<Metrics>,
    cache: Arc<LifecycleCache>,
}

impl EvictionQueue {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx, cache: &Arc<LifecycleCache>) -> Self {
        Self {
            client: ctx.client.clone(),
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            safety: Safety::new(ctx),
            recorder: ctx.recorder.clone(),
            metrics: ctx.metrics.clone(),
            cache: cache.clone(),
        }
    }
}

/// The result of an eviction.
enum Outcome {
    /// The pod terminates.
    Evicted,
    /// It did not exist any more.
    Gone,
    /// A PodDisruptionBudget refuses it, with the message of the API server.
    Blocked(String),
}

#[async_trait]
impl Controller for EvictionQueue {
    fn name(&self) -> &'static str {
        EVICTION_QUEUE
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(100, 5000)
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit::new(Duration::from_millis(100), Duration::from_secs(10), 100, 1000)
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(queued) = self.cache.queued_eviction(key) else { return Ok(Requeue::No) };
        let pod = self.cluster.index().pod(&key.into()).cloned();
        let Some(pod) = pod.filter(|pod| is_still_due(&self.clocks, pod, &queued)) else {
            self.cache.dequeue(key);
            return Ok(Requeue::No);
        };
        let now = self.clocks.steady();
        let was_blocked = self.cache.is_blocked(key);
        if queued.force.is_none() {
            let turn =
                self.cache.eviction_delay(key, now, || self.safety.limits().eviction_turn(was_blocked, now));
            if let Err(held) = self.safety.admit(Act::Evict, &Facts { turn, ..Facts::default() }) {
                return Ok(held.left().into());
            }
        }
        let outcome = match queued.force {
            Some(grace) => force(&self.client, &self.cluster, &pod, grace).await?,
            None => evict(&self.client, &self.metrics, &pod).await?,
        };
        match outcome {
            Outcome::Evicted => {
                self.cache.dequeue(key);
                if was_blocked && queued.force.is_none() {
                    self.safety.limits().retry_succeeded(now);
                }
                // A pod that is deleted at the deadline may have been evicted before.
                if queued.force.is_none() {
                    self.metrics.inc(&families::PODS_DRAINED, &[&queued.reason]);
                    let message = format!("Evicted pod: {}", queued.reason);
                    self.recorder.publish(Event::normal(regarding_pod(&pod), "Evicted", message));
                }
                Ok(Requeue::No)
            }
            Outcome::Gone => {
                self.cache.dequeue(key);
                Ok(Requeue::No)
            }
            Outcome::Blocked(why) => {
                if self.cache.block(key) {
                    self.safety.limits().eviction_blocked();
                }
                let node = self.cluster.index().node(&queued.node).cloned();
                if let Some(node) = node {
                    let message = format!("Failed to drain node, evicting pod {}: {why}", pod.id);
                    self.recorder.publish(Event::warning(regarding(&*node), "FailedDraining", message));
                }
                Ok(Requeue::Backoff)
            }
        }
    }
}

/// Whether this is the queued pod and it still has to be evicted.
fn is_still_due(clocks: &Clocks, pod: &Model, queued: &QueuedEviction) -> bool {
    let forced = queued.force.is_some();
    pod.uid == queued.uid
        && !pod.is_terminal()
        && (forced || (!pod.is_terminating() && pod.protected_until(clocks.now()).is_none()))
}

async fn evict(client: &ApiClient, metrics: &Metrics, pod: &Model) -> Result<Outcome, ReconcileError> {
    let api = client.namespaced::<Pod>(&pod.id.namespace);
    let params = PostParams::default();
    let eviction = eviction_of(pod);
    let call = api.create_subresource::<_, serde_json::Value>("eviction", &pod.id.name, &params, &eviction);
    let result = client.call("evict pod", call).await;
    let (code, outcome) = match result {
        // The API server answers 201; Karpenter counts any success as 200.
        Ok(_) => (200, Ok(Outcome::Evicted)),
        // The pod does not exist, or another one has its name by now.
        Err(ReconcileError::NotFound { .. }) => (404, Ok(Outcome::Gone)),
        Err(ReconcileError::Conflict { .. }) => (409, Ok(Outcome::Gone)),
        Err(error) => match status_of(&error) {
            Some((429, why)) => (429, Ok(Outcome::Blocked(why))),
            Some((500, why)) if why.contains("more than one PodDisruptionBudget") => {
                (500, Ok(Outcome::Blocked(why)))
            }
            Some((code, _)) => (code, Err(error)),
            None => return Err(error),
        },
    };
    metrics.inc(&families::EVICTION_REQUESTS, &[&code.to_string()]);
    outcome
}

/// The body of an eviction of this pod, not of a later one with its name. `Api::evict` of kube 5.0 calls the options
/// `delete_options`, which API servers silently ignore, and the precondition with them.
fn eviction_of(pod: &Model) -> Eviction {
    let preconditions = Preconditions { uid: Some(pod.uid.to_string()), resource_version: None };
    Eviction {
        delete_options: Some(DeleteOptions {
            preconditions: Some(preconditions),
            ..DeleteOptions::default()
        }),
        metadata: ObjectMeta {
            name: Some(pod.id.name.to_string()),
            namespace: Some(pod.id.namespace.to_string()),
            ..ObjectMeta::default()
        },
    }
}

async fn force(
    client: &ApiClient,
    cluster: &Cluster,
    pod: &Model,
    grace: Duration,
) -> Result<Outcome, ReconcileError> {
    let api = client.namespaced::<Pod>(&pod.id.namespace);
    // Zero would remove the pod from the API while its containers may still run.
    let seconds = u32::try_from(grace.as_secs()).unwrap_or(u32::MAX).max(1);
    let params: DeleteParams = only(&pod.uid).grace_period(seconds);
    let result = client.call("delete pod", api.delete(&pod.id.name, &params)).await;
    match ignore_not_found(result) {
        Ok(deleted) => {
            if let Some(pod) = deleted.and_then(|either| either.left()) {
                cluster.observe(pod);
            }
            Ok(Outcome::Evicted)
        }
        Err(error) if error.is_conflict() => Ok(Outcome::Evicted),
        Err(error) => Err(error),
    }
}

/// Status code and message of the API server's error.
fn status_of(error: &ReconcileError) -> Option<(u16, String)> {
    let ReconcileError::Kube { source, .. } = error else { return None };
    match &**source {
        kube::Error::Api(status) => Some((status.code, status.message.clone())),
        _ => None,
    }
}
