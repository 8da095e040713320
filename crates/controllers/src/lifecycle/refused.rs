//! A cloud that does not answer while a node ends: the claim says which call failed and why, until it goes on.
//!
//! What is denied is said at once, what may pass by itself once it has lasted. The same refusal is written once, whatever
//! the cloud adds to each answer.

use std::time::Duration;

use fleetwright_api::labels::condition::INSTANCE_TERMINATING;
use fleetwright_core::{cloud::CloudError, model::nodeclaim::ConditionType, nodeclaim::ConditionChange};

use super::{claimed_node::ClaimedNode, memory::Memory};
use crate::{
    events::{Event, regarding},
    patch,
    runtime::{Ctx, ReconcileError, gone_is_ok, later},
};

/// Refusals that may pass by themselves are not said before they have lasted so long.
const PATIENCE: Duration = Duration::from_secs(60);
/// For how long the same refusal is no news.
const QUIET: Duration = Duration::from_secs(900);
/// The longest text of a cloud that is passed on, in characters.
const LONGEST: usize = 500;

/// What the cloud was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    /// To end the instance.
    Terminate,
    /// For the state of the instance.
    Get,
    /// For all instances.
    List,
}

impl Call {
    /// The reason of condition and event.
    fn reason(self) -> &'static str {
        match self {
            Self::Terminate => "TerminationFailed",
            Self::Get | Self::List => "InstanceLookupFailed",
        }
    }

    /// What fails, and why in the words of each kind of error that do not differ from call to call.
    fn failure(self, error: &CloudError) -> String {
        let what = match self {
            Self::Terminate => "cannot end the instance",
            Self::Get => "cannot look up the instance, which comes before it ends",
            Self::List => "cannot list instances, which shows whether the launch left one behind",
        };
        match error {
            CloudError::RateLimited { .. } => format!("{what}: throttled by the cloud"),
            CloudError::Unavailable(_) => format!("{what}: the cloud answers with an error"),
            other => format!("{what}: {}", cut(&other.to_string())),
        }
    }
}

/// What a condition that stands need not be written again for begins with the failure; the rest is its first wording.
fn message_of(failure: &str, error: &CloudError) -> String {
    match error {
        CloudError::Unavailable(why) => format!("{failure} ({})", cut(why)),
        _ => failure.to_owned(),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

/// Whether the error is an answer to the question, which decides what comes next.
fn is_answer(error: &CloudError) -> bool {
    matches!(error, CloudError::NotFound(_) | CloudError::NotOwned { .. })
}

/// Whether it passes by itself, as far as one can tell.
pub(crate) fn may_pass(error: &CloudError) -> bool {
    matches!(error, CloudError::RateLimited { .. } | CloudError::Unavailable(_))
}

/// Takes note of an answer of the cloud. Tells people of a refusal that lasts, and returns what the condition
/// InstanceTerminating should say where it does not say so yet.
pub(crate) fn note<T>(
    ctx: &Ctx,
    memory: &Memory,
    node: &ClaimedNode,
    call: Call,
    answer: &Result<T, CloudError>,
) -> Option<ConditionChange> {
    let Some(error) = answer.as_ref().err().filter(|error| !is_answer(error)) else {
        memory.answered(&node.claim.uid, call);
        return None;
    };
    let now = ctx.now();
    let since = memory.refused_since(&node.claim.uid, call, now);
    if may_pass(error) && later(since, PATIENCE) > now {
        return None;
    }
    let failure = call.failure(error);
    let message = message_of(&failure, error);
    let event = Event::warning(regarding(&*node.raw), call.reason(), message.clone());
    let same = [node.claim.uid.to_string(), failure.clone()];
    ctx.recorder.publish(event.same_if(same).quiet_for(QUIET));
    let stands = node.claim.conditions.get(&ConditionType::InstanceTerminating);
    let said = stands
        .is_some_and(|known| *known.reason == *call.reason() && known.message.starts_with(failure.as_str()));
    (!said).then(|| ConditionChange::unknown(ConditionType::InstanceTerminating, call.reason(), message))
}

/// Notes the answer to a question that no step asked, and writes what it means for the condition. Where that takes a
/// refusal back, the claim is another one than `node` shows.
///
/// # Errors
/// The one of the cloud that is not an answer, or what the API server says.
pub(crate) async fn told<T>(
    ctx: &Ctx,
    memory: &Memory,
    node: &ClaimedNode,
    call: Call,
    answer: Result<T, CloudError>,
) -> Result<Result<T, CloudError>, ReconcileError> {
    let change = note(ctx, memory, node, call, &answer);
    if let Some(change) = change {
        let written = patch::claim_conditions(ctx, &node.claim.name, |conditions| {
            conditions.set_unknown_with_reason(INSTANCE_TERMINATING, &change.reason, &change.message);
        });
        gone_is_ok(written.await)?;
    }
    match answer {
        Err(error) if !is_answer(&error) => Err(error.into()),
        answer => Ok(answer),
    }
}

/// Takes back that the instance could not be looked up. Returns whether there was anything to take back.
///
/// # Errors
/// Where the API server cannot be reached.
pub(crate) async fn looked_up(ctx: &Ctx, node: &ClaimedNode) -> Result<bool, ReconcileError> {
    let stands = node.claim.conditions.get(&ConditionType::InstanceTerminating);
    if stands.is_none_or(|known| *known.reason != *Call::Get.reason()) {
        return Ok(false);
    }
    let written = patch::claim_conditions(ctx, &node.claim.name, |conditions| {
        // It is an independent condition, which can always be cleared.
        let _ = conditions.clear(INSTANCE_TERMINATING);
    });
    gone_is_ok(written.await).map(|gone| gone.is_some())
}
