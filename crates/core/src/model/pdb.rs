//! PodDisruptionBudgets.

use jiff::Timestamp;

use super::{
    ids::{NamespacedName, Str},
    labels::Labels,
    pod::{LabelSelector, Pod},
};

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDisruptionBudget {
    /// Namespace and name.
    pub id: NamespacedName,
    /// Which pods it covers; `None` covers none.
    pub selector: Option<LabelSelector>,
    /// `status.disruptionsAllowed`.
    pub disruptions_allowed: i32,
    /// Whether its spec can never allow a disruption: `maxUnavailable` 0 or `0%`, or `minAvailable` 100 %.
    pub blocks_always: bool,
    /// Whether unready pods may be evicted regardless (`unhealthyPodEvictionPolicy: AlwaysAllow`).
    pub always_allow_unhealthy: bool,
}

impl PodDisruptionBudget {
    /// Whether it covers a pod of `namespace` with `labels`.
    #[must_use]
    pub fn covers(&self, namespace: &Str, labels: &Labels) -> bool {
        self.id.namespace == *namespace
            && self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    /// Whether it covers `pod`.
    #[must_use]
    pub fn covers_pod(&self, pod: &Pod) -> bool {
        self.covers(&pod.id.namespace, &pod.labels)
    }
}

/// Whether a pod that `covering` covers is evicted as soon as its node drains, so that it needs another node now: Karpenter's
/// `IsCurrentlyReschedulable`. A pod that its annotation protects at `now`, that a budget which never allows a disruption
/// covers, or that several budgets cover, stays until the terminationGracePeriod of its node ends.
#[must_use]
pub fn is_currently_reschedulable<'p>(
    pod: &Pod,
    covering: impl IntoIterator<Item = &'p PodDisruptionBudget>,
    now: Timestamp,
) -> bool {
    if !pod.is_reschedulable() || pod.protected_until(now).is_some() {
        return false;
    }
    let mut covering = covering.into_iter();
    match (covering.next(), covering.next()) {
        (None, _) => true,
        (Some(only), None) => !only.blocks_always,
        (Some(_), Some(_)) => false,
    }
}
