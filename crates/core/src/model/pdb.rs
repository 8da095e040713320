//! PodDisruptionBudgets.

use jiff::Timestamp;

use super::{
    ids::{NamespacedName, Str},
    labels::{DISRUPTED_TAINT, Labels},
    pod::{LabelSelector, Pod},
    taint::{Taint, TaintEffect, first_untolerated},
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

/// Whether a pod that `covering` covers leaves as soon as its node drains, so that it needs another node now: Karpenter's
/// `IsCurrentlyReschedulable`. A pod that its annotation protects at `now`, that a budget which never allows a disruption
/// covers, or that several budgets cover, stays until the terminationGracePeriod of its node ends; unless it is terminating
/// already, tolerates the taint of a drain, which then does not wait for it, or is unready where the budget allows its eviction.
#[must_use]
pub fn is_currently_reschedulable<'p>(
    pod: &Pod,
    covering: impl IntoIterator<Item = &'p PodDisruptionBudget>,
    now: Timestamp,
) -> bool {
    if !pod.is_reschedulable() || pod.is_terminating() {
        return pod.is_reschedulable();
    }
    if pod.protected_until(now).is_some() {
        return false;
    }
    let mut covering = covering.into_iter();
    let (Some(budget), further) = (covering.next(), covering.next()) else { return true };
    let evicted = !budget.blocks_always || (budget.always_allow_unhealthy && !pod.ready);
    (further.is_none() && evicted) || stays_through_drain(pod)
}

/// Whether a pod tolerates the taint of a drain, which leaves it to the end of the node.
fn stays_through_drain(pod: &Pod) -> bool {
    let drained = Taint::new(DISRUPTED_TAINT, "", TaintEffect::NoSchedule);
    first_untolerated(&[drained], &pod.spec.tolerations).is_none()
}

#[cfg(test)]
mod tests {
    //! Which pods leave with the drain of their node.
    use super::*;
    use crate::{
        model::pod::DoNotDisrupt,
        testing::{now, pod},
    };

    #[test]
    fn what_no_eviction_keeps_leaves_at_once() {
        let never = |always_allow_unhealthy| PodDisruptionBudget {
            id: NamespacedName::new("default", "pdb"),
            selector: Some(LabelSelector::default()),
            disruptions_allowed: 0,
            blocks_always: true,
            always_allow_unhealthy,
        };
        let (strict, lenient) = (never(false), never(true));
        let leaves = |pod: &Pod, budgets: &[&PodDisruptionBudget]| {
            is_currently_reschedulable(pod, budgets.iter().copied(), now())
        };
        let ready = pod("p").with(|pod| pod.ready = true).bound("n");
        let unready = pod("p").with(|pod| pod.ready = false).bound("n");
        assert!(leaves(&ready, &[]) && !leaves(&ready, &[&strict]) && !leaves(&ready, &[&lenient]));
        assert!(!leaves(&unready, &[&strict]) && leaves(&unready, &[&lenient]));
        assert!(!leaves(&unready, &[&lenient, &lenient]));
        let protected = pod("p").with(|pod| pod.do_not_disrupt = DoNotDisrupt::Always);
        assert!(!leaves(&protected.clone().bound("n"), &[]));
        let terminating = protected.owner("StatefulSet", "s").with(|pod| pod.deleting = Some(now()));
        assert!(leaves(&terminating.bound("n"), &[&strict, &strict]));
        assert!(leaves(&pod("p").tolerate(DISRUPTED_TAINT).bound("n"), &[&strict, &strict]));
    }
}
