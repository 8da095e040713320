//! Nodes, and NodeClaims whose node is not initialized.

use std::collections::BTreeMap;

use fleetwright_core::{
    disruption::DisruptionStatus,
    model::{ConditionStatus, NodeClaim, Price, Snapshot, StateNode, labels, nodeclaim::ConditionType},
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{ResourceUse, cost, money};
use crate::{
    disrupt::{BlockerRow, blockers},
    input::select::Selector,
};

/// A node that has joined.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FleetNode {
    /// The name of the Node.
    pub(crate) name: String,
    /// Its NodeClaim; null for nodes that are not managed.
    pub(crate) node_claim: Option<String>,
    /// Its NodePool.
    pub(crate) node_pool: Option<String>,
    /// Its instance type.
    pub(crate) instance_type: Option<String>,
    /// Its zone.
    pub(crate) zone: Option<String>,
    /// `spot`, `on-demand` or `reserved`.
    pub(crate) capacity_type: Option<String>,
    /// Its state.
    pub(crate) phase: NodePhase,
    /// When the Node was created.
    #[schemars(with = "String")]
    pub(crate) created: Timestamp,
    /// List price; null where unknown.
    #[serde(serialize_with = "money")]
    #[schemars(with = "Option<String>")]
    pub(crate) price: Option<Price>,
    /// What it counts as in decisions, beside its list price.
    #[serde(serialize_with = "money")]
    #[schemars(with = "Option<String>")]
    pub(crate) effective_price: Option<Price>,
    /// Pods on it.
    pub(crate) pods: usize,
    /// Those of its labels that the selector names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    /// Requests and allocatable resources.
    pub(crate) resources: Vec<ResourceUse>,
    /// Its disruption blockers that need no simulation.
    pub(crate) blockers: Vec<BlockerRow>,
}

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub(crate) enum NodePhase {
    /// The Node is not ready.
    NotReady,
    /// Ready, and not initialized yet.
    Initializing,
    /// Ready for pods.
    Ready,
    /// `spec.unschedulable`.
    Cordoned,
    /// Taken by a disruption command: no new pods.
    Disrupted,
    /// Its NodeClaim is being deleted, and pods are evicted.
    Draining,
    /// The termination of its instance was requested.
    Terminating,
}

impl NodePhase {
    fn of(state: &StateNode, ready: bool, cordoned: bool, tainted: bool) -> Self {
        let terminating =
            state.claim.as_ref().is_some_and(|claim| claim.is(ConditionType::InstanceTerminating));
        let deleting = state.claim.as_ref().and_then(|claim| claim.deleting).is_some()
            || state.node.as_ref().and_then(|node| node.deleting).is_some();
        match () {
            () if terminating => Self::Terminating,
            () if deleting => Self::Draining,
            () if tainted || state.marked_for_deletion => Self::Disrupted,
            () if !ready => Self::NotReady,
            () if !state.is_initialized() => Self::Initializing,
            () if cordoned => Self::Cordoned,
            () => Self::Ready,
        }
    }

    /// One word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::NotReady => "NotReady",
            Self::Initializing => "Initializing",
            Self::Ready => "Ready",
            Self::Cordoned => "Cordoned",
            Self::Disrupted => "Disrupted",
            Self::Draining => "Draining",
            Self::Terminating => "Terminating",
        }
    }

    /// Whether the node cannot run pods yet.
    pub(crate) fn is_starting(self) -> bool {
        matches!(self, Self::NotReady | Self::Initializing)
    }

    /// Whether the node is being removed.
    pub(crate) fn is_leaving(self) -> bool {
        matches!(self, Self::Disrupted | Self::Draining | Self::Terminating)
    }
}

/// The value of a label.
fn label(node: &StateNode, key: &str) -> Option<String> {
    node.label(key).map(str::to_owned)
}

impl FleetNode {
    /// The row of a node, with the labels that a selector names; `None` for a NodeClaim without one.
    pub(super) fn of(
        snapshot: &Snapshot,
        status: &DisruptionStatus,
        selector: Option<&Selector>,
    ) -> Option<Self> {
        let state = &status.node;
        let node = state.node.as_ref()?;
        let named = selector.into_iter().flat_map(Selector::keys);
        let price = cost::price(snapshot, state);
        Some(Self {
            name: node.name.to_string(),
            node_claim: state.claim_name().map(ToString::to_string),
            node_pool: label(state, labels::NODEPOOL),
            instance_type: label(state, labels::INSTANCE_TYPE),
            zone: label(state, labels::ZONE),
            capacity_type: label(state, labels::CAPACITY_TYPE),
            phase: NodePhase::of(state, node.ready, node.cordoned, node.is_disrupted()),
            created: node.created,
            price,
            effective_price: price.and_then(|list| cost::effective_price(snapshot, state, list)),
            pods: state.pods.len(),
            labels: named.filter_map(|key| Some((key.to_owned(), label(state, key)?))).collect(),
            resources: ResourceUse::rows(&state.requested, &state.allocatable()),
            blockers: if state.is_managed() { blockers(status) } else { Vec::new() },
        })
    }
}

/// A NodeClaim whose node is not initialized.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InFlightNodeClaim {
    /// The name.
    pub(crate) name: String,
    /// Its NodePool.
    pub(crate) node_pool: Option<String>,
    /// How far it is.
    pub(crate) phase: NodeClaimPhase,
    /// When it was created.
    #[schemars(with = "String")]
    pub(crate) created: Timestamp,
    /// Its Node, once it has joined.
    pub(crate) node: Option<String>,
    /// Its instance type, once it is launched.
    pub(crate) instance_type: Option<String>,
    /// Its zone, once it is launched.
    pub(crate) zone: Option<String>,
    /// Its capacity type, once it is launched.
    pub(crate) capacity_type: Option<String>,
    /// List price; null where unknown, and before the launch.
    #[serde(serialize_with = "money")]
    #[schemars(with = "Option<String>")]
    pub(crate) price: Option<Price>,
    /// Pods that are nominated to it.
    pub(crate) pods: usize,
    /// What it waits for: the condition of the next phase, if it says.
    pub(crate) message: Option<String>,
}

/// How far a NodeClaim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub(crate) enum NodeClaimPhase {
    /// No instance yet.
    Pending,
    /// The instance is launched, and the Node has not registered.
    Launched,
    /// The Node has registered, and is not initialized.
    Registered,
}

impl NodeClaimPhase {
    /// One word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Launched => "Launched",
            Self::Registered => "Registered",
        }
    }

    /// The condition that ends the phase.
    fn next(self) -> ConditionType {
        match self {
            Self::Pending => ConditionType::Launched,
            Self::Launched => ConditionType::Registered,
            Self::Registered => ConditionType::Initialized,
        }
    }
}

impl InFlightNodeClaim {
    /// The row of a NodeClaim; `None` if its node is initialized, or it is being deleted.
    pub(super) fn of(snapshot: &Snapshot, state: &StateNode) -> Option<Self> {
        let claim = state.claim.as_ref().filter(|claim| claim.deleting.is_none())?;
        if state.node.is_some() && state.is_initialized() {
            return None;
        }
        let phase = match &state.node {
            Some(_) if state.is_registered() => NodeClaimPhase::Registered,
            _ if claim.provider_id.is_some() => NodeClaimPhase::Launched,
            _ => NodeClaimPhase::Pending,
        };
        let launched = |key: &str| label(state, key).filter(|_| claim.provider_id.is_some());
        Some(Self {
            name: claim.name.to_string(),
            node_pool: label(state, labels::NODEPOOL),
            phase,
            created: claim.created,
            node: state.node_name().map(ToString::to_string),
            instance_type: launched(labels::INSTANCE_TYPE),
            zone: launched(labels::ZONE),
            capacity_type: launched(labels::CAPACITY_TYPE),
            price: claim.provider_id.as_ref().and_then(|_| cost::price(snapshot, state)),
            pods: state.nominations.len().max(claim.intended_pods.len()).max(state.pods.len()),
            message: waits_for(claim, phase),
        })
    }
}

/// The reason and message of the condition that ends the phase, if it is not True yet.
fn waits_for(claim: &NodeClaim, phase: NodeClaimPhase) -> Option<String> {
    let condition = claim.conditions.get(&phase.next())?;
    let is_telling = condition.status != ConditionStatus::True && !condition.message.is_empty();
    is_telling.then(|| format!("{}: {}", condition.reason, condition.message))
}
