//! Why a node stays: typed, with owner and end; rendered here for events, conditions and reports alike.

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{BudgetError, Judged};
use crate::model::{DisruptionReason, NamespacedName, PodUid, Price, StateNode, Str};

/// A node that may not be disrupted now.
#[derive(Clone, Debug)]
pub struct Blocked {
    /// The node.
    pub node: Arc<StateNode>,
    /// The first thing that blocks it.
    pub blocker: Blocker,
}

/// What keeps a node from being disrupted at all. The text is Karpenter's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// A command has it already.
    Queued,
    /// Not ours.
    NotManaged,
    /// The claim has no Node yet.
    NoNode,
    /// Not initialized.
    NotInitialized,
    /// It goes away anyway.
    Deleting,
    /// A pod is expected on it.
    Nominated {
        /// The pod.
        pod: PodUid,
        /// Its name, where the pod is known.
        name: Option<NamespacedName>,
        /// When the lease ends.
        until: Timestamp,
    },
    /// The Node says do-not-disrupt.
    DoNotDisruptNode,
    /// A label that decisions need is missing.
    MissingLabel(&'static str),
    /// Its NodePool, or the pool's instance types, are not known.
    NoPool(Str),
    /// A pod says do-not-disrupt, until then or without end.
    DoNotDisruptPod(NamespacedName, Option<Timestamp>),
    /// A pod cannot be read: nobody can say where else it would run.
    UnreadablePod(NamespacedName, Str),
    /// A budget allows no eviction of a pod.
    Pdb(NamespacedName),
    /// The eviction API refuses pods under several budgets.
    SeveralPdbs(Vec<NamespacedName>),
    /// A pod came or went too short a time ago.
    ConsolidateAfter {
        /// How long nothing may happen.
        after: Duration,
        /// When that is over.
        until: Timestamp,
        /// The time left.
        left: Duration,
        /// The pod that it is counted from, where it is still there.
        pod: Option<NamespacedName>,
    },
    /// consolidateAfter is over, and the condition does not say so yet.
    NotConsolidatable,
    /// The budgets of its pool leave no room.
    Budget {
        /// The pool.
        pool: Str,
        /// For which reason.
        reason: DisruptionReason,
        /// How many may be disrupted at once.
        allowed: i64,
        /// How many are.
        disrupting: i64,
        /// When the window of the budget that allows so few closes; `None` where it is always open.
        until: Option<Timestamp>,
        /// Why nothing is allowed, where a budget cannot be read.
        error: Option<BudgetError>,
    },
    /// The brake of its pool on drift.
    Brake {
        /// The pool.
        pool: Str,
        /// How many may be replaced within its window.
        cap: i64,
        /// How many were.
        replaced: i64,
        /// When the first of them leaves the window.
        until: Option<Timestamp>,
    },
    /// So many nodes are not ready that it is rather the network or the control plane: nothing is ended.
    Outage {
        /// How many are not ready.
        unready: usize,
        /// Of how many.
        all: usize,
    },
    /// Its pool keeps a number of nodes: they go when they drift, by the method for that alone.
    StaticPool(Str),
    /// Consolidation looked at it and left it.
    Unconsolidatable(Unconsolidatable),
}

impl Blocker {
    /// When it ends by itself.
    #[must_use]
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Unconsolidatable(
                Unconsolidatable::WouldUndo { since, .. } | Unconsolidatable::WouldReturn { since },
            ) => since.checked_add(super::history::HORIZON).ok(),
            Self::Unconsolidatable(Unconsolidatable::Settles { since }) => {
                since.checked_add(super::history::SETTLES).ok()
            }
            Self::Nominated { until, .. } | Self::ConsolidateAfter { until, .. } => Some(*until),
            Self::DoNotDisruptPod(_, until) | Self::Brake { until, .. } | Self::Budget { until, .. } => {
                *until
            }
            _ => None,
        }
    }

    /// Who owns it: an object as `kind/name`.
    #[must_use]
    pub fn owner(&self) -> Option<String> {
        match self {
            Self::Nominated { name: Some(pod), .. }
            | Self::DoNotDisruptPod(pod, _)
            | Self::UnreadablePod(pod, _)
            | Self::ConsolidateAfter { pod: Some(pod), .. } => Some(format!("pod/{pod}")),
            Self::Nominated { pod, .. } => Some(format!("pod uid {pod}")),
            Self::Pdb(pdb) => Some(format!("poddisruptionbudget/{pdb}")),
            Self::SeveralPdbs(pdbs) => pdbs.first().map(|pdb| format!("poddisruptionbudget/{pdb}")),
            Self::NoPool(pool)
            | Self::StaticPool(pool)
            | Self::Budget { pool, .. }
            | Self::Brake { pool, .. }
            | Self::Unconsolidatable(
                Unconsolidatable::Disabled(pool)
                | Unconsolidatable::PolicyWhenEmpty(pool)
                | Unconsolidatable::Static(pool, _),
            ) => Some(format!("nodepool/{pool}")),
            _ => None,
        }
    }

    /// Whether the node is leaving already, so that nothing keeps it.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        matches!(self, Self::Queued | Self::Deleting)
    }

    /// A word for metrics and JSON.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Queued => "Queued",
            Self::NotManaged => "NotManaged",
            Self::NoNode => "NoNode",
            Self::NotInitialized => "NotInitialized",
            Self::Deleting => "Deleting",
            Self::Nominated { .. } => "Nominated",
            Self::DoNotDisruptNode => "DoNotDisruptNode",
            Self::MissingLabel(_) => "MissingLabel",
            Self::NoPool(_) => "NoPool",
            Self::DoNotDisruptPod(..) => "DoNotDisruptPod",
            Self::UnreadablePod(..) => "UnreadablePod",
            Self::Pdb(_) | Self::SeveralPdbs(_) => "PodDisruptionBudget",
            Self::ConsolidateAfter { .. } => "ConsolidateAfter",
            Self::NotConsolidatable => "NotConsolidatable",
            Self::Budget { .. } => "Budget",
            Self::Brake { .. } => "DriftBrake",
            Self::Outage { .. } => "Outage",
            Self::StaticPool(_) => "StaticPool",
            Self::Unconsolidatable(why) => why.kind(),
        }
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queued => f.write_str("candidate is already being disrupted"),
            Self::NotManaged => f.write_str("node isn't managed by karpenter"),
            Self::NoNode => f.write_str("nodeclaim does not have an associated node"),
            Self::NotInitialized => f.write_str("node isn't initialized"),
            Self::Deleting => f.write_str("node is deleting or marked for deletion"),
            Self::Nominated { .. } => f.write_str("node is nominated for a pending pod"),
            Self::DoNotDisruptNode => {
                f.write_str("disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation")
            }
            Self::MissingLabel(key) => write!(f, "node doesn't have required label (label={key})"),
            Self::NoPool(pool) => write!(f, "NodePool not found (NodePool={pool})"),
            Self::DoNotDisruptPod(pod, _) => {
                write!(f, "pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod={pod})")
            }
            Self::UnreadablePod(pod, why) => write!(f, "pod cannot be read (Pod={pod}): {why}"),
            Self::Pdb(pdb) => write!(f, "pdb prevents pod evictions (PodDisruptionBudget=[{pdb}])"),
            Self::SeveralPdbs(pdbs) => {
                let names: Vec<String> = pdbs.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{}])",
                    names.join(" ")
                )
            }
            Self::ConsolidateAfter { after, left, pod, .. } => {
                write!(f, "consolidateAfter of {}s is not over, {}s left", after.as_secs(), left.as_secs())?;
                match pod {
                    Some(pod) => write!(f, " since pod {pod} came"),
                    None => Ok(()),
                }
            }
            Self::NotConsolidatable => f.write_str("condition Consolidatable is not True yet"),
            Self::Budget { pool, error: Some(error), .. } => {
                write!(f, "budgets of nodepool {pool} allow nothing: {error}")
            }
            Self::Budget { pool, reason, allowed, disrupting, .. } => write!(
                f,
                "budgets of nodepool {pool} allow {allowed} disruption(s) for reason {reason}, and {disrupting} \
                 node(s) count against them"
            ),
            Self::Brake { pool, cap, replaced, .. } => write!(
                f,
                "nodepool {pool} lets {cap} node(s) be replaced within its window, and {replaced} were"
            ),
            Self::Outage { unready, all } => {
                write!(f, "{unready} of {all} nodes are not ready: nothing is ended while so many are not")
            }
            Self::StaticPool(pool) => {
                write!(
                    f,
                    "NodePool {pool:?} keeps a number of nodes (spec.replicas): only static-drift replaces them"
                )
            }
            Self::Unconsolidatable(why) => why.fmt(f),
        }
    }
}

/// Why consolidation leaves a node that could be disrupted. The text is Karpenter's, with the figures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unconsolidatable {
    /// The instance type is not in the catalogue any more.
    #[error("Instance Type {0:?} not found")]
    InstanceTypeNotFound(Str),
    /// A label that its price depends on is missing.
    #[error("Node does not have label {0:?}")]
    MissingLabel(&'static str),
    /// `consolidateAfter: Never`.
    #[error("NodePool {0:?} has consolidation disabled")]
    Disabled(Str),
    /// The policy takes only empty nodes.
    #[error("NodePool {0:?} has consolidation policy WhenEmpty, but node is not empty")]
    PolicyWhenEmpty(Str),
    /// It holds capacity that a CapacityBuffer asks for.
    #[error("Node {0:?} has buffer pods")]
    HoldsBuffer(Str),
    /// Some pods would have no place: the first few, with reasons, and how many more.
    #[error("not all pods would schedule, {}{}", .0.join(", "), and_more(*.1))]
    PodsWouldNotSchedule(Vec<String>, usize),
    /// Pods would land on nodes that are not ready.
    #[error("would schedule against uninitialized {0}")]
    LandsOnUninitialized(Str),
    /// More than one node would have to be created for these.
    #[error("Can't remove without creating {0} candidates")]
    NeedsSeveral(usize),
    /// No instance type is cheaper.
    #[error("Can't replace with a cheaper node (now ${now}/h, {})", cheapest_of(*cheapest))]
    NotCheaper {
        /// What is paid now.
        now: Price,
        /// The cheapest that could replace it.
        cheapest: Option<Price>,
    },
    /// minValues cannot be met among the cheaper types.
    #[error("Filtering by price: minValues requirement is not met for label(s) (label(s)=[{0}])")]
    MinValues(Str),
    /// What would come in its place has no room under a limit of its pool. Amounts are in the units of the model.
    #[error("Can't replace, NodePool {pool:?} would exceed its limit of {resource} ({usage} of {limit})")]
    LimitExceeded {
        /// The pool.
        pool: Str,
        /// The resource.
        resource: Str,
        /// What would be in use.
        usage: i64,
        /// What may be.
        limit: i64,
    },
    /// Spot for spot is switched off.
    #[error("SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node")]
    SpotToSpotDisabled,
    /// Too few cheaper spot types to choose from.
    #[error(
        "SpotToSpotConsolidation requires 15 cheaper instance type options than the current candidate to consolidate, got {0}"
    )]
    SpotToSpotFlexibility(usize),
    /// The saving does not outweigh the disruption, for this pool.
    #[error(
        "the saving of ${}/h does not outweigh the disruption (NodePool {:?} has consolidation policy Balanced: score {:.2}, \
         and 0.50 is wanted)", .0.savings, .0.pool.as_str(), .0.score()
    )]
    Unbalanced(Judged),
    /// What it would save until it ends anyway does not outweigh what the move costs.
    #[error(
        "replacing it would save ${savings} over the {}s that it can be expected to last, and cost ${cost} in restarts and \
         overlap", over.as_secs()
    )]
    NoNetBenefit {
        /// What would be saved.
        savings: Price,
        /// Over how long.
        over: Duration,
        /// What pods lose by starting again, and what is paid while old and new nodes both run.
        cost: Price,
    },
    /// It would undo a move of our own.
    #[error("it came in place of {offering} at {since}, and would become that again")]
    WouldUndo {
        /// What it would become again, as `instance type/capacity type`.
        offering: Str,
        /// When it came in place of that.
        since: Timestamp,
    },
    /// It came in place of others not long ago, and its pods stayed.
    #[error(
        "it came in place of others and was initialized at {since}: it stays for ten minutes, or until pods leave it"
    )]
    Settles {
        /// When it was initialized.
        since: Timestamp,
    },
    /// Prices are too old to tell what is cheaper.
    #[error("prices are as of {as_of}, too long ago to tell what is cheaper")]
    PricesTooOld {
        /// When they were told last.
        as_of: Timestamp,
    },
    /// Nothing can come in its place, for this reason of its static pool.
    #[error("NodePool {0:?} {1}")]
    Static(Str, StaticDriftHeld),
    /// It came back after a consolidation, and would go without a node in its place.
    #[error(
        "it came at {since} for pods that consolidation had moved, and found no other place: it would come again"
    )]
    WouldReturn {
        /// When it came.
        since: Timestamp,
    },
}

/// Why a static pool replaces no drifted node now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StaticDriftHeld {
    /// It has more nodes than it wants: the surplus goes first, so that nothing is made that is not kept.
    Surplus {
        /// How many there are.
        nodes: i64,
        /// How many there should be.
        replicas: i64,
    },
    /// `limits.nodes` leaves no room for one more.
    NodeLimit,
    /// Nothing that it allows can be had.
    NothingOffered,
    /// It is not ready, or was stopped: nothing is launched for it.
    NotReady,
}

impl fmt::Display for StaticDriftHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Surplus { nodes, replicas } => write!(
                f,
                "has {nodes} node(s) for {replicas} replica(s): those that are too many, or are being replaced, go first"
            ),
            Self::NodeLimit => f.write_str(
                "has exhausted its node limit: what replaces a drifted node needs room below spec.limits.nodes",
            ),
            Self::NothingOffered => f.write_str("allows no instance type that is available"),
            Self::NotReady => f.write_str("is not ready: nothing is launched for it, so nothing is replaced"),
        }
    }
}

impl Unconsolidatable {
    /// A word for metrics and JSON.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::InstanceTypeNotFound(_) => "InstanceTypeNotFound",
            Self::MissingLabel(_) => "MissingLabel",
            Self::Disabled(_) => "ConsolidationDisabled",
            Self::PolicyWhenEmpty(_) => "ConsolidationPolicy",
            Self::HoldsBuffer(_) => "BufferPods",
            Self::PodsWouldNotSchedule(..) => "PodsWouldNotSchedule",
            Self::LandsOnUninitialized(_) => "LandsOnUninitialized",
            Self::NeedsSeveral(_) => "NeedsSeveral",
            Self::NotCheaper { .. } => "NotCheaper",
            Self::MinValues(_) => "MinValues",
            Self::LimitExceeded { .. } => "LimitExceeded",
            Self::SpotToSpotDisabled => "SpotToSpotDisabled",
            Self::SpotToSpotFlexibility(_) => "SpotToSpotFlexibility",
            Self::Unbalanced(_) => "Unbalanced",
            Self::NoNetBenefit { .. } => "NoNetBenefit",
            Self::WouldUndo { .. } => "WouldUndo",
            Self::WouldReturn { .. } => "WouldReturn",
            Self::PricesTooOld { .. } => "PricesTooOld",
            Self::Settles { .. } => "Settles",
            Self::Static(_, StaticDriftHeld::Surplus { .. }) => "Surplus",
            Self::Static(_, StaticDriftHeld::NodeLimit) => "NodeLimit",
            Self::Static(_, StaticDriftHeld::NothingOffered) => "NothingOffered",
            Self::Static(_, StaticDriftHeld::NotReady) => "NodePoolNotReady",
        }
    }
}

/// How many more there are than were named.
fn and_more(more: usize) -> String {
    if more > 0 { format!(" and {more} more") } else { String::new() }
}

/// The cheapest of what could come instead.
fn cheapest_of(cheapest: Option<Price>) -> String {
    cheapest.map_or_else(
        || "nothing else fits".to_owned(),
        |cheapest| format!("cheapest replacement ${cheapest}/h"),
    )
}
