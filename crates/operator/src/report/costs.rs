//! The price of a node, divided among its pods.
//!
//! A pod has the mean of its shares of CPU, memory and each extended resource (such as GPUs) that the node has: requests divided by what
//! the node has for pods. What no pod requests is unused. The parts of a node add up to its price, in nano-dollars, rounded down for pods;
//! where requests exceed the node, the pods after the excess get nothing.

use std::{cmp::Reverse, collections::BTreeMap};

use fleetwright_core::model::{Pod, Price, ResourceName, Resources, Snapshot, StateNode, labels::NODEPOOL};
use schemars::JsonSchema;
use serde::Serialize;

use crate::fleet::{FleetCost, is_paid, price};

/// Costs with one name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CostRow {
    /// The NodePool, namespace or value; null without one.
    pub(super) name: Option<String>,
    /// Nodes, of NodePools; null for parts of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nodes: Option<usize>,
    /// Pods.
    pub(super) pods: usize,
    /// What they cost.
    #[serde(flatten)]
    pub(super) cost: FleetCost,
    /// What of it is unused, of NodePools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unused_hourly: Option<String>,
}

/// Costs by the value of a label.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LabelCosts {
    /// The label.
    pub(super) label: String,
    /// Its values.
    pub(super) rows: Vec<CostRow>,
}

/// What is paid for resources that no pod requests.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WasteRow {
    /// What is unused.
    #[serde(flatten)]
    pub(super) cost: FleetCost,
    /// Its share of the cost, from 0 to 1.
    pub(super) share: f64,
}

/// A node with a known price.
struct PricedNode<'a> {
    state: &'a StateNode,
    price: Price,
    /// The part of each pod.
    parts: Vec<(&'a Pod, Price)>,
    unused: Price,
}

/// The prices of all nodes, divided.
pub(super) struct Division<'a> {
    nodes: Vec<PricedNode<'a>>,
    without_price: usize,
    /// Positions in `nodes` by Node or NodeClaim.
    by_name: BTreeMap<&'a str, usize>,
}

/// A sum of a name.
#[derive(Clone, Copy, Default)]
struct Sum {
    nodes: usize,
    pods: usize,
    price: Price,
    unused: Price,
}

impl Sum {
    fn add(&mut self, nodes: usize, pods: usize, price: Price, unused: Price) {
        self.nodes += nodes;
        self.pods += pods;
        self.price = [self.price, price].into_iter().sum();
        self.unused = [self.unused, unused].into_iter().sum();
    }
}

impl<'a> Division<'a> {
    /// Divides the prices of the nodes of a snapshot.
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let mut division = Self { nodes: Vec::new(), without_price: 0, by_name: BTreeMap::new() };
        for state in snapshot.nodes.iter().filter(|state| is_paid(state)) {
            let Some(price) = price(snapshot, state) else {
                division.without_price += 1;
                continue;
            };
            division.by_name.insert(state.name(), division.nodes.len());
            division.nodes.push(PricedNode::new(state, price));
        }
        division
    }

    /// What is unused of the node of that name, and its price, if that is known.
    pub(super) fn node(&self, name: &str) -> Option<(Price, Price)> {
        let node = &self.nodes[*self.by_name.get(name)?];
        Some((node.unused, node.price))
    }

    /// What is unused.
    pub(super) fn waste(&self) -> WasteRow {
        let price: Price = self.nodes.iter().map(|node| node.price).sum();
        let unused: Price = self.nodes.iter().map(|node| node.unused).sum();
        let share = if price > Price::ZERO { unused.dollars() / price.dollars() } else { 0.0 };
        WasteRow {
            cost: FleetCost::new(Some(unused), self.without_price),
            share: (share * 1e4).round() / 1e4,
        }
    }

    /// By NodePool.
    pub(super) fn by_node_pool(&self) -> Vec<CostRow> {
        let mut sums: BTreeMap<Option<&str>, Sum> = BTreeMap::new();
        for node in &self.nodes {
            let sum = sums.entry(node.state.label(NODEPOOL)).or_default();
            sum.add(1, node.parts.len(), node.price, node.unused);
        }
        let row = |(name, sum): (Option<&str>, Sum)| CostRow {
            nodes: Some(sum.nodes),
            unused_hourly: Some(sum.unused.to_string()),
            ..row(name, sum)
        };
        sorted(sums).into_iter().map(row).collect()
    }

    /// By namespace.
    pub(super) fn by_namespace(&self) -> Vec<CostRow> {
        self.by_pod(|pod| Some(&pod.id.namespace))
    }

    /// By the value of a label of pods.
    pub(super) fn by_label(&self, label: &str) -> LabelCosts {
        LabelCosts {
            label: label.to_owned(),
            rows: self.by_pod(|pod| pod.labels.get(label).map(|value| &**value)),
        }
    }

    fn by_pod(&self, name: impl for<'p> Fn(&'p Pod) -> Option<&'p str>) -> Vec<CostRow> {
        let mut sums: BTreeMap<Option<&str>, Sum> = BTreeMap::new();
        for (pod, price) in self.nodes.iter().flat_map(|node| &node.parts) {
            sums.entry(name(pod)).or_default().add(0, 1, *price, Price::ZERO);
        }
        sorted(sums).into_iter().map(|(name, sum)| row(name, sum)).collect()
    }
}

impl<'a> PricedNode<'a> {
    fn new(state: &'a StateNode, price: Price) -> Self {
        let allocatable = state.allocatable();
        let divided = divided(&allocatable);
        let mut left = price;
        let part = |pod: &'a std::sync::Arc<Pod>| {
            let part = share(pod.requests(), &divided, price).min(left);
            left = left.saturating_sub(part);
            (&**pod, part)
        };
        let parts: Vec<_> = state.pods.iter().map(part).collect();
        Self { state, price, parts, unused: left }
    }
}

/// The resources whose shares count, with what the node has.
fn divided(allocatable: &Resources) -> Vec<(ResourceName, i64)> {
    const OTHERS: [&str; 2] = ["pods", "ephemeral-storage"];
    allocatable.iter().filter(|(name, amount)| *amount > 0 && !OTHERS.contains(&name.as_str())).collect()
}

/// The mean of the shares of some requests, of a price.
fn share(requests: &Resources, divided: &[(ResourceName, i64)], price: Price) -> Price {
    let count = i128::try_from(divided.len()).unwrap_or(1).max(1);
    let of_resource = |(name, amount): &(ResourceName, i64)| {
        i128::from(price.nanos()) * i128::from(requests.get(name).max(0)) / (i128::from(*amount) * count)
    };
    let nanos: i128 = divided.iter().map(of_resource).sum();
    Price::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// The dearest first, then by name.
fn sorted(sums: BTreeMap<Option<&str>, Sum>) -> Vec<(Option<&str>, Sum)> {
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|(_, sum)| Reverse(sum.price));
    rows
}

fn row(name: Option<&str>, sum: Sum) -> CostRow {
    CostRow {
        name: name.map(str::to_owned),
        nodes: None,
        pods: sum.pods,
        cost: FleetCost::new(Some(sum.price), 0),
        unused_hourly: None,
    }
}
