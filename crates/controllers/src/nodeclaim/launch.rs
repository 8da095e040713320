//! Launches: one call to the cloud for all NodeClaims of a batch, in the steps of [`core::nodeclaim::launch`].
//!
//! The reconcile of one NodeClaim takes the steps for its batch; the other NodeClaims find their results when they are
//! enqueued. Where the provider launches one by one, that reconcile writes the attempt for its batch, and each NodeClaim calls the
//! cloud in its own reconcile: its answer is recorded whenever it comes.
//!
//! [`core::nodeclaim::launch`]: fleetwright_core::nodeclaim::launch

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fleetwright_api::{self as api, labels as names};
use fleetwright_core::{
    cloud::{CloudProvider, Instance, LAUNCH_DEADLINE, LaunchError, LaunchRequest},
    model::{BatchId, NodeClaim, Str},
    nodeclaim::{
        Next,
        launch::{self, Attempt, LaunchStep},
    },
};
use fleetwright_state::{Change, Key};
use futures::{StreamExt, TryStreamExt, stream};
use indexmap::IndexSet;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::runtime::{ApiClient, Clocks, Cluster, ReconcileError, later};

/// NodeClaims that an attempt is written on concurrently.
const CONCURRENCY: usize = 16;
/// After how long a NodeClaim that waits for a call of its own looks again; the end of another one's call enqueues it sooner.
const QUEUE_RETRY: Duration = Duration::from_secs(10);
/// The controller that is enqueued when a result exists.
pub(super) const CONTROLLER: &str = "nodeclaim.lifecycle";

/// The clients of a launch.
#[derive(Clone, Copy)]
pub(super) struct LaunchContext<'a> {
    pub(super) client: &'a ApiClient,
    pub(super) cluster: &'a Cluster,
    pub(super) clocks: &'a Clocks,
    pub(super) cloud: &'a dyn CloudProvider,
}

/// Records that the outcome of a creation is known ([`Index::end_creation`]), and enqueues the NodeClaims that waited for it.
///
/// [`Index::end_creation`]: fleetwright_state::Index::end_creation
pub(crate) fn end_creation(cluster: &Cluster, claim: &str) {
    let complete = cluster.index().end_creation(claim);
    for name in complete {
        cluster.enqueue(CONTROLLER, Key::cluster(name));
    }
}

type LaunchResult = Result<Instance, LaunchError>;

/// Launches in progress.
#[derive(Debug, Default)]
pub(super) struct Launches(Mutex<LaunchState>);

#[derive(Debug, Default)]
struct LaunchState {
    /// Names of NodeClaims by batch.
    batches: BTreeMap<BatchId, BTreeSet<Str>>,
    /// Batches that are being launched, with the names of the NodeClaims that wait for that.
    launching: BTreeMap<BatchId, BTreeSet<Str>>,
    /// Results by UID of the NodeClaim, until its own reconcile takes them.
    results: BTreeMap<Str, LaunchResult>,
    /// Number of consecutive unknown results, by UID.
    unknown_results: BTreeMap<Str, u32>,
    /// In steady time.
    not_before: BTreeMap<Str, Timestamp>,
    /// By UID: when this process first saw a NodeClaim for which the cloud had not been called; until it is launched.
    unasked: BTreeMap<Str, Timestamp>,
    /// UIDs of NodeClaims whose last call created no instance: the next attempt launches them.
    failed: BTreeSet<Str>,
    /// By UID: the attempt that this process wrote and for which the cloud has not been called. No other process called it either.
    uncalled: BTreeMap<Str, u32>,
    /// Calls for single NodeClaims that have not been answered.
    single_calls: usize,
    /// Names of NodeClaims that wait for one of them to end, the oldest first.
    queued: IndexSet<Str>,
}

/// The next steps of a NodeClaim, and its instance if it has one.
type LaunchOutcome = (Next, Option<Instance>);

/// Marks a batch as being launched. Dropping it removes the mark and enqueues the NodeClaims that
/// waited.
struct LaunchingBatch<'a> {
    launches: &'a Launches,
    cluster: &'a Cluster,
    batch: &'a BatchId,
}

impl<'a> LaunchingBatch<'a> {
    /// Marks the batch of `claim`. `None` if it is marked already: `claim` then waits.
    fn begin(launches: &'a Launches, cluster: &'a Cluster, claim: &'a NodeClaim) -> Option<Self> {
        let batch = &claim.batch;
        match launches.state().launching.entry(batch.clone()) {
            Entry::Vacant(free) => {
                free.insert(BTreeSet::new());
                Some(Self { launches, cluster, batch })
            }
            Entry::Occupied(mut launching) => {
                launching.get_mut().insert(claim.name.as_str().into());
                None
            }
        }
    }
}

impl Drop for LaunchingBatch<'_> {
    fn drop(&mut self) {
        let waiting = self.launches.state().launching.remove(self.batch);
        for name in waiting.into_iter().flatten() {
            self.cluster.enqueue(CONTROLLER, Key::cluster(name));
        }
    }
}

/// A call for a single NodeClaim. Dropping it enqueues the NodeClaim that waits the longest.
struct SingleCall<'a> {
    launches: &'a Launches,
    cluster: &'a Cluster,
}

impl<'a> SingleCall<'a> {
    /// Counts a call. `None` if as many as `limit` (at least one) are unanswered: `claim` then waits.
    fn begin(launches: &'a Launches, cluster: &'a Cluster, claim: &NodeClaim, limit: usize) -> Option<Self> {
        let mut state = launches.state();
        if state.single_calls >= limit.max(1) {
            state.queued.insert(claim.name.as_str().into());
            return None;
        }
        state.queued.shift_remove(claim.name.as_str());
        state.single_calls += 1;
        Some(Self { launches, cluster })
    }
}

impl Drop for SingleCall<'_> {
    fn drop(&mut self) {
        let next = {
            let mut state = self.launches.state();
            state.single_calls -= 1;
            state.queued.shift_remove_index(0)
        };
        if let Some(name) = next {
            self.cluster.enqueue(CONTROLLER, Key::cluster(name));
        }
    }
}

impl Launches {
    fn state(&self) -> MutexGuard<'_, LaunchState> {
        // Every change is one statement: a panic cannot leave half of one behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the batch of a NodeClaim that changed.
    pub(super) fn note(&self, change: &Change) {
        let Some(claim) = change.claim() else { return };
        let launched = claim.status.as_ref().is_some_and(|status| !status.provider_id.is_empty());
        let mut state = self.state();
        if change.is_deleted() || launched {
            state.unasked.remove(claim.metadata.uid.as_deref().unwrap_or_default());
        }
        let batch = claim.metadata.annotations.as_ref().and_then(|all| all.get(names::BATCH_ID));
        let Some(batch) = batch.map(|batch| BatchId::from(batch.as_str())) else { return };
        if !change.is_deleted() {
            state.batches.entry(batch).or_default().insert(change.key.name.clone());
        } else if let Some(claims) = state.batches.get_mut(&batch) {
            claims.remove(&change.key.name);
            if claims.is_empty() {
                state.batches.remove(&batch);
            }
        }
    }

    /// When this process first saw a NodeClaim for which the cloud had not been called; `now` if that is new.
    pub(super) fn unasked(&self, claim: &NodeClaim, now: Timestamp) -> Option<Timestamp> {
        let mut state = self.state();
        if claim.attempt == 0 && !launch::is_launched(claim) {
            state.unasked.entry(claim.uid.clone()).or_insert(now);
        }
        state.unasked.get(&claim.uid).copied()
    }

    /// The NodeClaims of the batch of `claim`, by name.
    fn batch(&self, cluster: &Cluster, claim: &NodeClaim) -> Vec<Arc<NodeClaim>> {
        let mut names = self.state().batches.get(&claim.batch).cloned().unwrap_or_default();
        names.insert(claim.name.as_str().into());
        let index = cluster.index();
        let models = names.iter().filter_map(|name| index.claim_model(name));
        models.filter(|other| other.batch == claim.batch).cloned().collect()
    }

    /// Whether the last call for a NodeClaim created no instance.
    pub(super) fn is_failed(&self, claim: &Str) -> bool {
        self.state().failed.contains(claim)
    }

    /// Whether a deleted NodeClaim keeps its finalizer: without it, the others of its batch could not know that the cloud was not
    /// called.
    pub(super) fn holds(&self, cluster: &Cluster, claim: &NodeClaim) -> bool {
        let is_launching = self.state().launching.contains_key(&claim.batch);
        claim.provider_id.is_none() && (is_launching || launch::is_named(claim, &self.batch(cluster, claim)))
    }

    /// Drops the entries of a NodeClaim.
    pub(super) fn forget(&self, claim: &Str) {
        let mut state = self.state();
        state.results.remove(claim);
        state.unknown_results.remove(claim);
        state.not_before.remove(claim);
        state.unasked.remove(claim);
        state.failed.remove(claim);
        state.uncalled.remove(claim);
    }

    /// Launches a NodeClaim together with its batch.
    pub(super) async fn launch(
        &self,
        ctx: LaunchContext<'_>,
        claim: &NodeClaim,
    ) -> Result<LaunchOutcome, ReconcileError> {
        let LaunchContext { cluster, clocks, .. } = ctx;
        if let Some(outcome) = self.take_outcome(claim, clocks.steady()) {
            return Ok(outcome);
        }
        if let Some(left) = self.backoff_left(claim, clocks.steady()) {
            return Ok(wait(left));
        }
        if cluster.index().awaits_batch(claim.name.as_str(), &claim.batch) {
            return Ok((Next::nothing(), None));
        }
        let Some(launching) = LaunchingBatch::begin(self, cluster, claim) else {
            return Ok((Next::nothing(), None));
        };
        let mut step = self.step(cluster, claim);
        if let Some(LaunchStep::Write(attempt, members)) = step {
            self.write(ctx, &attempt, &members).await?;
            step = self.step(cluster, claim);
        }
        // A NodeClaim with the position of another one has to leave the batch first.
        let Some(LaunchStep::Call(attempt, mut members)) = step else { return Ok(wait(launch::BACKOFF)) };
        let info = ctx.cloud.info();
        let mut single = None;
        if info.launches_one_by_one {
            // The others of the batch have calls of their own.
            drop(launching);
            members.retain(|member| member.uid == claim.uid);
            single = SingleCall::begin(self, cluster, claim, info.launch_concurrency);
            if single.is_none() {
                return Ok(wait(QUEUE_RETRY));
            }
        }
        self.call(ctx, &attempt, &members).await;
        drop(single);
        for member in members.iter().filter(|member| member.uid != claim.uid) {
            cluster.enqueue(CONTROLLER, Key::cluster(member.name.as_str()));
        }
        Ok(self.take_outcome(claim, clocks.steady()).unwrap_or_else(|| wait(launch::BACKOFF)))
    }

    fn step(&self, cluster: &Cluster, claim: &NodeClaim) -> Option<LaunchStep> {
        let current = cluster.index().claim_model(&claim.name).cloned()?;
        let batch = self.batch(cluster, &current);
        let state = self.state();
        let is_failed =
            |other: &NodeClaim| state.failed.contains(&other.uid) && !state.results.contains_key(&other.uid);
        Some(launch::step(&current, &batch, is_failed))
    }

    fn backoff_left(&self, claim: &NodeClaim, now: Timestamp) -> Option<Duration> {
        let until = self.state().not_before.get(&claim.uid).copied().filter(|until| *until > now)?;
        Some(Duration::try_from(until.duration_since(now)).unwrap_or_default())
    }

    /// Step 1: writes the attempt and the finalizer on each member.
    async fn write(
        &self,
        ctx: LaunchContext<'_>,
        attempt: &Attempt,
        members: &[(Arc<NodeClaim>, u32)],
    ) -> Result<(), ReconcileError> {
        let mut writes = Vec::with_capacity(members.len());
        for (member, position) in members {
            writes.push(write(ctx, attempt, member, *position));
        }
        stream::iter(writes).buffered(CONCURRENCY).try_collect::<Vec<()>>().await?;
        let mut state = self.state();
        for (member, _) in members {
            state.failed.remove(&member.uid);
            state.uncalled.insert(member.uid.clone(), attempt.number);
        }
        Ok(())
    }

    /// Whether no process called the cloud for an attempt: this one wrote it. From now on it counts as called.
    fn begin_call(&self, attempt: &Attempt, members: &[Arc<NodeClaim>]) -> bool {
        let mut state = self.state();
        let mut is_first = true;
        for member in members {
            is_first &= state.uncalled.remove(&member.uid) == Some(attempt.number);
        }
        is_first
    }

    /// Step 2: calls the cloud. A member without a result has an unknown one.
    async fn call(&self, ctx: LaunchContext<'_>, attempt: &Attempt, members: &[Arc<NodeClaim>]) {
        let first_call = self.begin_call(attempt, members);
        let request = |member: &Arc<NodeClaim>| {
            let rank = attempt.members.rank(member.position).unwrap_or_default();
            let pool = member.pool.as_ref();
            LaunchRequest::new(member.clone())
                .of_batch(attempt.batch.clone())
                .of_attempt(attempt.number)
                .at(rank, attempt.members.count())
                .decided_by(pool.and_then(|pool| ctx.cluster.index().catalog(pool).cloned()))
                .first_call(first_call)
        };
        let requests: Vec<LaunchRequest> = members.iter().map(request).collect();
        let results = ctx.clocks.within(LAUNCH_DEADLINE, ctx.cloud.launch(&requests)).await;
        let mut results = results.unwrap_or_default().into_iter();
        let mut state = self.state();
        for member in members {
            let missing = || Err(LaunchError::Unknown("the cloud did not answer for this claim".into()));
            let result = results.next().unwrap_or_else(missing);
            if result.is_err() && !is_unknown(&result) {
                state.failed.insert(member.uid.clone());
            }
            state.results.insert(member.uid.clone(), result);
        }
    }

    /// Step 3: takes the result of a NodeClaim, if there is one.
    fn take_outcome(&self, claim: &NodeClaim, now: Timestamp) -> Option<LaunchOutcome> {
        let mut state = self.state();
        let result = state.results.remove(&claim.uid)?;
        let unknown_results = if is_unknown(&result) {
            let count = state.unknown_results.entry(claim.uid.clone()).or_insert(0);
            *count = count.saturating_add(1);
            *count
        } else {
            state.unknown_results.remove(&claim.uid);
            0
        };
        let next = launch::after_result(claim, &result, unknown_results);
        if let Some(again) = next.again {
            state.not_before.insert(claim.uid.clone(), later(now, again));
        }
        Some((next, result.ok()))
    }
}

fn wait(left: Duration) -> LaunchOutcome {
    (Next::wait(left), None)
}

fn is_unknown(result: &LaunchResult) -> bool {
    matches!(
        result,
        Err(LaunchError::Unknown(_) | LaunchError::Pending { .. } | LaunchError::RateLimited { .. })
    )
}

/// Writes an attempt on a member, if it did not change since the attempt was decided.
async fn write(
    ctx: LaunchContext<'_>,
    attempt: &Attempt,
    member: &NodeClaim,
    position: u32,
) -> Result<(), ReconcileError> {
    let Some(known) = ctx.cluster.index().claim(&member.name).cloned() else { return Ok(()) };
    let mut finalizers = known.metadata.finalizers.clone().unwrap_or_default();
    if !finalizers.iter().any(|name| name == names::TERMINATION_FINALIZER) {
        finalizers.push(names::TERMINATION_FINALIZER.to_owned());
    }
    let body = json!({"metadata": {
        "uid": member.uid,
        "resourceVersion": known.metadata.resource_version,
        "finalizers": finalizers,
        "annotations": {
            names::BATCH_ID: attempt.batch.as_str(),
            names::BATCH_POSITION: position.to_string(),
            names::ATTEMPT: attempt.number.to_string(),
            names::ATTEMPT_MEMBERS: attempt.members.to_string(),
        },
    }});
    let (api, params) = (ctx.client.cluster::<api::NodeClaim>(), PatchParams::default());
    let body = Patch::Merge(body);
    let patched = ctx.client.call("write launch attempt", api.patch(&member.name, &params, &body)).await?;
    ctx.cluster.observe(patched);
    Ok(())
}
