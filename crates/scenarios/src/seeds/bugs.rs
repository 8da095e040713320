//! Planted bugs: incidents of other autoscalers, put back at the seams, to prove that the checks have teeth.
//!
//! Nothing of the product knows of them: they stand between the operators and their cloud ([`cloud`]) or their API server
//! ([`wire`]), or change objects as a stranger would.

mod cloud;
mod wire;

use std::sync::{Arc, atomic::AtomicU64};

use serde_json::json;

use super::{Report, Violation};
use fleetwright_sim::world::{Distort, World, Wrap};

/// A bug. The references are those of the incidents; `docs/invariants.md` tells what caught each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// A repeated launch is a new one: no idempotency token reaches the cloud (karpenter#1448).
    LaunchWithoutToken,
    /// The attempt is not written down before the cloud is called (hetzner#53).
    AttemptForgotten,
    /// An instance counts as gone as soon as its end was asked for (provider-aws#549).
    GoneTooSoon,
    /// NodeClaims lose their finalizer once they are launched (provider-aws#2734).
    FinalizerStripped,
    /// Whose cluster an instance belongs to is judged by names alone (karpenter-provider-gcp#244).
    OwnershipByName,
    /// The operator forgets which pods its claims answer (karpenter#375, provider-aws#2011).
    PodsForgotten,
    /// Limits are not seen (karpenter#2915, karpenter#2657).
    LimitsUnseen,
    /// Budgets are pruned by an old schema (karpenter#1066, provider-oci#9).
    BudgetsPruned,
    /// A stale cache of pods hides that they are protected (karpenter#1167, karpenter#651).
    ProtectionUnseen,
    /// Pods are evicted by name, so that the next one of that name is hit (karpenter#998).
    EvictionByName,
    /// Objects are deleted by name, so that a new one of that name is hit.
    DeletionByName,
    /// Lists are replaced as they were read some time ago (opensearch-k8s-operator#1471).
    BlindPatches,
    /// Objects are patched by their name alone, whichever has it by then.
    PatchesByName,
    /// A command that is taken back leaves its taint behind (karpenter#3176).
    TaintKept,
    /// Each replica believes that nobody holds the lease (talon#165).
    LeaseUnseen,
    /// The list of pods shows none that runs, so that every node looks empty (autoscaler#446).
    PodsThoughtEnded,
    /// What an instance came in place of is forgotten (karpenter#1293, provider-aws#3921).
    ReplacedForgotten,
    /// Nobody is told how old prices are.
    PricesThoughtNew,
    /// That nobody has placed a pod is not seen (provider-aws#3420, karpenter-provider-oci#37).
    PodsIgnored,
    /// Instances of claims that nobody knows are not listed (provider-aws#549).
    GhostsUnseen,
    /// The inputs of the drift hash change without a change of its version (karpenter#957, provider-aws#5373).
    HashChanges,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::LaunchWithoutToken,
        Self::AttemptForgotten,
        Self::GoneTooSoon,
        Self::FinalizerStripped,
        Self::OwnershipByName,
        Self::PodsForgotten,
        Self::LimitsUnseen,
        Self::BudgetsPruned,
        Self::ProtectionUnseen,
        Self::EvictionByName,
        Self::DeletionByName,
        Self::BlindPatches,
        Self::PatchesByName,
        Self::TaintKept,
        Self::LeaseUnseen,
        Self::PodsThoughtEnded,
        Self::ReplacedForgotten,
        Self::PricesThoughtNew,
        Self::PodsIgnored,
        Self::GhostsUnseen,
        Self::HashChanges,
    ];

    /// The invariants that it breaks: a bug is caught where one of them is seen broken.
    #[must_use]
    pub fn breaks(self) -> &'static [&'static str] {
        match self {
            Self::LaunchWithoutToken => &["S2", "S4"],
            Self::AttemptForgotten => &["S4"],
            Self::GoneTooSoon | Self::FinalizerStripped => &["S3"],
            Self::OwnershipByName => &["S1"],
            Self::PodsForgotten => &["S6"],
            Self::LimitsUnseen => &["S5"],
            Self::BudgetsPruned => &["S7"],
            Self::ProtectionUnseen | Self::EvictionByName => &["S8"],
            Self::DeletionByName | Self::BlindPatches | Self::PatchesByName | Self::LeaseUnseen => &["S20"],
            Self::TaintKept => &["L6"],
            Self::PodsThoughtEnded => &["S9"],
            Self::ReplacedForgotten => &["S13"],
            Self::PricesThoughtNew => &["S17"],
            Self::PodsIgnored => &["L1"],
            Self::GhostsUnseen => &["L3"],
            Self::HashChanges => &["S12"],
        }
    }

    /// The first violation of a run with this bug that shows it.
    #[must_use]
    pub fn caught(self, report: &Report) -> Option<&Violation> {
        report.violations.iter().find(|violation| self.breaks().contains(&violation.invariant))
    }
}

/// What stands between controllers and cloud for this bug.
pub(super) fn wrap(bug: Bug) -> Option<Wrap> {
    match bug {
        Bug::LaunchWithoutToken | Bug::GoneTooSoon | Bug::OwnershipByName | Bug::GhostsUnseen => {
            Some(Arc::new(move |inner, cloud| {
                Arc::new(cloud::Broken { inner, cloud: cloud.clone(), bug, calls: AtomicU64::new(0) })
            }))
        }
        _ => None,
    }
}

/// What stands between operators and API server for this bug.
pub(super) fn distort(bug: Bug) -> Option<Arc<dyn Distort>> {
    match bug {
        Bug::LaunchWithoutToken
        | Bug::GoneTooSoon
        | Bug::OwnershipByName
        | Bug::GhostsUnseen
        | Bug::FinalizerStripped
        | Bug::PricesThoughtNew => None,
        _ => Some(Arc::new(wire::Broken { bug, heard: AtomicU64::new(0) })),
    }
}

/// What a bug does to the objects of the API server, once a step.
pub(super) fn meddle(bug: Bug, world: &World) {
    if bug != Bug::FinalizerStripped {
        return;
    }
    for claim in world.server().list("karpenter.sh/v1", "NodeClaim", "") {
        let launched = claim.pointer("/status/providerID").is_some();
        let held = claim.pointer("/metadata/finalizers").is_some();
        if launched && held {
            let mut changed = (*claim).clone();
            changed["metadata"]["finalizers"] = json!([]);
            // A refusal is as good as a bug that did not act.
            let _ = world.server().apply(changed);
        }
    }
}
