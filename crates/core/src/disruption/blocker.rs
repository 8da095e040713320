//! Disruption blockers: typed, with owner and end; rendered here for events, conditions and reports.

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{BalancedScore, BudgetError, lineage};
use crate::{
    clock::written,
    model::{Currency, DisruptionReason, NamespacedName, PodUid, Price, Prices, StateNode, Str},
};

/// A node that may not be disrupted now.
#[derive(Clone, Debug)]
pub struct Blocked {
    /// The node.
    pub node: Arc<StateNode>,
    /// The first blocker, in Karpenter's order.
    pub blocker: Blocker,
}

/// Why a node may not be disrupted. The text is Karpenter's where Karpenter has the blocker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// A command disrupts it.
    Queued,
    /// It has no NodeClaim.
    NotManaged,
    /// The NodeClaim has no Node yet.
    NoNode,
    /// Not initialized.
    NotInitialized,
    /// It is being deleted.
    Deleting,
    /// It is nominated for a pod.
    Nominated {
        /// The pod.
        pod: PodUid,
        /// Name of the pod, if it is known.
        name: Option<NamespacedName>,
        /// When the nomination ends.
        until: Timestamp,
    },
    /// The Node has the annotation do-not-disrupt.
    DoNotDisruptNode,
    /// A required label is missing.
    MissingLabel(&'static str),
    /// Its NodePool, or the instance types of the NodePool, are not known.
    NoPool(Str),
    /// A pod has the annotation do-not-disrupt, until a time or without end.
    DoNotDisruptPod(NamespacedName, Option<Timestamp>),
    /// A pod is invalid, so it cannot be simulated.
    UnreadablePod(NamespacedName, Str),
    /// A PodDisruptionBudget allows no eviction of a pod.
    Pdb(NamespacedName),
    /// The eviction API refuses pods with several PodDisruptionBudgets.
    SeveralPdbs(Vec<NamespacedName>),
    /// consolidateAfter is not over: a pod was added or removed too recently.
    ConsolidateAfter {
        /// The setting.
        after: Duration,
        /// When it is over.
        until: Timestamp,
        /// The time left.
        left: Duration,
        /// The pod that started it, if it is still on the node.
        pod: Option<NamespacedName>,
    },
    /// consolidateAfter is over, but the condition Consolidatable is not True yet.
    NotConsolidatable,
    /// The budgets of its NodePool are exhausted.
    Budget {
        /// The pool.
        pool: Str,
        /// The reason.
        reason: DisruptionReason,
        /// How many may be disrupted at once.
        allowed: i64,
        /// How many are disrupted or not ready.
        disrupting: i64,
        /// How many more are in the commands of this pass.
        started: i64,
        /// When the window of the most restrictive budget closes; `None` if it is always open.
        until: Option<Timestamp>,
        /// Why nothing is allowed, if a budget is invalid.
        error: Option<BudgetError>,
    },
    /// The drift cap of its NodePool is reached.
    DriftCap {
        /// The pool.
        pool: Str,
        /// How many nodes may be replaced within its window.
        cap: i64,
        /// How many were replaced.
        replaced: i64,
        /// When the first of them leaves the window.
        until: Option<Timestamp>,
    },
    /// Nearly half of the nodes are NotReady: probably the network or the control plane, so voluntary disruption is
    /// suspended.
    Outage {
        /// How many are not ready.
        unready: usize,
        /// The number of nodes.
        all: usize,
    },
    /// Its NodePool is static: only static drift replaces its nodes.
    StaticPool(Str),
    /// Consolidation considered it and does not disrupt it.
    Unconsolidatable(Unconsolidatable),
}

impl Blocker {
    /// When it ends without intervention.
    #[must_use]
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Unconsolidatable(
                Unconsolidatable::WouldUndo { since, .. } | Unconsolidatable::WouldRecreate { since },
            ) => since.checked_add(lineage::HORIZON).ok(),
            Self::Unconsolidatable(Unconsolidatable::RecentReplacement { since }) => {
                since.checked_add(lineage::RECENT).ok()
            }
            Self::Nominated { until, .. } | Self::ConsolidateAfter { until, .. } => Some(*until),
            Self::DoNotDisruptPod(_, until) | Self::DriftCap { until, .. } | Self::Budget { until, .. } => {
                *until
            }
            _ => None,
        }
    }

    /// The object that owns it, as `kind/name`.
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
            | Self::DriftCap { pool, .. }
            | Self::Unconsolidatable(
                Unconsolidatable::Disabled(pool)
                | Unconsolidatable::PolicyWhenEmpty(pool)
                | Unconsolidatable::Static(pool, _),
            ) => Some(format!("nodepool/{pool}")),
            _ => None,
        }
    }

    /// Whether the node is already being disrupted or deleted.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        matches!(self, Self::Queued | Self::Deleting)
    }

    /// The name for metrics and JSON.
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
            Self::DriftCap { .. } => "DriftCap",
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
                write!(f, "consolidateAfter of {} is not over, {} left", written(*after), written(*left))?;
                match pod {
                    Some(pod) => write!(f, " since pod {pod} was added"),
                    None => Ok(()),
                }
            }
            Self::NotConsolidatable => f.write_str("condition Consolidatable is not True yet"),
            Self::Budget { pool, error: Some(error), .. } => {
                write!(f, "budgets of nodepool {pool} allow nothing: {error}")
            }
            Self::Budget { pool, reason, allowed: 0, .. } => {
                write!(f, "budgets of nodepool {pool} allow no disruption for reason {reason}")
            }
            Self::Budget { pool, reason, allowed, disrupting, started, .. } => {
                write!(
                    f,
                    "budgets of nodepool {pool} allow {allowed} disruption(s) for reason {reason}: {disrupting} node(s) \
                     disrupted or not ready"
                )?;
                match started {
                    0 => Ok(()),
                    started => write!(f, ", {started} in commands of this pass"),
                }
            }
            Self::DriftCap { pool, cap, replaced, .. } => write!(
                f,
                "drift cap of nodepool {pool} allows {cap} replaced node(s) within its window, and {replaced} were replaced"
            ),
            Self::Outage { unready, all } => {
                write!(f, "{unready}/{all} nodes NotReady: voluntary disruption is suspended")
            }
            Self::StaticPool(pool) => {
                write!(f, "NodePool {pool:?} is static (spec.replicas): only static-drift replaces its nodes")
            }
            Self::Unconsolidatable(why) => why.fmt(f),
        }
    }
}

/// Why consolidation does not disrupt a candidate. The text is Karpenter's, with figures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unconsolidatable {
    /// The instance type is no longer in the catalogue.
    #[error("Instance Type {0:?} not found")]
    InstanceTypeNotFound(Str),
    /// A label that its price depends on is missing.
    #[error("Node does not have label {0:?}")]
    MissingLabel(&'static str),
    /// `consolidateAfter: Never`.
    #[error("NodePool {0:?} has consolidation disabled")]
    Disabled(Str),
    /// The policy allows only empty nodes.
    #[error("NodePool {0:?} has consolidation policy WhenEmpty, but node is not empty")]
    PolicyWhenEmpty(Str),
    /// It has virtual pods of a CapacityBuffer.
    #[error("Node {0:?} has buffer pods")]
    HasBufferPods(Str),
    /// Some pods would be unschedulable: the first few, with reasons, and how many more.
    #[error("not all pods would schedule, {}{}", .0.join(", "), and_more(*.1))]
    PodsWouldNotSchedule(Vec<String>, usize),
    /// Pods would be placed on nodes that are not initialized: the first few, with the node, and how many more.
    #[error("not all pods would schedule, {}{}", .0.join(", "), and_more(*.1))]
    LandsOnUninitialized(Vec<String>, usize),
    /// More than one node would have to be created.
    #[error("Can't remove without creating {0} candidates")]
    NeedsSeveral(usize),
    /// No instance type is cheaper.
    #[error("Can't replace with a cheaper node ({}{})", compared(*currency, *now, *cheapest), beside(*others))]
    NotCheaper {
        /// The prices now.
        now: Prices,
        /// The prices of the cheapest replacement.
        cheapest: Option<Prices>,
        /// Pods on the replacement that are not of the nodes: they are pending, or their nodes are being removed.
        others: usize,
        /// What the prices are in.
        currency: Currency,
    },
    /// minValues cannot be met among the cheaper types.
    #[error("Filtering by price: minValues requirement is not met for label(s) (label(s)=[{0}])")]
    MinValues(Str),
    /// The replacements would exceed a limit of their NodePool. Amounts are in the units of the model.
    #[error("Can't replace, NodePool {pool:?} would exceed its limit of {resource} ({usage} of {limit})")]
    LimitExceeded {
        /// The pool.
        pool: Str,
        /// The resource.
        resource: Str,
        /// The usage with the replacements.
        usage: i64,
        /// The limit.
        limit: i64,
    },
    /// Spot-to-spot consolidation is disabled.
    #[error("SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node")]
    SpotToSpotDisabled,
    /// Too few cheaper spot types to choose from.
    #[error(
        "SpotToSpotConsolidation requires 15 cheaper instance type options than the current candidate to consolidate, got {0}"
    )]
    SpotToSpotFlexibility(usize),
    /// The saving does not outweigh the disruption, for this pool.
    #[error(
        "the saving of {}/h does not outweigh the disruption (NodePool {:?} has consolidation policy Balanced: score {:.2}, \
         threshold 0.50)", .1.amount(.0.savings), .0.pool.as_str(), .0.score()
    )]
    Unbalanced(BalancedScore, Currency),
    /// The saving over its expected remaining life does not outweigh the cost of the move.
    #[error(
        "replacing the node would save {} over its expected {}, and cost {} in pod restarts and overlap",
        currency.amount(savings), written(*over), currency.amount(cost)
    )]
    NoNetBenefit {
        /// The saving.
        savings: Price,
        /// The time over which it counts.
        over: Duration,
        /// The cost of restarting pods, and of old and new nodes running at the same time.
        cost: Price,
        /// What the prices are in.
        currency: Currency,
    },
    /// It would undo an earlier replacement.
    #[error("node replaced {offering} at {since}; this replacement would revert that")]
    WouldUndo {
        /// What it replaced, as `instance type/capacity type`.
        offering: Str,
        /// When it replaced that.
        since: Timestamp,
    },
    /// It is a recent replacement and still has its pods.
    #[error(
        "replacement node initialized at {since}; not eligible for consolidation for 10m unless its pods are removed"
    )]
    RecentReplacement {
        /// When it was initialized.
        since: Timestamp,
    },
    /// Prices are too old to compare.
    #[error("prices are as of {as_of}, older than 24h: consolidation is suspended until they are updated")]
    PricesTooOld {
        /// When they were last updated.
        as_of: Timestamp,
    },
    /// Its static NodePool replaces no node now.
    #[error("NodePool {0:?} {1}")]
    Static(Str, StaticDriftBlocked),
    /// It recreated a node that consolidation had deleted, and would be deleted without a replacement.
    #[error(
        "node was created at {since} for pods evicted by a previous consolidation; deleting it would recreate it"
    )]
    WouldRecreate {
        /// When it was created.
        since: Timestamp,
    },
}

/// Why a static NodePool replaces no drifted node now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StaticDriftBlocked {
    /// It has surplus nodes, which are deleted first, so that no node is created in vain.
    Surplus {
        /// The number of nodes.
        nodes: i64,
        /// spec.replicas.
        replicas: i64,
    },
    /// `limits.nodes` has no room for one more node.
    NodeLimit,
    /// No instance type that it allows is available.
    NothingOffered,
    /// It is not ready, or its launches are suspended.
    NotReady,
}

impl fmt::Display for StaticDriftBlocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Surplus { nodes, replicas } => write!(
                f,
                "has {nodes} node(s) for {replicas} replica(s): surplus nodes, and nodes being replaced, are removed first"
            ),
            Self::NodeLimit => {
                f.write_str("has exhausted its node limit: a replacement needs room below spec.limits.nodes")
            }
            Self::NothingOffered => f.write_str("allows no instance type that is available"),
            Self::NotReady => f.write_str("is not ready: no node is launched for it, so no node is replaced"),
        }
    }
}

impl Unconsolidatable {
    /// The name for metrics and JSON.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::InstanceTypeNotFound(_) => "InstanceTypeNotFound",
            Self::MissingLabel(_) => "MissingLabel",
            Self::Disabled(_) => "ConsolidationDisabled",
            Self::PolicyWhenEmpty(_) => "ConsolidationPolicy",
            Self::HasBufferPods(_) => "BufferPods",
            Self::PodsWouldNotSchedule(..) => "PodsWouldNotSchedule",
            Self::LandsOnUninitialized(..) => "LandsOnUninitialized",
            Self::NeedsSeveral(_) => "NeedsSeveral",
            Self::NotCheaper { .. } => "NotCheaper",
            Self::MinValues(_) => "MinValues",
            Self::LimitExceeded { .. } => "LimitExceeded",
            Self::SpotToSpotDisabled => "SpotToSpotDisabled",
            Self::SpotToSpotFlexibility(_) => "SpotToSpotFlexibility",
            Self::Unbalanced(..) => "Unbalanced",
            Self::NoNetBenefit { .. } => "NoNetBenefit",
            Self::WouldUndo { .. } => "WouldUndo",
            Self::WouldRecreate { .. } => "WouldRecreate",
            Self::PricesTooOld { .. } => "PricesTooOld",
            Self::RecentReplacement { .. } => "RecentReplacement",
            Self::Static(_, StaticDriftBlocked::Surplus { .. }) => "Surplus",
            Self::Static(_, StaticDriftBlocked::NodeLimit) => "NodeLimit",
            Self::Static(_, StaticDriftBlocked::NothingOffered) => "NothingOffered",
            Self::Static(_, StaticDriftBlocked::NotReady) => "NodePoolNotReady",
        }
    }
}

/// The number of pods that a message does not name.
fn and_more(more: usize) -> String {
    if more > 0 { format!(" and {more} more") } else { String::new() }
}

/// The list prices now and of the cheapest replacement, and what both count as where only that explains why it is not cheaper.
fn compared(currency: Currency, now: Prices, cheapest: Option<Prices>) -> String {
    let hourly = |price: Price| format!("{}/h", currency.amount(price));
    match cheapest {
        None => format!("now {}, nothing else fits", hourly(now.list)),
        Some(cheapest) if cheapest.list < now.list => format!(
            "now {}, counts as {}; cheapest replacement {}, counts as {}",
            hourly(now.list),
            hourly(now.effective),
            hourly(cheapest.list),
            hourly(cheapest.effective)
        ),
        Some(cheapest) => {
            format!("now {}, cheapest replacement {}", hourly(now.list), hourly(cheapest.list))
        }
    }
}

/// The pods that need the replacement whether or not it replaces a node.
fn beside(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => ", which 1 other pod needs too".to_owned(),
        several => format!(", which {several} other pods need too"),
    }
}

#[cfg(test)]
mod tests {
    //! What is said of prices.
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing_fits(None, "now $0.04/h, nothing else fits")]
    #[case::dearer(Some((50, 56)), "now $0.04/h, cheapest replacement $0.05/h")]
    #[case::cheaper_by_list_price_alone(
        Some((34, 90)),
        "now $0.04/h, counts as $0.046/h; cheapest replacement $0.034/h, counts as $0.09/h"
    )]
    fn a_replacement_that_is_not_cheaper_is_named_by_price(
        #[case] cheapest: Option<(i64, i64)>,
        #[case] expected: &str,
    ) {
        let price = |milli_dollars: i64| Price::from_nanos(milli_dollars * 1_000_000);
        let prices = |(list, effective)| Prices { list: price(list), effective: price(effective) };
        for currency in [Currency::USD, Currency::EUR] {
            let (now, cheapest) = (prices((40, 46)), cheapest.map(prices));
            let refused = Unconsolidatable::NotCheaper { now, cheapest, others: 0, currency };
            let expected = expected.replace('$', &currency.to_string());
            assert_eq!(refused.to_string(), format!("Can't replace with a cheaper node ({expected})"));
        }
    }
}
