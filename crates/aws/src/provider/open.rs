//! Launches whose outcome is open: what this process answered, what an earlier call left behind, and when a new call is due.
//!
//! A call whose answer was lost may have launched everything, part of it, or nothing, and EC2 shows new instances late. A claim
//! is launched anew only where nothing says that a fleet was made for it, or where its instance was looked for long enough.

use fleetwright_aws_api::labels;
use fleetwright_core::{
    cloud::{CloudError, Instance, LaunchError, LaunchRequest},
    nodeclaim::finalization::PROOF,
};
use jiff::{SignedDuration, Timestamp};

use super::launching::{Answers, allowed};
use super::{AwsProvider, cloud_error, is_ending, placed};
use crate::calls::{AwsError, Filter, InstanceInfo};
use crate::launch::call_error;
use crate::recent::is_recent;

/// For how long a token is remembered that EC2 has seen with another request: longer than a claim waits for its instance.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(1);

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

    /// What an earlier call launched whose answer was lost: instances that carry batch and attempt. Those that are told their
    /// claim go to it; the others go to the claims that have none, both in the order of their names.
    pub(super) async fn found(
        &self,
        batch: &[LaunchRequest],
        uid: &str,
        answers: &mut Answers,
    ) -> Result<(), CloudError> {
        let open = || batch.iter().zip(answers.iter()).any(|(_, answer)| answer.is_none());
        let Some(first) = batch.first().filter(|_| open()) else { return Ok(()) };
        let attempt = first.attempt.to_string();
        let wanted = [
            (labels::TAG_CLUSTER_UID, uid),
            (labels::TAG_BATCH, &*first.batch),
            (labels::TAG_ATTEMPT, &*attempt),
        ];
        let filters = wanted.map(|(key, value)| Filter::new(format!("tag:{key}"), [value]));
        let found = self.api.instances(&[], &filters).await;
        let mut found = placed(found.map_err(|error| cloud_error(&error, "ec2:DescribeInstances"))?)?;
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
                return Err(CloudError::Unavailable(unseen.into()));
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
            if self.may_be_among(&born, &batch[at]) {
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
    /// unknown until nothing was shown of them for long enough; then the claims are launched under another attempt.
    pub(super) fn fleet_refused(&self, token: &str, error: &AwsError) -> LaunchError {
        if !error.is_repeated() {
            return call_error(error);
        }
        let now = self.clock.now();
        let mut state = self.state();
        state.repeated.retain(|_, since| is_recent(*since, now, REMEMBERED));
        let since = *state.repeated.entry(token.to_owned()).or_insert(now);
        if may_be_unseen(since, now) {
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
        Some(state.dealt.is_taken(instance) || named.contains(&instance.provider_id))
    }
}
