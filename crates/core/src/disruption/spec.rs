//! Names and class of a disruption method.

use crate::{model::DisruptionReason, scheduling::Purpose};

/// Names and class of a method, all in one place.
#[derive(Debug, PartialEq, Eq)]
pub struct MethodSpec {
    /// Name in metrics, reports and `--method`: `emptiness`, `multi-node-consolidation`.
    pub name: &'static str,
    /// Karpenter's `consolidation_type` label: `empty`, `multi`, `single`; empty for drift.
    pub consolidation_type: &'static str,
    /// The reason whose budgets apply, and which conditions show.
    pub reason: DisruptionReason,
    /// Whether pods may block it.
    pub class: DisruptionClass,
    /// Whether its commands wait out the validation delay and are simulated again before they start.
    pub validated: bool,
}

/// Karpenter's classes of disruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisruptionClass {
    /// PodDisruptionBudgets and do-not-disrupt block it.
    Graceful,
    /// Pods do not block it where a terminationGracePeriod bounds the drain.
    Eventual,
}

impl MethodSpec {
    /// Whether it disregards blocking pods where a terminationGracePeriod bounds the drain.
    #[must_use]
    pub fn is_eventual(&self) -> bool {
        self.class == DisruptionClass::Eventual
    }

    /// Why its simulations are asked. Only consolidation leaves nodes alone whose consolidateAfter is not over: what has to go
    /// uses the room that exists.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        match self.reason {
            DisruptionReason::Drifted => Purpose::Simulation,
            DisruptionReason::Underutilized | DisruptionReason::Empty => Purpose::Consolidation,
        }
    }
}
