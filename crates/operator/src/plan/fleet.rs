//! The fleet before and after a plan: nodes, their price, and pods without a node.

use std::collections::BTreeSet;

use fleetwright_core::{
    model::{Price, Snapshot, StateNode},
    scheduling::Plan,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::fail_if::Figures;
use crate::fleet::{FleetCost, price};

/// Nodes and their price.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fleet {
    /// Nodes, with NodeClaims that have no node yet; not those that are being deleted.
    pub(super) nodes: usize,
    /// What they cost.
    #[serde(flatten)]
    pub(super) cost: FleetCost,
    /// Pods that no node runs: now all pending pods, after the plan those that it could not place or left out.
    pub(super) unschedulable: usize,
}

impl Fleet {
    /// The nodes of a snapshot that `stays` keeps.
    pub(super) fn of(snapshot: &Snapshot, priced: bool, stays: impl Fn(&StateNode) -> bool) -> Self {
        let (mut fleet, mut without_price) = (Self::default(), 0);
        let mut sum = Price::ZERO;
        for node in snapshot.nodes.iter().filter(|node| !node.is_deleting() && stays(node)) {
            fleet.nodes += 1;
            match price(snapshot, node) {
                Some(price) => sum = [sum, price].into_iter().sum(),
                None => without_price += 1,
            }
        }
        fleet.cost = FleetCost::new(priced.then_some(sum), without_price);
        fleet
    }

    /// The fleet with the new nodes of a plan.
    pub(super) fn with(&self, before: Price, plan: &Plan, priced: bool) -> Self {
        let hourly = priced.then(|| [before, plan.cost.hourly].into_iter().sum());
        Self {
            nodes: self.nodes + plan.new_claims.len(),
            cost: FleetCost::new(hourly, self.cost.nodes_without_price),
            ..self.clone()
        }
    }

    pub(super) fn figures(&self) -> Figures {
        Figures {
            unschedulable: self.unschedulable,
            cost: self.cost.dollars(),
            nodes: self.nodes,
            ..Figures::default()
        }
    }
}

/// The sum of the known prices of a snapshot's nodes that `stays` keeps.
pub(super) fn cost(snapshot: &Snapshot, stays: impl Fn(&StateNode) -> bool) -> Price {
    let nodes = snapshot.nodes.iter().filter(|node| !node.is_deleting() && stays(node));
    nodes.filter_map(|node| price(snapshot, node)).sum()
}

/// The NodeClaims or Nodes, by name, that a change of the input makes drift.
pub(super) type Leaving = BTreeSet<String>;
