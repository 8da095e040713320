//! What is asked of scheduling: the rules, the pods, and how long to look for a better plan.

use std::sync::Arc;

use crate::model::{Pod, TopologySpread};

/// What of the settings scheduling reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether preferences are honoured until they must be relaxed (`PREFERENCE_POLICY`).
    pub preferences: PreferencePolicy,
    /// What happens where minValues cannot be met (`MIN_VALUES_POLICY`).
    pub min_values: MinValuesPolicy,
    /// Whether reserved capacity is used (feature gate `ReservedCapacity`).
    pub reserved_capacity: bool,
    /// Whether pods with resource claims are left alone (`IGNORE_DRA_REQUESTS`).
    pub ignore_dra: bool,
    /// Spread constraints of pods that have none (`SCHEDULER_CONFIG`); without selectors, which follow from the pod.
    pub default_spread: Vec<TopologySpread>,
    /// Bound on the placements that are examined for one request, some seconds of work by default. Pods that are not
    /// reached within it have that reason and come first in the next pass
    /// ([`Snapshot::deferred`](crate::model::Snapshot::deferred)), the oldest first: large pods without a node cannot starve
    /// the old and the small.
    pub max_probes: u64,
    /// How many instance types a claim names at most.
    pub max_instance_types: usize,
    /// How much choice a claim keeps.
    pub flexibility: Flexibility,
}

/// How many instance types a claim that is packed by price must still be able to become: what is packed tightly is cheap
/// and easily out of stock. Where fewer than twice as many hold one of its pods alone, half of those are enough. A claim
/// names every type that holds its pods, up to [`Rules::max_instance_types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flexibility {
    /// Where it may become spot.
    pub spot: usize,
    /// Else.
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

/// How preferences are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreferencePolicy {
    /// As requirements, relaxed one by one.
    Respect,
    /// Not at all.
    Ignore,
}

/// How unmet minValues are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinValuesPolicy {
    /// The instance types are refused.
    Strict,
    /// minValues is lowered to what can be had, and the claim says so.
    BestEffort,
}

/// How long to look for a better plan after the first one.
#[derive(Clone, Copy)]
pub enum Effort<'a> {
    /// The first plan.
    First,
    /// A number of rounds of improvement: reproducible.
    Iterations(u32),
    /// As long as this says so; asked often, so that it should be cheap.
    While(&'a dyn Fn() -> bool),
}

/// What to schedule, on what.
#[derive(Clone)]
pub struct Request<'a> {
    /// The pods, in any order.
    pub pods: &'a [Arc<Pod>],
    /// Indices into [`Snapshot::nodes`](crate::model::Snapshot::nodes) of nodes to exclude from the simulation, in addition to
    /// deleting nodes.
    /// Their pods count as removed; those that need a place are in `pods`.
    pub without: &'a [usize],
    /// Why it is asked.
    pub purpose: Purpose,
    /// How long to look for a better plan.
    pub effort: Effort<'a>,
}

/// Why scheduling is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To create NodeClaims: reserved capacity must be had where it is compatible.
    Provisioning,
    /// To see what the removal of nodes that have to go (drift, expiration) would lead to: reserved capacity is a fallback.
    Simulation,
    /// To see what consolidation would lead to: as [`Self::Simulation`], and nodes inside their consolidateAfter window take
    /// only pods that are pending or come from nodes that are being deleted.
    Consolidation,
}
