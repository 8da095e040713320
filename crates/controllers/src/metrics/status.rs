//! Metrics of status conditions: one set of families per kind, and the legacy set with the kind as a label.

use std::borrow::Cow;

use super::{Family, LabelNames, MetricType};

const COUNT: &str = "1 for each condition of an object, by type, status and reason";
const CURRENT: &str = "How long a condition has had its status";
const TRANSITION: &str = "How long a condition had a status before it changed";
const TRANSITIONS: &str = "Number of transitions of conditions, by the new status";
const TERMINATING: &str = "How long an object has been terminating";
const TERMINATION: &str = "How long objects took to terminate";

const OBJECT: &[&str] = &["namespace", "name"];
const CONDITION: &[&str] = &["type", "status", "reason"];

/// Karpenter's buckets for its own kinds and nodes: 0.5 s, doubled 14 times.
pub const WIDE_BUCKETS: &[f64] =
    &[0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];
/// Prometheus' default buckets, which NodeClasses and the legacy set have.
pub const DEFAULT_BUCKETS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The families of one kind, or the legacy ones of all kinds.
#[derive(Clone, Debug)]
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

impl Families {
    /// Of one kind, with further labels behind those of each family.
    #[must_use]
    pub fn of_kind(kind: &str, further: &[String], buckets: &'static [f64]) -> Self {
        Self::new(&format!("operator_{}", kind.to_ascii_lowercase()), further, buckets)
    }

    /// The legacy set, for all kinds.
    #[must_use]
    pub fn of_all_kinds() -> Self {
        Self::new("operator", &["group".to_owned(), "kind".to_owned()], DEFAULT_BUCKETS)
    }

    fn new(prefix: &str, further: &[String], buckets: &'static [f64]) -> Self {
        let family = |name: &str, metric_type, own: &[&[&str]], help| {
            let own = own.iter().copied().flatten().map(|label| (*label).to_owned());
            Family {
                name: Cow::Owned(format!("{prefix}_{name}")),
                help,
                metric_type,
                labels: LabelNames::OfProvider(own.chain(further.iter().cloned()).collect()),
            }
        };
        let (gauge, histogram) = (MetricType::Gauge, MetricType::Histogram(buckets));
        Self {
            count: family("status_condition_count", gauge, &[OBJECT, CONDITION], COUNT),
            current: family("status_condition_current_status_seconds", gauge, &[OBJECT, CONDITION], CURRENT),
            transition: family(
                "status_condition_transition_seconds",
                histogram,
                &[&["type", "status"]],
                TRANSITION,
            ),
            transitions: family(
                "status_condition_transitions_total",
                MetricType::Counter,
                &[CONDITION],
                TRANSITIONS,
            ),
            terminating: family("termination_current_time_seconds", gauge, &[OBJECT], TERMINATING),
            termination: family("termination_duration_seconds", histogram, &[], TERMINATION),
        }
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> [&Family; 6] {
        [
            &self.count,
            &self.current,
            &self.transition,
            &self.transitions,
            &self.terminating,
            &self.termination,
        ]
    }
}
