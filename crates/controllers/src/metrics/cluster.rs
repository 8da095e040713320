//! Metrics of nodes, NodePools and cluster state, under Karpenter's names.

use std::collections::BTreeMap;

use fleetwright_core::model::{LabelSchema, Str};

use super::Family;

/// The labels of a node's series beside the provider's well-known labels.
const NODE_LABELS: &[&str] = &["managed", "node_name", "phase", "resource_type"];

/// The well-known labels of a provider as labels of its nodes' series: the part of the key behind the slash, in snake
/// case, and the key.
#[must_use]
pub fn well_known_labels(schema: &LabelSchema) -> BTreeMap<String, Str> {
    let named = schema.well_known.iter().filter_map(|key| {
        let (_, name) = key.split_once('/')?;
        Some((name.to_ascii_lowercase().replace('-', "_"), key.clone()))
    });
    named.collect()
}

/// Allocatable resources.
pub const NODES_ALLOCATABLE: Family =
    Family::gauge("karpenter_nodes_allocatable", NODE_LABELS, "Resources allocatable by nodes");
/// Requests of pods.
pub const NODES_POD_REQUESTS: Family = Family::gauge(
    "karpenter_nodes_total_pod_requests",
    NODE_LABELS,
    "Resource requests of the pods of nodes, DaemonSet pods included",
);
/// Limits of pods.
pub const NODES_POD_LIMITS: Family = Family::gauge(
    "karpenter_nodes_total_pod_limits",
    NODE_LABELS,
    "Resource limits of the pods of nodes, DaemonSet pods included",
);
/// Limits of DaemonSet pods.
pub const NODES_DAEMON_LIMITS: Family = Family::gauge(
    "karpenter_nodes_total_daemon_limits",
    NODE_LABELS,
    "Resource limits of the DaemonSet pods of nodes",
);
/// Requests of DaemonSet pods.
pub const NODES_DAEMON_REQUESTS: Family = Family::gauge(
    "karpenter_nodes_total_daemon_requests",
    NODE_LABELS,
    "Resource requests of the DaemonSet pods of nodes",
);
/// System overhead: capacity minus allocatable.
pub const NODES_SYSTEM_OVERHEAD: Family = Family::gauge(
    "karpenter_nodes_system_overhead",
    NODE_LABELS,
    "Difference between capacity and allocatable of nodes",
);
/// Age of nodes.
pub const NODES_LIFETIME: Family = Family::gauge(
    "karpenter_nodes_current_lifetime_seconds",
    &["managed", "node_name", "phase"],
    "Age of nodes in seconds",
);
/// Requests as a share of allocatable.
pub const UTILIZATION: Family = Family::gauge(
    "karpenter_cluster_utilization_percent",
    &["resource_type"],
    "Share of the allocatable resources that pods request",
);
/// Number of nodes in the cluster state.
pub const STATE_NODE_COUNT: Family =
    Family::gauge("karpenter_cluster_state_node_count", &[], "Number of nodes in cluster state");
/// Whether every kind was listed and every watch is alive.
pub const STATE_SYNCED: Family =
    Family::gauge("karpenter_cluster_state_synced", &[], "1 if the state of the cluster is current, else 0");
/// How long the cluster state has not been synced.
pub const STATE_UNSYNCED_TIME: Family = Family::gauge(
    "karpenter_cluster_state_unsynced_time_seconds",
    &[],
    "Time since cluster state was last current",
);
/// Limits of NodePools.
pub const POOL_LIMIT: Family = Family::gauge(
    "karpenter_nodepools_limit",
    &["resource_type", "nodepool"],
    "Limits of NodePools, by resource",
);
/// Usage of NodePools.
pub const POOL_USAGE: Family = Family::gauge(
    "karpenter_nodepools_usage",
    &["resource_type", "nodepool"],
    "Resources of the nodes of NodePools, by resource",
);
/// Cost of NodePools.
pub const POOL_COST: Family = Family::gauge(
    "karpenter_nodepools_cost_total",
    &["nodepool"],
    "Price of the nodes of NodePools per hour, in the currency of the cloud",
);
/// Nodes whose price is not known.
pub const POOL_COST_ERRORS: Family = Family::counter(
    "karpenter_nodepools_cost_tracker_errors_total",
    &["nodepool"],
    "Number of nodes of NodePools whose price was not known, so that the cost of the NodePool lacks it",
);
/// Price of an offering.
pub const OFFERING_PRICE: Family = Family::gauge(
    "karpenter_cloudprovider_instance_type_offering_price_estimate",
    &["instance_type", "capacity_type", "zone"],
    "Price of an instance type per hour in the currency of the cloud, by capacity type and zone",
);
/// Whether an offering can be launched.
pub const OFFERING_AVAILABLE: Family = Family::gauge(
    "karpenter_cloudprovider_instance_type_offering_available",
    &["instance_type", "capacity_type", "zone"],
    "1 if an instance type can be launched as far as is known, else 0, by capacity type and zone",
);
/// CPUs of an instance type.
pub const TYPE_CPU: Family = Family::gauge(
    "karpenter_cloudprovider_instance_type_cpu_cores",
    &["instance_type"],
    "CPU cores of an instance type as the cloud advertises it",
);
/// Memory of an instance type.
pub const TYPE_MEMORY: Family = Family::gauge(
    "karpenter_cloudprovider_instance_type_memory_bytes",
    &["instance_type"],
    "Memory of an instance type in bytes as the cloud advertises it",
);
