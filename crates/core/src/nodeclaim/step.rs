//! What a stage returns: the steps to execute and when to ask again.

use std::time::Duration;

use super::notice::Notice;
use crate::{
    model::{
        ConditionStatus, Labels, NamespacedName, NodeName, PodUid, ProviderId, Str, Taint,
        nodeclaim::{ConditionType, NodeClaim},
    },
    safety::Cause,
};

/// The answer of a stage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Next {
    /// What to do, in this order. A step that fails ends the pass; it is asked for again in the next one.
    pub steps: Vec<ClaimStep>,
    /// When to look again although nothing changed; `None` is never.
    pub again: Option<Duration>,
}

impl Next {
    /// Nothing to do, nothing to wait for.
    #[must_use]
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Nothing to do before `after`.
    #[must_use]
    pub fn wait(after: Duration) -> Self {
        Self { steps: Vec::new(), again: Some(after) }
    }

    /// These steps, and what they lead to.
    #[must_use]
    pub fn steps(steps: impl IntoIterator<Item = ClaimStep>) -> Self {
        Self { steps: steps.into_iter().collect(), again: None }
    }

    /// The same, looked at again after `after` at the latest.
    #[must_use]
    pub fn again(mut self, after: Duration) -> Self {
        self.again = Some(self.again.map_or(after, |earlier| earlier.min(after)));
        self
    }

    /// The first answer that has steps. It waits no longer than any of the answers before it.
    #[must_use]
    pub fn first_busy(answers: impl IntoIterator<Item = Self>) -> Self {
        let mut chosen = Self::nothing();
        for answer in answers {
            chosen = match (chosen.is_idle(), answer.again) {
                (true, _) => chosen.and(answer),
                (false, Some(again)) => chosen.again(again),
                (false, None) => chosen,
            };
        }
        chosen
    }

    /// Whether there is nothing to do now.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.steps.is_empty()
    }

    /// Both answers, this one's steps first.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.steps.extend(other.steps);
        match other.again {
            Some(after) => self.again(after),
            None => self,
        }
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimStep {
    /// Launch the claim together with its batch ([`super::launch::step`]).
    Launch,
    /// Copy what the cloud returned of the launched instance: labels, provider id, image, capacity.
    Adopt,
    /// Set a condition of the claim.
    Condition(ConditionChange),
    /// Remove an independent condition of the claim.
    Clear(ConditionType),
    /// Delete the claim (its finalizer does the rest).
    Delete(Cause),
    /// Change a Node in one patch with its resource version.
    ChangeNode(Box<NodeChange>),
    /// `status.nodeName`.
    SetNodeName(NodeName),
    /// Write the termination deadline: when the drain must be over.
    SetDeadline(jiff::Timestamp),
    /// Write the termination deadline of a repair, which deletes the claim next. Until then the repair can be cancelled.
    SetRepairDeadline(jiff::Timestamp),
    /// Remove the termination deadline of a repair that did not delete the claim.
    CancelRepair,
    /// Delete these Nodes (their finalizer does the rest).
    DeleteNodes(Vec<NodeName>),
    /// Evict a pod through the Eviction API, with its UID as a precondition.
    Evict(PodRef),
    /// Delete a pod with this grace period, whatever its PodDisruptionBudget allows; UID as a precondition.
    Force(PodRef, Duration),
    /// Ask the cloud to terminate the instance.
    Terminate(ProviderId),
    /// Remove the finalizer of the Node.
    ReleaseNode(NodeName),
    /// Remove the finalizer of the claim.
    ReleaseClaim,
    /// Publish an event.
    Publish(Notice),
    /// Count a registration of the NodePool: `true` if the node registered.
    CountRegistration(bool),
}

/// Names one pod, and no later one of the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// Namespace and name.
    pub id: NamespacedName,
    /// `metadata.uid`.
    pub uid: PodUid,
}

/// A condition as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionChange {
    /// Which.
    pub condition: ConditionType,
    /// The status.
    pub status: ConditionStatus,
    /// The reason in one word.
    pub reason: Str,
    /// The reason in a sentence; empty for True.
    pub message: String,
}

impl ConditionChange {
    /// The condition holds.
    #[must_use]
    pub fn holds(condition: ConditionType) -> Self {
        Self::new(condition, ConditionStatus::True, condition.as_str(), String::new())
    }

    /// The condition does not hold.
    #[must_use]
    pub fn fails(condition: ConditionType, reason: &str, message: impl Into<String>) -> Self {
        Self::new(condition, ConditionStatus::False, reason, message.into())
    }

    /// It is not known (yet) whether the condition holds.
    #[must_use]
    pub fn unknown(condition: ConditionType, reason: &str, message: impl Into<String>) -> Self {
        Self::new(condition, ConditionStatus::Unknown, reason, message.into())
    }

    fn new(condition: ConditionType, status: ConditionStatus, reason: &str, message: String) -> Self {
        Self { condition, status, reason: reason.into(), message }
    }

    /// The step that sets it, unless `claim` has it already.
    #[must_use]
    pub fn step(self, claim: &NodeClaim) -> Option<ClaimStep> {
        let is_set = claim.conditions.get(&self.condition).is_some_and(|condition| {
            condition.status == self.status
                && condition.reason == self.reason
                && *condition.message == *self.message
        });
        (!is_set).then_some(ClaimStep::Condition(self))
    }
}

/// The step that takes `condition` off `claim`, if it is there.
pub(super) fn clear(claim: &NodeClaim, condition: ConditionType) -> Option<ClaimStep> {
    claim.conditions.contains_key(&condition).then_some(ClaimStep::Clear(condition))
}

/// What to change of a Node, entry by entry: entries that are not named stay as they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeChange {
    /// The Node; empty in a default value.
    pub node: Option<NodeName>,
    /// Put Karpenter's finalizer on it.
    pub add_finalizer: bool,
    /// Make the claim its owner.
    pub own: bool,
    /// Labels to set.
    pub labels: Labels,
    /// Annotations to set.
    pub annotations: Labels,
    /// Taints to add.
    pub add_taints: Vec<Taint>,
    /// Taints to take off, by key and effect.
    pub remove_taints: Vec<Taint>,
}
