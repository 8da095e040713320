//! The end of a claim: deadline, nodes, instance, finalizer.
//!
//! The finalizer is removed only when no instance can be left: the cloud reports the instance as gone; or no launch was ever requested;
//! or the outcome of a launch was not recorded, and a complete list shows no instance of that launch, twice.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    ClaimStep, ClaimView, InstanceState, Next, Notice, launch, remaining, termination, trace::Trace,
};
use crate::model::{ProviderId, labels::REGISTERED, nodeclaim::ConditionType};

/// How far apart the two lists are that prove that a launch left nothing behind.
pub const PROOF: Duration = Duration::from_secs(60);
/// How often nodes that go away are looked at, changes aside.
const NODES_INTERVAL: Duration = Duration::from_secs(10);
/// How long to wait after the cloud could not be asked.
const RETRY: Duration = Duration::from_secs(5);

/// Ends a claim that is deleted.
#[derive(Clone, Copy, Debug)]
pub struct Finalization<'a> {
    /// The state of the instance in the cloud.
    pub instance: &'a InstanceState,
    /// The instances of a launch with an unknown outcome.
    pub trace: &'a Trace,
}

impl Finalization<'_> {
    /// What to do next for the claim of `view`.
    #[must_use]
    pub fn next(&self, view: &ClaimView<'_>, now: Timestamp) -> Next {
        let claim = view.claim;
        let (Some(deleting), true) = (claim.deleting, claim.has_finalizer) else { return Next::nothing() };
        let mut next = Next::nothing();
        if let (Some(period), None) = (claim.termination_grace_period, claim.termination_deadline) {
            let deadline = deleting.checked_add(period).unwrap_or(Timestamp::MAX);
            next.steps.push(ClaimStep::SetDeadline(deadline));
            next.steps.push(ClaimStep::Publish(Notice::TerminationGracePeriodExpiring(deadline)));
        }
        let joined = claim.is(ConditionType::Registered)
            || view.nodes.iter().any(|node| node.labels.contains_key(REGISTERED));
        if joined && !view.nodes.is_empty() {
            let staying = view.nodes.iter().filter(|node| node.deleting.is_none());
            let names: Vec<_> = staying.map(|node| node.name.clone()).collect();
            if !names.is_empty() {
                next.steps.push(ClaimStep::DeleteNodes(names));
            }
            return next.again(NODES_INTERVAL);
        }
        next.and(match &claim.provider_id {
            Some(id) => self.instance(view, id),
            None => self.launch(view, now),
        })
    }
}

impl Finalization<'_> {
    fn instance(&self, view: &ClaimView<'_>, id: &ProviderId) -> Next {
        match self.instance {
            InstanceState::Gone => Next::steps([ClaimStep::ReleaseClaim]),
            InstanceState::NotOwned(why) => termination::not_owned(view, why),
            InstanceState::Unknown | InstanceState::Exists => termination::terminate(view, id.clone()),
        }
    }

    fn launch(&self, view: &ClaimView<'_>, now: Timestamp) -> Next {
        if !launch::is_outcome_open(view.claim) {
            return Next::steps([ClaimStep::ReleaseClaim]);
        }
        match self.trace {
            Trace::Unknown => Next::wait(RETRY),
            Trace::Refused => Next::steps([ClaimStep::ReleaseClaim]),
            Trace::Found(id) => match self.instance {
                InstanceState::NotOwned(why) => termination::not_owned(view, why),
                InstanceState::Gone => Next::steps([ClaimStep::ReleaseClaim]),
                InstanceState::Unknown | InstanceState::Exists => termination::terminate(view, id.clone()),
            },
            Trace::OneOf(id) => match self.instance {
                InstanceState::NotOwned(why) => termination::not_owned(view, why),
                // It is unknown which of them was launched for the claim: the claim is finalized when the list shows none.
                InstanceState::Gone => Next::wait(RETRY),
                InstanceState::Unknown | InstanceState::Exists => termination::terminate(view, id.clone()),
            },
            Trace::AbsentSince(since) => match remaining(*since, PROOF, now) {
                Some(left) => Next::wait(left),
                None => Next::steps([ClaimStep::ReleaseClaim]),
            },
        }
    }
}
