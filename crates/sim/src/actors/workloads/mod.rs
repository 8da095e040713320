//! The workload controllers of kube-controller-manager, as far as common manifests need them.

mod budget;
mod daemon_set;
mod deployment;
mod job;
mod replica_set;
mod rollout;
mod stateful_set;
mod template;

use std::sync::Arc;

use fleetwright_kube_semantics::fnv::fnv1a_32;
use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};

use super::{
    actor::Actor,
    cache::{Change, Key, controller_of},
};

/// The actors of this folder.
pub(crate) fn all() -> Vec<Arc<dyn Actor>> {
    vec![
        Arc::new(deployment::Deployments),
        Arc::new(replica_set::ReplicaSets),
        Arc::new(stateful_set::StatefulSets),
        Arc::new(daemon_set::DaemonSets),
        Arc::new(job::Jobs),
        Arc::new(budget::Budgets),
    ]
}

/// FNV-1a in 32 bits, as Kubernetes hashes templates.
pub(crate) fn fnv(text: &str) -> u32 {
    fnv1a_32(text.bytes())
}

/// The keys of controllers of this kind that a changed object has or had.
fn controllers(change: &Change, kind: &str) -> Vec<Key> {
    let owners = change.sides().filter_map(|object| controller_of(object.meta()));
    let mut keys: Vec<Key> = owners
        .filter(|owner| owner.kind == kind)
        .map(|owner| Key::new(&change.key.namespace, &owner.name))
        .collect();
    keys.dedup();
    keys
}

/// Whether a pod has finished.
fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Whether a pod is neither finished nor terminating.
fn is_active(pod: &Pod) -> bool {
    !has_ended(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// Whether a pod is ready.
fn is_ready(pod: &Pod) -> bool {
    ready_since(pod).is_some()
}

/// When a pod became ready, if it is.
fn ready_since(pod: &Pod) -> Option<jiff::Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready =
        conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    Some(ready.last_transition_time.as_ref().map_or(jiff::Timestamp::MIN, |time| time.0))
}

/// Time until a pod has been ready for `seconds`: zero if it has, `None` if it is not ready.
fn until_available(pod: &Pod, seconds: Option<i32>, now: jiff::Timestamp) -> Option<std::time::Duration> {
    let since = ready_since(pod)?;
    let wanted = i64::from(seconds.unwrap_or(0).max(0));
    let passed = now.as_second().saturating_sub(since.as_second());
    Some(std::time::Duration::from_secs(u64::try_from(wanted.saturating_sub(passed)).unwrap_or(0)))
}

/// A number, or a percentage of `whole`.
fn portion(value: Option<&IntOrString>, whole: i32, up: bool, default: i32) -> i32 {
    match value {
        None => default,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
            let share = i64::from(whole).saturating_mul(percent);
            let share = if up { share.saturating_add(99).div_euclid(100) } else { share.div_euclid(100) };
            i32::try_from(share).unwrap_or(i32::MAX)
        }
    }
}

/// A count as Kubernetes' integer type.
fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn uid(meta: &ObjectMeta) -> &str {
    meta.uid.as_deref().unwrap_or_default()
}
