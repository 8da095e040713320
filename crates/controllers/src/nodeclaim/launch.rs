//! Calls to the cloud: the NodeClaims of a batch are launched by one call, in the steps of [`core::nodeclaim::launch`].
//!
//! One NodeClaim of a batch takes the steps for all of it, one batch at a time; the others find their answers when they are
//! woken.
//!
//! [`core::nodeclaim::launch`]: fleetwright_core::nodeclaim::launch

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fleetwright_api::{self as api, labels as names};
use fleetwright_core::{
    cloud::{CloudProvider, Instance, LaunchError, LaunchRequest},
    model::{BatchId, NodeClaim, Str},
    nodeclaim::{
        Next,
        launch::{self, Attempt, LaunchStep},
    },
};
use fleetwright_state::{Change, Key};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::runtime::{ApiClient, Clocks, Cluster, ReconcileError, later};

/// How long a call may take before its outcome counts as unknown.
const DEADLINE: Duration = Duration::from_secs(120);
/// NodeClaims that an attempt is written on concurrently.
const AT_ONCE: usize = 16;
/// The controller that is woken with an answer.
pub(super) const CONTROLLER: &str = "nodeclaim.lifecycle";

/// What a launch reads, writes and calls.
#[derive(Clone, Copy)]
pub(super) struct LaunchParts<'a> {
    pub(super) client: &'a ApiClient,
    pub(super) cluster: &'a Cluster,
    pub(super) clocks: &'a Clocks,
    pub(super) cloud: &'a dyn CloudProvider,
}

/// The outcome of a creation is known ([`Index::end_creation`]). NodeClaims that waited for it are woken.
///
/// [`Index::end_creation`]: fleetwright_state::Index::end_creation
pub(crate) fn end_creation(cluster: &Cluster, claim: &str) {
    let complete = cluster.index().end_creation(claim);
    for name in complete {
        cluster.enqueue(CONTROLLER, Key::cluster(name));
    }
}

type Answer = Result<Instance, LaunchError>;

/// Launches under way.
#[derive(Debug, Default)]
pub(super) struct Launches(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Names of NodeClaims by batch.
    batches: BTreeMap<BatchId, BTreeSet<Str>>,
    /// Batches that are being launched, with the names of the NodeClaims that wait for the end of that.
    busy: BTreeMap<BatchId, BTreeSet<Str>>,
    /// By UID of the claim, until its own pass takes it.
    answers: BTreeMap<Str, Answer>,
    /// How often in a row the answer was not a clear one.
    unclear: BTreeMap<Str, u32>,
    /// In steady time.
    not_before: BTreeMap<Str, Timestamp>,
    /// When this process saw a claim first, by UID, where the cloud was not asked for it by then; until it is launched.
    unasked: BTreeMap<Str, Timestamp>,
    /// Claims whose last call left no instance behind, by UID: the next attempt launches them.
    failed: BTreeSet<Str>,
}

/// What comes next for a claim, with its instance if there is one.
type Asked = (Next, Option<Instance>);

/// The mark of a batch that is being launched. It goes with the launch, however that ends; those who waited for that are
/// woken then.
struct Busy<'a> {
    launches: &'a Launches,
    cluster: &'a Cluster,
    batch: &'a BatchId,
}

impl<'a> Busy<'a> {
    /// Marks the batch of `claim`; `None` where it is marked already, and `claim` waits for the end of that.
    fn begin(launches: &'a Launches, cluster: &'a Cluster, claim: &'a NodeClaim) -> Option<Self> {
        let batch = &claim.batch;
        match launches.state().busy.entry(batch.clone()) {
            Entry::Vacant(free) => {
                free.insert(BTreeSet::new());
                Some(Self { launches, cluster, batch })
            }
            Entry::Occupied(mut busy) => {
                busy.get_mut().insert(claim.name.as_str().into());
                None
            }
        }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let waiting = self.launches.state().busy.remove(self.batch);
        for name in waiting.into_iter().flatten() {
            self.cluster.enqueue(CONTROLLER, Key::cluster(name));
        }
    }
}

impl Launches {
    fn state(&self) -> MutexGuard<'_, State> {
        // No statement leaves the state half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of which claims belong to which batch.
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

    /// When this process saw a claim first, where the cloud was not asked for it by then; begins now where that is new.
    pub(super) fn unasked(&self, claim: &NodeClaim, now: Timestamp) -> Option<Timestamp> {
        let mut state = self.state();
        if claim.attempt == 0 && !launch::is_launched(claim) {
            state.unasked.entry(claim.uid.clone()).or_insert(now);
        }
        state.unasked.get(&claim.uid).copied()
    }

    /// The claims of a batch, by name, `claim` among them.
    fn batch(&self, cluster: &Cluster, claim: &NodeClaim) -> Vec<Arc<NodeClaim>> {
        let mut names = self.state().batches.get(&claim.batch).cloned().unwrap_or_default();
        names.insert(claim.name.as_str().into());
        let index = cluster.index();
        let models = names.iter().filter_map(|name| index.claim_model(name));
        models.filter(|other| other.batch == claim.batch).cloned().collect()
    }

    /// Whether the last call for a claim left no instance behind.
    pub(super) fn is_failed(&self, claim: &Str) -> bool {
        self.state().failed.contains(claim)
    }

    /// Whether a deleted NodeClaim keeps its finalizer: without it, the others of its batch could not tell that the cloud was not
    /// called.
    pub(super) fn holds(&self, cluster: &Cluster, claim: &NodeClaim) -> bool {
        let is_busy = self.state().busy.contains_key(&claim.batch);
        claim.provider_id.is_none() && (is_busy || launch::is_named(claim, &self.batch(cluster, claim)))
    }

    /// Forgets a claim.
    pub(super) fn forget(&self, claim: &Str) {
        let mut state = self.state();
        state.answers.remove(claim);
        state.unclear.remove(claim);
        state.not_before.remove(claim);
        state.unasked.remove(claim);
        state.failed.remove(claim);
    }

    /// Launches a claim together with its batch.
    pub(super) async fn ask(
        &self,
        parts: LaunchParts<'_>,
        claim: &NodeClaim,
    ) -> Result<Asked, ReconcileError> {
        let LaunchParts { cluster, clocks, .. } = parts;
        if let Some(settled) = self.settled(claim, clocks.steady()) {
            return Ok(settled);
        }
        if let Some(left) = self.too_early(claim, clocks.steady()) {
            return Ok(wait(left));
        }
        if cluster.index().awaits_batch(claim.name.as_str(), &claim.batch) {
            return Ok((Next::nothing(), None));
        }
        let Some(_busy) = Busy::begin(self, cluster, claim) else { return Ok((Next::nothing(), None)) };
        let mut step = self.step(cluster, claim);
        if let Some(LaunchStep::Write(attempt, members)) = step {
            self.write(parts, &attempt, &members).await?;
            step = self.step(cluster, claim);
        }
        // A NodeClaim with the position of another one has to leave the batch first.
        let Some(LaunchStep::Call(attempt, members)) = step else { return Ok(wait(launch::BACKOFF)) };
        self.call(parts, &attempt, &members).await;
        for member in members.iter().filter(|member| member.uid != claim.uid) {
            cluster.enqueue(CONTROLLER, Key::cluster(member.name.as_str()));
        }
        Ok(self.settled(claim, clocks.steady()).unwrap_or_else(|| wait(launch::BACKOFF)))
    }

    fn step(&self, cluster: &Cluster, claim: &NodeClaim) -> Option<LaunchStep> {
        let current = cluster.index().claim_model(&claim.name).cloned()?;
        let batch = self.batch(cluster, &current);
        let state = self.state();
        let is_failed =
            |other: &NodeClaim| state.failed.contains(&other.uid) && !state.answers.contains_key(&other.uid);
        Some(launch::step(&current, &batch, is_failed))
    }

    fn too_early(&self, claim: &NodeClaim, now: Timestamp) -> Option<Duration> {
        let until = self.state().not_before.get(&claim.uid).copied().filter(|until| *until > now)?;
        Some(Duration::try_from(until.duration_since(now)).unwrap_or_default())
    }

    /// Step 1: the attempt on each member, with the finalizer.
    async fn write(
        &self,
        parts: LaunchParts<'_>,
        attempt: &Attempt,
        members: &[(Arc<NodeClaim>, u32)],
    ) -> Result<(), ReconcileError> {
        let mut writes = Vec::with_capacity(members.len());
        for (member, position) in members {
            writes.push(write(parts, attempt, member, *position));
        }
        stream::iter(writes).buffered(AT_ONCE).try_collect::<Vec<()>>().await?;
        let mut state = self.state();
        for (member, _) in members {
            state.failed.remove(&member.uid);
        }
        Ok(())
    }

    /// Step 2: the call. One answer per member; what is missing is not known.
    async fn call(&self, parts: LaunchParts<'_>, attempt: &Attempt, members: &[Arc<NodeClaim>]) {
        let request = |member: &Arc<NodeClaim>| LaunchRequest {
            claim: member.clone(),
            batch: attempt.batch.clone(),
            attempt: attempt.number,
            rank: attempt.members.rank(member.position).unwrap_or_default(),
            size: attempt.members.count(),
            decided_by: member.pool.as_ref().and_then(|pool| parts.cluster.index().catalog(pool).cloned()),
        };
        let requests: Vec<LaunchRequest> = members.iter().map(request).collect();
        let answers = parts.clocks.within(DEADLINE, parts.cloud.launch(&requests)).await;
        let mut answers = answers.unwrap_or_default().into_iter();
        let mut state = self.state();
        for member in members {
            let missing = || Err(LaunchError::Unknown("the cloud did not answer for this claim".into()));
            let answer = answers.next().unwrap_or_else(missing);
            if answer.is_err() && !is_unclear(&answer) {
                state.failed.insert(member.uid.clone());
            }
            state.answers.insert(member.uid.clone(), answer);
        }
    }

    /// What follows from the answer for a claim, if there is one.
    fn settled(&self, claim: &NodeClaim, now: Timestamp) -> Option<Asked> {
        let mut state = self.state();
        let answer = state.answers.remove(&claim.uid)?;
        let unclear = if is_unclear(&answer) {
            let count = state.unclear.entry(claim.uid.clone()).or_insert(0);
            *count = count.saturating_add(1);
            *count
        } else {
            state.unclear.remove(&claim.uid);
            0
        };
        let next = launch::settle(claim, &answer, unclear);
        if let Some(again) = next.again {
            state.not_before.insert(claim.uid.clone(), later(now, again));
        }
        Some((next, answer.ok()))
    }
}

fn wait(left: Duration) -> Asked {
    (Next::wait(left), None)
}

fn is_unclear(answer: &Answer) -> bool {
    matches!(answer, Err(LaunchError::Unknown(_) | LaunchError::RateLimited { .. }))
}

/// Writes an attempt on a member, which must be as it was when the attempt was decided.
async fn write(
    parts: LaunchParts<'_>,
    attempt: &Attempt,
    member: &NodeClaim,
    position: u32,
) -> Result<(), ReconcileError> {
    let Some(known) = parts.cluster.index().claim(&member.name).cloned() else { return Ok(()) };
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
    let (api, params) = (parts.client.cluster::<api::NodeClaim>(), PatchParams::default());
    let body = Patch::Merge(body);
    let patched = parts.client.call("write launch attempt", api.patch(&member.name, &params, &body)).await?;
    parts.cluster.observe(patched);
    Ok(())
}
