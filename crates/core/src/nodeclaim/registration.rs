//! Registration of a joined node: it gets the labels, annotations and taints of its claim, once, in one patch, and pods may be scheduled.

use jiff::Timestamp;

use super::{ClaimStep, ClaimView, ConditionChange, Next, NodeChange, Notice};
use crate::model::{
    Labels, Node, Taint, TaintEffect,
    labels::{AWAITS_LABEL, REGISTERED, UNREGISTERED_TAINT},
    nodeclaim::ConditionType,
};

/// A Node with this label at `true` keeps its own taints.
const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
/// Annotations of Fleetwright on claims that are not copied to nodes.
const OWN_ANNOTATIONS: &str = "fleetwright.dev/";

/// Registers the node of a launched claim.
#[derive(Clone, Copy, Debug)]
pub struct Registration;

impl Registration {
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
        let awaited = claim.annotations.get(AWAITS_LABEL).filter(|key| !claim.labels.contains_key(&***key));
        if let Some(key) = awaited {
            let message = format!("the provider has not reported label {key} yet");
            let hook =
                ConditionChange::unknown(ConditionType::Registered, "RegistrationHookPending", message);
            return pending(hook);
        }
        let mut next = Next::nothing();
        let registered = view.has_registered_label();
        if !registered && !has_unregistered_taint(node) {
            next.steps.push(ClaimStep::Publish(Notice::UnregisteredTaintMissing));
        }
        // The label is part of that patch: if it is set, an earlier pass was interrupted after the patch, and later changes on the node
        // belong to others.
        if !registered {
            next.steps.push(ClaimStep::ChangeNode(Box::new(sync(view, node))));
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

/// Finalizer, owner, taints, labels and annotations of the claim; the unregistered taint is removed.
fn sync(view: &ClaimView<'_>, node: &Node) -> NodeChange {
    let claim = view.claim;
    let syncs_taints = node.labels.get(DO_NOT_SYNC_TAINTS).is_none_or(|value| &**value != "true");
    let startup = (!view.provider.bootstraps_startup_taints).then_some(&claim.startup_taints);
    let mut add_taints: Vec<Taint> = Vec::new();
    for taint in claim.taints.iter().chain(startup.into_iter().flatten()).filter(|_| syncs_taints) {
        let known = node.taints.iter().chain(&add_taints).any(|known| known.matches(taint));
        if !known {
            add_taints.push(taint.clone());
        }
    }
    let mut labels = claim.labels.clone();
    labels.insert(REGISTERED.into(), "true".into());
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
        labels,
        annotations,
        add_taints,
        remove_taints: vec![Taint::new(UNREGISTERED_TAINT, "", TaintEffect::NoExecute)],
    }
}
