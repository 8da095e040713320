//! Metrics of NodeClaims and nodes, under Karpenter's names.

use crate::metrics::Family;

/// NodeClaims that Fleetwright deleted.
pub(crate) const CLAIMS_DISRUPTED: Family = Family::counter(
    "karpenter_nodeclaims_disrupted_total",
    &["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"],
    "Number of NodeClaims disrupted, by reason, NodePool and capacity type",
);
/// NodeClaims that repair replaced.
pub(crate) const CLAIMS_UNHEALTHY: Family = Family::counter(
    "karpenter_nodeclaims_unhealthy_disrupted_total",
    &["condition", "nodepool", "capacity_type", "image_id"],
    "Number of NodeClaims deleted because a repair policy calls their node unhealthy",
);
/// NodeClaims that were terminated.
pub(crate) const CLAIMS_TERMINATED: Family = Family::counter(
    "karpenter_nodeclaims_terminated_total",
    &["nodepool", "capacity_type", "zone"],
    "Number of NodeClaims terminated, by NodePool, capacity type and zone",
);
/// From the deletion of a NodeClaim until its finalizer is removed.
pub(crate) const CLAIM_TERMINATION: Family = Family::histogram(
    "karpenter_nodeclaims_termination_duration_seconds",
    &["nodepool"],
    &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0],
    "Time from the deletion of a NodeClaim to its end",
);
/// From the first request to terminate an instance to its termination.
pub(crate) const INSTANCE_TERMINATION: Family = Family::histogram(
    "karpenter_nodeclaims_instance_termination_duration_seconds",
    &["nodepool"],
    &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0],
    "Time from the first request to terminate an instance to its termination",
);
/// Nodes that were registered.
pub(crate) const NODES_CREATED: Family = Family::counter(
    "karpenter_nodes_created_total",
    &["nodepool", "zone"],
    "Number of nodes created, by NodePool and zone",
);
/// Nodes that were terminated.
pub(crate) const NODES_TERMINATED: Family = Family::counter(
    "karpenter_nodes_terminated_total",
    &["nodepool", "zone"],
    "Number of nodes terminated, by NodePool and zone",
);
/// From the deletion of a node until its finalizer is removed.
pub(crate) const NODE_TERMINATION: Family = Family::summary(
    "karpenter_nodes_termination_duration_seconds",
    &["nodepool"],
    "Time from the deletion of a node to its end",
);
/// Age of nodes at their termination.
pub(crate) const NODE_LIFETIME: Family = Family::histogram(
    "karpenter_nodes_lifetime_duration_seconds",
    &["nodepool"],
    &[
        900.0,
        1800.0,
        2700.0,
        3600.0,
        7200.0,
        14_400.0,
        21_600.0,
        28_800.0,
        36_000.0,
        43_200.0,
        57_600.0,
        72_000.0,
        86_400.0,
        172_800.0,
        259_200.0,
        432_000.0,
        864_000.0,
        1_296_000.0,
        1_728_000.0,
        2_160_000.0,
        2_592_000.0,
    ],
    "How old nodes were at their end",
);
/// Nodes that were drained.
pub(crate) const NODES_DRAINED: Family =
    Family::counter("karpenter_nodes_drained_total", &["nodepool"], "Number of nodes drained, by NodePool");
/// Eviction requests by status code.
pub(crate) const EVICTION_REQUESTS: Family = Family::counter(
    "karpenter_pods_eviction_requests_total",
    &["code"],
    "Number of eviction requests, by HTTP status code",
);
/// Pods that were evicted.
pub(crate) const PODS_DRAINED: Family =
    Family::counter("karpenter_pods_drained_total", &["reason"], "Number of pods drained, by reason");
/// Pods whose nomination to a NodeClaim was withdrawn.
pub(crate) const PODS_RELEASED: Family = Family::counter(
    "fleetwright_nodeclaims_pods_released_total",
    &["reason", "nodepool"],
    "Number of pods that the NodeClaim created for them could not take, by reason and NodePool",
);
/// Observations of nodes that differ from the prediction.
pub(crate) const OBSERVATIONS: Family = Family::counter(
    "fleetwright_nodepools_observations_total",
    &["nodepool", "kind"],
    "Number of nodes that differed from the prediction: less capacity (capacity), or a taint that the NodePool does not declare (taint)",
);
/// Observations of a NodePool that are in effect.
pub(crate) const OBSERVED: Family = Family::gauge(
    "fleetwright_nodepools_observed_count",
    &["nodepool", "kind"],
    "Observations in effect, by NodePool: instance types with less capacity than predicted (capacity), and taints that the NodePool does not declare (taint)",
);
/// Nodes that were not initialized in time.
pub(crate) const INITIALIZATION_TIMEOUTS: Family = Family::counter(
    "fleetwright_nodeclaims_initialization_timeouts_total",
    &["reason", "nodepool"],
    "Number of NodeClaims whose node was not initialized in time, by what was missing",
);
/// Instances without a NodeClaim that were terminated.
pub(crate) const ORPHANS_TERMINATED: Family = Family::counter(
    "fleetwright_garbage_collection_orphans_total",
    &[],
    "Number of instances that were terminated because no NodeClaim accounts for them",
);
