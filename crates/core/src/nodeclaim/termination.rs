//! The end of a Node: taint, drain, volumes, instance, finalizer.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{
    ClaimStep, ClaimView, ConditionChange, InstanceState, Next, NodeChange, Notice, drain, drain::Drain,
};
use crate::{
    model::{Labels, Node, Pod, Str, nodeclaim::ConditionType},
    safety::Cause,
};

/// Load balancers leave out nodes with this label.
pub const EXCLUDE_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// The value of the label when it is ours.
pub const EXCLUDE_VALUE: &str = "karpenter";
/// How often volumes are looked at.
const VOLUMES_INTERVAL: Duration = Duration::from_secs(1);
/// How often the cloud is asked to end the instance.
pub const INSTANCE_INTERVAL: Duration = Duration::from_secs(5);
/// How often an instance that is not ours is looked at again.
pub const NOT_OWNED_INTERVAL: Duration = Duration::from_secs(60);

/// Ends one Node of the claim.
#[derive(Clone, Copy, Debug)]
pub struct NodeTermination<'a> {
    /// The Node.
    pub node: &'a Node,
    /// Names of the volumes attached to it that are to be detached first: not those of pods that stay.
    pub attachments: &'a [Str],
    /// The state of the instance in the cloud. Needed if the Node is not ready, and after the drain.
    pub instance: &'a InstanceState,
}

impl NodeTermination<'_> {
    /// What to do next for the claim of `view`.
    #[must_use]
    pub fn next(&self, view: &ClaimView<'_>, now: Timestamp) -> Next {
        let node = self.node;
        if node.deleting.is_none() || !node.has_finalizer {
            return Next::nothing();
        }
        if view.claim.deleting.is_none() {
            // Its finalizer sets the deadline that the drain must keep.
            return Next::steps([ClaimStep::Delete(Cause::NodeDeleted)]).again(drain::INTERVAL);
        }
        if !node.ready && *self.instance == InstanceState::Gone {
            return Next::steps([ClaimStep::ReleaseNode(node.name.clone())]);
        }
        if let Some(change) = closed(node) {
            return Next::steps([ClaimStep::ChangeNode(Box::new(change))]).again(drain::INTERVAL);
        }
        let drained = Drain.next(view, now);
        let finished =
            view.claim.is(ConditionType::Drained) && !view.pods.iter().any(|pod| drain::is_awaited(pod, now));
        if !finished {
            return drained;
        }
        match self.volumes(view, now) {
            Wait::Until(next) => next,
            Wait::Over(step) => Next::steps(step).and(self.instance(view)),
        }
    }
}

/// Ends a Node whose claim is gone: somebody removed the finalizer of the claim. Its instance is terminated as one without a claim, and
/// nothing says by when its pods have to leave. A Node that names no `instance` is drained, and ends then.
#[must_use]
pub fn unclaimed(node: &Node, pods: &[Arc<Pod>], instance: Option<&InstanceState>, now: Timestamp) -> Next {
    let release = || Next::steps([ClaimStep::ReleaseNode(node.name.clone())]);
    if !node.ready && instance == Some(&InstanceState::Gone) {
        return release();
    }
    if let Some(change) = closed(node) {
        return Next::steps([ClaimStep::ChangeNode(Box::new(change))]).again(drain::INTERVAL);
    }
    match drain::without_deadline(pods, now) {
        Some(next) => next,
        None if instance.is_none_or(|instance| *instance == InstanceState::Gone) => release(),
        None => Next::wait(NOT_OWNED_INTERVAL),
    }
}

/// Whether something is still waited for.
enum Wait {
    Until(Next),
    Over(Option<ClaimStep>),
}

impl NodeTermination<'_> {
    fn volumes(&self, view: &ClaimView<'_>, now: Timestamp) -> Wait {
        let (claim, condition) = (view.claim, ConditionType::VolumesDetached);
        if self.attachments.is_empty() {
            return Wait::Over(ConditionChange::holds(condition).step(claim));
        }
        let deadline = claim.termination_deadline;
        if deadline.is_some_and(|deadline| now >= deadline) {
            let message = format!("{} volumes are still attached", self.attachments.len());
            let elapsed = ConditionChange::fails(condition, "TerminationGracePeriodElapsed", message);
            return Wait::Over(elapsed.step(claim));
        }
        let mut message = format!("waiting for volumes to be detached: {}", self.attachments.join(", "));
        if let Some(deadline) = deadline {
            message.push_str(&format!("; the instance ends at {deadline} all the same"));
        }
        let waits = ConditionChange::unknown(condition, "AwaitingVolumeDetachment", message).step(claim);
        let publish = ClaimStep::Publish(Notice::AwaitingVolumeDetachment(self.attachments.to_vec()));
        Wait::Until(Next::steps(waits.into_iter().chain([publish])).again(VOLUMES_INTERVAL))
    }

    fn instance(&self, view: &ClaimView<'_>) -> Next {
        let Some(id) = view.claim.provider_id.clone() else {
            return Next::steps([ClaimStep::ReleaseNode(self.node.name.clone())]);
        };
        match self.instance {
            InstanceState::Gone => {
                let terminating = ConditionChange::holds(ConditionType::InstanceTerminating).step(view.claim);
                Next::steps(terminating.into_iter().chain([ClaimStep::ReleaseNode(self.node.name.clone())]))
            }
            InstanceState::NotOwned(why) => not_owned(view, why),
            InstanceState::Unknown | InstanceState::Exists => terminate(view, id),
        }
    }
}

/// Requests the termination; the condition is set once the cloud has accepted it.
pub(super) fn terminate(view: &ClaimView<'_>, id: crate::model::ProviderId) -> Next {
    let terminating = ConditionChange::holds(ConditionType::InstanceTerminating).step(view.claim);
    Next::steps([ClaimStep::Terminate(id)].into_iter().chain(terminating)).again(INSTANCE_INTERVAL)
}

/// An instance of another owner is not terminated; a condition has the reason, and the claim stays until a user decides.
pub(super) fn not_owned(view: &ClaimView<'_>, why: &Str) -> Next {
    let message = format!(
        "the instance is not owned by this cluster ({why}); correct its ownership tags, or remove the finalizer \
         karpenter.sh/termination to abandon it"
    );
    let condition = ConditionType::InstanceTerminating;
    let change = ConditionChange::fails(condition, "InstanceNotOwned", message).step(view.claim);
    let publish = ClaimStep::Publish(Notice::NotOwned(why.clone()));
    Next::steps(change.into_iter().chain([publish])).again(NOT_OWNED_INTERVAL)
}

/// The taint and label that keep new pods and connections off the node, if one of them is missing: a node that disruption has tainted has no
/// label yet. A taint of the same key with another effect gives way.
fn closed(node: &Node) -> Option<NodeChange> {
    let taint = drain::disrupted_taint();
    let tainted = node.taints.iter().any(|known| known.matches(&taint));
    let excluded = node.labels.contains_key(EXCLUDE_LABEL);
    if tainted && excluded {
        return None;
    }
    let label = (!excluded).then(|| (EXCLUDE_LABEL.into(), EXCLUDE_VALUE.into()));
    Some(NodeChange {
        node: Some(node.name.clone()),
        labels: label.into_iter().collect::<Labels>(),
        remove_taints: node
            .taints
            .iter()
            .filter(|known| !tainted && known.key == taint.key)
            .cloned()
            .collect(),
        add_taints: vec![taint],
        ..NodeChange::default()
    })
}
