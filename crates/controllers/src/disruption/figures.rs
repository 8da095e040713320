//! Metrics of disruption, under Karpenter's names.

use crate::metrics::Family;

/// Commands that started.
pub(crate) const DECISIONS: Family = Family::counter(
    "karpenter_voluntary_disruption_decisions_total",
    &["decision", "reason", "consolidation_type"],
    "Number of disruption decisions carried out",
);
/// Commands that started, by each NodePool of their candidates.
pub(crate) const DECISIONS_BY_POOL: Family = Family::counter(
    "karpenter_voluntary_disruption_decisions_by_nodepool_total",
    &["decision", "reason", "consolidation_type", "nodepool"],
    "Number of disruption decisions carried out, by each NodePool that they touch",
);
/// How long a pass takes.
pub(crate) const EVALUATION: Family = Family::durations(
    "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
    &["reason", "consolidation_type"],
    "Duration of one evaluation of a disruption method",
);
/// Nodes that a method considers.
pub(crate) const ELIGIBLE: Family = Family::gauge(
    "karpenter_voluntary_disruption_eligible_nodes",
    &["reason"],
    "Number of nodes eligible for disruption",
);
/// Passes that ran out of time.
pub(crate) const TIMEOUTS: Family = Family::counter(
    "karpenter_voluntary_disruption_consolidation_timeouts_total",
    &["consolidation_type"],
    "Number of consolidation passes that ran out of time; they have a limit of simulations instead, and \
     fleetwright_disruption_unreached_nodes",
);
/// Commands that were not valid any more after the validation delay.
pub(crate) const FAILED_VALIDATIONS: Family = Family::counter(
    "karpenter_voluntary_disruption_failed_validations_total",
    &["consolidation_type"],
    "Number of decisions that did not hold through the validation delay",
);
/// Replacements that were created in vain.
pub(crate) const QUEUE_FAILURES: Family = Family::counter(
    "karpenter_voluntary_disruption_queue_failures_total",
    &["decision", "reason", "consolidation_type"],
    "Number of replacements that were not initialized when their disruption command was rolled back",
);
/// What completed commands saved.
pub(crate) const SAVINGS: Family = Family::counter(
    "fleetwright_voluntary_disruption_savings_hourly_total",
    &["decision", "reason", "consolidation_type"],
    "Amount per hour, in the currency of the cloud, by which disruption commands whose NodeClaims were deleted lower the list price of \
     the nodes, as decided; commands without a saving count zero",
);
/// Disruptions that budgets allow.
pub(crate) const ALLOWED: Family = Family::gauge(
    "karpenter_nodepools_allowed_disruptions",
    &["nodepool", "reason"],
    "Number of nodes of a NodePool that its budgets allow to be disrupted at once",
);
/// Nodes that count against the budgets.
pub(crate) const CONSUMING: Family = Family::gauge(
    "karpenter_nodepools_nodes_consuming_budgets",
    &["nodepool", "reason"],
    "Number of nodes of a NodePool that count against its budgets",
);
/// NodeClaims that were disrupted.
pub(crate) const DISRUPTED: Family = Family::counter(
    "karpenter_nodeclaims_disrupted_total",
    &["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"],
    "Number of NodeClaims disrupted",
);
/// Pods that move.
pub(crate) const PODS_DISRUPTED: Family = Family::counter(
    "karpenter_pods_disruption_initiated_total",
    &["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"],
    "Number of pods on NodeClaims that were disrupted",
);
/// Scores of moves under the policy `Balanced`.
pub(crate) const SCORE: Family = Family::histogram(
    "karpenter_consolidation_score",
    &["decision", "nodepool", "policy"],
    &[0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0],
    "Share of a NodePool's cost that a move would save, by its share of the NodePool's disruption",
);
/// Scored moves.
pub(crate) const MOVES: Family = Family::counter(
    "karpenter_consolidation_moves_total",
    &["decision", "nodepool", "policy"],
    "Number of consolidation moves that were weighed",
);
/// Nodes that a pass did not reach.
pub(crate) const UNREACHED: Family = Family::gauge(
    "fleetwright_disruption_unreached_nodes",
    &[],
    "Number of nodes that the last disruption pass did not reach; they come first in the next one",
);
/// Nodes that the drift caps still allow to be replaced.
pub(crate) const DRIFT_CAP: Family = Family::gauge(
    "fleetwright_disruption_drift_cap_left",
    &["nodepool"],
    "Number of nodes of a NodePool that may still be replaced for drift within the window of its drift cap",
);
