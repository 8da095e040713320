//! C8xx: the nodes that Fleetwright would choose for the pods of each NodePool, beside those of Karpenter's order.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_api::labels;
use fleetwright_controllers::settings::Packing;
use fleetwright_core::{
    model::{Currency, Price, labels::NODEPOOL},
    scheduling::{Plan, PreparedSnapshot},
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    finding::Finding,
    objects::{count, group_of, label, list, name, some, text},
};
use crate::{
    catalogue::{Catalogues, SourceRow},
    cli::PlanOptions,
    input::{Item, Source},
    plan,
    settings::Values,
};

/// API groups of the kinds that only `compat` reads.
const OF_COMPAT: [&str; 5] = [
    "apiextensions.k8s.io",
    "rbac.authorization.k8s.io",
    "admissionregistration.k8s.io",
    "coordination.k8s.io",
    "batch",
];

/// The nodes for all pods of a NodePool, placed at once on no existing nodes of any NodePool. Prices are per hour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PoolRow {
    /// The NodePool.
    pub(super) node_pool: String,
    /// Its nodes today.
    pub(super) nodes: usize,
    /// What they cost, where the price of each is known.
    pub(super) cost: Option<String>,
    /// NodeClaims in Karpenter's placement order.
    pub(super) compatible_nodes: usize,
    /// What they would cost; null where prices are unknown.
    pub(super) compatible_cost: Option<String>,
    /// NodeClaims as Fleetwright packs.
    pub(super) least_cost_nodes: usize,
    /// What they would cost; null where prices are unknown.
    pub(super) least_cost_cost: Option<String>,
    /// What Fleetwright's packing saves against Karpenter's order; below zero where it costs more, because pods change the NodePool.
    pub(super) saves: Option<String>,
}

/// Both plans, by NodePool.
pub(super) struct Comparison {
    pub(super) pools: Vec<PoolRow>,
    pub(super) findings: Vec<Finding>,
    pub(super) notes: Vec<String>,
    pub(super) gaps: Vec<String>,
    pub(super) sources: Vec<SourceRow>,
}

/// Plans the pods of all NodePools from nothing, in both orders. `today` has nodes and costs by NodePool.
///
/// # Errors
/// An option or a file of instance types cannot be used.
pub(super) fn compare(
    items: &[Item],
    options: &PlanOptions,
    catalogues: &Catalogues,
    values: &Values,
    (at, today): (Timestamp, &BTreeMap<String, (usize, Option<Price>)>),
) -> anyhow::Result<Comparison> {
    let (mut loaded, packing) = plan::prepare(without_nodes(items), options, catalogues, values)?;
    let snapshot = loaded.index.snapshot(at);
    let pods = plan::pods(&snapshot, false);
    let solve = |packing| {
        let mut prepared = PreparedSnapshot::new(&snapshot, &plan::rules(values));
        plan::solve(&mut prepared, &pods, packing, options.budget)
    };
    let compatible = solve(Packing::Compatible);
    let least_cost = if packing == Packing::LeastCost { solve(packing) } else { compatible.clone() };
    let priced = loaded.priced;
    let (theirs, ours) = (by_pool(&compatible), by_pool(&least_cost));
    let names: BTreeSet<&String> = theirs.keys().chain(ours.keys()).chain(today.keys()).collect();
    let row = |name: &String| {
        let of = |plan: &BTreeMap<String, (usize, Price)>| plan.get(name).copied().unwrap_or_default();
        let ((compatible_nodes, before), (least_cost_nodes, after)) = (of(&theirs), of(&ours));
        let (nodes, cost) = today.get(name).copied().unwrap_or_default();
        let shown = |price: Price| priced.then(|| price.to_string());
        PoolRow {
            node_pool: name.clone(),
            nodes,
            cost: cost.map(|cost| cost.to_string()),
            compatible_nodes,
            compatible_cost: shown(before),
            least_cost_nodes,
            least_cost_cost: shown(after),
            saves: priced.then(|| difference(before, after)),
        }
    };
    let pools: Vec<PoolRow> = names.into_iter().map(row).collect();
    let mut findings: Vec<Finding> = pools.iter().filter_map(|row| differs(row, snapshot.currency)).collect();
    findings.extend(unplaced(&compatible));
    if !priced && !pools.is_empty() {
        let what = "prices are unknown: no saving is computed";
        findings.push(
            Finding::note("C802", "NodePool", what).fix("see the lines `incomplete:` for what is missing"),
        );
    }
    Ok(Comparison { pools, findings, notes: loaded.notes, gaps: loaded.gaps, sources: loaded.sources })
}

fn difference(before: Price, after: Price) -> String {
    if after > before {
        format!("-{}", after.saturating_sub(before))
    } else {
        before.saturating_sub(after).to_string()
    }
}

fn differs(row: &PoolRow, currency: Currency) -> Option<Finding> {
    let (Some(theirs), Some(ours), Some(saves)) = (&row.compatible_cost, &row.least_cost_cost, &row.saves)
    else {
        return None;
    };
    if (row.compatible_nodes, theirs) == (row.least_cost_nodes, ours) {
        return None;
    }
    let what = format!(
        "would plan otherwise: {} at {} per hour in place of {} at {}; saves {} per hour",
        count(row.least_cost_nodes, "node"),
        currency.amount(ours),
        count(row.compatible_nodes, "node"),
        currency.amount(theirs),
        currency.amount(saves),
    );
    let fix =
        "nothing; new nodes are packed by price, existing ones change within the budgets of the NodePool";
    Some(Finding::note("C801", format!("NodePool {}", row.node_pool), what).fix(fix))
}

/// Running pods that the plan does not place.
fn unplaced(plan: &Plan) -> Vec<Finding> {
    let pods: Vec<String> = plan.unplaced.iter().map(|(pod, _)| pod.id.to_string()).collect();
    let Some((first, why)) = plan.unplaced.first() else { return Vec::new() };
    let others = if pods.len() == 1 { String::new() } else { format!("{}; ", some(&pods)) };
    let what = format!(
        "{}, pending or of the NodePools' nodes, would not be placed on new nodes: {others}{}: {why}",
        count(pods.len(), "pod"),
        first.id,
    );
    let fix = "`fleetwright plan` explains each; a pod that has no other node stays where it is";
    vec![Finding::warning("C803", "Pod", what).fix(fix)]
}

fn by_pool(plan: &Plan) -> BTreeMap<String, (usize, Price)> {
    let mut pools: BTreeMap<String, (usize, Price)> = BTreeMap::new();
    for claim in &plan.new_claims {
        let (nodes, cost) = pools.entry(claim.pool.name.to_string()).or_default();
        *nodes = nodes.saturating_add(1);
        *cost = [*cost, claim.chosen.price].into_iter().sum();
    }
    pools
}

/// The input without the nodes of NodePools; their pods are pending.
fn without_nodes(items: &[Item]) -> Vec<Item> {
    let nodes: BTreeSet<&str> = items
        .iter()
        .filter_map(|item| match text(&item.value, "/kind") {
            "Node" if !label(&item.value, NODEPOOL).is_empty() => Some(name(&item.value)),
            "NodeClaim" => Some(text(&item.value, "/status/nodeName")),
            _ => None,
        })
        .filter(|node| !node.is_empty())
        .collect();
    items.iter().filter_map(|item| without_node(item, &nodes)).collect()
}

fn without_node(item: &Item, nodes: &BTreeSet<&str>) -> Option<Item> {
    match (group_of(&item.value), text(&item.value, "/kind")) {
        (labels::GROUP, "NodeClaim") => None,
        ("", "Node") if nodes.contains(name(&item.value)) => None,
        ("", "Pod") if nodes.contains(text(&item.value, "/spec/nodeName")) => pending(item),
        _ => Some(item.clone()),
    }
}

/// A pod of a node as pending; `None` for one that is deleted with its node.
fn pending(item: &Item) -> Option<Item> {
    let pod = &item.value;
    let goes = list(pod, "/metadata/ownerReferences")
        .any(|owner| matches!(text(owner, "/kind"), "DaemonSet" | "Node"))
        || pod.pointer("/metadata/annotations/kubernetes.io~1config.mirror").is_some()
        || !text(pod, "/metadata/deletionTimestamp").is_empty()
        || matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    if goes {
        return None;
    }
    let mut item = item.clone();
    if let Some(spec) = item.value.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("nodeName");
    }
    item.value["status"] = json!({
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    });
    Some(item)
}

/// The input without objects that no decision reads: other versions, which C201 reports, and the kinds that only `compat` reads.
pub(super) fn readable(items: Vec<Item>) -> Vec<Item> {
    let is_read = |item: &Item| match group_of(&item.value) {
        labels::GROUP => {
            matches!(text(&item.value, "/apiVersion"), "karpenter.sh/v1" | "karpenter.sh/v1alpha1")
        }
        group => {
            !OF_COMPAT.contains(&group) && !matches!(text(&item.value, "/kind"), "Deployment" | "ConfigMap")
        }
    };
    items.into_iter().filter(is_read).collect()
}

/// Whether an object comes from a live cluster.
pub(super) fn is_live(items: &[Item]) -> bool {
    items.iter().any(|item| matches!(item.source, Source::Cluster))
}
