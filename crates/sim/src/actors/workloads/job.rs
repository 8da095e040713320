//! Jobs: pods that run to completion.
//!
//! As in Kubernetes, a tracking finalizer keeps a pod until it is counted, so that none is counted twice or lost: 1 the pod is listed in
//! `status.uncountedTerminatedPods`, 2 the finalizer is removed, 3 the counter is increased.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::{Job, JobSpec, JobStatus},
    core::v1::Pod,
};
use serde_json::{Value, json};

use super::{count, has_ended, is_active, is_ready, phase, template, uid};
use crate::actors::{
    actor::{Actor, Requeue},
    cache::{Change, Key, Object, Tables},
    ctx::{CallError, Ctx, ignore_not_found},
};

/// Keeps a pod until it is counted.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The index of a pod of an indexed Job.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Delay after the first failed pod; doubled at each further one.
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
/// Longest delay after a failed pod.
const LAST_BACKOFF: Duration = Duration::from_secs(600);

/// The actor.
pub(super) struct Jobs;

impl Actor for Jobs {
    fn name(&self) -> &'static str {
        "jobs"
    }

    fn interested(&self, change: &Change, _tables: &Tables) -> Vec<Key> {
        match &change.new {
            Some(Object::Job(_)) => vec![change.key.clone()],
            _ => super::controllers(change, "Job"),
        }
    }

    fn reconcile<'a>(&'a self, ctx: &'a Ctx, key: &'a Key) -> BoxFuture<'a, Result<Requeue, CallError>> {
        Box::pin(async move {
            let Some(view) = JobState::read(ctx, key) else { return Ok(Requeue::No) };
            if view.job.metadata.deletion_timestamp.is_some() {
                return release(ctx, &view.pods).await.map(|()| Requeue::No);
            }
            if let Some(finished) = view.finished() {
                release(ctx, &view.pods).await?;
                return expire(ctx, &view, finished).await;
            }
            if let Some(patch) = view.start(ctx) {
                ignore_not_found(ctx.patch_status::<Job>(key, &patch).await)?;
                return Ok(Requeue::After(Duration::ZERO));
            }
            if account(ctx, key, &view).await? {
                return Ok(Requeue::After(Duration::ZERO));
            }
            advance(ctx, key, &view).await
        })
    }
}

/// A Job with its pods.
struct JobState {
    job: Arc<Job>,
    spec: JobSpec,
    status: JobStatus,
    pods: Vec<Arc<Pod>>,
}

impl JobState {
    fn read(ctx: &Ctx, key: &Key) -> Option<Self> {
        let tables = ctx.cache.tables();
        let job = tables.get::<Job>(key)?;
        let (spec, status) = (job.spec.clone()?, job.status.clone().unwrap_or_default());
        let pods = tables.pods_of(uid(&job.metadata));
        Some(Self { job, spec, status, pods })
    }

    fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// When the Job ended, if it has.
    fn finished(&self) -> Option<Timestamp> {
        let conditions = self.status.conditions.as_deref().unwrap_or_default();
        let end = conditions.iter().find(|condition| {
            matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
        })?;
        Some(end.last_transition_time.as_ref().map_or(Timestamp::MIN, |time| time.0))
    }

    fn start(&self, ctx: &Ctx) -> Option<Value> {
        match (&self.status.start_time, self.is_suspended()) {
            (None, false) => Some(json!({ "status": { "startTime": ctx.time() } })),
            (Some(_), true) => Some(json!({ "status": { "startTime": null } })),
            _ => None,
        }
    }

    fn succeeded(&self) -> i32 {
        self.status.succeeded.unwrap_or(0)
    }

    fn failed(&self) -> i32 {
        self.status.failed.unwrap_or(0)
    }

    fn active(&self) -> Vec<&Arc<Pod>> {
        self.pods.iter().filter(|pod| is_active(pod)).collect()
    }

    /// The desired number of running pods.
    fn wanted(&self) -> i32 {
        if self.is_suspended() {
            return 0;
        }
        let parallel = self.spec.parallelism.unwrap_or(1).max(0);
        match self.spec.completions {
            Some(completions) => parallel.min(completions.saturating_sub(self.succeeded())),
            // A work queue: once one pod has succeeded, no new ones start.
            None if self.succeeded() > 0 => count(self.active().len()),
            None => parallel,
        }
    }

    fn is_complete(&self) -> bool {
        match self.spec.completions {
            Some(completions) => self.succeeded() >= completions,
            None => self.succeeded() > 0 && self.active().is_empty(),
        }
    }

    /// Completed indexes.
    fn done(&self) -> BTreeSet<i32> {
        let text = self.status.completed_indexes.as_deref().unwrap_or_default();
        let mut done = BTreeSet::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
                done.extend(first..=last);
            }
        }
        done
    }
}

fn index_of(pod: &Pod) -> Option<i32> {
    pod.metadata.annotations.as_ref()?.get(INDEX)?.parse().ok()
}

fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == TRACKING)
}

/// A terminating pod counts as failed, unless it succeeded.
fn is_over(pod: &Pod) -> bool {
    has_ended(pod) || pod.metadata.deletion_timestamp.is_some()
}

async fn untrack(ctx: &Ctx, pod: &Pod) -> Result<(), CallError> {
    let left: Vec<&String> =
        pod.metadata.finalizers.iter().flatten().filter(|finalizer| *finalizer != TRACKING).collect();
    let patch = json!({ "metadata": {
        "uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version, "finalizers": left,
    } });
    ignore_not_found(ctx.patch::<Pod>(&Key::of(&pod.metadata), &patch).await).map(drop)
}

/// Removes the finalizers of a finished Job's pods.
async fn release(ctx: &Ctx, pods: &[Arc<Pod>]) -> Result<(), CallError> {
    for pod in pods {
        if is_tracked(pod) {
            untrack(ctx, pod).await?;
        }
        if is_active(pod) {
            ctx.delete(pod.as_ref(), None).await?;
        }
    }
    Ok(())
}

async fn expire(ctx: &Ctx, view: &JobState, finished: Timestamp) -> Result<Requeue, CallError> {
    let Some(keep) = view.spec.ttl_seconds_after_finished else { return Ok(Requeue::No) };
    let passed = ctx.clock.now().as_second().saturating_sub(finished.as_second());
    let left = u64::try_from(i64::from(keep).saturating_sub(passed)).unwrap_or(0);
    if left > 0 {
        return Ok(Requeue::After(Duration::from_secs(left)));
    }
    ctx.delete(view.job.as_ref(), None).await.map(|()| Requeue::No)
}

/// Counts finished pods. Returns whether the status changed.
async fn account(ctx: &Ctx, key: &Key, view: &JobState) -> Result<bool, CallError> {
    let noted = view.status.uncounted_terminated_pods.clone().unwrap_or_default();
    let (mut good, mut bad) = (noted.succeeded.unwrap_or_default(), noted.failed.unwrap_or_default());
    let is_noted = |good: &[String], bad: &[String], pod: &Pod| {
        let own = uid(&pod.metadata);
        good.iter().chain(bad).any(|known| known == own)
    };
    let over: Vec<&Arc<Pod>> = view.pods.iter().filter(|pod| is_tracked(pod) && is_over(pod)).collect();
    let fresh: Vec<&&Arc<Pod>> = over.iter().filter(|pod| !is_noted(&good, &bad, pod)).collect();
    let mut done = view.done();
    for pod in &fresh {
        let own = uid(&pod.metadata).to_owned();
        let repeated = view.is_indexed() && index_of(pod).is_some_and(|index| done.contains(&index));
        if phase(pod) == "Succeeded" {
            done.extend(index_of(pod).filter(|_| view.is_indexed()));
            if !repeated {
                good.push(own);
            }
        } else {
            bad.push(own);
        }
    }
    if !fresh.is_empty() {
        let patch = json!({ "status": {
            "uncountedTerminatedPods": { "succeeded": good, "failed": bad },
            "completedIndexes": view.is_indexed().then(|| ranges(&done)),
        } });
        ignore_not_found(ctx.patch_status::<Job>(key, &patch).await)?;
    }
    for pod in &over {
        untrack(ctx, pod).await?;
    }
    if good.is_empty() && bad.is_empty() {
        return Ok(false);
    }
    let patch = json!({ "status": {
        "uncountedTerminatedPods": { "succeeded": [], "failed": [] },
        "succeeded": view.succeeded().saturating_add(count(good.len())),
        "failed": view.failed().saturating_add(count(bad.len())),
    } });
    ignore_not_found(ctx.patch_status::<Job>(key, &patch).await)?;
    Ok(true)
}

/// `0-2,5`
fn ranges(indexes: &BTreeSet<i32>) -> String {
    let mut ranges: Vec<(i32, i32)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*index) => *last = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    let texts = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

async fn advance(ctx: &Ctx, key: &Key, view: &JobState) -> Result<Requeue, CallError> {
    let now = ctx.clock.now();
    let mut again = Requeue::No;
    if view.failed() > view.spec.backoff_limit.unwrap_or(6) {
        return finish(
            ctx,
            key,
            view,
            false,
            ("BackoffLimitExceeded", "Job has reached the specified backoff limit"),
        )
        .await;
    }
    if view.is_complete() && !view.is_suspended() {
        let why = ("CompletionsReached", "Reached expected number of succeeded pods");
        return finish(ctx, key, view, true, why).await;
    }
    if let (Some(limit), Some(start)) = (view.spec.active_deadline_seconds, &view.status.start_time) {
        let left = limit.saturating_sub(now.as_second().saturating_sub(start.0.as_second()));
        if left <= 0 {
            let why = ("DeadlineExceeded", "Job was active longer than specified deadline");
            return finish(ctx, key, view, false, why).await;
        }
        again = Requeue::After(Duration::from_secs(u64::try_from(left).unwrap_or(0)));
    }
    let (active, wanted) = (view.active(), view.wanted());
    let surplus = active.len().saturating_sub(usize::try_from(wanted).unwrap_or(0));
    for pod in active.iter().rev().take(surplus) {
        ctx.delete(pod.as_ref(), None).await?;
    }
    let missing = wanted.saturating_sub(count(active.len()));
    if missing > 0 {
        match backoff(view, now) {
            left if left.is_zero() => create(ctx, view, missing).await?,
            left => again = again.or(Requeue::After(left)),
        }
    }
    figures(ctx, key).await?;
    Ok(again)
}

/// The remaining backoff since the last failed pod.
fn backoff(view: &JobState, now: Timestamp) -> Duration {
    let failed = u32::try_from(view.failed()).unwrap_or(0);
    let ends = view.pods.iter().filter(|pod| phase(pod) == "Failed").filter_map(|pod| {
        let conditions = pod.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().filter_map(|condition| Some(condition.last_transition_time.as_ref()?.0)).max()
    });
    let Some(last) = ends.max().filter(|_| failed > 0) else { return Duration::ZERO };
    let delay = FIRST_BACKOFF.saturating_mul(1 << failed.saturating_sub(1).min(10)).min(LAST_BACKOFF);
    let passed: Duration = now.duration_since(last).try_into().unwrap_or_default();
    delay.saturating_sub(passed)
}

async fn create(ctx: &Ctx, view: &JobState, missing: i32) -> Result<(), CallError> {
    let mut taken = view.done();
    taken.extend(view.active().iter().filter_map(|pod| index_of(pod)));
    let indexes = (0..view.spec.completions.unwrap_or(0)).filter(|index| !taken.contains(index));
    let mut indexes = indexes.collect::<Vec<_>>().into_iter();
    for _ in 0..missing {
        let mut pod = template::pod(view.job.as_ref(), &view.spec.template);
        let (name, own) = (view.job.metadata.name.clone().unwrap_or_default(), uid(&view.job.metadata));
        let labels = pod.metadata.labels.get_or_insert_default();
        for prefix in ["", "batch.kubernetes.io/"] {
            labels.insert(format!("{prefix}job-name"), name.clone());
            labels.insert(format!("{prefix}controller-uid"), own.to_owned());
        }
        if view.is_indexed() {
            let Some(index) = indexes.next() else { break };
            labels.insert(INDEX.to_owned(), index.to_string());
            pod.metadata.annotations.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
            pod.metadata.generate_name = Some(format!("{name}-{index}-"));
        }
        pod.metadata.finalizers.get_or_insert_default().push(TRACKING.to_owned());
        ctx.create(&pod).await?;
    }
    Ok(())
}

async fn figures(ctx: &Ctx, key: &Key) -> Result<(), CallError> {
    let Some(view) = JobState::read(ctx, key) else { return Ok(()) };
    let active = view.active();
    let ready = count(active.iter().filter(|pod| is_ready(pod)).count());
    let leaving = view.pods.iter().filter(|pod| !has_ended(pod) && pod.metadata.deletion_timestamp.is_some());
    let (active, leaving) = (count(active.len()), count(leaving.count()));
    let known = &view.status;
    let same = known.active.unwrap_or(0) == active
        && known.ready.unwrap_or(0) == ready
        && known.terminating.unwrap_or(0) == leaving;
    if same {
        return Ok(());
    }
    let patch = json!({ "status": { "active": active, "ready": ready, "terminating": leaving } });
    ignore_not_found(ctx.patch_status::<Job>(key, &patch).await).map(drop)
}

/// Finishes the Job: sets the criterion first, and the final condition once its pods are gone.
async fn finish(
    ctx: &Ctx,
    key: &Key,
    view: &JobState,
    well: bool,
    (reason, message): (&str, &str),
) -> Result<Requeue, CallError> {
    release(ctx, &view.pods).await?;
    let now = ctx.time();
    let condition = |name: &str| {
        json!({
            "type": name, "status": "True", "reason": reason, "message": message,
            "lastProbeTime": now, "lastTransitionTime": now,
        })
    };
    let [criterion, end] =
        if well { ["SuccessCriteriaMet", "Complete"] } else { ["FailureTarget", "Failed"] };
    let patch = json!({ "status": {
        "conditions": [condition(criterion), condition(end)],
        "completionTime": well.then_some(&now),
        "active": 0, "ready": 0,
    } });
    ignore_not_found(ctx.patch_status::<Job>(key, &patch).await)?;
    Ok(view.spec.ttl_seconds_after_finished.map_or(Requeue::No, |_| Requeue::After(Duration::ZERO)))
}
