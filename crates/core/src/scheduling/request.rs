//! The input of scheduling beside the snapshot: rules, pods, and the effort for a better plan.

use std::sync::Arc;

use crate::model::{Pod, TopologySpread};

/// The settings that scheduling reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether preferences are honoured until they must be relaxed (`PREFERENCE_POLICY`).
    pub preferences: PreferencePolicy,
    /// What happens where minValues cannot be met (`MIN_VALUES_POLICY`).
    pub min_values: MinValuesPolicy,
    /// Whether reserved capacity is used (feature gate `ReservedCapacity`).
    pub reserved_capacity: bool,
    /// Whether pods with resource claims are ignored (`IGNORE_DRA_REQUESTS`).
    pub ignore_dra: bool,
    /// Spread constraints of pods that have none (`SCHEDULER_CONFIG`); without selectors, which follow from the pod.
    pub default_spread: Vec<TopologySpread>,
    /// Bound on the placements that are examined for one request, some seconds of work by default. Pods that are not
    /// reached within it have that reason and come first in the next pass
    /// ([`Snapshot::deferred`](crate::model::Snapshot::deferred)), the oldest first: large pods without a node cannot starve
    /// the old and the small.
    pub max_probes: u64,
    /// The maximum number of instance types that a claim names.
    pub max_instance_types: usize,
    /// The number of instance types that a claim keeps.
    pub flexibility: Flexibility,
}

/// How many instance types a claim that is packed by price must still be able to become: what is packed tightly is cheap
/// and easily out of stock. Where fewer than twice as many hold one of its pods alone, half of those are enough. A claim
/// names every type that holds its pods, up to [`Rules::max_instance_types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flexibility {
    /// If spot capacity is allowed.
    pub spot: usize,
    /// Otherwise.
    pub on_demand: usize,
}

impl Default for Flexibility {
    fn default() -> Self {
        Self { spot: 15, on_demand: 3 }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            preferences: PreferencePolicy::Respect,
            min_values: MinValuesPolicy::Strict,
            reserved_capacity: true,
            ignore_dra: true,
            default_spread: Vec::new(),
            max_probes: 300_000_000,
            max_instance_types: 600,
            flexibility: Flexibility::default(),
        }
    }
}

/// The treatment of preferences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreferencePolicy {
    /// As requirements, relaxed one by one.
    Respect,
    /// Not at all.
    Ignore,
}

/// The treatment of unmet minValues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinValuesPolicy {
    /// The instance types are refused.
    Strict,
    /// minValues is lowered to the available number, which an annotation of the claim records.
    BestEffort,
}

/// The effort for a better plan after the first one.
#[derive(Clone, Copy)]
pub enum Effort<'a> {
    /// The first plan.
    First,
    /// A number of rounds of improvement: reproducible.
    Iterations(u32),
    /// While this returns `true`; it is called often and should be cheap.
    While(&'a dyn Fn() -> bool),
}

/// The pods to schedule, and the nodes to exclude.
#[derive(Clone)]
pub struct Request<'a> {
    /// The pods, in any order.
    pub pods: &'a [Arc<Pod>],
    /// Indices into [`Snapshot::nodes`](crate::model::Snapshot::nodes) of nodes to exclude from the simulation, in addition to
    /// deleting nodes.
    /// Their pods count as removed; those that need a place are in `pods`.
    pub without: &'a [usize],
    /// The purpose.
    pub purpose: Purpose,
    /// The effort.
    pub effort: Effort<'a>,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To create NodeClaims: reserved capacity must be had where it is compatible.
    Provisioning,
    /// To simulate the removal of nodes that must be replaced (drift, expiration): reserved capacity is a fallback.
    Simulation,
    /// To simulate consolidation: as [`Self::Simulation`], and nodes inside their consolidateAfter window take
    /// only pods that are pending or come from nodes that are being deleted.
    Consolidation,
}
