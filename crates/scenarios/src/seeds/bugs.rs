//! Planted bugs: incidents of other autoscalers, reproduced at the interfaces, to prove that the checks catch them.
//!
//! The product does not know them: they are between the operators and their cloud ([`cloud`]) or their API server ([`wire`]), or change
//! objects as another client would.

mod cloud;
mod wire;

use std::sync::{Arc, atomic::AtomicU64};

use serde_json::json;

use super::{SeedReport, Violation};
use fleetwright_sim::simulator::{Distortion, Simulator, Wrap};

/// A bug. The references are those of the incidents; `docs/invariants.md` lists what caught each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// A repeated launch starts new instances: no idempotency token reaches the cloud (karpenter#1448).
    LaunchWithoutToken,
    /// The attempt is not recorded before the cloud is called (hetzner#53).
    AttemptForgotten,
    /// An instance counts as gone as soon as its termination was requested (provider-aws#549).
    GoneTooSoon,
    /// NodeClaims lose their finalizer once they are launched (provider-aws#2734).
    FinalizerStripped,
    /// The owner of an instance is determined by names alone (karpenter-provider-gcp#244).
    OwnershipByName,
    /// The operator forgets which pods its claims are for (karpenter#375, provider-aws#2011).
    PodsForgotten,
    /// Limits are ignored (karpenter#2915, karpenter#2657).
    LimitsUnseen,
    /// Budgets are pruned by an old schema (karpenter#1066, provider-oci#9).
    BudgetsPruned,
    /// A stale pod cache hides do-not-disrupt annotations (karpenter#1167, karpenter#651).
    ProtectionUnseen,
    /// Pods are evicted by name, so that a recreated pod is evicted too (karpenter#998).
    EvictionByName,
    /// Objects are deleted by name, so that a recreated one is deleted too.
    DeletionByName,
    /// Lists are replaced with a stale version (opensearch-k8s-operator#1471).
    BlindPatches,
    /// Objects are patched by name, so that a recreated one is patched too.
    PatchesByName,
    /// A rolled-back command leaves its taint (karpenter#3176).
    TaintKept,
    /// Each replica believes that the lease is free (talon#165).
    LeaseUnseen,
    /// The list of pods has no running ones, so that every node looks empty (autoscaler#446).
    PodsThoughtEnded,
    /// The lineage of replacements is forgotten (karpenter#1293, provider-aws#3921).
    ReplacedForgotten,
    /// The age of prices is hidden.
    PricesThoughtNew,
    /// Unschedulable pods are not seen (provider-aws#3420, karpenter-provider-oci#37).
    PodsIgnored,
    /// Instances without a claim are not listed (provider-aws#549).
    GhostsUnseen,
    /// The launch-loop breaker sees pods and not workloads: a pod that is created again is another demand.
    OwnersUnseen,
    /// The input of the drift hash changes without a new version (karpenter#957, provider-aws#5373).
    HashChanges,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 22] = [
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
        Self::OwnersUnseen,
        Self::HashChanges,
    ];

    /// The invariants that it violates: a bug is caught if one of them is violated.
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
            Self::OwnersUnseen => &["S21"],
            Self::HashChanges => &["S12"],
        }
    }

    /// The first violation of a run that shows this bug.
    #[must_use]
    pub fn caught(self, report: &SeedReport) -> Option<&Violation> {
        report.violations.iter().find(|violation| self.breaks().contains(&violation.invariant))
    }
}

/// The wrapper between controllers and cloud for this bug.
pub(super) fn wrap(bug: Bug) -> Option<Wrap> {
    match bug {
        Bug::LaunchWithoutToken | Bug::GoneTooSoon | Bug::OwnershipByName | Bug::GhostsUnseen => {
            Some(Arc::new(move |inner, cloud| {
                Arc::new(cloud::FaultyProvider { inner, cloud: cloud.clone(), bug, calls: AtomicU64::new(0) })
            }))
        }
        _ => None,
    }
}

/// The wrapper between operators and API server for this bug.
pub(super) fn distort(bug: Bug) -> Option<Arc<dyn Distortion>> {
    match bug {
        Bug::LaunchWithoutToken
        | Bug::GoneTooSoon
        | Bug::OwnershipByName
        | Bug::GhostsUnseen
        | Bug::FinalizerStripped
        | Bug::PricesThoughtNew => None,
        _ => Some(Arc::new(wire::DistortedConnection { bug, received: AtomicU64::new(0) })),
    }
}

/// Changes of objects in the API server by a bug, once per step.
pub(super) fn apply_bug(bug: Bug, simulator: &Simulator) {
    if bug != Bug::FinalizerStripped {
        return;
    }
    for claim in simulator.server().list("karpenter.sh/v1", "NodeClaim", "") {
        let launched = claim.pointer("/status/providerID").is_some();
        let held = claim.pointer("/metadata/finalizers").is_some();
        if launched && held {
            let mut changed = (*claim).clone();
            changed["metadata"]["finalizers"] = json!([]);
            // A rejected change is ignored.
            let _ = simulator.server().apply(changed);
        }
    }
}
