//! Sorting and filtering of nodes.

use std::cmp::Ordering;

use clap::ValueEnum;
use fleetwright_core::model::Price;

use super::{FleetNode, use_of};

/// What nodes are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum NodeSort {
    /// By name.
    #[default]
    Name,
    /// By list price, the dearest first.
    Price,
    /// By the used share of CPU, the least first: what consolidation removes.
    Cpu,
    /// By the used share of memory, the least first.
    Memory,
    /// By number of pods, the fewest first.
    Pods,
    /// The youngest first.
    Age,
    /// By NodePool.
    #[value(name = "nodepool")]
    NodePool,
    /// By instance type.
    #[value(name = "type")]
    InstanceType,
    /// By state.
    #[value(name = "state")]
    Phase,
}

impl NodeSort {
    /// All of them, in the order in which a key steps through them.
    pub(crate) const ALL: [Self; 9] = [
        Self::Name,
        Self::Price,
        Self::Cpu,
        Self::Memory,
        Self::Pods,
        Self::Age,
        Self::NodePool,
        Self::InstanceType,
        Self::Phase,
    ];

    /// The name that options and the header have.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Price => "price",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pods => "pods",
            Self::Age => "age",
            Self::NodePool => "nodepool",
            Self::InstanceType => "type",
            Self::Phase => "state",
        }
    }

    /// The next one.
    pub(crate) fn next(self) -> Self {
        let all = Self::ALL.iter().chain(Self::ALL.first());
        all.skip_while(|sort| **sort != self).nth(1).copied().unwrap_or_default()
    }

    fn compare(self, a: &FleetNode, b: &FleetNode) -> Ordering {
        let share =
            |node: &FleetNode, resource| use_of(&node.resources, resource).map_or(0.0, |row| row.share());
        match self {
            Self::Name => Ordering::Equal,
            Self::Price => b.price.unwrap_or(Price::ZERO).cmp(&a.price.unwrap_or(Price::ZERO)),
            Self::Cpu => share(a, "cpu").total_cmp(&share(b, "cpu")),
            Self::Memory => share(a, "memory").total_cmp(&share(b, "memory")),
            Self::Pods => a.pods.cmp(&b.pods),
            Self::Age => b.created.cmp(&a.created),
            Self::NodePool => a.node_pool.cmp(&b.node_pool),
            Self::InstanceType => a.instance_type.cmp(&b.instance_type),
            Self::Phase => a.phase.cmp(&b.phase),
        }
    }
}

/// Which nodes are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeFilter {
    /// Text that the name, the instance type, the zone, the capacity type, the NodePool or the state contains.
    pub(crate) text: String,
    /// The NodePool.
    pub(crate) node_pool: Option<String>,
}

impl NodeFilter {
    /// Whether a node is listed; `text` is that of the filter in lower case.
    fn takes(&self, text: &str, node: &FleetNode) -> bool {
        let of_pool = self.node_pool.as_ref().is_none_or(|wanted| node.node_pool.as_ref() == Some(wanted));
        let has = |of_node: &str| of_node.to_lowercase().contains(text);
        let optional =
            [&node.instance_type, &node.zone, &node.capacity_type, &node.node_pool, &node.node_claim];
        of_pool
            && (text.is_empty()
                || has(&node.name)
                || has(node.phase.as_str())
                || optional.into_iter().flatten().any(|of_node| has(of_node)))
    }
}

/// The positions of the listed nodes, in order; ties are broken by name.
pub(crate) fn arranged(
    nodes: &[FleetNode],
    filter: &NodeFilter,
    sort: NodeSort,
    reverse: bool,
) -> Vec<usize> {
    let text = filter.text.to_lowercase();
    let mut listed: Vec<usize> = nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| filter.takes(&text, node))
        .map(|(place, _)| place)
        .collect();
    listed.sort_by(|a, b| {
        let (a, b) = (&nodes[*a], &nodes[*b]);
        let order = sort.compare(a, b).then_with(|| a.name.cmp(&b.name));
        if reverse { order.reverse() } else { order }
    });
    listed
}

/// The NodePools of nodes, by name.
pub(crate) fn node_pools(nodes: &[FleetNode]) -> Vec<String> {
    let names = nodes.iter().filter_map(|node| node.node_pool.clone());
    names.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}
