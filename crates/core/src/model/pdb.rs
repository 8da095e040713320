//! PodDisruptionBudgets.

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
