//! NodePools.

use std::{fmt, time::Duration};

use jiff::Timestamp;

use super::{
    ids::{ClaimName, PoolName, Str},
    labels::Labels,
    nodeclaim::NodeClassRef,
    observed::Observed,
    requirements::Requirements,
    resources::Resources,
    taint::Taint,
};

/// A NodePool.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePool {
    /// The name.
    pub name: PoolName,
    /// `metadata.uid`.
    pub uid: Str,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether its `Ready` condition is True, and nothing has stopped launches for it.
    pub ready: bool,
    /// Why nothing is launched for it, other than its `Ready` condition.
    pub halted: Option<Str>,
    /// `spec.weight`; unset is zero. Higher is tried first, strictly.
    pub weight: i32,
    /// `spec.replicas`: the pool is static, and takes no part in scheduling.
    pub replicas: Option<i64>,
    /// What the nodes of the pool may be in sum.
    pub limits: Limits,
    /// How its nodes are made.
    pub template: Template,
    /// When its nodes are consolidated; `None` is never.
    pub consolidate_after: Option<Duration>,
    /// Which of its nodes may be consolidated.
    pub consolidation_policy: ConsolidationPolicy,
    /// How many may be disrupted at once.
    pub budgets: Vec<Budget>,
    /// The drift hash and its version.
    pub hash: Option<(Str, Str)>,
    /// How long its expired nodes are replaced within budgets before they are deleted regardless; `None` deletes them at once.
    pub expiry_grace: Option<Duration>,
    /// A brake on drift beside the budgets.
    pub drift_cap: Option<DriftCap>,
    /// The deadline for the initialization of its nodes.
    pub initialization_timeout: InitializationTimeout,
    /// Whether its nodes are initialized by that deadline.
    pub initialization: InitializationStanding,
    /// The observations on its nodes.
    pub observed: Observed,
}

/// The deadline that a NodePool sets for the initialization of its nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitializationTimeout {
    /// None: that of the settings holds.
    #[default]
    Unset,
    /// Its nodes have no deadline.
    Never,
    /// So long after registration.
    After(Duration),
}

impl InitializationTimeout {
    /// The deadline, with `setting` as the default; `None` if there is none.
    #[must_use]
    pub fn or(self, setting: Option<Duration>) -> Option<Duration> {
        match self {
            Self::Unset => setting,
            Self::Never => None,
            Self::After(timeout) => Some(timeout),
        }
    }
}

/// How far a NodePool has come whose nodes are not initialized by their deadline, for its spec as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum InitializationStanding {
    /// Its nodes are initialized in time, as far as is known.
    #[default]
    Healthy,
    /// One node was, or is being, replaced.
    Replaced {
        /// Its NodeClaim.
        claim: ClaimName,
        /// When that was decided.
        since: Timestamp,
    },
    /// Nothing is launched for the NodePool.
    Halted {
        /// Since when.
        since: Timestamp,
    },
}

/// How many nodes may be replaced within a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriftCap {
    /// The nodes.
    pub nodes: u32,
    /// The time.
    pub window: Duration,
}

/// How a NodePool's nodes are made.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// Labels.
    pub labels: Labels,
    /// Annotations.
    pub annotations: Labels,
    /// Taints for good.
    pub taints: Vec<Taint>,
    /// Taints that their owners remove.
    pub startup_taints: Vec<Taint>,
    /// Requirements as written, keys normalised.
    pub requirements: Requirements,
    /// The provider's class.
    pub class: NodeClassRef,
    /// How long a drain may take.
    pub termination_grace_period: Option<Duration>,
    /// How long a node may live; `None` is for ever.
    pub expire_after: Option<Duration>,
}

/// Limits of the total of the nodes of a NodePool; resources without a limit are unlimited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// By resource; a resource with an entry of zero is limited to nothing.
    pub resources: Vec<(super::resources::ResourceName, i64)>,
    /// Number of nodes.
    pub nodes: Option<i64>,
    /// Whether a terminating node counts until it is gone, so that the limit is never exceeded. Otherwise it does not count.
    pub hard: bool,
}

impl Limits {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_none() && self.resources.is_empty()
    }

    /// The first limit that `usage` and `nodes` in sum exceed, with usage and limit.
    #[must_use]
    pub fn first_exceeded(&self, usage: &Resources, nodes: i64) -> Option<(Str, i64, i64)> {
        if let Some(limit) = self.nodes.filter(|limit| nodes > *limit) {
            return Some(("nodes".into(), nodes, limit));
        }
        let over = self.resources.iter().find(|(name, limit)| usage.get(name) > *limit);
        over.map(|(name, limit)| (name.as_str().into(), usage.get(name), *limit))
    }
}

/// Which nodes consolidation may touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConsolidationPolicy {
    /// Empty ones.
    WhenEmpty,
    /// Empty ones, and ones whose pods fit elsewhere or cheaper.
    #[default]
    WhenEmptyOrUnderutilized,
    /// Like WhenEmptyOrUnderutilized, if the savings outweigh the disruption.
    Balanced,
}

/// Why a node is disrupted voluntarily.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DisruptionReason {
    /// It could be cheaper.
    Underutilized,
    /// It has no pods.
    Empty,
    /// It does not match its NodePool any more.
    Drifted,
}

impl DisruptionReason {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Underutilized, Self::Empty, Self::Drifted];

    /// The reason as budgets and conditions write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Underutilized => "Underutilized",
            Self::Empty => "Empty",
            Self::Drifted => "Drifted",
        }
    }
}

impl fmt::Display for DisruptionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How many nodes of a pool may be disrupted at once, for some reasons, at some times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// `None` applies to all reasons, an empty list to none.
    pub reasons: Option<Vec<DisruptionReason>>,
    /// The number, as a share or absolute.
    pub nodes: BudgetNodes,
    /// Cron expression of the start; `None` means always.
    pub schedule: Option<Str>,
    /// How long it then stays active.
    pub duration: Option<Duration>,
    /// The IANA time zone that the schedule is read in; `None` is UTC.
    pub zone: Option<Str>,
}

/// The size of a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetNodes {
    /// A share of the pool's nodes in percent, rounded up.
    Percent(u32),
    /// A number of nodes.
    Count(u32),
    /// A text that is neither: it allows nothing.
    Invalid(Str),
}

impl NodePool {
    /// A ready pool that asks for nothing but a class, without limits and budgets; its nodes are never consolidated.
    #[must_use]
    pub fn new(name: &str, class: NodeClassRef, created: Timestamp) -> Self {
        Self {
            name: name.into(),
            uid: name.into(),
            created,
            deleting: false,
            ready: true,
            halted: None,
            weight: 0,
            replicas: None,
            limits: Limits::default(),
            template: Template {
                labels: Labels::new(),
                annotations: Labels::new(),
                taints: Vec::new(),
                startup_taints: Vec::new(),
                requirements: Requirements::new(),
                class,
                termination_grace_period: None,
                expire_after: None,
            },
            consolidate_after: None,
            consolidation_policy: ConsolidationPolicy::WhenEmpty,
            budgets: Vec::new(),
            hash: None,
            expiry_grace: None,
            drift_cap: None,
            initialization_timeout: InitializationTimeout::Unset,
            initialization: InitializationStanding::Healthy,
            observed: Observed::default(),
        }
    }

    /// Whether it keeps a fixed number of nodes.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.replicas.is_some()
    }
}
