//! Metrics of the runtime, under controller-runtime's names.

use super::Family;

/// Reconciles by outcome: success, requeue, requeue_after, error.
pub const RECONCILES: Family = Family::counter(
    "controller_runtime_reconcile_total",
    &["controller", "result"],
    "Total number of reconciliations per controller",
);
/// Reconciles that failed.
pub const RECONCILE_ERRORS: Family = Family::counter(
    "controller_runtime_reconcile_errors_total",
    &["controller"],
    "Total number of reconciliation errors per controller",
);
/// Reconciles that panicked.
pub const PANICS: Family = Family::counter(
    "controller_runtime_reconcile_panics_total",
    &["controller"],
    "Total number of reconciliation panics per controller",
);
/// Reconciles that are not retried.
pub const TERMINAL_ERRORS: Family = Family::counter(
    "controller_runtime_terminal_reconcile_errors_total",
    &["controller"],
    "Total number of reconciliation errors that are not retried per controller; all are retried",
);
/// Reconciles that run into a time limit.
pub const TIMEOUTS: Family = Family::counter(
    "controller_runtime_reconcile_timeouts_total",
    &["controller"],
    "Total number of reconciliations that ran into a time limit per controller; calls have limits, reconciliations none",
);
/// Panics of conversion webhooks.
pub const CONVERSION_PANICS: Family = Family::counter(
    "controller_runtime_conversion_webhook_panics_total",
    &[],
    "Total number of panics of conversion webhooks; there are none",
);
/// Duration of reconciles.
pub const RECONCILE_TIME: Family = Family::histogram(
    "controller_runtime_reconcile_time_seconds",
    &["controller"],
    &[
        0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
        1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0,
        40.0, 50.0, 60.0,
    ],
    "Length of time per reconciliation per controller",
);
/// Lists and watches that failed.
pub const WATCH_ERRORS: Family = Family::counter(
    "fleetwright_watch_errors_total",
    &["kind"],
    "Lists and watches of the API server that failed, by kind of object",
);
/// Features that are off.
pub const FEATURE_OFF: Family = Family::gauge(
    "fleetwright_feature_off",
    &["feature", "resource", "reason"],
    "1 for each feature that is off because the API server refuses a resource: Forbidden by RBAC, or NotServed",
);
/// Number of due keys.
pub const QUEUE_DEPTH: Family =
    Family::gauge("workqueue_depth", &["name", "controller", "priority"], "Number of keys that are due");
/// Number of times that keys became due.
pub const QUEUE_ADDS: Family =
    Family::counter("workqueue_adds_total", &["name", "controller"], "Number of times that keys became due");
/// Keys that are retried after a failure.
pub const QUEUE_RETRIES: Family = Family::counter(
    "workqueue_retries_total",
    &["name", "controller"],
    "Number of retries of keys after a failure",
);
/// Duration from taking a key to returning it.
pub const QUEUE_WORK: Family = Family::histogram(
    "workqueue_work_duration_seconds",
    &["name", "controller"],
    &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0],
    "Processing time of a key",
);
/// Queue wait of keys.
pub const QUEUE_WAIT: Family = Family::histogram(
    "workqueue_queue_duration_seconds",
    &["name", "controller"],
    &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0],
    "Time that a due key waits in the queue",
);
/// Running reconciles: sum of their durations.
pub const QUEUE_UNFINISHED: Family = Family::gauge(
    "workqueue_unfinished_work_seconds",
    &["name", "controller"],
    "Sum of the processing times so far of the keys in progress",
);
/// Duration of the longest running reconcile.
pub const QUEUE_LONGEST: Family = Family::gauge(
    "workqueue_longest_running_processor_seconds",
    &["name", "controller"],
    "Longest processing time so far of the keys in progress",
);
/// Whether this process is the leader.
pub const LEADER: Family = Family::gauge(
    "leader_election_master_status",
    &["name"],
    "1 where this process holds the lease, 0 where another one does",
);
/// Renewals that had to read the lease first.
pub const LEADER_SLOW: Family = Family::counter(
    "leader_election_slowpath_total",
    &["name"],
    "Number of renewals of the lease that had to read it first, by name of the lease",
);
/// Number of running reconciles.
pub const ACTIVE: Family = Family::gauge(
    "controller_runtime_active_workers",
    &["controller"],
    "Number of reconciliations in progress per controller",
);
/// Maximum number of concurrent reconciles.
pub const MAX_CONCURRENT: Family = Family::gauge(
    "controller_runtime_max_concurrent_reconciles",
    &["controller"],
    "Maximum number of concurrent reconciliations per controller",
);
/// Build information.
pub const BUILD_INFO: Family = Family::gauge(
    "karpenter_build_info",
    &["version", "goversion", "goarch", "commit"],
    "Always 1; the labels have the version",
);
/// Jumps of the wall clock.
pub const CLOCK_JUMPS: Family = Family::counter(
    "fleetwright_clock_jumps_total",
    &[],
    "Number of jumps of the wall clock by more than 30 s against the monotonic clock; each suspends expiration and disruption for a minute",
);
