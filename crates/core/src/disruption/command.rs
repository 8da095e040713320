//! What disruption decides.

use super::{Judged, Method, candidate::Candidate, cost::DisruptionCost};
use crate::{
    model::{DisruptionReason, Price},
    scheduling::NewClaim,
};

/// A decision, complete: nodes to remove, and what to create before that.
#[derive(Clone, Debug)]
#[must_use = "a command that nobody carries out or reports is lost"]
pub struct Command {
    /// Name of the method that found it.
    pub method: &'static str,
    /// Karpenter's `consolidation_type` label.
    pub consolidation_type: &'static str,
    /// The reason that budgets were asked with.
    pub reason: DisruptionReason,
    /// Nodes to remove.
    pub candidates: Vec<Candidate>,
    /// NodeClaims to create, and to wait for, before anything is removed.
    pub replacements: Vec<NewClaim>,
    /// Whether it goes through with pods that object.
    pub eventual: bool,
    /// How it was weighed by each of its pools whose policy is `Balanced`; all of them approve.
    pub judged: Vec<Judged>,
}

/// Whether a command creates anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It only removes.
    Delete,
    /// It replaces.
    Replace,
}

impl Decision {
    /// Karpenter's `decision` label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Replace => "replace",
        }
    }
}

impl Command {
    /// What `method` decides: `candidates` go once `replacements` are ready.
    pub(super) fn of(method: &dyn Method, candidates: Vec<Candidate>, replacements: Vec<NewClaim>) -> Self {
        Self {
            method: method.name(),
            consolidation_type: method.consolidation_type(),
            reason: method.reason(),
            candidates,
            replacements,
            eventual: method.is_eventual(),
            judged: Vec::new(),
        }
    }

    /// What the replacements are expected to cost together.
    #[must_use]
    pub fn price_then(&self) -> Price {
        self.replacements.iter().map(|new_claim| new_claim.chosen.price).sum()
    }

    /// Whether it creates anything.
    #[must_use]
    pub fn decision(&self) -> Decision {
        if self.replacements.is_empty() { Decision::Delete } else { Decision::Replace }
    }

    /// What the nodes to remove cost together.
    #[must_use]
    pub fn price_now(&self) -> Price {
        self.candidates.iter().map(|candidate| candidate.price).sum()
    }

    /// What is saved per hour; nothing where the replacements cost as much.
    #[must_use]
    pub fn savings(&self) -> Price {
        self.price_now().saturating_sub(self.price_then())
    }

    /// What it costs the pods that must move.
    #[must_use]
    pub fn disruption_cost(&self) -> DisruptionCost {
        self.candidates.iter().map(|candidate| candidate.cost).sum()
    }

    /// How many pods must move.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.candidates.iter().map(|candidate| candidate.pods.len()).sum()
    }
}

/// `Underutilized/delete, savings $0.08: n1 (m5.large/spot), n2 (…)` and, where it replaces, `-> m5.large/spot`.
impl std::fmt::Display for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use crate::model::labels::{CAPACITY_TYPE, INSTANCE_TYPE};
        write!(f, "{}/{}, savings ${:.4}/h: ", self.reason, self.decision().as_str(), self.savings())?;
        for (at, candidate) in self.candidates.iter().enumerate() {
            let label = |key| candidate.node.label(key).unwrap_or("unknown");
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{} ({}/{})", candidate.name(), label(INSTANCE_TYPE), label(CAPACITY_TYPE))?;
        }
        for new_claim in &self.replacements {
            write!(f, " -> {}/{}", new_claim.chosen.instance_type, new_claim.chosen.capacity_type)?;
        }
        Ok(())
    }
}
