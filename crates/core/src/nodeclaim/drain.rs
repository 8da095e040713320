//! Drain: pods are evicted in tiers, with a deadline if the claim has one.
//!
//! Tiers go one at a time, so that daemons serve the others to the end: neither critical nor daemon, daemon, critical,
//! critical daemon. A pod whose own grace period would reach over the deadline is deleted whatever its tier and its
//! disruption budget.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{ClaimStep, ClaimView, ConditionChange, Next, Notice, remaining, step::PodRef};
use crate::model::{
    Pod, PodDisruptionBudget, Taint, TaintEffect, labels::DISRUPTED_TAINT, nodeclaim::ConditionType,
    taint::first_untolerated,
};

/// How often a drain is looked at.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// A drain lasts at least so long: a pod may have been bound just before the taint was seen.
pub const SHORTEST: Duration = Duration::from_secs(5);
/// A pod that is still terminating this long after its grace period is stuck and not waited for.
pub const STUCK_AFTER: Duration = Duration::from_secs(60);
/// How many pods a message names.
const NAMED: usize = 5;

/// The taint that keeps new pods off a terminating node.
#[must_use]
pub fn disrupted_taint() -> Taint {
    Taint::new(DISRUPTED_TAINT, "", TaintEffect::NoSchedule)
}

/// Whether the drain evicts or waits for the pod: pods that tolerate the taint, static pods and stuck pods stay until the node is
/// deleted.
#[must_use]
pub fn is_drainable(pod: &Pod, now: Timestamp) -> bool {
    let tolerates = || first_untolerated(&[disrupted_taint()], &pod.spec.tolerations).is_none();
    let stuck = || pod.deleting.is_some_and(|end| remaining(end, STUCK_AFTER, now).is_none());
    !pod.is_static() && !stuck() && !tolerates()
}

/// Whether a drain waits for the pod.
#[must_use]
pub fn is_awaited(pod: &Pod, now: Timestamp) -> bool {
    !pod.is_terminal() && is_drainable(pod, now)
}

/// The evictions of the first tier of `pods`; `None` if there is nobody left to wait for.
pub(super) fn without_deadline(pods: &[Arc<Pod>], now: Timestamp) -> Option<Next> {
    let awaited: Vec<&Pod> = pods.iter().map(|pod| &**pod).filter(|pod| is_awaited(pod, now)).collect();
    let mut next = Next::nothing().again(INTERVAL);
    leave(&awaited, None, now, &mut next);
    (!awaited.is_empty()).then_some(next)
}

/// Empties the node of a claim that is deleted.
#[derive(Clone, Copy, Debug)]
pub struct Drain;

impl Drain {
    /// What to do next for the claim of `view`.
    #[must_use]
    pub fn next(&self, view: &ClaimView<'_>, now: Timestamp) -> Next {
        let (claim, condition) = (view.claim, ConditionType::Drained);
        let awaited: Vec<&Pod> =
            view.pods.iter().map(|pod| &**pod).filter(|pod| is_awaited(pod, now)).collect();
        if awaited.is_empty() {
            return done(view, now);
        }
        let mut next = Next::nothing().again(INTERVAL);
        let is_current = claim.conditions.get(&condition).is_some_and(|known| {
            &*known.reason == "Draining"
                && still_says(&known.message, &awaited, claim.termination_deadline)
                && names_one(&known.message, &stalled_by(view, &awaited, now))
        });
        if !is_current {
            let message = waiting(view, &awaited, now);
            next.steps.extend(ConditionChange::unknown(condition, "Draining", message).step(claim));
        }
        let held = leave(&awaited, claim.termination_deadline, now, &mut next);
        next.steps.push(ClaimStep::Publish(Notice::FailedDraining { waiting: awaited.len(), held }));
        next
    }
}

/// What a drain waits for: how many pods, the first few by tier and name with what holds them, and until when.
fn waiting(view: &ClaimView<'_>, awaited: &[&Pod], now: Timestamp) -> String {
    let deadline = view.claim.termination_deadline;
    let mut sorted = awaited.to_vec();
    sorted
        .sort_by(|a, b| (is_critical(a), a.is_daemon(), &a.id).cmp(&(is_critical(b), b.is_daemon(), &b.id)));
    let named = sorted.iter().take(NAMED).map(|pod| match pod.protected_until(now) {
        Some(Some(until)) => format!("{} (karpenter.sh/do-not-disrupt until {until})", pod.id),
        Some(None) => format!("{} (karpenter.sh/do-not-disrupt)", pod.id),
        None => match holder(view, pod) {
            Some(budget) => format!("{} ({})", pod.id, held_by(budget)),
            None => pod.id.to_string(),
        },
    });
    let mut names: Vec<String> = named.collect();
    if sorted.len() > NAMED {
        names.push(format!("and {} more", sorted.len() - NAMED));
    }
    let text = format!("{} pods are waiting to be evicted: {}", sorted.len(), names.join(", "));
    text + &until(deadline)
}

/// The disruption budget that keeps a pod from being evicted now.
fn holder<'a>(view: &ClaimView<'a>, pod: &Pod) -> Option<&'a PodDisruptionBudget> {
    let allows = |budget: &PodDisruptionBudget| {
        budget.disruptions_allowed > 0 || (budget.always_allow_unhealthy && !pod.ready)
    };
    let holds = |budget: &&Arc<PodDisruptionBudget>| budget.covers_pod(pod) && !allows(budget);
    view.budgets.iter().find(holds).map(|budget| &**budget)
}

/// The PodDisruptionBudgets that block the drain, if no pod of the current tier is terminating and none can be evicted. A budget that is
/// used up by terminating pods does not block; reporting it would cause an event with every pod.
fn stalled_by<'a>(view: &ClaimView<'a>, awaited: &[&Pod], now: Timestamp) -> Vec<&'a PodDisruptionBudget> {
    let tier = |pod: &&&Pod| (is_critical(pod), pod.is_daemon());
    let first = awaited.iter().map(|pod| tier(&pod)).min();
    let mut holders = Vec::new();
    for pod in awaited.iter().filter(|pod| Some(tier(pod)) == first) {
        let budget = holder(view, pod);
        if pod.is_terminating() || (budget.is_none() && pod.protected_until(now).is_none()) {
            return Vec::new();
        }
        holders.extend(budget);
    }
    holders
}

fn held_by(budget: &PodDisruptionBudget) -> String {
    format!("poddisruptionbudget {} allows no disruption", budget.id)
}

/// Whether a message of [`waiting`] names one of the budgets, if there are any.
fn names_one(message: &str, budgets: &[&PodDisruptionBudget]) -> bool {
    budgets.is_empty() || budgets.iter().any(|budget| message.contains(&held_by(budget)))
}

fn until(deadline: Option<Timestamp>) -> String {
    deadline.map_or_else(String::new, |deadline| format!("; all are deleted by {deadline}"))
}

/// Whether a message of [`waiting`] is still useful: one of the named pods is waited for, and the deadline is the same. One pod fewer is
/// not worth a write; a drain of 110 pods causes 22 writes at most.
fn still_says(message: &str, awaited: &[&Pod], deadline: Option<Timestamp>) -> bool {
    let (pods, end) = message.split_once(';').unwrap_or((message, ""));
    let names = pods.split_once(": ").map_or("", |(_, names)| names);
    let named = |pod: &&Pod| {
        let id = pod.id.to_string();
        names.split(", ").any(|name| name.split(' ').next() == Some(id.as_str()))
    };
    end == until(deadline).trim_start_matches(';') && awaited.iter().any(named)
}

fn done(view: &ClaimView<'_>, now: Timestamp) -> Next {
    let (claim, condition) = (view.claim, ConditionType::Drained);
    if claim.is(condition) {
        return Next::nothing();
    }
    let Some(draining) = claim.conditions.get(&condition) else {
        let begun = ConditionChange::unknown(condition, "Draining", "the node is being drained");
        return Next::steps([ClaimStep::Condition(begun)]).again(SHORTEST);
    };
    match remaining(draining.since, SHORTEST, now) {
        Some(left) => Next::wait(left),
        None => Next::steps([ClaimStep::Condition(ConditionChange::holds(condition))]),
    }
}

/// The steps by which pods leave now; returns those of the current tier that do-not-disrupt holds, the first few.
fn leave(
    awaited: &[&Pod],
    deadline: Option<Timestamp>,
    now: Timestamp,
    next: &mut Next,
) -> Vec<crate::model::NamespacedName> {
    let mut tiers: BTreeMap<(bool, bool), Vec<&Pod>> = BTreeMap::new();
    for pod in awaited {
        tiers.entry((is_critical(pod), pod.is_daemon())).or_default().push(pod);
    }
    for pod in awaited {
        if let Some((deadline, grace)) = deadline.and_then(|end| Some((end, forced_grace(pod, end, now)?))) {
            next.steps.push(ClaimStep::Publish(Notice::Disrupted {
                pod: pod.id.clone(),
                deadline,
                granted: grace,
                grace: pod.spec.termination_grace_period,
            }));
            next.steps.push(ClaimStep::Force(reference(pod), grace));
        }
    }
    let mut held = Vec::new();
    let current = tiers.first_key_value().map(|(_, pods)| pods.as_slice()).unwrap_or_default();
    for pod in current.iter().filter(|pod| !pod.is_terminating() && !is_due(pod, deadline, now)) {
        next.steps.extend(Notice::of_annotation(pod, now).map(ClaimStep::Publish));
        if pod.protected_until(now).is_some() {
            held.push(pod.id.clone());
        } else {
            next.steps.push(ClaimStep::Evict(reference(pod)));
        }
    }
    held.truncate(NAMED);
    held
}

fn reference(pod: &Pod) -> PodRef {
    PodRef { id: pod.id.clone(), uid: pod.uid.clone() }
}

fn is_critical(pod: &Pod) -> bool {
    let class = pod.spec.priority_class.as_deref();
    matches!(class, Some("system-cluster-critical" | "system-node-critical"))
}

/// Whether the pod's own grace period would reach over the node's deadline.
fn is_due(pod: &Pod, deadline: Option<Timestamp>, now: Timestamp) -> bool {
    deadline.is_some_and(|deadline| {
        let last_call = deadline.checked_sub(pod.spec.termination_grace_period).unwrap_or(Timestamp::MIN);
        now > last_call
    })
}

/// The grace period for a deletion now that ends at the deadline; `None` if the pod will be gone, or another deletion would not shorten
/// its grace period.
fn forced_grace(pod: &Pod, deadline: Timestamp, now: Timestamp) -> Option<Duration> {
    let due = match pod.deleting {
        Some(end) => end > deadline,
        None => is_due(pod, Some(deadline), now),
    };
    let left = Duration::try_from(deadline.duration_since(now)).unwrap_or_default();
    // Kubernetes counts grace in whole seconds.
    let grace = Duration::from_secs(left.as_secs().max(1));
    let end = now.checked_add(grace).unwrap_or(Timestamp::MAX);
    (due && pod.deleting.is_none_or(|known| end < known)).then_some(grace)
}
