//! NodePools: what they have, what limits them, and what their budgets allow.

use std::collections::BTreeMap;

use fleetwright_core::{
    disruption::{Allowance, allowances},
    model::{NodePool, Price, Resources, Snapshot, labels::NODEPOOL},
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{FleetCost, cost};

/// The resource of a limit on the number of nodes.
const NODES: &str = "nodes";

/// A NodePool.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FleetNodePool {
    /// The name.
    pub(crate) name: String,
    /// Whether nodes are launched for it, or why not.
    pub(crate) state: String,
    /// Its weight.
    pub(crate) weight: i32,
    /// Its nodes until they are gone, and NodeClaims that are launched and have no node yet.
    pub(crate) nodes: usize,
    /// What they cost.
    #[serde(flatten)]
    pub(crate) cost: FleetCost,
    /// Its limits.
    pub(crate) limits: Vec<LimitUse>,
    /// How many of its nodes may be disrupted at once, by reason.
    pub(crate) budgets: Vec<BudgetUse>,
}

/// A limit of a NodePool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitUse {
    /// The name, as Kubernetes writes it; `nodes` for their number.
    pub(crate) resource: String,
    /// What its nodes have in sum: milli-CPUs, bytes of memory and storage, or a count. NodeClaims count as the largest instance type
    /// that they may become until they are launched.
    pub(crate) used: i64,
    /// The limit, in the same unit.
    pub(crate) limit: i64,
}

/// The budgets of a NodePool for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BudgetUse {
    /// `Underutilized`, `Empty` or `Drifted`.
    pub(crate) reason: String,
    /// How many nodes may be disrupted at once; at most the number of nodes.
    pub(crate) allowed: i64,
    /// How many are disrupted or not ready.
    pub(crate) disrupting: i64,
    /// When the window of the budget that decides closes; null if it is always open.
    #[schemars(with = "Option<String>")]
    pub(crate) until: Option<Timestamp>,
    /// Why nothing is allowed, if a budget is invalid.
    pub(crate) error: Option<String>,
}

/// All NodePools of a snapshot, by name, at its time.
pub(super) fn of(snapshot: &Snapshot, priced: bool) -> Vec<FleetNodePool> {
    let sums = sums(snapshot);
    let allowances = allowances(snapshot, snapshot.taken_at);
    let mut rows: Vec<FleetNodePool> = Vec::new();
    for pool in &snapshot.pools {
        let sum = sums.get(&*pool.name).cloned().unwrap_or_default();
        let budgets = allowances.iter().filter(|allowance| allowance.pool == pool.name).map(budget);
        rows.push(FleetNodePool {
            name: pool.name.to_string(),
            state: pool_state(pool),
            weight: pool.weight,
            nodes: sum.nodes,
            cost: FleetCost::new(priced.then_some(sum.hourly), sum.without_price),
            limits: limits(pool, snapshot),
            budgets: budgets.collect(),
        });
    }
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

/// Whether nodes are launched for a NodePool, or why not.
pub(crate) fn pool_state(pool: &NodePool) -> String {
    match (&pool.halted, pool.ready, pool.replicas) {
        _ if pool.deleting => "is being deleted".to_owned(),
        (Some(why), ..) => format!("launches nothing: {why}"),
        (None, false, _) => "is not ready".to_owned(),
        (None, true, Some(replicas)) => {
            format!("is static: it has {replicas} nodes whatever pods are pending")
        }
        (None, true, None) => "launches nodes for pending pods".to_owned(),
    }
}

/// The nodes of a NodePool in sum.
#[derive(Clone, Debug, Default)]
struct Sum {
    nodes: usize,
    hourly: Price,
    without_price: usize,
}

fn sums(snapshot: &Snapshot) -> BTreeMap<&str, Sum> {
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for node in snapshot.nodes.iter().filter(|node| cost::is_paid(node)) {
        let Some(pool) = node.label(NODEPOOL) else { continue };
        let sum = sums.entry(pool).or_default();
        sum.nodes += 1;
        match cost::price(snapshot, node) {
            Some(price) => sum.hourly = [sum.hourly, price].into_iter().sum(),
            None => sum.without_price += 1,
        }
    }
    sums
}

fn limits(pool: &NodePool, snapshot: &Snapshot) -> Vec<LimitUse> {
    if pool.limits.is_empty() {
        return Vec::new();
    }
    let (used, nodes): (Resources, i64) = snapshot.usage(&pool.name);
    let of_resource = |(resource, limit): &(fleetwright_core::model::ResourceName, i64)| LimitUse {
        resource: resource.as_str().to_owned(),
        used: used.get(resource),
        limit: *limit,
    };
    let of_nodes = |limit| LimitUse { resource: NODES.to_owned(), used: nodes, limit };
    pool.limits.resources.iter().map(of_resource).chain(pool.limits.nodes.map(of_nodes)).collect()
}

fn budget(allowance: &Allowance) -> BudgetUse {
    BudgetUse {
        reason: allowance.reason.to_string(),
        allowed: allowance.allowed.min(allowance.total),
        disrupting: allowance.disrupting,
        until: allowance.until,
        error: allowance.error.as_ref().map(ToString::to_string),
    }
}
