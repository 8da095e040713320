//! Metrics of provisioning, under Karpenter's names.

use super::Family;

/// NodeClaims created.
pub const NODECLAIMS_CREATED: Family = Family::counter(
    "karpenter_nodeclaims_created_total",
    &["reason", "nodepool", "min_values_relaxed"],
    "Number of NodeClaims created, by reason and NodePool",
);
/// Duration of scheduling.
pub const SCHEDULING_DURATION: Family = Family::durations(
    "karpenter_scheduler_scheduling_duration_seconds",
    &["controller"],
    "Duration of scheduling simulations",
);
/// Pods in the current batch.
pub const QUEUE_DEPTH: Family = Family::gauge(
    "karpenter_scheduler_queue_depth",
    &["controller", "scheduling_id"],
    "Number of pods waiting in the current scheduling pass",
);
/// Duration of the current pass.
pub const UNFINISHED_WORK: Family = Family::gauge(
    "karpenter_scheduler_unfinished_work_seconds",
    &["controller", "scheduling_id"],
    "Time since the current scheduling pass started",
);
/// Pods that scheduling ignores.
pub const IGNORED_PODS: Family = Family::gauge(
    "karpenter_scheduler_ignored_pods_count",
    &[],
    "Number of pods that scheduling ignores, because they are invalid or wait for another object",
);
/// Unschedulable pods.
pub const UNSCHEDULABLE_PODS: Family = Family::gauge(
    "karpenter_scheduler_unschedulable_pods_count",
    &["controller"],
    "Number of pods that could not be scheduled in the last pass",
);
/// From a pod's acknowledgement to its first scheduling decision.
pub const DECISION_DURATION: Family = Family::durations(
    "karpenter_pods_scheduling_decision_duration_seconds",
    &[],
    "Time from the first sight of a pod to its first scheduling decision",
);
/// Pods of the last pass by the placements that are open to them.
pub const ZONE_PODS: Family = Family::gauge(
    "karpenter_scheduler_pending_pods_by_effective_zone_count",
    &["controller", "zone"],
    "Number of pods of the last pass by the zone that they are bound to: its name, flexible (several), none",
);
