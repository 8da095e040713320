//! Terminations that the cloud refuses or does not answer: condition InstanceTerminating and an event name the call and
//! the error until a call succeeds.
//!
//! A permanent error (permission denied) is reported at once, a transient one (throttling, 5xx) after [`REPORT_AFTER`]. Equal
//! errors are written once, even if their request IDs or times differ.

use std::time::Duration;

use fleetwright_api::labels::condition::INSTANCE_TERMINATING;
use fleetwright_core::{cloud::CloudError, model::nodeclaim::ConditionType, nodeclaim::ConditionChange};

use super::{
    cache::LifecycleCache,
    claimed_node::ClaimedNode,
    cloud_call::{CloudCall, truncate},
};
use crate::{
    events::{Event, regarding},
    patch::Patches,
    runtime::{Clocks, ReconcileError, Recorder, ignore_not_found, later},
};

/// How long a transient error must last before it is reported.
const REPORT_AFTER: Duration = Duration::from_secs(60);
/// How long an equal event is suppressed.
const DEDUPE_TIMEOUT: Duration = Duration::from_secs(900);

/// The message of condition and event: the failure, then the first error text of the cloud. A condition whose message starts
/// with the failure is not rewritten.
fn message_of(failure: &str, error: &CloudError) -> String {
    match error {
        CloudError::Unavailable(why) => format!("{failure} ({})", truncate(why)),
        _ => failure.to_owned(),
    }
}

/// Whether the error is a definite result, from which the next step follows.
fn is_definite(error: &CloudError) -> bool {
    matches!(error, CloudError::NotFound(_) | CloudError::NotOwned { .. })
}

/// Whether the error is transient.
pub(super) fn is_transient(error: &CloudError) -> bool {
    matches!(error, CloudError::RateLimited { .. } | CloudError::Unavailable(_))
}

/// Records a result of the cloud. Publishes an event about an error that is permanent or lasts, and returns the change of
/// condition InstanceTerminating, if it is not set yet.
pub(super) fn note<T>(
    clocks: &Clocks,
    recorder: &Recorder,
    cache: &LifecycleCache,
    node: &ClaimedNode,
    call: CloudCall,
    answer: &Result<T, CloudError>,
) -> Option<ConditionChange> {
    let Some(error) = answer.as_ref().err().filter(|error| !is_definite(error)) else {
        cache.call_succeeded(&node.claim.uid, call);
        return None;
    };
    let now = clocks.now();
    let since = cache.refused_since(&node.claim.uid, call, now);
    if is_transient(error) && later(since, REPORT_AFTER) > now {
        return None;
    }
    let failure = call.failure(error);
    let message = message_of(&failure, error);
    let event = Event::warning(regarding(&*node.raw), call.reason(), message.clone());
    let same = [node.claim.uid.to_string(), failure.clone()];
    recorder.publish(event.with_dedupe_values(same).with_dedupe_timeout(DEDUPE_TIMEOUT));
    let written = node.claim.conditions.get(&ConditionType::InstanceTerminating);
    let is_written = written
        .is_some_and(|known| *known.reason == *call.reason() && known.message.starts_with(failure.as_str()));
    (!is_written)
        .then(|| ConditionChange::unknown(ConditionType::InstanceTerminating, call.reason(), message))
}

/// Records the result of a call outside the steps, and writes condition InstanceTerminating. After that write, the NodeClaim is
/// newer than in `node`.
///
/// # Errors
/// The cloud's error if it is not definite, or the API server's.
pub(super) async fn record<T>(
    clocks: &Clocks,
    patches: &Patches,
    recorder: &Recorder,
    cache: &LifecycleCache,
    node: &ClaimedNode,
    call: CloudCall,
    answer: Result<T, CloudError>,
) -> Result<Result<T, CloudError>, ReconcileError> {
    let change = note(clocks, recorder, cache, node, call, &answer);
    if let Some(change) = change {
        let written = patches.claim_conditions(&node.claim.name, |conditions| {
            conditions.set_unknown_with_reason(INSTANCE_TERMINATING, &change.reason, &change.message);
        });
        ignore_not_found(written.await)?;
    }
    match answer {
        Err(error) if !is_definite(&error) => Err(error.into()),
        answer => Ok(answer),
    }
}

/// Clears the condition with reason `InstanceLookupFailed`. Returns whether it was set.
///
/// # Errors
/// If the API server cannot be reached.
pub(super) async fn clear_lookup_failure(
    patches: &Patches,
    node: &ClaimedNode,
) -> Result<bool, ReconcileError> {
    let condition = node.claim.conditions.get(&ConditionType::InstanceTerminating);
    if condition.is_none_or(|known| *known.reason != *CloudCall::Get.reason()) {
        return Ok(false);
    }
    let written = patches.claim_conditions(&node.claim.name, |conditions| {
        // It is an independent condition, which can always be cleared.
        let _ = conditions.clear(INSTANCE_TERMINATING);
    });
    ignore_not_found(written.await).map(|gone| gone.is_some())
}
