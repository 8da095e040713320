//! The features of generated clusters, and which of them a seed has.

use std::collections::BTreeSet;

use super::dice::Dice;

/// A part of Kubernetes that both the planner and kube-scheduler have to understand alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Feature {
    /// `DoNotSchedule` spread over zones, with `minDomains` at times
    ZoneSpread,
    /// `DoNotSchedule` spread over host names
    HostSpread,
    /// `nodeAffinityPolicy`, `nodeTaintsPolicy`, `ScheduleAnyway`, spread over capacity types
    SpreadPolicies,
    /// Required pod affinity, to its own or to another workload
    Affinity,
    /// Required pod anti-affinity, to its own or to another workload
    AntiAffinity,
    /// Preferred (anti-)affinity, preferred node affinity, `PreferNoSchedule`
    Preferences,
    /// A tainted NodePool and pods that tolerate the taint
    Taints,
    /// Node selectors and required node affinity
    NodeSelectors,
    /// Volumes that exist in a zone, and volumes that wait for their first consumer
    Volumes,
    /// Host ports
    HostPorts,
    /// `DaemonSet`s, some of them on a part of the nodes
    DaemonSets,
    /// Priority classes, without preemption
    Priorities,
    /// Existing nodes, half full
    HalfFullNodes,
    /// A rollout under way: pods of the old revision run or terminate, and `matchLabelKeys`
    Rollouts,
    /// NodePools with weights, zones and an architecture of their own
    Pools,
}

/// All features.
pub(super) const FEATURES: [Feature; 15] = [
    Feature::ZoneSpread,
    Feature::HostSpread,
    Feature::SpreadPolicies,
    Feature::Affinity,
    Feature::AntiAffinity,
    Feature::Preferences,
    Feature::Taints,
    Feature::NodeSelectors,
    Feature::Volumes,
    Feature::HostPorts,
    Feature::DaemonSets,
    Feature::Priorities,
    Feature::HalfFullNodes,
    Feature::Rollouts,
    Feature::Pools,
];

impl Feature {
    /// Whether workloads have it; the others shape NodePools and nodes.
    pub(super) fn is_of_workloads(self) -> bool {
        !matches!(self, Self::DaemonSets | Self::HalfFullNodes | Self::Pools)
    }
}

/// The features of a cluster: five to nine.
pub(super) fn draw(dice: &mut Dice) -> BTreeSet<Feature> {
    let mut all = FEATURES;
    dice.shuffle(&mut all);
    let count = usize::try_from(dice.between(5, 9)).unwrap_or(5);
    all.into_iter().take(count).collect()
}
