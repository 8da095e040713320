//! Calls to the cloud: claims of one batch are launched by one call, and a call is never made blind.
//!
//! Whoever of a batch finds it complete makes the call for all; the others find their answers when they are woken.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fleetwright_api::labels::BATCH_ID;
use fleetwright_core::{
    cloud::{Instance, LaunchError, LaunchRequest},
    model::{BatchId, NodeClaim, Str},
    nodeclaim::{Next, launch},
};
use fleetwright_state::{Change, Key};
use jiff::Timestamp;

use crate::runtime::{Ctx, later};

/// How long a call may take before its outcome counts as unknown.
const DEADLINE: Duration = Duration::from_secs(120);
/// A batch that still grows is launched after this long.
const GATHER_MAX: Duration = Duration::from_secs(1);
/// Batches that are remembered to have been called.
const REMEMBERED: usize = 4096;
/// The controller that is woken with an answer.
pub(super) const CONTROLLER: &str = "nodeclaim.lifecycle";

type Answer = Result<Instance, LaunchError>;

/// Launches under way.
#[derive(Debug, Default)]
pub(super) struct Launches(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Names of claims by batch, as long as they are not launched.
    members: BTreeMap<BatchId, BTreeSet<Str>>,
    /// Batches that wait for all of their claims.
    gathering: BTreeMap<BatchId, Gathering>,
    /// Batches that a call was made for.
    called: BTreeSet<BatchId>,
    /// Claims, by UID, whose intent this process wrote: no earlier one can have called the cloud with it.
    intended: BTreeSet<Str>,
    in_flight: BTreeSet<(BatchId, u32)>,
    /// By UID of the claim, until its own pass takes it.
    answers: BTreeMap<Str, Answer>,
    /// How often in a row the answer was not a clear one.
    unclear: BTreeMap<Str, u32>,
    /// Instances of answers that were settled, until they are adopted.
    instances: BTreeMap<Str, Instance>,
    /// In steady time, as batches gather in.
    not_before: BTreeMap<Str, Timestamp>,
    /// When this process saw a claim first, by UID, where the cloud was not asked for it by then; until it is launched.
    unasked: BTreeMap<Str, Timestamp>,
    /// Claims whose last call was refused for good: it left no instance behind.
    refused: BTreeSet<Str>,
}

#[derive(Clone, Copy, Debug)]
struct Gathering {
    first: Timestamp,
    last: Timestamp,
    members: usize,
}

/// What asking for a launch led to.
pub(super) enum Asked {
    /// This is to be done.
    Next(Next),
    /// It is too early.
    Wait(Duration),
    /// Somebody else asks for this claim too, and wakes it with the answer.
    UnderWay,
}

/// The mark of a call under way; goes with the call, however that ends.
struct InFlight<'a>(&'a Launches, (BatchId, u32));

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.state().in_flight.remove(&self.1);
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
        let batch = claim.metadata.annotations.as_ref().and_then(|all| all.get(BATCH_ID));
        let Some(batch) = batch.map(|batch| BatchId::from(batch.as_str())) else { return };
        let launched = claim.status.as_ref().is_some_and(|status| !status.provider_id.is_empty());
        let mut state = self.state();
        if change.is_deleted() || launched {
            state.unasked.remove(claim.metadata.uid.as_deref().unwrap_or_default());
            if let Some(members) = state.members.get_mut(&batch) {
                members.remove(&change.key.name);
                if members.is_empty() {
                    state.members.remove(&batch);
                }
            }
        } else {
            state.members.entry(batch).or_default().insert(change.key.name.clone());
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

    fn siblings(&self, ctx: &Ctx, claim: &NodeClaim) -> Vec<Arc<NodeClaim>> {
        let names = self.state().members.get(&claim.batch).cloned().unwrap_or_default();
        siblings(ctx, &names, claim)
    }

    /// Whether the group of a claim's batch is closed: the cloud was, or may have been, called for it.
    pub(super) fn is_closed(&self, ctx: &Ctx, claim: &NodeClaim) -> bool {
        let siblings = self.siblings(ctx, claim);
        let state = self.state();
        let begun_before = |sibling: &Arc<NodeClaim>| {
            sibling.uid != claim.uid && sibling.attempt > 0 && !state.intended.contains(&sibling.uid)
        };
        state.called.contains(&claim.batch) || siblings.iter().any(begun_before)
    }

    /// Notes that this process wrote the intent of a claim.
    pub(super) fn intended(&self, claim: &Str) {
        self.state().intended.insert(claim.clone());
    }

    /// Whether the last call for a claim was refused for good.
    pub(super) fn is_refused(&self, claim: &Str) -> bool {
        self.state().refused.contains(claim)
    }

    /// The instance that was answered for a claim, once.
    pub(super) fn take_instance(&self, claim: &Str) -> Option<Instance> {
        self.state().instances.remove(claim)
    }

    /// Forgets a claim.
    pub(super) fn forget(&self, claim: &Str) {
        let mut state = self.state();
        state.intended.remove(claim);
        state.answers.remove(claim);
        state.instances.remove(claim);
        state.unclear.remove(claim);
        state.not_before.remove(claim);
        state.unasked.remove(claim);
        state.refused.remove(claim);
    }

    /// Asks the cloud for the instance of a claim whose intent is durable, together with its batch.
    pub(super) async fn ask(&self, ctx: &Ctx, claim: &NodeClaim) -> Asked {
        let now = ctx.steady();
        if let Some(next) = self.settled(claim, now) {
            return Asked::Next(next);
        }
        let call = (claim.batch.clone(), claim.attempt);
        if let Some(early) = self.too_early(claim, &call, now) {
            return early;
        }
        let batch = self.siblings(ctx, claim);
        let members: Vec<Arc<NodeClaim>> =
            batch.iter().filter(|s| s.attempt == claim.attempt).cloned().collect();
        {
            let (mut state, wall) = (self.state(), ctx.now());
            let waiting = batch.iter().any(|sibling| sibling.attempt == 0 && !is_late(sibling, wall));
            if claim.batch != launch::own_batch(claim)
                && state.gathers(&claim.batch, members.len(), waiting, now)
            {
                return Asked::Wait(launch::GATHER);
            }
            state.begin(&call, &members);
        }
        let mark = InFlight(self, call.clone());
        let requests: Vec<LaunchRequest> = members
            .iter()
            .map(|member| LaunchRequest {
                claim: member.clone(),
                batch: call.0.clone(),
                attempt: call.1,
                decided_by: member.pool.as_ref().and_then(|pool| ctx.index().catalog(pool).cloned()),
            })
            .collect();
        let answers = ctx.within(DEADLINE, ctx.cloud.launch(&requests)).await;
        self.take_in(&members, answers.unwrap_or_default());
        drop(mark);
        for member in members.iter().filter(|member| member.uid != claim.uid) {
            ctx.enqueue(CONTROLLER, Key::cluster(member.name.as_str()));
        }
        match self.settled(claim, ctx.steady()) {
            Some(next) => Asked::Next(next),
            None => Asked::Wait(launch::BACKOFF),
        }
    }

    fn too_early(&self, claim: &NodeClaim, call: &(BatchId, u32), now: Timestamp) -> Option<Asked> {
        let state = self.state();
        if state.in_flight.contains(call) {
            return Some(Asked::UnderWay);
        }
        let until = state.not_before.get(&claim.uid).filter(|until| **until > now)?;
        Some(Asked::Wait(Duration::try_from(until.duration_since(now)).unwrap_or_default()))
    }

    /// Takes in one answer per member; what is missing is not known.
    fn take_in(&self, members: &[Arc<NodeClaim>], answers: Vec<Answer>) {
        let mut state = self.state();
        let mut answers = answers.into_iter();
        for member in members {
            let missing = || Err(LaunchError::Unknown("the cloud did not answer for this claim".into()));
            let answer = answers.next().unwrap_or_else(missing);
            state.answers.insert(member.uid.clone(), answer);
        }
    }

    /// What follows from the answer for a claim, if there is one.
    fn settled(&self, claim: &NodeClaim, now: Timestamp) -> Option<Next> {
        let mut state = self.state();
        let answer = state.answers.remove(&claim.uid)?;
        let is_unclear = matches!(answer, Err(LaunchError::Unknown(_) | LaunchError::RateLimited { .. }));
        let unclear = if is_unclear {
            let count = state.unclear.entry(claim.uid.clone()).or_insert(0);
            *count = count.saturating_add(1);
            *count
        } else {
            state.unclear.remove(&claim.uid);
            0
        };
        if !is_unclear && answer.is_err() {
            state.refused.insert(claim.uid.clone());
        }
        let next = launch::settle(claim, &answer, unclear);
        if let Ok(instance) = answer {
            state.instances.insert(claim.uid.clone(), instance);
        }
        if let Some(again) = next.again {
            state.not_before.insert(claim.uid.clone(), later(now, again));
        }
        Some(next)
    }
}

impl State {
    /// Whether a batch may still grow: some of its claims are on their way to it, or one came just now.
    fn gathers(&mut self, batch: &BatchId, members: usize, waiting: bool, now: Timestamp) -> bool {
        let fresh = Gathering { first: now, last: now, members };
        let gathering = self.gathering.entry(batch.clone()).or_insert(fresh);
        if gathering.members != members {
            (gathering.last, gathering.members) = (now, members);
        }
        let passed = |since: Timestamp, span: Duration| later(since, span) <= now;
        !passed(gathering.first, GATHER_MAX) && (waiting || !passed(gathering.last, launch::GATHER))
    }

    fn begin(&mut self, call: &(BatchId, u32), members: &[Arc<NodeClaim>]) {
        self.gathering.remove(&call.0);
        if self.called.len() >= REMEMBERED {
            self.called.clear();
        }
        self.called.insert(call.0.clone());
        self.in_flight.insert(call.clone());
        for member in members {
            self.refused.remove(&member.uid);
        }
    }
}

fn is_late(claim: &NodeClaim, now: Timestamp) -> bool {
    later(claim.created, launch::LATE) <= now
}

/// The claims of a claim's batch that are to be launched, by name, itself among them.
fn siblings(ctx: &Ctx, names: &BTreeSet<Str>, claim: &NodeClaim) -> Vec<Arc<NodeClaim>> {
    let index = ctx.index();
    let own: Str = claim.name.as_str().into();
    let names: BTreeSet<&Str> = names.iter().chain([&own]).collect();
    let models = names.into_iter().filter_map(|name| index.claim_model(name));
    let wanted = |other: &&Arc<NodeClaim>| {
        other.batch == claim.batch
            && other.deleting.is_none()
            && !launch::is_launched(other)
            && (other.attempt == 0 || other.has_finalizer)
    };
    models.filter(wanted).cloned().collect()
}
