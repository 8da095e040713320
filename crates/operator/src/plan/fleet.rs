//! The fleet before and after a plan: nodes, their price, and pods without a node.

use std::collections::BTreeSet;

use fleetwright_core::{
    model::{Price, Snapshot, StateNode, labels},
    scheduling::Plan,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::fail_if::Figures;
use crate::figures::HOURS_PER_MONTH;

/// Nodes and their price.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fleet {
    /// Nodes, with NodeClaims that have no node yet; not those that are being deleted.
    pub(super) nodes: usize,
    /// Dollars per hour of the nodes whose price is known; null where prices are unknown.
    pub(super) hourly: Option<String>,
    /// The same for 730 hours.
    pub(super) monthly: Option<f64>,
    /// Nodes without a known price, which the cost does not contain.
    pub(super) nodes_without_price: usize,
    /// Pods that no node runs: now all pending pods, after the plan those that it could not place.
    pub(super) unschedulable: usize,
}

impl Fleet {
    /// The nodes of a snapshot that `stays` keeps.
    pub(super) fn of(snapshot: &Snapshot, priced: bool, stays: impl Fn(&StateNode) -> bool) -> Self {
        let mut fleet = Self::default();
        let mut sum = Price::ZERO;
        for node in snapshot.nodes.iter().filter(|node| !node.is_deleting() && stays(node)) {
            fleet.nodes += 1;
            match price(snapshot, node) {
                Some(price) => sum = [sum, price].into_iter().sum(),
                None => fleet.nodes_without_price += 1,
            }
        }
        fleet.set_price(priced.then_some(sum));
        fleet
    }

    /// The fleet with the new nodes of a plan.
    pub(super) fn with(&self, before: Price, plan: &Plan, priced: bool) -> Self {
        let mut fleet = self.clone();
        fleet.nodes += plan.new_claims.len();
        fleet.set_price(priced.then(|| [before, plan.cost.hourly].into_iter().sum()));
        fleet
    }

    fn set_price(&mut self, price: Option<Price>) {
        self.hourly = price.map(|price| price.to_string());
        self.monthly = price.map(|price| (price.dollars() * HOURS_PER_MONTH * 100.0).round() / 100.0);
    }

    pub(super) fn figures(&self) -> Figures {
        Figures {
            unschedulable: self.unschedulable,
            cost: self.hourly.as_ref().and_then(|hourly| hourly.parse().ok()),
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

/// The price of a node, if the catalogue of its NodePool has it.
pub(crate) fn price(snapshot: &Snapshot, node: &StateNode) -> Option<Price> {
    let catalog = snapshot.catalog(&node.pool()?)?;
    let label = |key: &str| node.label(key).unwrap_or_default();
    catalog.price(label(labels::INSTANCE_TYPE), label(labels::ZONE), label(labels::CAPACITY_TYPE))
}

/// The NodeClaims or Nodes, by name, that a change of the input makes drift.
pub(super) type Leaving = BTreeSet<String>;
