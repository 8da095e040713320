//! Node lifecycle: taints by condition, and NotReady nodes after missed lease renewals.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, NodeCondition, Pod, Taint},
};
use serde_json::json;

use crate::actors::{
    actor::{Actor, Requeue},
    cache::{Change, Key, Object, Tables},
    ctx::{CallError, Ctx, ignore_not_found},
};

/// How long a lease may be expired (`--node-monitor-grace-period`).
const GRACE: Duration = Duration::from_secs(50);
/// Namespace of the nodes' leases.
const LEASES: &str = "kube-node-lease";

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Conditions whose status True causes a taint.
const PRESSURES: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

/// The actor.
#[derive(Debug, Default)]
pub(super) struct Lifecycle {
    /// When each lease was last seen to change, on the local clock: the time in the lease may be wrong.
    renewed: Mutex<BTreeMap<String, (Option<String>, Timestamp)>>,
}

impl Actor for Lifecycle {
    fn name(&self) -> &'static str {
        "node-lifecycle"
    }

    fn interested(&self, change: &Change, _tables: &Tables) -> Vec<Key> {
        match (&change.new, &change.old) {
            (Some(Object::Node(_)), _) => vec![change.key.clone()],
            (Some(Object::Lease(_)), _) if change.key.namespace == LEASES => {
                vec![Key::new("", &change.key.name)]
            }
            _ => Vec::new(),
        }
    }

    fn reconcile<'a>(&'a self, ctx: &'a Ctx, key: &'a Key) -> BoxFuture<'a, Result<Requeue, CallError>> {
        Box::pin(async move {
            let (node, lease) = {
                let tables = ctx.cache.tables();
                (tables.get::<Node>(key), tables.get::<Lease>(&Key::new(LEASES, &key.name)))
            };
            let Some(mut node) = node else {
                self.renewed.lock().unwrap_or_else(PoisonError::into_inner).remove(&key.name);
                return Ok(Requeue::No);
            };
            let silent = self.silent(ctx.clock.now(), &key.name, lease.as_deref());
            let again = silent.map_or(Requeue::No, |silent| Requeue::After(GRACE.saturating_sub(silent)));
            let lost = silent.is_some_and(|silent| silent >= GRACE);
            if lost && condition(&node, "Ready").is_some_and(|ready| ready.status != "Unknown") {
                let Some(marked) = mark_unknown(ctx, key, &node).await? else { return Ok(Requeue::No) };
                node = marked;
            }
            self.taint(ctx, key, &node).await?;
            if condition(&node, "Ready").is_none_or(|ready| ready.status != "True") {
                unready_pods(ctx, &key.name).await?;
            }
            Ok(if lost { Requeue::No } else { again })
        })
    }
}

impl Lifecycle {
    /// Time since the last renewal of a lease; `None` without a lease.
    fn silent(&self, now: Timestamp, name: &str, lease: Option<&Lease>) -> Option<Duration> {
        let version = lease?.metadata.resource_version.clone();
        let mut renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = renewed.entry(name.to_owned()).or_insert_with(|| (version.clone(), now));
        if entry.0 != version {
            *entry = (version, now);
        }
        Some(now.duration_since(entry.1).max(SignedDuration::ZERO).unsigned_abs())
    }

    async fn taint(&self, ctx: &Ctx, key: &Key, node: &Node) -> Result<(), CallError> {
        let wanted = wanted(node);
        let known = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let ours = |taint: &Taint| {
            [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&taint.key.as_str())
                || PRESSURES.iter().any(|(_, key)| *key == taint.key)
        };
        let same = |taint: &Taint, wanted: &(&str, &str)| taint.key == wanted.0 && taint.effect == wanted.1;
        let mut taints: Vec<Taint> = known
            .iter()
            .filter(|taint| !ours(taint) || wanted.iter().any(|wanted| same(taint, wanted)))
            .cloned()
            .collect();
        for (name, effect) in &wanted {
            if !taints.iter().any(|taint| same(taint, &(*name, *effect))) {
                taints.push(Taint {
                    key: (*name).to_owned(),
                    effect: (*effect).to_owned(),
                    time_added: Some(ctx.time()),
                    ..Taint::default()
                });
            }
        }
        if taints == known {
            return Ok(());
        }
        // The list is replaced as a whole, with the version that was read, so that no taint of others is lost.
        let patch = json!({
            "metadata": { "uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version },
            "spec": { "taints": taints },
        });
        ignore_not_found(ctx.patch::<Node>(key, &patch).await).map(drop)
    }
}

fn condition<'a>(node: &'a Node, name: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == name)
}

/// Key and effect of the taints for a node's conditions.
fn wanted(node: &Node) -> Vec<(&'static str, &'static str)> {
    let mut wanted = Vec::new();
    match condition(node, "Ready").map(|ready| ready.status.as_str()) {
        Some("True") => {}
        Some("Unknown") => wanted.extend([(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
        Some(_) => wanted.extend([(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
        // The node has no Ready condition yet: it keeps the taint of admission.
        None => wanted.push((NOT_READY, "NoSchedule")),
    }
    let pressed = |name: &str| condition(node, name).is_some_and(|condition| condition.status == "True");
    wanted.extend(PRESSURES.iter().filter(|(name, _)| pressed(name)).map(|(_, key)| (*key, "NoSchedule")));
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    wanted
}

async fn mark_unknown(ctx: &Ctx, key: &Key, node: &Node) -> Result<Option<Arc<Node>>, CallError> {
    let mut conditions = node.status.clone().and_then(|status| status.conditions).unwrap_or_default();
    let watched = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
    for condition in conditions.iter_mut().filter(|condition| watched.contains(&condition.type_.as_str())) {
        condition.status = "Unknown".to_owned();
        condition.reason = Some("NodeStatusUnknown".to_owned());
        condition.message = Some("Kubelet stopped posting node status.".to_owned());
        condition.last_transition_time = Some(ctx.time());
    }
    let patch = json!({ "metadata": { "uid": node.metadata.uid }, "status": { "conditions": conditions } });
    ignore_not_found(ctx.patch_status::<Node>(key, &patch).await)
}

/// Sets the pods of a NotReady node to not ready.
async fn unready_pods(ctx: &Ctx, node: &str) -> Result<(), CallError> {
    let pods = ctx.cache.tables().pods_on(node);
    for pod in pods {
        let mut conditions = pod.status.clone().and_then(|status| status.conditions).unwrap_or_default();
        let ready = conditions.iter_mut().find(|entry| entry.type_ == "Ready" && entry.status == "True");
        let Some(ready) = ready else { continue };
        ready.status = "False".to_owned();
        ready.reason = Some("NodeNotReady".to_owned());
        ready.last_transition_time = Some(ctx.time());
        let patch =
            json!({ "metadata": { "uid": pod.metadata.uid }, "status": { "conditions": conditions } });
        ignore_not_found(ctx.patch_status::<Pod>(&Key::of(&pod.metadata), &patch).await)?;
    }
    Ok(())
}
