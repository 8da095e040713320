//! Launches whose outcome is open: what this process answered, what an earlier call left behind, and when a new call is due.
//!
//! A call whose answer was lost may have launched everything, part of it, or nothing, and EC2 shows new instances late. The process
//! that made it makes the very same again, whatever has changed since: EC2 gives the same instances. A process that does not
//! know the request looks for instances by their tags; a claim is launched again only where nothing says that a fleet was made for
//! it, or where its instance was looked for long enough.
//!
//! So a refusal ends an attempt only where no earlier call of it can have launched what is not shown yet: of such a call, what refuses
//! another one (credentials that are over, a right that is gone) tells nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use fleetwright_aws_api::labels;
use fleetwright_core::{
    cloud::{Instance, LaunchError, LaunchRequest},
    model::{BatchId, ClaimName},
    nodeclaim::finalization::PROOF,
};
use jiff::{SignedDuration, Timestamp};

use super::launching::{Answers, Prepared, allowed};
use super::{AwsProvider, is_ending, placed};
use crate::calls::{AwsError, Class, Filter, FleetRequest, InstanceInfo};
use crate::digest::digest;
use crate::launch::call_error;
use crate::permissions;
use crate::recent::is_recent;

/// For how long a token is remembered that EC2 has seen with another request: longer than a claim waits for its instance.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(1);

/// For how long the request of a call without an answer is repeated as it was.
pub(super) const KEPT: SignedDuration = SignedDuration::from_mins(10);
/// Most requests that are kept; those beyond are found by their tags.
pub(super) const SENT_MAX: u64 = 256;

/// A request of a fleet that was sent.
pub(super) struct Sent {
    pub(super) request: FleetRequest,
    prepared: Arc<Prepared>,
    batch: BatchId,
    attempt: u32,
    claims: BTreeSet<ClaimName>,
}

impl Sent {
    /// A request for some claims of a batch.
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

    fn is_for(&self, launch: &LaunchRequest) -> bool {
        self.batch == launch.batch
            && self.attempt == launch.attempt
            && self.claims.contains(&launch.claim.name)
    }
}

/// A call under way. Where whoever made it stops waiting for its answer, it is one without an answer.
pub(super) struct UnderWay<'a> {
    provider: &'a AwsProvider,
    token: &'a str,
    waits: bool,
}

impl<'a> UnderWay<'a> {
    pub(super) fn new(provider: &'a AwsProvider, token: &'a str) -> Self {
        Self { provider, token, waits: true }
    }

    /// The answer is there, whatever it says.
    pub(super) fn over(mut self) {
        self.waits = false;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.provider.without_answer(self.token);
        }
    }
}

/// What a claim is told whose own instance of the attempt was born and does not live: there is none but it.
fn ended(born: &[InstanceInfo], launch: &LaunchRequest) -> Option<LaunchError> {
    let name = &*launch.claim.name;
    let own = |info: &&InstanceInfo| info.tags.get(labels::TAG_NODECLAIM).is_some_and(|told| *told == *name);
    let message = format!("instance {} of this attempt has ended", born.iter().find(own)?.id);
    Some(LaunchError::Failed { reason: "LaunchFailed".into(), message: message.into() })
}

/// What claims are told where EC2 does not say what it launched for them: nothing was asked of it, and nothing is known of what was
/// asked before.
fn not_looked(error: &AwsError) -> LaunchError {
    const ACTION: &str = "ec2:DescribeInstances";
    match error.class() {
        Class::Throttled => LaunchError::RateLimited { after: error.wait() },
        Class::Unauthorized => LaunchError::Unknown(permissions::refusal(ACTION, error).into()),
        _ => LaunchError::Unknown(format!("{ACTION}: {error}").into()),
    }
}

/// Whether nothing is known of what came of a claim.
fn is_open(answer: Option<&Result<Instance, LaunchError>>) -> bool {
    matches!(answer, None | Some(Err(LaunchError::Unknown(_))))
}

/// Whether it is less than [`PROOF`] since `at`: what was born then may not be shown yet.
fn may_be_unseen(at: Timestamp, now: Timestamp) -> bool {
    is_recent(at, now, SignedDuration::try_from(PROOF).unwrap_or(SignedDuration::MAX))
}

impl AwsProvider {
    /// What this process has answered before.
    pub(super) fn remembered(&self, batch: &[LaunchRequest], answers: &mut Answers) {
        let state = self.state();
        for (request, answer) in batch.iter().zip(answers) {
            *answer = state.dealt.get(&request.batch, request.attempt, &request.claim.name).map(Ok);
        }
    }

    /// Repeats calls of this process whose answer was lost, as they were. A call that was for more claims than are asked for now is
    /// made again for all of them: under a token for fewer claims a fleet would launch those a second time.
    pub(super) async fn repeat(&self, batch: &[LaunchRequest], answers: &mut Answers) {
        let now = self.clock.now();
        let mut known = self.state().sent.all();
        known.retain(|(token, _)| self.state().sent.get(token, now).is_some());
        for (_, sent) in known {
            let open = |at: &usize| is_open(answers[*at].as_ref()) && sent.is_for(&batch[*at]);
            let mut places: Vec<usize> = (0..batch.len()).filter(open).collect();
            if places.is_empty() {
                continue;
            }
            places.sort_by(|a, b| batch[*a].claim.name.cmp(&batch[*b].claim.name));
            // A refusal settles nothing: the request is kept for as long as what the one before launched may not be shown.
            if self.send(&sent.request, &places, batch, &sent.prepared, answers).await {
                self.settle(&sent, &places, answers);
            }
        }
    }

    /// Forgets a request once the outcome is known for all of its claims.
    pub(super) fn settle(&self, sent: &Sent, places: &[usize], answers: &Answers) {
        let open = places.iter().any(|at| is_open(answers[*at].as_ref()));
        let mut state = self.state();
        let left_out = sent.claims.iter().filter(|claim| {
            places.len() < sent.claims.len() && state.dealt.get(&sent.batch, sent.attempt, claim).is_none()
        });
        if !open && left_out.count() == 0 {
            state.sent.remove(&sent.request.token);
            state.unanswered.remove(&sent.request.token);
        }
    }

    /// The token to ask for a fleet with. Under one whose fleet EC2 throttled until nothing was left of it, EC2 would only say so again;
    /// which one comes next follows from it, so that any process comes to the same.
    pub(super) fn untried(&self, mut token: String) -> String {
        let now = self.clock.steady();
        let mut state = self.state();
        state.throttled.retain(|_, at| is_recent(*at, now, REMEMBERED));
        while state.throttled.contains_key(&token) {
            token = digest(&format!("{token}/throttled"));
        }
        token
    }

    /// Remembers that a call got no answer; where EC2 refused it, its request is kept only for an earlier one that got none.
    pub(super) fn note_open(&self, token: &str, error: &AwsError) {
        if error.class() == Class::Unknown && !error.is_repeated() {
            self.without_answer(token);
        } else if error.is_repeated() || !self.may_be_ours(token) {
            // Another request has this token, or none has: this one is not worth repeating as it was.
            self.state().sent.remove(&token.to_owned());
        }
    }

    fn without_answer(&self, token: &str) {
        let now = self.clock.steady();
        let mut state = self.state();
        // Older ones wait for nothing any more.
        state.unanswered.retain(|_, at| may_be_unseen(*at, now));
        state.unanswered.insert(token.to_owned(), now);
    }

    /// Whether an earlier call of this process with a token may have launched what is not shown yet.
    fn may_be_ours(&self, token: &str) -> bool {
        let now = self.clock.steady();
        self.state().unanswered.get(token).is_some_and(|at| may_be_unseen(*at, now))
    }

    /// The same of a process before this one, whichever its call was: that was under way for a while, at the most, when this
    /// one began.
    fn may_be_theirs(&self) -> bool {
        let now = self.clock.steady();
        let theirs = self.state().began.and_then(|began| began.checked_add(PROOF).ok());
        theirs.is_some_and(|at| at > now || may_be_unseen(at, now))
    }

    /// What a claim is told whose launch failed, with the token where a call was made for it: nothing final while an earlier
    /// call of its attempt may have launched what is not shown yet. The next attempt would launch a second one.
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

    /// What an earlier call launched whose answer was lost: instances that carry batch and attempt. Those that are told their
    /// claim go to it; the others go to the claims that have none, both in the order of their names.
    pub(super) async fn found(
        &self,
        batch: &[LaunchRequest],
        uid: &str,
        answers: &mut Answers,
    ) -> Result<(), LaunchError> {
        let open = || batch.iter().zip(answers.iter()).any(|(_, answer)| answer.is_none());
        let Some(first) = batch.first().filter(|_| open()) else { return Ok(()) };
        let attempt = first.attempt.to_string();
        let wanted = [
            (labels::TAG_CLUSTER_UID, uid),
            (labels::TAG_BATCH, &*first.batch),
            (labels::TAG_ATTEMPT, &*attempt),
        ];
        let filters = wanted.map(|(key, value)| Filter::new(format!("tag:{key}"), [value]));
        let found = self.api.instances(&[], &filters).await.map_err(|error| not_looked(&error))?;
        let mut found = placed(found).map_err(|error| LaunchError::Unknown(error.to_string().into()))?;
        // An answer with more than was asked for must not deal another's instance.
        let is_wanted = |info: &InstanceInfo| {
            wanted.iter().all(|(key, value)| info.tags.get(*key).is_some_and(|own| own == value))
        };
        found.retain(is_wanted);
        let born = found.clone();
        found.retain(|info| !is_ending(info));
        let mut found: Vec<InstanceInfo> = found.into_iter().map(|info| self.managed(info)).collect();
        found.sort_by(|a, b| a.id.cmp(&b.id));
        found.dedup_by(|a, b| a.id == b.id);
        let mut by_name: Vec<usize> = (0..batch.len()).filter(|at| answers[*at].is_none()).collect();
        by_name.sort_by(|a, b| batch[*a].claim.name.cmp(&batch[*b].claim.name));
        let (told, untold): (Vec<InstanceInfo>, Vec<InstanceInfo>) =
            found.into_iter().partition(|info| info.tags.contains_key(labels::TAG_NODECLAIM));
        for info in told {
            let name = info.tags.get(labels::TAG_NODECLAIM);
            let place =
                by_name.iter().position(|at| name.is_some_and(|name| **name == *batch[*at].claim.name));
            if let Some(place) = place {
                let at = by_name.remove(place);
                answers[at] = Some(Ok(self.deal(&batch[at], self.seen(&info))));
            }
        }
        for info in untold {
            let instance = self.seen(&info);
            let Some(taken) = self.is_taken(&instance) else {
                let unseen = "an instance of the batch may be another claim's: claims are not seen yet";
                return Err(LaunchError::Unknown(unseen.into()));
            };
            if taken {
                continue;
            }
            let fits = |at: &usize| allowed(&instance, &batch[*at].claim.requirements);
            if let Some(place) = by_name.iter().position(fits) {
                let at = by_name.remove(place);
                let told = self.tell(&info.id, instance, &batch[at]).await;
                answers[at] = Some(Ok(self.deal(&batch[at], told)));
            }
        }
        for at in by_name {
            if let Some(ended) = ended(&born, &batch[at]) {
                answers[at] = Some(Err(ended));
            } else if self.may_be_among(&born, &batch[at]) {
                let unseen = "its fleet was launched, and its own instance may not be shown yet";
                answers[at] = Some(Err(LaunchError::Unknown(unseen.into())));
            }
        }
        Ok(())
    }

    /// Whether a claim may have been born together with others of its batch: under a token for fewer claims a fleet would
    /// launch it a second time.
    fn may_be_among(&self, born: &[InstanceInfo], request: &LaunchRequest) -> bool {
        let now = self.clock.now();
        let recent = |info: &&InstanceInfo| info.launched.is_some_and(|at| may_be_unseen(at, now));
        let fits = |info: &InstanceInfo| {
            allowed(&self.seen(&self.managed(info.clone())), &request.claim.requirements)
        };
        born.iter().filter(recent).any(fits)
    }

    /// What to tell the claims of a fleet whose call failed as a whole.
    ///
    /// A token that EC2 has seen with another request proves that a fleet was made: its instances are looked for. They stay
    /// unknown until nothing was shown of them for long enough after they must have been born; then the claims are launched
    /// under another attempt.
    pub(super) fn fleet_refused(&self, token: &str, error: &AwsError) -> LaunchError {
        if !error.is_repeated() {
            return self.unless_open(Some(token), call_error(error));
        }
        let now = self.clock.steady();
        let since = {
            let mut state = self.state();
            state.repeated.retain(|_, since| is_recent(*since, now, REMEMBERED));
            *state.repeated.entry(token.to_owned()).or_insert(now)
        };
        // A call of this process was made when it says.
        let is_ours = self.state().unanswered.contains_key(token);
        let unseen = if is_ours { self.may_be_ours(token) } else { self.may_be_theirs() };
        if may_be_unseen(since, now) && unseen {
            return LaunchError::Unknown(error.to_string().into());
        }
        let message = format!("an earlier call left no instance behind: {error}");
        LaunchError::Failed { reason: "LaunchFailed".into(), message: message.into() }
    }

    /// Whether an instance was given to a claim: by this process, or by one before it, as claims say. `None` where no claim
    /// has been seen since this process began.
    fn is_taken(&self, instance: &Instance) -> Option<bool> {
        let state = self.state();
        let named = state.named.as_ref()?;
        Some(state.dealt.has(&instance.provider_id) || named.contains(&instance.provider_id))
    }
}
