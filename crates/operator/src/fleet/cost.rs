//! What a fleet costs.

use fleetwright_core::model::{Price, Snapshot, StateNode, labels};
use schemars::JsonSchema;
use serde::Serialize;

use crate::figures::HOURS_PER_MONTH;

/// The cost of the nodes of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FleetCost {
    /// The price per hour of the nodes whose price is known; null where prices are unknown.
    pub(crate) hourly: Option<String>,
    /// The same for 730 hours.
    pub(crate) monthly: Option<f64>,
    /// Nodes without a known price, which the cost does not contain.
    pub(crate) nodes_without_price: usize,
}

impl FleetCost {
    /// The cost of nodes at `hourly`; `None` where prices are unknown.
    pub(crate) fn new(hourly: Option<Price>, nodes_without_price: usize) -> Self {
        Self {
            hourly: hourly.map(|price| price.to_string()),
            monthly: hourly.map(|price| (price.dollars() * HOURS_PER_MONTH * 100.0).round() / 100.0),
            nodes_without_price,
        }
    }

    /// The price per hour, for figures that need no exactness.
    pub(crate) fn dollars(&self) -> Option<f64> {
        self.hourly.as_ref()?.parse().ok()
    }
}

/// Whether the instance of a node is paid for: that of a Node until it is gone, and that of a NodeClaim from its launch. What a fleet and its
/// NodePools cost is the sum of these.
pub(crate) fn is_paid(node: &StateNode) -> bool {
    node.node.is_some() || node.claim.as_ref().is_some_and(|claim| claim.provider_id.is_some())
}

/// The list price of a node, if the catalogue of its NodePool has it.
pub(crate) fn price(snapshot: &Snapshot, node: &StateNode) -> Option<Price> {
    let catalog = snapshot.catalog(&node.pool()?)?;
    let label = |key: &str| node.label(key).unwrap_or_default();
    catalog.price(label(labels::INSTANCE_TYPE), label(labels::ZONE), label(labels::CAPACITY_TYPE))
}

/// What a node of that list price counts as in decisions.
pub(super) fn effective_price(snapshot: &Snapshot, node: &StateNode, list: Price) -> Option<Price> {
    let name = node.pool()?;
    let pool = snapshot.pool(&name)?;
    let instance_type = snapshot.catalog(&name)?.get(node.label(labels::INSTANCE_TYPE)?)?;
    Some(snapshot.objective.effective(pool, instance_type, list))
}
