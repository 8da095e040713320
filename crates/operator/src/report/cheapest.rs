//! The cheapest plan for the same pods: all nodes that Karpenter's resources manage are replaced at once, by the production planner.
//!
//! No disruption may do that: budgets, PodDisruptionBudgets and the validity of each step are left out. It is the cost that the fleet tends to if
//! every pod could move.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetwright_controllers::settings::SolveEffort;
use fleetwright_core::{
    model::{Pod, PodUid, Price, Snapshot, StateNode},
    scheduling::PreparedSnapshot,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    fleet::{FleetCost, price, read::ReadFleet},
    plan,
    settings::Values,
};

/// The plan for the same pods on new nodes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheapestPlan {
    /// The nodes that it replaces: those of NodePools that are not static, with NodeClaims in flight.
    pub(super) now: NodesCost,
    /// The nodes that it creates.
    pub(super) then: NodesCost,
    /// What is saved per hour; below zero where the plan costs more, because pods that have no node now get one.
    pub(super) saving_hourly: String,
    /// The saving divided by the cost now, from 0 to 1; null where nothing costs anything.
    pub(super) saving_share: Option<f64>,
    /// Pods that it places: those of the replaced nodes, without DaemonSets, and pending pods.
    pub(super) pods: usize,
    /// Pods that it cannot place.
    pub(super) unschedulable: usize,
    /// Its nodes by instance type and capacity type, those of the highest cost first.
    pub(super) types: Vec<TypeRow>,
}

/// Nodes and their cost.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodesCost {
    /// Nodes.
    pub(super) nodes: usize,
    /// What they cost.
    #[serde(flatten)]
    pub(super) cost: FleetCost,
}

/// New nodes of an instance type.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TypeRow {
    /// The NodePool.
    node_pool: String,
    /// The instance type.
    instance_type: String,
    /// `spot`, `on-demand` or `reserved`.
    capacity_type: String,
    /// Nodes.
    nodes: usize,
    /// List prices in sum.
    hourly: String,
}

/// Plans the pods of all replaceable nodes, and pending pods, without these nodes.
pub(super) fn of(read: &mut ReadFleet, budget: SolveEffort, values: &Values) -> CheapestPlan {
    let snapshot = read.snapshot.clone();
    let replaced: BTreeSet<&str> = snapshot
        .nodes
        .iter()
        .filter(|node| is_replaceable(&snapshot, node))
        .filter_map(|node| node.claim_name().map(|name| name.as_str()))
        .collect();
    let is_replaced =
        |node: &StateNode| node.claim_name().is_some_and(|name| replaced.contains(name.as_str()));
    let rules = plan::rules(values);
    let packing = read.packing;
    let mut asked = 0;
    let plan = plan::passes(&mut read.loaded, snapshot.taken_at, |snapshot| {
        let all = snapshot.nodes.iter().enumerate();
        let without: Vec<usize> = all.filter(|(_, node)| is_replaced(node)).map(|(at, _)| at).collect();
        let pods = pods(snapshot, &without);
        asked = pods.len();
        let mut prepared = PreparedSnapshot::on(snapshot.clone(), &rules);
        plan::solve_without(&mut prepared, (&pods, &without), packing, budget)
    });
    let paid = snapshot.nodes.iter().filter(|node| is_replaced(node) && !node.is_deleting());
    let prices: Vec<Option<Price>> = paid.map(|node| price(&snapshot, node)).collect();
    let before: Price = prices.iter().flatten().copied().sum();
    let after = plan.cost.hourly;
    let saving = match after > before {
        true => format!("-{}", after.saturating_sub(before)),
        false => before.saturating_sub(after).to_string(),
    };
    let share = 1.0 - after.dollars() / before.dollars();
    let without_price = prices.iter().filter(|price| price.is_none()).count();
    CheapestPlan {
        now: NodesCost { nodes: prices.len(), cost: FleetCost::new(Some(before), without_price) },
        then: NodesCost { nodes: plan.new_claims.len(), cost: FleetCost::new(Some(after), 0) },
        saving_hourly: saving,
        saving_share: (before > Price::ZERO).then(|| (share * 1e4).round() / 1e4),
        pods: asked,
        unschedulable: plan.unplaced.len(),
        types: types(&plan.new_claims),
    }
}

/// Whether new nodes may take the place of a node.
fn is_replaceable(snapshot: &Snapshot, node: &StateNode) -> bool {
    let pool = node.pool().and_then(|name| snapshot.pool(&name).cloned());
    node.is_managed() && pool.is_some_and(|pool| !pool.is_static() && !pool.deleting)
}

/// The pods of nodes at some positions, and pending pods, each once.
fn pods(snapshot: &Arc<Snapshot>, nodes: &[usize]) -> Vec<Arc<Pod>> {
    let mut pods = plan::pods(snapshot, false);
    let mut known: BTreeSet<PodUid> = pods.iter().map(|pod| pod.uid.clone()).collect();
    for pod in nodes.iter().flat_map(|at| &snapshot.nodes[*at].pods).filter(|pod| pod.is_reschedulable()) {
        if known.insert(pod.uid.clone()) {
            pods.push(pod.clone());
        }
    }
    pods
}

fn types(new_claims: &[fleetwright_core::scheduling::NewClaim]) -> Vec<TypeRow> {
    let mut sums: BTreeMap<[&str; 3], (usize, Price)> = BTreeMap::new();
    for new_claim in new_claims {
        let chosen = &new_claim.chosen;
        let key = [&*new_claim.pool.name, &*chosen.instance_type, &*chosen.capacity_type];
        let sum = sums.entry(key).or_default();
        *sum = (sum.0 + 1, [sum.1, chosen.price].into_iter().sum());
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|(_, (_, price))| Reverse(*price));
    let row =
        |([node_pool, instance_type, capacity_type], (nodes, price)): ([&str; 3], (usize, Price))| TypeRow {
            node_pool: node_pool.to_owned(),
            instance_type: instance_type.to_owned(),
            capacity_type: capacity_type.to_owned(),
            nodes,
            hourly: price.to_string(),
        };
    rows.into_iter().map(row).collect()
}
