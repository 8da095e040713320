//! A pod has one NodeClaim. Before a plan creates another one for it, the first is judged: it keeps the pod, or releases it with a
//! published reason.
//!
//! A permanent reason (a volume bound elsewhere, a node that is too small) releases the pod at once. A temporary one (a taint on a
//! starting node) is tolerated until the node is initialized, and for [`PATIENCE`] after that.

use std::{collections::BTreeMap, fmt, time::Duration};

use jiff::Timestamp;

use super::remaining;
use crate::model::{
    NamespacedName, Pod, Requirement, Requirements, ResourceName, Resources, StateNode, Str, Taint,
    TaintEffect, VolumeClaim, VolumeState, nodeclaim::ConditionType, taint::first_untolerated,
    volume::VolumeRef,
};

/// How long an initialized node may have an undeclared taint before its pods are released.
pub const PATIENCE: Duration = Duration::from_secs(5 * 60);
/// How long after initialization a misfit is not reported: most of them are temporary.
pub const BRIEF: Duration = Duration::from_secs(30);
/// How many pods a message names.
const NAMED: usize = 5;

/// Why a pod does not fit the node of its NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Misfit {
    /// One of its volumes is bound in another topology.
    VolumeElsewhere {
        /// The volume claim.
        volume: NamespacedName,
        /// The topology of the volume.
        reach: Str,
    },
    /// The node has kept an undeclared taint.
    Taint(Taint),
    /// The node is smaller than predicted.
    TooSmall {
        /// The resource.
        resource: Str,
        /// The predicted allocatable amount.
        predicted: Str,
        /// The allocatable amount of the node.
        allocatable: Str,
    },
    /// The node has kept a taint about its state: NotReady or unreachable.
    Unhealthy(Taint),
    /// The node was cordoned.
    Cordoned,
    /// Other pods use the capacity, or a constraint of the pod excludes the node.
    CapacityTaken,
    /// The node did not become ready for pods in time.
    NotInitialized,
}

impl Misfit {
    /// The reason in one word, for conditions and metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::VolumeElsewhere { .. } => "VolumeBoundElsewhere",
            Self::Taint(_) => "UnexpectedTaint",
            Self::TooSmall { .. } => "SmallerThanPredicted",
            Self::Unhealthy(_) => "NodeUnhealthy",
            Self::Cordoned => "Cordoned",
            Self::CapacityTaken => "CapacityTaken",
            Self::NotInitialized => "InitializationTimeout",
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VolumeElsewhere { volume, reach } => {
                write!(f, "volume claim {volume} was bound elsewhere: {reach}")
            }
            Self::Taint(taint) => {
                write!(
                    f,
                    "the node has taint {taint}, which the NodePool does not declare and the pods do not tolerate"
                )
            }
            Self::TooSmall { resource, predicted, allocatable } => {
                write!(f, "the node has {allocatable} of {resource} for pods, {predicted} were predicted")
            }
            Self::Unhealthy(taint) => write!(f, "the node has taint {taint}"),
            Self::Cordoned => f.write_str("the node was cordoned"),
            Self::CapacityTaken => f.write_str("there is no room left that the pods may use"),
            Self::NotInitialized => f.write_str("the node was not initialized in time"),
        }
    }
}

/// The decision about a pod and its NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The NodeClaim keeps the pod; its conditions have the reason for the delay.
    Keep,
    /// The pod stays nominated to an initialized node that it does not fit now, until this time has passed.
    Wait(Misfit, Duration),
    /// The pod is released, so that another NodeClaim may be created for it.
    Release(Misfit),
}

/// Judges whether `node` can run `pod`, for which a plan would create another NodeClaim. `planned` is the sum of the requests that the
/// plan places on the node beside the pod.
#[must_use]
pub fn judge(
    node: &StateNode,
    pod: &Pod,
    planned: &Resources,
    volumes: &BTreeMap<NamespacedName, VolumeClaim>,
    now: Timestamp,
) -> Verdict {
    if let Some(misfit) = volume_elsewhere(node, pod, volumes) {
        return Verdict::Release(misfit);
    }
    let initialized = node.claim.as_ref().and_then(|claim| claim.true_since(ConditionType::Initialized));
    if let Some(misfit) = too_small(node, pod, planned) {
        return Verdict::Release(misfit);
    }
    let Some(initialized) = initialized else { return Verdict::Keep };
    let hard = node.taints().into_iter().filter(|taint| taint.effect != TaintEffect::PreferNoSchedule);
    let (passing, lasting): (Vec<Taint>, Vec<Taint>) = hard.partition(|taint| is_of_state(node, taint));
    let patiently = |misfit: Misfit| match remaining(initialized, PATIENCE, now) {
        Some(left) => Verdict::Wait(misfit, left),
        None => Verdict::Release(misfit),
    };
    if let Some(taint) = first_untolerated(&lasting, &pod.spec.tolerations) {
        return patiently(Misfit::Taint(taint.clone()));
    }
    if node.node.as_ref().is_some_and(|node| node.cordoned) {
        return Verdict::Release(Misfit::Cordoned);
    }
    if let Some(taint) = first_untolerated(&passing, &pod.spec.tolerations) {
        return patiently(Misfit::Unhealthy(taint.clone()));
    }
    Verdict::Release(Misfit::CapacityTaken)
}

/// Whether a taint is about the state of this node, so that it does not predict other nodes: it belongs to Kubernetes or to node
/// lifecycle, or it was declared and has been added again.
fn is_of_state(node: &StateNode, taint: &Taint) -> bool {
    let declared = node.claim.as_ref().map_or(&[][..], |claim| &claim.startup_taints);
    taint.is_of_node_state() || declared.iter().any(|known| known.matches(taint))
}

fn volume_elsewhere(
    node: &StateNode,
    pod: &Pod,
    volumes: &BTreeMap<NamespacedName, VolumeClaim>,
) -> Option<Misfit> {
    let here = node.requirements();
    pod.spec.volumes.iter().find_map(|volume| {
        let name = match volume {
            VolumeRef::Claim(name) => name.to_string(),
            VolumeRef::Ephemeral { volume, .. } => format!("{}-{volume}", pod.id.name),
        };
        let known = volumes.get(&NamespacedName::new(&*pod.id.namespace, name))?;
        let bound = known.state == VolumeState::Bound && !known.topology.is_empty();
        let reached = |all: &Vec<Requirement>| here.overlaps(&all.iter().cloned().collect::<Requirements>());
        (bound && !known.topology.iter().any(reached)).then(|| {
            let reach: Vec<String> = known
                .topology
                .iter()
                .map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and "))
                .collect();
            Misfit::VolumeElsewhere { volume: known.id.clone(), reach: reach.join(", or ").into() }
        })
    })
}

/// Whether the pod would fit if the node were as predicted.
fn too_small(node: &StateNode, pod: &Pod, planned: &Resources) -> Option<Misfit> {
    let (claim, object) = (node.claim.as_ref()?, node.node.as_ref()?);
    if !node.is_registered() || !object.ready || object.allocatable.is_zero() {
        return None;
    }
    let (predicted, allocatable) = (&claim.allocatable, node.allocatable());
    let needed = node.requested.plus(planned).plus(pod.requests());
    let (resource, _) = pod.requests().iter().find(|(name, asked)| {
        *asked > 0 && needed.get(name) > allocatable.get(name) && allocatable.get(name) < predicted.get(name)
    })?;
    Some(Misfit::TooSmall {
        predicted: shown(&resource, predicted),
        allocatable: shown(&resource, &allocatable),
        resource: resource.as_str().into(),
    })
}

fn shown(resource: &ResourceName, amounts: &Resources) -> Str {
    resource.quantity(amounts.get(resource)).to_string().as_str().into()
}

/// Why a pod waits for its NodeClaim, as a sentence; `None` in the first [`BRIEF`].
#[must_use]
pub fn why_it_waits(claim: &str, misfit: &Misfit, left: Duration) -> Option<String> {
    let seconds = left.as_secs();
    (left.saturating_add(BRIEF) <= PATIENCE).then(|| {
        format!(
            "nodeclaim/{claim} was created for it, but {misfit}; another one may be created in {seconds}s if that does not change"
        )
    })
}

/// Why pods were released, as a sentence.
#[must_use]
pub fn explanation(pods: &[&NamespacedName], misfit: &Misfit) -> String {
    let mut names: Vec<String> = pods.iter().take(NAMED).map(ToString::to_string).collect();
    if pods.len() > NAMED {
        names.push(format!("{} more", pods.len() - NAMED));
    }
    let many = if pods.len() == 1 { "pod" } else { "pods" };
    format!("{misfit}; {many} {} may get another nodeclaim", names.join(", "))
}

#[cfg(test)]
mod tests;
