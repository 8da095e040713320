//! Disruption commands.

use jiff::Timestamp;

use super::{BalancedScore, Candidate, DisruptionCost, MethodSpec};
use crate::{
    model::{
        Currency, Price,
        labels::{CAPACITY_TYPE, INSTANCE_TYPE},
    },
    scheduling::NewClaim,
};

/// A complete decision: nodes to delete, and NodeClaims to create first.
#[derive(Clone, Debug)]
#[must_use = "a command that is neither executed nor reported is lost"]
pub struct Command {
    /// The method that found it.
    pub method: &'static MethodSpec,
    /// Nodes to remove.
    pub candidates: Vec<Candidate>,
    /// NodeClaims to create and initialize before any node is deleted.
    pub replacements: Vec<NewClaim>,
    /// The score of each of its NodePools with the policy `Balanced`; all of them approve.
    pub scores: Vec<BalancedScore>,
    /// When the oldest of the existing nodes that take its pods was created; `None` if none does, or if they are not known.
    pub oldest_receiver: Option<Timestamp>,
}

/// Whether a command creates replacements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nodes are deleted.
    Delete,
    /// Nodes are replaced.
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
    /// A command that removes `candidates` once `replacements` are initialized.
    pub(super) fn new(
        method: &'static MethodSpec,
        candidates: Vec<Candidate>,
        replacements: Vec<NewClaim>,
    ) -> Self {
        Self { method, candidates, replacements, scores: Vec::new(), oldest_receiver: None }
    }

    /// The total effective price of the replacements.
    #[must_use]
    pub fn effective_after(&self) -> Price {
        self.replacements.iter().map(|new_claim| new_claim.chosen.effective).sum()
    }

    /// The total effective price of the nodes to delete.
    #[must_use]
    pub fn effective_before(&self) -> Price {
        self.candidates.iter().map(|candidate| candidate.effective).sum()
    }

    /// The saving of effective prices per hour, which decides; zero if the replacements count as much.
    #[must_use]
    pub fn effective_savings(&self) -> Price {
        self.effective_before().saturating_sub(self.effective_after())
    }

    /// The total expected list price of the replacements.
    #[must_use]
    pub fn price_after(&self) -> Price {
        self.replacements.iter().map(|new_claim| new_claim.chosen.price).sum()
    }

    /// Whether it creates replacements.
    #[must_use]
    pub fn decision(&self) -> Decision {
        if self.replacements.is_empty() { Decision::Delete } else { Decision::Replace }
    }

    /// The total list price of the nodes to delete.
    #[must_use]
    pub fn price_before(&self) -> Price {
        self.candidates.iter().map(|candidate| candidate.price).sum()
    }

    /// The saving of list prices per hour; zero if the replacements cost as much.
    #[must_use]
    pub fn savings(&self) -> Price {
        self.price_before().saturating_sub(self.price_after())
    }

    /// The disruption cost of its pods.
    #[must_use]
    pub fn disruption_cost(&self) -> DisruptionCost {
        self.candidates.iter().map(|candidate| candidate.cost).sum()
    }

    /// Number of pods to reschedule.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.candidates.iter().map(|candidate| candidate.pods.len()).sum()
    }

    /// `Underutilized/delete, savings $0.0800/h: n1 (m5.large/spot), n2 (…)` and, with a replacement, `-> m5.large/spot`.
    #[must_use]
    pub fn text(&self, currency: Currency) -> String {
        let nodes = self.candidates.iter().map(|candidate| {
            let label = |key| candidate.node.label(key).unwrap_or("unknown");
            format!("{} ({}/{})", candidate.name(), label(INSTANCE_TYPE), label(CAPACITY_TYPE))
        });
        let new = self.replacements.iter().map(|new_claim| {
            format!(" -> {}/{}", new_claim.chosen.instance_type, new_claim.chosen.capacity_type)
        });
        let savings = currency.amount(format_args!("{:.4}", self.savings()));
        format!(
            "{}/{}, savings {savings}/h: {}{}",
            self.method.reason,
            self.decision().as_str(),
            nodes.collect::<Vec<_>>().join(", "),
            new.collect::<String>()
        )
    }
}
