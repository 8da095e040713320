//! What a report adds to the data of the page.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    blocks::BlockRow,
    cheapest::CheapestPlan,
    costs::{CostRow, LabelCosts, WasteRow},
};

/// Where the money goes, and what could be saved. Prices are per hour in the currency of the fleet, as exact decimal text.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SavingReport {
    /// What is paid for resources that no pod requests.
    pub(super) waste: WasteRow,
    /// By NodePool, the dearest first; `null` for nodes without one.
    pub(super) by_node_pool: Vec<CostRow>,
    /// By namespace of pods, the dearest first.
    pub(super) by_namespace: Vec<CostRow>,
    /// By value of each asked label of pods, the dearest first.
    pub(super) by_label: Vec<LabelCosts>,
    /// The plan for the same pods on new nodes; null where prices are unknown.
    pub(super) cheapest: Option<CheapestPlan>,
    /// What disruption would do now.
    pub(super) proposed: Vec<ProposedRow>,
    /// What blocks disruption, by owner: what keeps the most unused cost first.
    pub(super) blocks: Vec<BlockRow>,
}

/// A command that one pass of disruption would start now.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProposedRow {
    /// `Empty`, `Drifted` or `Underutilized`.
    pub(super) reason: String,
    /// Nodes that are removed.
    pub(super) nodes: Vec<String>,
    /// How many NodeClaims replace them.
    pub(super) replacements: usize,
    /// What is saved per hour; below zero where it costs more; null where prices are unknown.
    pub(super) savings_hourly: Option<String>,
}
