//! Registration of a joined node: it gets the labels, annotations and taints of its claim in one patch, and pods may be scheduled. While
//! the provider holds it, the node gets the rest at once and stays tainted.

use jiff::Timestamp;

use super::{ClaimStep, ClaimView, ConditionChange, Next, NodeChange, Notice};
use crate::{
    cloud::RegistrationHold,
    model::{
        Labels, Node, Taint, TaintEffect,
        labels::{REGISTERED, UNREGISTERED_TAINT},
        nodeclaim::ConditionType,
    },
};

/// A Node with this label at `true` keeps its own taints.
const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
/// Annotations of Fleetwright on claims that are not copied to nodes.
const OWN_ANNOTATIONS: &str = "fleetwright.dev/";

/// Registers the node of a launched claim.
#[derive(Clone, Copy, Debug)]
pub struct Registration<'a> {
    /// Why the provider holds the node, if it does.
    pub hold: Option<&'a RegistrationHold>,
}

impl Registration<'_> {
    /// Whether the provider is to be asked first: the claim has an instance and one node, which is not registered.
    #[must_use]
    pub fn is_due(view: &ClaimView<'_>) -> bool {
        let claim = view.claim;
        claim.deleting.is_none()
            && claim.provider_id.is_some()
            && !claim.is(ConditionType::Registered)
            && view.node().is_some()
    }

    /// What to do next for the claim of `view`.
    #[must_use]
    pub fn next(&self, view: &ClaimView<'_>, _: Timestamp) -> Next {
        let claim = view.claim;
        if claim.deleting.is_some() || claim.provider_id.is_none() || claim.is(ConditionType::Registered) {
            return Next::nothing();
        }
        let pending = |change: ConditionChange| Next::steps(change.step(claim));
        let node = match view.nodes {
            [] => {
                let message = "Node not registered with cluster";
                return pending(ConditionChange::unknown(ConditionType::Registered, "NodeNotFound", message));
            }
            [node] => node,
            many => {
                let names: Vec<&str> = many.iter().map(|node| node.name.as_str()).collect();
                let message = format!(
                    "{} nodes have the provider id of this claim: {}; act on none of them",
                    many.len(),
                    names.join(", ")
                );
                return pending(ConditionChange::fails(
                    ConditionType::Registered,
                    "MultipleNodesFound",
                    message,
                ));
            }
        };
        let mut next = Next::nothing();
        // What the provider adds to the claim is part of the last patch, and the finalizer of the first: what is set was written by an earlier pass, and later
        // changes on the node belong to others.
        let registered = view.has_registered_label();
        let is_due = if self.hold.is_some() { !node.has_finalizer } else { !registered };
        if is_due {
            if !registered && !has_unregistered_taint(node) {
                next.steps.push(ClaimStep::Publish(Notice::UnregisteredTaintMissing));
            }
            let synced = sync(view, node);
            let change = if self.hold.is_some() { synced } else { registers(synced) };
            next.steps.push(ClaimStep::ChangeNode(Box::new(change)));
        }
        if let Some(RegistrationHold { message, after, .. }) = self.hold {
            let reason = "RegistrationHookPending";
            let hook = ConditionChange::unknown(ConditionType::Registered, reason, message.to_string());
            next.steps.extend(hook.step(claim));
            return next.again(*after);
        }
        next.steps.push(ClaimStep::SetNodeName(node.name.clone()));
        next.steps.push(ClaimStep::Condition(ConditionChange::holds(ConditionType::Registered)));
        next.steps.push(ClaimStep::CountRegistration(true));
        next
    }
}

fn has_unregistered_taint(node: &Node) -> bool {
    node.taints.iter().any(|taint| &*taint.key == UNREGISTERED_TAINT)
}

/// The same change with the registered label and without the unregistered taint.
fn registers(mut change: NodeChange) -> NodeChange {
    change.labels.insert(REGISTERED.into(), "true".into());
    change.remove_taints.push(Taint::new(UNREGISTERED_TAINT, "", TaintEffect::NoExecute));
    change
}

/// Finalizer, owner, taints, labels and annotations of the claim. Startup taints come with the finalizer only: one that is missing
/// later was removed by its owner.
fn sync(view: &ClaimView<'_>, node: &Node) -> NodeChange {
    let claim = view.claim;
    let syncs_taints = node.labels.get(DO_NOT_SYNC_TAINTS).is_none_or(|value| &**value != "true");
    let brings_startup = view.provider.bootstraps_startup_taints || node.has_finalizer;
    let startup = (!brings_startup).then_some(&claim.startup_taints);
    let mut add_taints: Vec<Taint> = Vec::new();
    for taint in claim.taints.iter().chain(startup.into_iter().flatten()).filter(|_| syncs_taints) {
        let known = node.taints.iter().chain(&add_taints).any(|known| known.matches(taint));
        if !known {
            add_taints.push(taint.clone());
        }
    }
    let annotations: Labels = claim
        .annotations
        .iter()
        .filter(|(key, _)| !key.starts_with(OWN_ANNOTATIONS))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    NodeChange {
        node: Some(node.name.clone()),
        add_finalizer: true,
        own: true,
        labels: claim.labels.clone(),
        annotations,
        add_taints,
        remove_taints: Vec::new(),
    }
}
