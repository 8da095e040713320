//! Launches whose outcome is unknown, and the instances that were assigned to NodeClaims.
//!
//! EC2 may have launched instances for a call without an answer, and shows new instances late. A refusal ends an attempt only if no
//! earlier call of the attempt can have launched instances that EC2 does not show yet. What EC2 refuses a later call, for example with
//! expired credentials, says nothing about the earlier one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fleetwright_core::{
    clock::SharedClock,
    cloud::{Instance, LaunchError, LaunchRequest},
    model::{BatchId, ClaimName, ProviderId},
    nodeclaim::finalization::PROOF,
};
use jiff::{SignedDuration, Timestamp};

use super::prepared::{Answers, Prepared};
use crate::cache::Cache;
use crate::calls::{AwsError, Class, FleetRequest};
use crate::digest::digest;
use crate::launch::call_error;
use crate::recent::is_recent;

/// How many assignments are remembered: several times the largest burst. Older ones are found by their tags.
const ASSIGNMENTS_MAX: usize = 20_000;
/// How long a token is remembered that EC2 has seen with another request: longer than a NodeClaim waits for its instance.
const TOKENS_KEPT_FOR: SignedDuration = SignedDuration::from_hours(1);
/// How long a request without an answer is repeated unchanged.
const REQUESTS_KEPT_FOR: SignedDuration = SignedDuration::from_mins(10);
/// Most requests that are kept; instances of others are found by their tags.
const REQUESTS_MAX: u64 = 256;

/// Whether an instance that was launched at `at` may not be shown by EC2 yet.
pub(super) fn may_be_unseen(at: Timestamp, now: Timestamp) -> bool {
    is_recent(at, now, SignedDuration::try_from(PROOF).unwrap_or(SignedDuration::MAX))
}

/// Whether the outcome of a NodeClaim's launch is unknown.
pub(super) fn is_open(answer: Option<&Result<Instance, LaunchError>>) -> bool {
    matches!(answer, None | Some(Err(LaunchError::Unknown(_))))
}

/// A `CreateFleet` request that was sent.
pub(super) struct SentRequest {
    pub(super) request: FleetRequest,
    pub(super) prepared: Arc<Prepared>,
    batch: BatchId,
    attempt: u32,
    claims: BTreeSet<ClaimName>,
}

impl SentRequest {
    /// A request for some NodeClaims of a batch.
    pub(super) fn new<'a>(
        request: FleetRequest,
        launches: impl Iterator<Item = &'a LaunchRequest>,
        prepared: Arc<Prepared>,
    ) -> Arc<Self> {
        let launches: Vec<&LaunchRequest> = launches.collect();
        let first = launches.first();
        Arc::new(Self {
            request,
            prepared,
            batch: first.map_or_else(|| "".into(), |launch| launch.batch.clone()),
            attempt: first.map_or(0, |launch| launch.attempt),
            claims: launches.iter().map(|launch| launch.claim.name.clone()).collect(),
        })
    }

    pub(super) fn is_for(&self, launch: &LaunchRequest) -> bool {
        self.batch == launch.batch
            && self.attempt == launch.attempt
            && self.claims.contains(&launch.claim.name)
    }
}

type AssignmentKey = (BatchId, u32, ClaimName);

/// Instances by batch, attempt and NodeClaim; the oldest are dropped first. The map and the set of instances change together.
#[derive(Debug, Default)]
struct Assignments {
    by_claim: BTreeMap<AssignmentKey, Instance>,
    instances: BTreeSet<ProviderId>,
    order: VecDeque<AssignmentKey>,
}

impl Assignments {
    fn get(&self, batch: &BatchId, attempt: u32, claim: &ClaimName) -> Option<Instance> {
        self.by_claim.get(&(batch.clone(), attempt, claim.clone())).cloned()
    }

    fn put(&mut self, key: AssignmentKey, instance: Instance) {
        self.instances.insert(instance.provider_id.clone());
        if self.by_claim.insert(key.clone(), instance).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > ASSIGNMENTS_MAX
            && let Some(oldest) = self.order.pop_front()
            && let Some(dropped) = self.by_claim.remove(&oldest)
        {
            self.instances.remove(&dropped.provider_id);
        }
    }
}

/// Launch calls and their instances. Times are steady time.
pub(super) struct LaunchesInFlight {
    clock: SharedClock,
    records: Mutex<LaunchRecords>,
}

#[derive(Default)]
struct LaunchRecords {
    assigned: Assignments,
    /// Requests whose outcome is unknown, by token.
    sent: Cache<String, Arc<SentRequest>, REQUESTS_MAX>,
    /// Tokens of calls without an answer, with the time of the last such call. An attempt ends by it.
    unanswered: BTreeMap<String, Timestamp>,
    /// Tokens that EC2 has seen with another request, since when this is known. An attempt ends by it.
    repeated: BTreeMap<String, Timestamp>,
    /// Tokens of fleets that EC2 throttled completely, and when: EC2 repeats its answer for such a token.
    throttled: BTreeMap<String, Timestamp>,
    /// When this process was first asked to launch. Calls of an earlier process are older.
    first_launch: Option<Timestamp>,
    /// The provider ids in NodeClaims, once NodeClaims have been observed.
    claimed: Option<BTreeSet<ProviderId>>,
}

impl LaunchesInFlight {
    pub(super) fn new(clock: SharedClock) -> Self {
        Self { clock, records: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, LaunchRecords> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that this process launches.
    pub(super) fn started(&self) {
        let now = self.clock.steady();
        self.lock().first_launch.get_or_insert(now);
    }

    /// Replaces the provider ids that NodeClaims name.
    pub(super) fn set_claimed(&self, claimed: BTreeSet<ProviderId>) {
        self.lock().claimed = Some(claimed);
    }

    /// Fills in the instances that this process has assigned before.
    pub(super) fn fill_assigned(&self, batch: &[LaunchRequest], answers: &mut Answers) {
        let records = self.lock();
        for (request, answer) in batch.iter().zip(answers) {
            *answer = records.assigned.get(&request.batch, request.attempt, &request.claim.name).map(Ok);
        }
    }

    /// Assigns an instance to a NodeClaim.
    pub(super) fn assign(&self, request: &LaunchRequest, instance: Instance) -> Instance {
        let key = (request.batch.clone(), request.attempt, request.claim.name.clone());
        self.lock().assigned.put(key, instance.clone());
        instance
    }

    /// Whether this process has assigned an instance.
    pub(super) fn is_assigned(&self, id: &ProviderId) -> bool {
        self.lock().assigned.instances.contains(id)
    }

    /// Whether an instance belongs to a NodeClaim: by an assignment of this process, or because a NodeClaim names it. `None` while
    /// NodeClaims have not been observed.
    pub(super) fn is_taken(&self, id: &ProviderId) -> Option<bool> {
        let records = self.lock();
        let claimed = records.claimed.as_ref()?;
        Some(records.assigned.instances.contains(id) || claimed.contains(id))
    }

    /// Keeps a request until its outcome is known.
    pub(super) fn keep(&self, sent: &Arc<SentRequest>) {
        let token = sent.request.token.clone();
        self.lock().sent.insert(token, sent.clone(), self.clock.now(), REQUESTS_KEPT_FOR);
    }

    /// The kept requests that are young enough to be repeated.
    pub(super) fn kept(&self) -> Vec<Arc<SentRequest>> {
        let now = self.clock.now();
        let records = self.lock();
        let all = records.sent.all();
        all.into_iter().filter_map(|(token, _)| records.sent.get(&token, now)).collect()
    }

    /// Drops a request once the outcome is known for all of its NodeClaims.
    pub(super) fn drop_if_known(&self, sent: &SentRequest, places: &[usize], answers: &Answers) {
        let open = places.iter().any(|at| is_open(answers[*at].as_ref()));
        let mut records = self.lock();
        let missing = sent.claims.iter().filter(|claim| {
            places.len() < sent.claims.len()
                && records.assigned.get(&sent.batch, sent.attempt, claim).is_none()
        });
        if !open && missing.count() == 0 {
            records.sent.remove(&sent.request.token);
            records.unanswered.remove(&sent.request.token);
        }
    }

    /// The token for a fleet. A token whose fleet EC2 throttled completely is replaced by one that follows from it, so that every
    /// process derives the same.
    pub(super) fn unthrottled_token(&self, mut token: String) -> String {
        let now = self.clock.steady();
        let mut records = self.lock();
        records.throttled.retain(|_, at| is_recent(*at, now, TOKENS_KEPT_FOR));
        while records.throttled.contains_key(&token) {
            token = digest(&format!("{token}/throttled"));
        }
        token
    }

    /// Records that EC2 throttled all of a fleet.
    pub(super) fn record_throttled(&self, token: &str) {
        let now = self.clock.steady();
        self.lock().throttled.insert(token.to_owned(), now);
    }

    /// Records an error of a call. After a refusal the request is kept only if an earlier call with its token has no answer.
    pub(super) fn record_error(&self, token: &str, error: &AwsError) {
        if error.class() == Class::Unknown && !error.is_repeated() {
            self.record_unanswered(token);
        } else if error.is_repeated() || !self.may_be_ours(token) {
            // EC2 has another request for this token, or none: there is no reason to repeat this one unchanged.
            self.lock().sent.remove(&token.to_owned());
        }
    }

    fn record_unanswered(&self, token: &str) {
        let now = self.clock.steady();
        let mut records = self.lock();
        records.unanswered.retain(|_, at| may_be_unseen(*at, now));
        records.unanswered.insert(token.to_owned(), now);
    }

    /// Whether an earlier call of this process with a token may have launched instances that EC2 does not show yet.
    fn may_be_ours(&self, token: &str) -> bool {
        let now = self.clock.steady();
        self.lock().unanswered.get(token).is_some_and(|at| may_be_unseen(*at, now))
    }

    /// The same for any call of an earlier process, which may have been in progress for [`PROOF`] when this one started.
    fn may_be_theirs(&self) -> bool {
        let now = self.clock.steady();
        let ended = self.lock().first_launch.and_then(|first| first.checked_add(PROOF).ok());
        ended.is_some_and(|at| at > now || may_be_unseen(at, now))
    }

    /// The error of a NodeClaim whose launch failed, with the token if a call was made. It is not final while an earlier call of the
    /// attempt may have launched instances: the next attempt would launch a second one.
    pub(super) fn unless_open(&self, token: Option<&str>, error: LaunchError) -> LaunchError {
        match error {
            LaunchError::Failed { message, .. }
                if token.is_some_and(|token| self.may_be_ours(token)) || self.may_be_theirs() =>
            {
                LaunchError::Unknown(message)
            }
            other => other,
        }
    }

    /// The error of the NodeClaims of a fleet whose call failed as a whole.
    ///
    /// If EC2 has seen the token with another request, a fleet was created and its instances are looked for. The outcome stays unknown
    /// until its instances must be visible; then the NodeClaims are launched with another attempt.
    pub(super) fn fleet_refused(&self, token: &str, error: &AwsError) -> LaunchError {
        if !error.is_repeated() {
            return self.unless_open(Some(token), call_error(error));
        }
        let now = self.clock.steady();
        let (since, is_ours) = {
            let mut records = self.lock();
            records.repeated.retain(|_, since| is_recent(*since, now, TOKENS_KEPT_FOR));
            let since = *records.repeated.entry(token.to_owned()).or_insert(now);
            (since, records.unanswered.contains_key(token))
        };
        let unseen = if is_ours { self.may_be_ours(token) } else { self.may_be_theirs() };
        if may_be_unseen(since, now) && unseen {
            return LaunchError::Unknown(error.to_string().into());
        }
        let message = format!("an earlier call launched no instance: {error}");
        LaunchError::Failed { reason: "LaunchFailed".into(), message: message.into() }
    }

    /// The tokens of calls without an answer.
    #[cfg(test)]
    pub(super) fn unanswered(&self) -> Vec<String> {
        self.lock().unanswered.keys().cloned().collect()
    }

    /// Whether no request is kept.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().sent.is_empty()
    }

    /// When this process launched first.
    #[cfg(test)]
    pub(super) fn first_launch(&self) -> Option<Timestamp> {
        self.lock().first_launch
    }
}

/// A call in progress. If its caller is dropped before the answer arrives, the call is recorded as unanswered.
pub(super) struct PendingCall<'a> {
    launches: &'a LaunchesInFlight,
    token: &'a str,
    waits: bool,
}

impl<'a> PendingCall<'a> {
    pub(super) fn new(launches: &'a LaunchesInFlight, token: &'a str) -> Self {
        Self { launches, token, waits: true }
    }

    /// The call was answered.
    pub(super) fn answered(mut self) {
        self.waits = false;
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.launches.record_unanswered(self.token);
        }
    }
}
