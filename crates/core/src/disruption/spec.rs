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
    /// Whether pods can block it.
    pub class: DisruptionClass,
    /// Whether its commands wait for the validation delay and are simulated again before they start.
    pub validated: bool,
}

/// Karpenter's classes of disruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisruptionClass {
    /// PodDisruptionBudgets and do-not-disrupt block it.
    Graceful,
    /// Pods do not block it if a terminationGracePeriod bounds the drain.
    Eventual,
}

impl MethodSpec {
    /// Whether it disregards blocking pods if a terminationGracePeriod bounds the drain.
    #[must_use]
    pub fn is_eventual(&self) -> bool {
        self.class == DisruptionClass::Eventual
    }

    /// The purpose of its simulations. Only consolidation places no pods on nodes within consolidateAfter: other methods
    /// use all existing capacity.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        match self.reason {
            DisruptionReason::Drifted => Purpose::Simulation,
            DisruptionReason::Underutilized | DisruptionReason::Empty => Purpose::Consolidation,
        }
    }
}
