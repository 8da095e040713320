//! Launches whose outcome is unknown, and what calls launched.
//!
//! EC2 may have launched instances for a call without an answer, and shows new instances late. A refusal ends an attempt only if no
//! earlier call of the attempt can have launched instances that EC2 does not show yet. What EC2 refuses a later call, for example with
//! expired credentials, says nothing about the earlier one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fleetwright_core::{clock::SharedClock, cloud::LaunchError, nodeclaim::finalization::PROOF};
use jiff::{SignedDuration, Timestamp};

use super::prepared::Prepared;
use crate::cache::Cache;
use crate::calls::{AwsError, ErrorClass, FleetRequest, InstanceInfo};
use crate::launch::call_error;
use crate::recent::is_recent;

/// Most fleets that are remembered. Instances of older ones are found by their tags.
const FLEETS_MAX: u64 = 4096;
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

/// A `CreateFleet` request that was sent, and what it was prepared from.
pub(super) struct SentRequest {
    pub(super) request: FleetRequest,
    pub(super) prepared: Prepared,
}

/// What a call launched.
#[derive(Clone)]
pub(super) struct Fleet {
    /// All of its instances, by id, also those that have ended since.
    pub(super) instances: Vec<InstanceInfo>,
    /// Why there are no more.
    pub(super) missing: LaunchError,
}

/// Launch calls and what they launched. Times are steady time.
pub(super) struct LaunchesInFlight {
    clock: SharedClock,
    records: Mutex<LaunchRecords>,
}

#[derive(Default)]
struct LaunchRecords {
    /// What calls launched, by token.
    fleets: Cache<String, Arc<Fleet>, FLEETS_MAX>,
    /// Requests whose outcome is unknown, by token.
    sent: Cache<String, Arc<SentRequest>, REQUESTS_MAX>,
    /// Tokens of calls without an answer, with the time of the last such call. An attempt ends by it.
    unanswered: BTreeMap<String, Timestamp>,
    /// Tokens that EC2 has seen with another request, since when this is known. An attempt ends by it.
    repeated: BTreeMap<String, Timestamp>,
    /// Instances that calls of this process launched, since when this is known. They leave once EC2 must show them.
    young: BTreeMap<String, Timestamp>,
    /// When this process was first asked to launch. Calls of an earlier process are older.
    first_launch: Option<Timestamp>,
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

    /// What a call of this process launched.
    pub(super) fn fleet(&self, token: &String) -> Option<Arc<Fleet>> {
        self.lock().fleets.peek(token)
    }

    /// Records what a call launched: its outcome is known.
    pub(super) fn record_fleet(&self, token: &str, fleet: &Arc<Fleet>) {
        let mut records = self.lock();
        records.sent.remove(&token.to_owned());
        records.unanswered.remove(token);
        if !fleet.instances.is_empty() {
            records.fleets.keep(token.to_owned(), fleet.clone());
        }
        let now = self.clock.steady();
        records.young.retain(|_, since| may_be_unseen(*since, now));
        for info in &fleet.instances {
            records.young.entry(info.id.clone()).or_insert(now);
        }
    }

    /// Whether this process launched an instance so recently that EC2 may not know its id yet: "it may return an InvalidInstanceID.NotFound
    /// error. This does not mean the instance does not exist"
    /// (<https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html>).
    pub(super) fn is_young(&self, id: &str) -> bool {
        let now = self.clock.steady();
        self.lock().young.get(id).is_some_and(|since| may_be_unseen(*since, now))
    }

    /// Keeps a request until its outcome is known.
    pub(super) fn keep(&self, sent: &Arc<SentRequest>) {
        let token = sent.request.token.clone();
        self.lock().sent.insert(token, sent.clone(), self.clock.now(), REQUESTS_KEPT_FOR);
    }

    /// The kept request of a call, while it is young enough to be repeated.
    pub(super) fn kept(&self, token: &String) -> Option<Arc<SentRequest>> {
        self.lock().sent.get(token, self.clock.now())
    }

    /// Records an error of a call. After a refusal the request is kept only if an earlier call with its token has no answer.
    pub(super) fn record_error(&self, token: &str, error: &AwsError) {
        if error.class() == ErrorClass::Unknown && !error.is_repeated() {
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
    /// attempt may have launched instances: the next attempt would launch a second one. `first_call`: no other process made a call.
    pub(super) fn unless_open(
        &self,
        token: Option<&str>,
        first_call: bool,
        error: LaunchError,
    ) -> LaunchError {
        let is_open =
            || token.is_some_and(|token| self.may_be_ours(token)) || (!first_call && self.may_be_theirs());
        match error {
            LaunchError::Failed { message, .. } if is_open() => LaunchError::Unknown(message),
            other => other,
        }
    }

    /// The error of the NodeClaims of a fleet whose call failed as a whole.
    ///
    /// If EC2 has seen the token with another request, a fleet was created and its instances are looked for. The outcome stays unknown
    /// until its instances must be visible; then the NodeClaims are launched with another attempt.
    pub(super) fn fleet_refused(&self, token: &str, first_call: bool, error: &AwsError) -> LaunchError {
        if !error.is_repeated() {
            return self.unless_open(Some(token), first_call, call_error(error));
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
