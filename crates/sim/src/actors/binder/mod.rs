//! The binder: an in-process kube-scheduler.
//!
//! A round takes the pending pods by priority and age and binds each to the best node that passes all filters, until no pod fits.
//! Unschedulable pods are retried after a change that may help, with a delay that grows from one to ten seconds. Like kube-scheduler, it
//! writes the binding, the volumes of unbound claims, the condition `PodScheduled=False` (`Unschedulable`) with its message, and the
//! nominated node of a pod for which it deletes pods of lower priority; nothing else. Pods of other schedulers are ignored.

mod bind;
mod decide;
mod filter;
mod node;
mod pod;
mod preempt;
mod score;
#[cfg(test)]
mod tests;
mod topology;
mod volume;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

pub(crate) use filter::{allowed, tolerates, untolerated};
pub(crate) use pod::{claims, requests};
pub(crate) use volume::serves;

use super::{
    actor::{Actor, Requeue},
    cache::{Change, Key, Object, Tables},
    ctx::{CallError, Ctx},
};
use decide::Verdicts;
use node::ClusterView;
use pod::PodInfo;

/// Delay after the first failed attempt of a pod.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Longest delay between attempts.
const LAST_DELAY: Duration = Duration::from_secs(10);

/// The binder.
#[derive(Debug, Default)]
pub(crate) struct Binder {
    state: Mutex<BinderState>,
}

#[derive(Debug, Default)]
struct BinderState {
    /// Parsed pods by UID, as long as they exist.
    parsed: BTreeMap<String, (Arc<Pod>, Arc<PodInfo>)>,
    /// Pods that this binder has bound and that the cache does not show as bound: node by UID.
    assumed: BTreeMap<String, String>,
    /// Pods without a node that no round has tried since they could first be bound.
    untried: BTreeSet<String>,
    /// Unschedulable pods.
    waiting: BTreeMap<String, Waiting>,
    /// Counts changes that may help.
    epoch: u64,
}

/// An unschedulable pod.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    attempts: u32,
    not_before: Timestamp,
    /// The epoch of the last attempt: until something changes that could help, there is no other.
    tried: u64,
}

impl Waiting {
    fn is_due(self, now: Timestamp, epoch: u64) -> bool {
        self.tried != epoch && self.not_before <= now
    }
}

impl Binder {
    fn state(&self) -> MutexGuard<'_, BinderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Actor for Binder {
    fn name(&self) -> &'static str {
        "binder"
    }

    fn interested(&self, change: &Change, _tables: &Tables) -> Vec<Key> {
        self.state().follow(change);
        if !may_help(change) {
            return Vec::new();
        }
        // A new pod does not make other pods schedulable.
        let newcomer =
            change.old.is_none() && matches!(&change.new, Some(Object::Pod(pod)) if is_pending(pod));
        if !newcomer {
            let mut state = self.state();
            state.epoch = state.epoch.wrapping_add(1);
        }
        vec![Key::default()]
    }

    fn reconcile<'a>(&'a self, ctx: &'a Ctx, _key: &'a Key) -> BoxFuture<'a, Result<Requeue, CallError>> {
        Box::pin(self.round(ctx))
    }
}

/// Whether a change can make a pending pod schedulable, or concerns one.
fn may_help(change: &Change) -> bool {
    match (&change.old, &change.new) {
        (Some(Object::Pod(old)), Some(Object::Pod(new))) => {
            let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            let ended = |pod: &Pod| has_ended(pod);
            let gated = |pod: &Pod| is_gated(pod);
            let nominated =
                |pod: &Pod| pod.status.as_ref().and_then(|status| status.nominated_node_name.clone());
            node(old) != node(new)
                || ended(old) != ended(new)
                || gated(old) != gated(new)
                // The room that kube-scheduler kept for it is free.
                || (nominated(old).is_some() && nominated(old) != nominated(new))
                || old.metadata.labels != new.metadata.labels
                || old.metadata.deletion_timestamp.is_some() != new.metadata.deletion_timestamp.is_some()
        }
        (Some(Object::Node(old)), Some(Object::Node(new))) => {
            let allocatable = |node: &k8s_openapi::api::core::v1::Node| {
                node.status.as_ref().and_then(|status| status.allocatable.clone())
            };
            old.spec != new.spec
                || old.metadata.labels != new.metadata.labels
                || allocatable(old) != allocatable(new)
        }
        (_, Some(object)) | (Some(object), None) => matches!(
            object,
            Object::Pod(_)
                | Object::Node(_)
                | Object::Namespace(_)
                | Object::PersistentVolume(_)
                | Object::PersistentVolumeClaim(_)
                | Object::StorageClass(_)
                | Object::CSINode(_)
        ),
        (None, None) => false,
    }
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn is_gated(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty())
}

fn uid_of(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// Whether this binder schedules the pod.
fn is_pending(pod: &Pod) -> bool {
    let scheduler = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref());
    node_of(pod).is_none()
        && !has_ended(pod)
        && !is_gated(pod)
        && pod.metadata.deletion_timestamp.is_none()
        && matches!(scheduler, None | Some("" | "default-scheduler"))
}

/// The inputs of a round.
struct Round {
    cluster: ClusterView,
    pending: Vec<Arc<PodInfo>>,
    /// The number of changes that it includes.
    epoch: u64,
}

impl Binder {
    async fn round(&self, ctx: &Ctx) -> Result<Requeue, CallError> {
        let Some(Round { mut cluster, pending, epoch }) = self.begin(ctx) else {
            return Ok(self.next(ctx.clock.now()));
        };
        let mut verdicts = Verdicts::default();
        let mut broken = None;
        for pod in pending {
            match verdicts.decide(&pod, &cluster) {
                Ok(place) => match bind::bind(ctx, &pod, &place, &cluster).await {
                    Ok(true) => {
                        if let Some(node) = cluster.nodes.get(place.at) {
                            self.assume(&pod, &node.name);
                        }
                        if !pod.claims.is_empty() {
                            // Its volumes are resolved from now on.
                            let tables = ctx.cache.tables();
                            cluster.claims.clone_from(&tables.claims);
                            cluster.volumes.clone_from(&tables.volumes);
                        }
                        cluster.assume(place.at, pod);
                        verdicts.pod_bound();
                    }
                    Ok(false) => {}
                    Err(error) => broken = Some(error),
                },
                Err(message) => {
                    self.record_unschedulable(ctx, &pod, epoch);
                    let preemption = preempt::preempt(&pod, &cluster);
                    bind::refuse(ctx, &pod, &message, preemption.as_ref()).await?;
                }
            }
        }
        broken.map_or_else(|| Ok(self.next(ctx.clock.now())), Err)
    }

    /// Reads the cluster and the pods that are due; `None` if none is, whatever the size of the cluster.
    fn begin(&self, ctx: &Ctx) -> Option<Round> {
        let now = ctx.clock.now();
        let tables = ctx.cache.tables();
        let mut state = self.state();
        if !state.has_due(now) {
            return None;
        }
        let mut bound = Vec::new();
        let mut nominated = Vec::new();
        let mut pending: Vec<Arc<PodInfo>> = Vec::new();
        let mut present = BTreeSet::new();
        for pod in tables.pods.values().filter(|pod| !has_ended(pod)) {
            let uid = uid_of(pod).to_owned();
            let info = state.parse(pod);
            let node = node_of(pod).map(str::to_owned);
            if node.is_some() {
                state.assumed.remove(&uid);
            }
            match node.or_else(|| state.assumed.get(&uid).cloned()) {
                Some(node) => bound.push((node, info)),
                None if is_pending(pod) => {
                    let status = pod.status.as_ref();
                    if let Some(node) = status.and_then(|status| status.nominated_node_name.clone()) {
                        nominated.push((node, info.clone()));
                    }
                    if state.is_due(&uid, now) {
                        pending.push(info);
                    }
                }
                None => {}
            }
            present.insert(uid);
        }
        state.parsed.retain(|uid, _| present.contains(uid));
        state.assumed.retain(|uid, _| present.contains(uid));
        let created = |pod: &PodInfo| pod.pod.metadata.creation_timestamp.clone();
        pending.sort_by(|a, b| (b.priority(), created(a), &a.key).cmp(&(a.priority(), created(b), &b.key)));
        Some(Round { cluster: ClusterView::new(&tables, bound, nominated), pending, epoch: state.epoch })
    }

    fn assume(&self, pod: &PodInfo, node: &str) {
        let mut state = self.state();
        state.waiting.remove(&pod.uid);
        state.untried.remove(&pod.uid);
        state.assumed.insert(pod.uid.clone(), node.to_owned());
    }

    /// Records an unschedulable pod. Changes after `epoch` were not considered and cause a retry.
    fn record_unschedulable(&self, ctx: &Ctx, pod: &PodInfo, epoch: u64) {
        let tables = ctx.cache.tables();
        let same = |known: &Arc<Pod>| uid_of(known) == pod.uid && is_pending(known);
        // Bound or deleted since the round began: no change would ever end its wait.
        if !tables.get(&pod.key).as_ref().is_some_and(same) {
            return;
        }
        let mut state = self.state();
        let attempts = state.waiting.get(&pod.uid).map_or(0, |waiting| waiting.attempts);
        let delay = FIRST_DELAY.saturating_mul(1 << attempts.min(8)).min(LAST_DELAY);
        let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
        let not_before = ctx.clock.now().checked_add(delay).unwrap_or(Timestamp::MAX);
        let waiting = Waiting { attempts: attempts.saturating_add(1), not_before, tried: epoch };
        state.untried.remove(&pod.uid);
        state.waiting.insert(pod.uid.clone(), waiting);
    }

    /// When the next pod that may fit is due.
    fn next(&self, now: Timestamp) -> Requeue {
        let state = self.state();
        let helped = state.waiting.values().filter(|waiting| waiting.tried != state.epoch);
        let due = helped.map(|waiting| waiting.not_before).min();
        due.map_or(Requeue::No, |due| Requeue::After(now.duration_until(due).try_into().unwrap_or_default()))
    }
}

impl BinderState {
    /// Parses a pod once per change of its labels, gates or claims.
    fn parse(&mut self, pod: &Arc<Pod>) -> Arc<PodInfo> {
        let uid = uid_of(pod).to_owned();
        if let Some((seen, known)) = self.parsed.get_mut(&uid) {
            let same = Arc::ptr_eq(seen, pod)
                || (seen.metadata.labels == pod.metadata.labels
                    && seen.metadata.deletion_timestamp == pod.metadata.deletion_timestamp
                    && seen.spec == pod.spec);
            if same {
                seen.clone_from(pod);
                return known.clone();
            }
        }
        let parsed = Arc::new(PodInfo::new(pod.clone()));
        self.parsed.insert(uid, (pod.clone(), parsed.clone()));
        parsed
    }

    /// Follows which pods have to be bound: after most changes none is due, and a round need not look at all of them.
    fn follow(&mut self, change: &Change) {
        let pending = match &change.new {
            Some(Object::Pod(pod)) if is_pending(pod) => Some(uid_of(pod)),
            _ => None,
        };
        for side in change.sides() {
            if let Object::Pod(pod) = side
                && pending != Some(uid_of(pod))
            {
                self.untried.remove(uid_of(pod));
                self.waiting.remove(uid_of(pod));
            }
        }
        if let Some(uid) = pending
            && !self.waiting.contains_key(uid)
            && !self.assumed.contains_key(uid)
        {
            self.untried.insert(uid.to_owned());
        }
    }

    /// Whether a pod without a node is due.
    fn has_due(&self, now: Timestamp) -> bool {
        !self.untried.is_empty() || self.waiting.values().any(|waiting| waiting.is_due(now, self.epoch))
    }

    fn is_due(&self, uid: &str, now: Timestamp) -> bool {
        self.waiting.get(uid).is_none_or(|waiting| waiting.is_due(now, self.epoch))
    }
}
