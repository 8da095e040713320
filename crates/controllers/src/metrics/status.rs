//! Metrics of status conditions: one set of families per kind, and the older set with the kind as a label.

use super::Family;

const COUNT: &str = "1 for each condition of an object, by type, status and reason";
const CURRENT: &str = "How long a condition has had its status";
const TRANSITION: &str = "How long a condition had a status before it changed";
const TRANSITIONS: &str = "Number of changes of conditions, by the status that they changed to";
const TERMINATING: &str = "How long an object has been terminating";
const TERMINATION: &str = "How long objects took to terminate";

const OF_OBJECT: &[&str] = &["namespace", "name", "type", "status", "reason"];
const OF_OBJECT_AND_KIND: &[&str] = &["namespace", "name", "type", "status", "reason", "group", "kind"];

/// 0.5 s, doubled 14 times.
const TERMINATION_BUCKETS: &[f64] =
    &[0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];
/// The buckets of a histogram that names none.
const DEFAULT_BUCKETS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The families of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Families {
    /// 1 for each condition.
    pub count: Family,
    /// How long a condition has had its status.
    pub current: Family,
    /// How long a condition had its previous status.
    pub transition: Family,
    /// Number of transitions.
    pub transitions: Family,
    /// How long the object has been terminating.
    pub terminating: Family,
    /// How long the termination took.
    pub termination: Family,
}

macro_rules! of_kind {
    ($kind:literal) => {
        Families {
            count: Family::gauge(concat!("operator_", $kind, "_status_condition_count"), OF_OBJECT, COUNT),
            current: Family::gauge(
                concat!("operator_", $kind, "_status_condition_current_status_seconds"),
                OF_OBJECT,
                CURRENT,
            ),
            transition: Family::histogram(
                concat!("operator_", $kind, "_status_condition_transition_seconds"),
                &["type", "status"],
                DEFAULT_BUCKETS,
                TRANSITION,
            ),
            transitions: Family::counter(
                concat!("operator_", $kind, "_status_condition_transitions_total"),
                &["type", "status", "reason"],
                TRANSITIONS,
            ),
            terminating: Family::gauge(
                concat!("operator_", $kind, "_termination_current_time_seconds"),
                &["namespace", "name"],
                TERMINATING,
            ),
            termination: Family::histogram(
                concat!("operator_", $kind, "_termination_duration_seconds"),
                &[],
                TERMINATION_BUCKETS,
                TERMINATION,
            ),
        }
    };
}

/// Of NodePools.
pub const NODE_POOL: Families = of_kind!("nodepool");
/// Of NodeClaims.
pub const NODE_CLAIM: Families = of_kind!("nodeclaim");
/// Of Nodes.
pub const NODE: Families = of_kind!("node");
/// Of KWOKNodeClasses.
pub const KWOK_NODE_CLASS: Families = of_kind!("kwoknodeclass");

/// Of EC2NodeClasses.
pub const EC2_NODE_CLASS: Families = of_kind!("ec2nodeclass");

/// The older set, for all kinds.
pub const ALL_KINDS: Families = Families {
    count: Family::gauge("operator_status_condition_count", OF_OBJECT_AND_KIND, COUNT),
    current: Family::gauge("operator_status_condition_current_status_seconds", OF_OBJECT_AND_KIND, CURRENT),
    transition: Family::histogram(
        "operator_status_condition_transition_seconds",
        &["type", "status", "group", "kind"],
        DEFAULT_BUCKETS,
        TRANSITION,
    ),
    transitions: Family::counter(
        "operator_status_condition_transitions_total",
        &["type", "status", "reason", "group", "kind"],
        TRANSITIONS,
    ),
    terminating: Family::gauge(
        "operator_termination_current_time_seconds",
        &["namespace", "name", "group", "kind"],
        TERMINATING,
    ),
    termination: Family::histogram(
        "operator_termination_duration_seconds",
        &["group", "kind"],
        TERMINATION_BUCKETS,
        TERMINATION,
    ),
};
