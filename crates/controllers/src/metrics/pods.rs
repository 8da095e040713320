//! Metrics of pods, under Karpenter's names.

use super::Family;

/// Labels of a pod.
const POD: &[&str] = &["name", "namespace"];

/// State of a pod: always 1, the labels carry the state.
pub const STATE: Family = Family::gauge(
    "karpenter_pods_state",
    &[
        "name",
        "namespace",
        "owner",
        "node",
        "scheduled",
        "nodepool",
        "zone",
        "arch",
        "capacity_type",
        "instance_type",
        "phase",
        "ready",
        "managed",
    ],
    "State of pods, as labels",
);
/// From a pod's creation until it is ready.
pub const STARTUP: Family = Family::summary(
    "karpenter_pods_startup_duration_seconds",
    &[],
    "Time from a pod's creation until it was ready",
);
/// From a pod's creation until it is bound.
pub const BOUND: Family = Family::durations(
    "karpenter_pods_bound_duration_seconds",
    &[],
    "Time from a pod's creation until it was bound to a node",
);
/// From the placement of a pod until it is bound.
pub const PROVISIONING_BOUND: Family = Family::durations(
    "karpenter_pods_provisioning_bound_duration_seconds",
    &[],
    "Time from the first decision that placed a pod until it was bound to a node",
);
/// From the placement of a pod until it is ready.
pub const PROVISIONING_STARTUP: Family = Family::durations(
    "karpenter_pods_provisioning_startup_duration_seconds",
    &[],
    "Time from the first decision that placed a pod until it was ready",
);
/// How long a pod has not been ready.
pub const UNSTARTED: Family = Family::gauge(
    "karpenter_pods_unstarted_time_seconds",
    POD,
    "Time since the creation of a pod that is not ready yet",
);
/// How long a pod has not been bound.
pub const UNBOUND: Family = Family::gauge(
    "karpenter_pods_unbound_time_seconds",
    POD,
    "Time since the creation of a pod that is not bound yet",
);
/// The same, since the pod was placed.
pub const PROVISIONING_UNBOUND: Family = Family::gauge(
    "karpenter_pods_provisioning_unbound_time_seconds",
    POD,
    "Time since the decision that placed a pod that is not bound yet",
);
/// The same, since the pod was placed.
pub const PROVISIONING_UNSTARTED: Family = Family::gauge(
    "karpenter_pods_provisioning_unstarted_time_seconds",
    POD,
    "Time since the decision that placed a pod that is not ready yet",
);
/// How long a pod has had no scheduling decision.
pub const UNDECIDED: Family = Family::gauge(
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
    POD,
    "Time since a pending pod without a decision was first seen",
);
