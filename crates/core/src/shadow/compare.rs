//! The verdict about a batch: agreement, and the reasons for a difference.

use std::{collections::BTreeSet, fmt};

use super::claims::{ClaimGroup, LaunchedClaim, PodOutcomes, hourly};
use crate::model::{Str, labels};

/// The decisions of both controllers about a batch.
#[derive(Clone, Debug, Default)]
pub struct BatchSides {
    /// The NodeClaims of the other controller that were launched.
    pub karpenter: Vec<LaunchedClaim>,
    /// NodeClaims of the other controller that were deleted, or not launched in time.
    pub never_launched: usize,
    /// The outcomes of the pods of the other controller.
    pub karpenter_pods: PodOutcomes,
    /// The NodeClaims of our plan.
    pub ours: Vec<ClaimGroup>,
    /// The pods of our plan.
    pub our_pods: PodOutcomes,
    /// Whether a bound on the work cut our plan short.
    pub partial: bool,
}

/// The agreement of two decisions about a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Agreement {
    /// The same NodeClaims: NodePool, instance type, zone, capacity type and number.
    Same,
    /// Other NodeClaims of the same price.
    SamePrice,
    /// Ours are cheaper.
    OursCheaper,
    /// Karpenter's are cheaper.
    KarpenterCheaper,
    /// Only Karpenter launched nodes.
    OnlyKarpenter,
    /// Only we would have launched nodes.
    OnlyOurs,
    /// The catalogue lacks a price.
    Unpriced,
}

impl Agreement {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Same,
        Self::SamePrice,
        Self::OursCheaper,
        Self::KarpenterCheaper,
        Self::OnlyKarpenter,
        Self::OnlyOurs,
        Self::Unpriced,
    ];

    /// One word, as in metrics and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::SamePrice => "same-price",
            Self::OursCheaper => "ours-cheaper",
            Self::KarpenterCheaper => "karpenter-cheaper",
            Self::OnlyKarpenter => "only-karpenter",
            Self::OnlyOurs => "only-ours",
            Self::Unpriced => "unpriced",
        }
    }
}

/// Why two decisions about a batch differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DifferenceReason {
    /// We place this many more pods on nodes that exist.
    ExistingNodes(usize),
    /// Karpenter's pods ran on nodes that exist: this many more than in our plan.
    KarpenterExistingNodes(usize),
    /// We use this many NodeClaims fewer.
    FewerNodeClaims(usize),
    /// We use this many NodeClaims more.
    MoreNodeClaims(usize),
    /// Other NodePools.
    NodePool,
    /// Other capacity types.
    CapacityType,
    /// Other zones.
    Zone,
    /// Other instance types, which Karpenter's NodeClaims do not allow.
    InstanceType,
    /// Other instance types, which Karpenter's NodeClaims allow: the cloud chose.
    CloudChoice,
    /// Our plan has no node for this many pods.
    Unschedulable(usize),
    /// This many pods had no node when the comparison ended.
    StillPending(usize),
    /// This many pods were deleted before they had a node.
    PodsGone(usize),
    /// This many NodeClaims of Karpenter were deleted, or not launched in time.
    NeverLaunched(usize),
    /// The catalogue has no price of this many NodeClaims of Karpenter.
    UnknownPrice(usize),
    /// Our plan was cut short.
    PartialPlan,
}

impl DifferenceReason {
    /// One word, as in metrics and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ExistingNodes(_) => "existing-nodes",
            Self::KarpenterExistingNodes(_) => "karpenter-existing-nodes",
            Self::FewerNodeClaims(_) => "fewer-nodeclaims",
            Self::MoreNodeClaims(_) => "more-nodeclaims",
            Self::NodePool => "nodepool",
            Self::CapacityType => "capacity-type",
            Self::Zone => "zone",
            Self::InstanceType => "instance-type",
            Self::CloudChoice => "cloud-choice",
            Self::Unschedulable(_) => "unschedulable",
            Self::StillPending(_) => "still-pending",
            Self::PodsGone(_) => "pods-gone",
            Self::NeverLaunched(_) => "never-launched",
            Self::UnknownPrice(_) => "unknown-price",
            Self::PartialPlan => "partial-plan",
        }
    }
}

/// One sentence, without a full stop.
impl fmt::Display for DifferenceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExistingNodes(pods) => write!(f, "{pods} more pods fit existing nodes in our plan"),
            Self::KarpenterExistingNodes(pods) => {
                write!(f, "{pods} more pods ran on existing nodes than in our plan")
            }
            Self::FewerNodeClaims(claims) => write!(f, "our plan has {claims} NodeClaims fewer"),
            Self::MoreNodeClaims(claims) => write!(f, "our plan has {claims} NodeClaims more"),
            Self::NodePool => f.write_str("other NodePools"),
            Self::CapacityType => f.write_str("other capacity types"),
            Self::Zone => f.write_str("other zones"),
            Self::InstanceType => f.write_str("instance types that Karpenter's NodeClaims do not allow"),
            Self::CloudChoice => {
                f.write_str("Karpenter's NodeClaims allow our instance types; the cloud chose others")
            }
            Self::Unschedulable(pods) => write!(f, "our plan has no node for {pods} pods"),
            Self::StillPending(pods) => write!(f, "{pods} pods had no node when the comparison ended"),
            Self::PodsGone(pods) => write!(f, "{pods} pods were deleted before they had a node"),
            Self::NeverLaunched(claims) => {
                write!(f, "{claims} NodeClaims of Karpenter were deleted or not launched in time")
            }
            Self::UnknownPrice(claims) => {
                write!(f, "the catalogue has no price of {claims} NodeClaims of Karpenter")
            }
            Self::PartialPlan => f.write_str("our plan was cut short by the bound on its work"),
        }
    }
}

/// Compares the sides of a batch. Reasons are empty where both decided the same.
#[must_use]
pub fn compare(sides: &BatchSides) -> (Agreement, Vec<DifferenceReason>) {
    let karpenter = ClaimGroup::join(sides.karpenter.iter().map(|claim| claim.group.clone()));
    let agreement = agreement(&karpenter, &sides.ours);
    let reasons = match agreement {
        Agreement::Same => Vec::new(),
        _ => reasons(sides, &karpenter),
    };
    (agreement, reasons)
}

fn agreement(karpenter: &[ClaimGroup], ours: &[ClaimGroup]) -> Agreement {
    match (karpenter, ours) {
        ([], []) => return Agreement::Same,
        (_, []) => return Agreement::OnlyKarpenter,
        ([], _) => return Agreement::OnlyOurs,
        _ => {}
    }
    let offerings = |groups: &[ClaimGroup]| -> BTreeSet<_> {
        let offering = |group: &ClaimGroup| ClaimGroup { price: None, pods: 0, ..group.clone() };
        groups.iter().map(offering).collect()
    };
    if offerings(karpenter) == offerings(ours) {
        return Agreement::Same;
    }
    match (hourly(karpenter), hourly(ours)) {
        (Some(theirs), Some(ours)) if ours < theirs => Agreement::OursCheaper,
        (Some(theirs), Some(ours)) if ours > theirs => Agreement::KarpenterCheaper,
        (Some(_), Some(_)) => Agreement::SamePrice,
        _ => Agreement::Unpriced,
    }
}

fn reasons(sides: &BatchSides, karpenter: &[ClaimGroup]) -> Vec<DifferenceReason> {
    use DifferenceReason as Reason;
    let (theirs, ours) = (&sides.karpenter_pods, &sides.our_pods);
    let count = |groups: &[ClaimGroup]| groups.iter().map(|group| group.count).sum::<usize>();
    let (claims, our_claims) = (count(karpenter), count(&sides.ours));
    let unpriced = karpenter.iter().filter(|group| group.price.is_none()).map(|group| group.count).sum();
    let mut differences = vec![
        Reason::ExistingNodes(ours.existing.saturating_sub(theirs.existing)),
        Reason::KarpenterExistingNodes(theirs.existing.saturating_sub(ours.existing)),
        Reason::FewerNodeClaims(claims.saturating_sub(our_claims)),
        Reason::MoreNodeClaims(our_claims.saturating_sub(claims)),
        Reason::Unschedulable(ours.none),
        Reason::StillPending(theirs.none),
        Reason::PodsGone(theirs.gone),
        Reason::NeverLaunched(sides.never_launched),
        Reason::UnknownPrice(unpriced),
    ];
    differences.retain(|reason| !reason.is_zero());
    if sides.partial {
        differences.push(Reason::PartialPlan);
    }
    if !karpenter.is_empty() && !sides.ours.is_empty() {
        differences.extend(properties(sides, karpenter));
    }
    differences.sort();
    differences
}

impl DifferenceReason {
    /// Whether its figure is zero.
    fn is_zero(self) -> bool {
        matches!(
            self,
            Self::ExistingNodes(0)
                | Self::KarpenterExistingNodes(0)
                | Self::FewerNodeClaims(0)
                | Self::MoreNodeClaims(0)
                | Self::Unschedulable(0)
                | Self::StillPending(0)
                | Self::PodsGone(0)
                | Self::NeverLaunched(0)
                | Self::UnknownPrice(0)
        )
    }
}

/// The properties in which the NodeClaims differ, regardless of their number.
fn properties(sides: &BatchSides, karpenter: &[ClaimGroup]) -> Vec<DifferenceReason> {
    use DifferenceReason as Reason;
    let differ = |property: fn(&ClaimGroup) -> Str| {
        let values = |groups: &[ClaimGroup]| groups.iter().map(property).collect::<BTreeSet<Str>>();
        values(karpenter) != values(&sides.ours)
    };
    let mut differences = Vec::new();
    for (reason, property) in [
        (Reason::NodePool, (|group| group.pool.as_str().into()) as fn(&ClaimGroup) -> Str),
        (Reason::CapacityType, |group| group.capacity_type.clone()),
        (Reason::Zone, |group| group.zone.clone()),
    ] {
        if differ(property) {
            differences.push(reason);
        }
    }
    if differ(|group| group.instance_type.clone()) {
        let allowed = |group: &ClaimGroup| {
            let allows = |claim: &LaunchedClaim| {
                claim.requirements.allows(labels::INSTANCE_TYPE, &group.instance_type)
            };
            sides.karpenter.iter().any(allows)
        };
        let chosen = sides.ours.iter().all(allowed);
        differences.push(if chosen { Reason::CloudChoice } else { Reason::InstanceType });
    }
    differences
}
