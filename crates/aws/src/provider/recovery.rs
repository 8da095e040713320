//! Finds the instances of launch calls whose answer was lost, by their tags.
//!
//! A call whose answer was lost may have launched all, some or none of its instances, and EC2 shows new instances late. The process that
//! made the call repeats it unchanged ([`super::in_flight`]), and EC2 returns the same instances. Any other process looks for instances
//! by their tags. If it finds fewer than the call asked for, it makes the call with the same token: EC2 returns the same instances, or
//! refuses because the request differs by now. Then the instances that EC2 shows count once it must show all.

use fleetwright_aws_api::labels;
use fleetwright_core::cloud::{LaunchError, LaunchRequest};

use super::in_flight::may_be_unseen;
use super::{AwsProvider, placed};
use crate::calls::{AwsError, ErrorClass, Filter, InstanceInfo};
use crate::permissions;

/// The error of NodeClaims whose instances EC2 does not list: nothing was launched now, and the outcome of earlier calls is unknown.
fn not_listed(error: &AwsError) -> LaunchError {
    const ACTION: &str = "ec2:DescribeInstances";
    match error.class() {
        ErrorClass::Throttled => LaunchError::RateLimited { after: error.wait() },
        ErrorClass::Unauthorized => LaunchError::Unknown(permissions::refusal(ACTION, error).into()),
        _ => LaunchError::Unknown(format!("{ACTION}: {error}").into()),
    }
}

/// The instances of a batch and attempt that EC2 shows, by id, also those that have ended.
pub(super) async fn find(
    provider: &AwsProvider,
    first: &LaunchRequest,
    uid: &str,
) -> Result<Vec<InstanceInfo>, LaunchError> {
    let attempt = first.attempt.to_string();
    let wanted = [
        (labels::TAG_CLUSTER_UID, uid),
        (labels::TAG_BATCH, &*first.batch),
        (labels::TAG_ATTEMPT, &*attempt),
    ];
    let filters = wanted.map(|(key, value)| Filter::new(format!("tag:{key}"), [value]));
    let found = provider.api.instances(&[], &filters).await.map_err(|error| not_listed(&error))?;
    let found = placed(found).map_err(|error| LaunchError::Unknown(error.to_string().into()))?;
    // An answer that ignores the filters must not assign the instances of another batch.
    let is_wanted = |info: &InstanceInfo| {
        wanted.iter().all(|(key, value)| info.tags.get(*key).is_some_and(|own| own == value))
    };
    let found = found.into_iter().filter(is_wanted).map(|info| provider.managed(info));
    let mut found: Vec<InstanceInfo> = found.collect();
    found.sort_by(|a, b| a.id.cmp(&b.id));
    found.dedup_by(|a, b| a.id == b.id);
    Ok(found)
}

/// Whether EC2 may not show all instances yet of the call that launched these.
pub(super) fn may_be_more(provider: &AwsProvider, found: &[InstanceInfo]) -> bool {
    let now = provider.clock.now();
    found.iter().any(|info| info.launched.is_some_and(|at| may_be_unseen(at, now)))
}

/// The error of a NodeClaim beyond the instances of a call that EC2 shows completely.
pub(super) fn none_left() -> LaunchError {
    LaunchError::Failed { reason: "LaunchFailed".into(), message: "the call launched fewer instances".into() }
}
