//! Finds the instances of launch calls whose answer was lost, by their tags.
//!
//! A call whose answer was lost may have launched all, some or none of its instances, and EC2 shows new instances late. The process that
//! made the call repeats it unchanged ([`super::in_flight`]), and EC2 returns the same instances. Any other process looks for instances
//! by their tags. A NodeClaim is launched again only if nothing indicates that a fleet was created for it, or if its instance must be
//! visible by now.

use fleetwright_aws_api::labels;
use fleetwright_core::cloud::{LaunchError, LaunchRequest};

use super::in_flight::may_be_unseen;
use super::prepared::{Answers, allows};
use super::{AwsProvider, is_ending, placed};
use crate::calls::{AwsError, Class, Filter, InstanceInfo};
use crate::permissions;

/// The error of a NodeClaim whose own instance of the attempt has terminated.
fn terminated(launched: &[InstanceInfo], launch: &LaunchRequest) -> Option<LaunchError> {
    let name = &*launch.claim.name;
    let own = |info: &&InstanceInfo| info.tags.get(labels::TAG_NODECLAIM).is_some_and(|tag| *tag == *name);
    let message = format!("instance {} of this attempt has terminated", launched.iter().find(own)?.id);
    Some(LaunchError::Failed { reason: "LaunchFailed".into(), message: message.into() })
}

/// The error of NodeClaims whose instances EC2 does not list: nothing was launched now, and the outcome of earlier calls is unknown.
fn not_listed(error: &AwsError) -> LaunchError {
    const ACTION: &str = "ec2:DescribeInstances";
    match error.class() {
        Class::Throttled => LaunchError::RateLimited { after: error.wait() },
        Class::Unauthorized => LaunchError::Unknown(permissions::refusal(ACTION, error).into()),
        _ => LaunchError::Unknown(format!("{ACTION}: {error}").into()),
    }
}

/// The instances of a batch and attempt that EC2 shows.
struct FoundInstances {
    /// Live instances by id.
    live: Vec<InstanceInfo>,
    /// All instances, also those that are terminating.
    launched: Vec<InstanceInfo>,
}

async fn find(
    provider: &AwsProvider,
    first: &LaunchRequest,
    uid: &str,
) -> Result<FoundInstances, LaunchError> {
    let attempt = first.attempt.to_string();
    let wanted = [
        (labels::TAG_CLUSTER_UID, uid),
        (labels::TAG_BATCH, &*first.batch),
        (labels::TAG_ATTEMPT, &*attempt),
    ];
    let filters = wanted.map(|(key, value)| Filter::new(format!("tag:{key}"), [value]));
    let found = provider.api.instances(&[], &filters).await.map_err(|error| not_listed(&error))?;
    let mut launched = placed(found).map_err(|error| LaunchError::Unknown(error.to_string().into()))?;
    // An answer that ignores the filters must not assign the instances of another batch.
    let is_wanted = |info: &InstanceInfo| {
        wanted.iter().all(|(key, value)| info.tags.get(*key).is_some_and(|own| own == value))
    };
    launched.retain(is_wanted);
    let live = launched.iter().filter(|info| !is_ending(info)).cloned();
    let mut live: Vec<InstanceInfo> = live.map(|info| provider.managed(info)).collect();
    live.sort_by(|a, b| a.id.cmp(&b.id));
    live.dedup_by(|a, b| a.id == b.id);
    Ok(FoundInstances { live, launched })
}

/// Fills in the instances that an earlier call launched for the open NodeClaims of a batch. Instances with the tag of a NodeClaim
/// belong to it; the others are assigned to the remaining NodeClaims, both in the order of their names.
pub(super) async fn fill_found(
    provider: &AwsProvider,
    batch: &[LaunchRequest],
    uid: &str,
    answers: &mut Answers,
) -> Result<(), LaunchError> {
    let open = || batch.iter().zip(answers.iter()).any(|(_, answer)| answer.is_none());
    let Some(first) = batch.first().filter(|_| open()) else { return Ok(()) };
    let FoundInstances { live, launched } = find(provider, first, uid).await?;
    let mut by_name: Vec<usize> = (0..batch.len()).filter(|at| answers[*at].is_none()).collect();
    by_name.sort_by(|a, b| batch[*a].claim.name.cmp(&batch[*b].claim.name));
    let (tagged, untagged): (Vec<InstanceInfo>, Vec<InstanceInfo>) =
        live.into_iter().partition(|info| info.tags.contains_key(labels::TAG_NODECLAIM));
    for info in tagged {
        let name = info.tags.get(labels::TAG_NODECLAIM);
        let place = by_name.iter().position(|at| name.is_some_and(|name| **name == *batch[*at].claim.name));
        if let Some(place) = place {
            let at = by_name.remove(place);
            answers[at] = Some(Ok(provider.launches.assign(&batch[at], provider.describe(&info))));
        }
    }
    for info in untagged {
        let instance = provider.describe(&info);
        let Some(taken) = provider.launches.is_taken(&instance.provider_id) else {
            let message =
                "NodeClaims are not observed yet: an instance of the batch may belong to another NodeClaim";
            return Err(LaunchError::Unknown(message.into()));
        };
        if taken {
            continue;
        }
        let fits = |at: &usize| allows(&batch[*at].claim.requirements, &instance);
        if let Some(place) = by_name.iter().position(fits) {
            let at = by_name.remove(place);
            let tagged = provider.tag_claim(&info.id, instance, &batch[at]).await;
            answers[at] = Some(Ok(provider.launches.assign(&batch[at], tagged)));
        }
    }
    for at in by_name {
        if let Some(terminated) = terminated(&launched, &batch[at]) {
            answers[at] = Some(Err(terminated));
        } else if may_be_among(provider, &launched, &batch[at]) {
            let message = "its fleet was launched, and EC2 may not show its instance yet";
            answers[at] = Some(Err(LaunchError::Unknown(message.into())));
        }
    }
    Ok(())
}

/// Whether a NodeClaim may have been launched together with others of its batch: with a token for fewer NodeClaims, a fleet would
/// launch it a second time.
fn may_be_among(provider: &AwsProvider, launched: &[InstanceInfo], request: &LaunchRequest) -> bool {
    let now = provider.clock.now();
    let recent = |info: &&InstanceInfo| info.launched.is_some_and(|at| may_be_unseen(at, now));
    let fits = |info: &InstanceInfo| {
        let instance = provider.describe(&provider.managed(info.clone()));
        allows(&request.claim.requirements, &instance)
    };
    launched.iter().filter(recent).any(fits)
}
