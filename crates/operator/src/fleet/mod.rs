//! The fleet at one moment, as a value: what `fleetwright top`, the page `/ui` and `fleetwright report` show, and `top` prints as JSON.
//!
//! - [`node`]: nodes, and NodeClaims without an initialized node.
//! - [`pending`]: pods without a node, with the reason.
//! - [`disruption`]: disruptions in progress.
//! - [`pools`]: NodePools, with limits and budgets.
//! - [`cost`]: prices of nodes.
//! - [`order`]: sorting and filtering.
//! - [`changes`]: what differs between two moments.
//! - [`read`]: from the objects of an input, or the index of a controller, to a snapshot and its report.
//!
//! Nothing here reads a cluster or a terminal.

pub(crate) mod changes;
mod cost;
mod disruption;
mod node;
pub(crate) mod order;
mod pending;
mod pools;
pub(crate) mod read;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use fleetwright_core::{
    disruption::{Method, Proposal, Rules, statuses},
    model::{Currency, Price, Resources, Snapshot, labels},
    scheduling::Plan,
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

pub(crate) use self::{
    cost::{FleetCost, is_paid, price},
    disruption::{DisruptionInProgress, DisruptionStage},
    node::{FleetNode, InFlightNodeClaim, NodeClaimPhase, NodePhase},
    pending::PendingPod,
    pools::{FleetNodePool, pool_state},
};
use crate::{catalogue::SourceRow, input::select::SelectOptions};

/// Version of the document's form.
const VERSION: u32 = 1;

/// The fleet at one moment. Prices are per hour in `currency`, as exact decimal text.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FleetReport {
    /// Version of this form.
    pub(crate) version: u32,
    /// What prices are in, as its ISO 4217 code.
    #[schemars(with = "String")]
    pub(crate) currency: Currency,
    /// When the cluster was read.
    #[schemars(with = "String")]
    pub(crate) taken_at: Timestamp,
    /// Sums of the rows below.
    pub(crate) totals: FleetTotals,
    /// Nodes, by name.
    pub(crate) nodes: Vec<FleetNode>,
    /// NodeClaims whose node is not initialized, by name.
    pub(crate) node_claims: Vec<InFlightNodeClaim>,
    /// Pods without a node, the oldest first.
    pub(crate) pending: Vec<PendingPod>,
    /// Disruptions in progress, the oldest first.
    pub(crate) disruptions: Vec<DisruptionInProgress>,
    /// NodePools, by name.
    pub(crate) node_pools: Vec<FleetNodePool>,
    /// Where instance types and prices come from.
    pub(crate) catalogues: Vec<SourceRow>,
    /// Parts of the input that were ignored or assumed.
    pub(crate) notes: Vec<String>,
    /// What the catalogues cannot answer; with any, the exit status is 3.
    pub(crate) incomplete: Vec<String>,
}

/// Sums of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FleetTotals {
    /// Nodes that have joined.
    pub(crate) nodes: usize,
    /// Those of them that are not ready, or not initialized.
    pub(crate) nodes_not_ready: usize,
    /// NodeClaims whose node is not initialized.
    pub(crate) node_claims: usize,
    /// The cost of all nodes, and of NodeClaims that are launched and have no node yet.
    #[serde(flatten)]
    pub(crate) cost: FleetCost,
    /// The share of spot capacity in that cost, from 0 to 1; null where nothing costs anything.
    pub(crate) spot_share: Option<f64>,
    /// Requests and allocatable resources of all nodes.
    pub(crate) resources: Vec<ResourceUse>,
    /// Pods on nodes.
    pub(crate) pods: usize,
    /// Pods without a node.
    pub(crate) pods_pending: usize,
    /// Those of them that no plan can place.
    pub(crate) pods_unschedulable: usize,
    /// Nodes that are disrupted, drained or terminated.
    pub(crate) nodes_disrupting: usize,
}

/// How much of a resource is requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceUse {
    /// The name, as Kubernetes writes it.
    pub(crate) resource: String,
    /// The sum of the requests of pods: milli-CPUs, bytes of memory and storage, or a count.
    pub(crate) used: i64,
    /// What nodes have for pods, in the same unit.
    pub(crate) allocatable: i64,
}

impl ResourceUse {
    /// The used share from 0 to 1, or above where requests exceed the node; 0 where there is nothing.
    pub(crate) fn share(&self) -> f64 {
        let share = self.used as f64 / self.allocatable as f64;
        if self.allocatable > 0 { share } else { 0.0 }
    }

    /// The requests of a pod.
    pub(crate) fn requests(requests: &Resources) -> Vec<Self> {
        let row = |(name, used): (fleetwright_core::model::ResourceName, i64)| Self {
            resource: name.as_str().to_owned(),
            used,
            allocatable: 0,
        };
        requests.iter().map(row).collect()
    }

    /// The rows of resources: those that the nodes have.
    fn rows(used: &Resources, allocatable: &Resources) -> Vec<Self> {
        let row = |(name, amount): (fleetwright_core::model::ResourceName, i64)| Self {
            resource: name.as_str().to_owned(),
            used: used.get(&name),
            allocatable: amount,
        };
        allocatable.iter().filter(|(_, amount)| *amount > 0).map(row).collect()
    }
}

/// The use of a resource among rows.
pub(crate) fn use_of<'a>(rows: &'a [ResourceUse], resource: &str) -> Option<&'a ResourceUse> {
    rows.iter().find(|row| row.resource == resource)
}

/// What a report is made of.
pub(crate) struct FleetInput<'a> {
    /// The cluster.
    pub(crate) snapshot: &'a Snapshot,
    /// The settings of disruption, for blockers.
    pub(crate) rules: &'a Rules,
    /// The methods that are in use.
    pub(crate) methods: &'a [&'static dyn Method],
    /// The plan for the pending pods.
    pub(crate) plan: &'a Plan,
    /// Pods that are not scheduled, as `namespace/name`, with a word and a message.
    pub(crate) set_aside: BTreeMap<String, (&'static str, String)>,
    /// Whether the prices of all NodePools are known.
    pub(crate) priced: bool,
    /// The nodes and pods to report.
    pub(crate) select: &'a SelectOptions,
}

impl FleetReport {
    /// The fleet of a snapshot, at its time. Blockers are those that need no simulation: all but budgets and the refusals of
    /// consolidation, which `explain node` adds.
    pub(crate) fn of(input: &FleetInput<'_>) -> Self {
        let FleetInput { snapshot, rules, methods, .. } = *input;
        let now = snapshot.taken_at;
        let statuses = statuses(snapshot, rules, now, methods, &Proposal::default());
        let selected: Vec<_> = statuses.iter().filter(|status| is_selected(input, &status.node)).collect();
        let nodes: Vec<FleetNode> = selected
            .iter()
            .filter_map(|status| FleetNode::of(snapshot, status, input.select.selector.as_ref()))
            .collect();
        let node_claims: Vec<InFlightNodeClaim> =
            selected.iter().filter_map(|status| InFlightNodeClaim::of(snapshot, &status.node)).collect();
        let pending = pending::of(input);
        let disruptions = disruption::of(snapshot, |node| is_selected(input, node));
        Self {
            version: VERSION,
            currency: snapshot.currency,
            taken_at: now,
            totals: totals(&nodes, &node_claims, &pending, input.priced),
            nodes,
            node_claims,
            pending,
            disruptions,
            node_pools: pools::of(snapshot, input.priced),
            catalogues: Vec::new(),
            notes: Vec::new(),
            incomplete: Vec::new(),
        }
    }
}

fn is_selected(input: &FleetInput<'_>, node: &fleetwright_core::model::StateNode) -> bool {
    let in_namespace = |name: &String| node.pods.iter().any(|pod| *pod.id.namespace == **name);
    let select = input.select;
    select.namespace.as_ref().is_none_or(in_namespace)
        && select.selector.as_ref().is_none_or(|selector| selector.selects(|key| node.label(key)))
}

fn totals(
    nodes: &[FleetNode],
    node_claims: &[InFlightNodeClaim],
    pending: &[PendingPod],
    priced: bool,
) -> FleetTotals {
    let joined = nodes.iter().map(|node| (node.price, node.capacity_type.as_deref()));
    let launched = node_claims.iter().filter(|claim| claim.phase == NodeClaimPhase::Launched);
    let launched = launched.map(|claim| (claim.price, claim.capacity_type.as_deref()));
    let costs: Vec<_> = joined.chain(launched).collect();
    let sum: Price = costs.iter().filter_map(|(price, _)| *price).sum();
    let is_spot = |capacity_type: &Option<&str>| *capacity_type == Some(labels::SPOT);
    let spot: Price = costs.iter().filter(|(_, kind)| is_spot(kind)).filter_map(|(price, _)| *price).sum();
    let without_price = costs.iter().filter(|(price, _)| price.is_none()).count();
    let mut resources: BTreeMap<&str, ResourceUse> = BTreeMap::new();
    for row in nodes.iter().flat_map(|node| &node.resources) {
        let empty = || ResourceUse { resource: row.resource.clone(), used: 0, allocatable: 0 };
        let total = resources.entry(&row.resource).or_insert_with(empty);
        total.used = total.used.saturating_add(row.used);
        total.allocatable = total.allocatable.saturating_add(row.allocatable);
    }
    FleetTotals {
        nodes: nodes.len(),
        nodes_not_ready: nodes.iter().filter(|node| node.phase.is_starting()).count(),
        node_claims: node_claims.len(),
        spot_share: (sum > Price::ZERO).then(|| (spot.dollars() / sum.dollars() * 1e4).round() / 1e4),
        cost: FleetCost::new(priced.then_some(sum), without_price),
        resources: resources.into_values().collect(),
        pods: nodes.iter().map(|node| node.pods).sum(),
        pods_pending: pending.len(),
        pods_unschedulable: pending.iter().filter(|pod| pod.unschedulable).count(),
        nodes_disrupting: nodes.iter().filter(|node| node.phase.is_leaving()).count(),
    }
}

/// A price as exact text.
fn money<S: Serializer>(price: &Option<Price>, serializer: S) -> Result<S::Ok, S::Error> {
    price.map(|price| price.to_string()).serialize(serializer)
}
