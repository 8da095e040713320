//! Pod garbage collection: force-deletes pods of deleted nodes after a delay, and terminating pods that never had a node.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use serde_json::json;

use crate::actors::{
    actor::{Actor, Requeue},
    cache::{Change, Key, Object, Tables},
    ctx::{CallError, Ctx, ignore_not_found},
};

/// How long a node must be gone (kube-controller-manager's quarantine).
const QUARANTINE: Duration = Duration::from_secs(40);
/// Name of the key of a lost node, unlike any pod's key.
const NODE: &str = "";

/// The actor. Its keys are pods, and deleted nodes (without namespace).
#[derive(Debug, Default)]
pub(super) struct PodCollector {
    /// Since when each node is gone.
    gone: Mutex<BTreeMap<String, Timestamp>>,
}

impl Actor for PodCollector {
    fn name(&self) -> &'static str {
        "pod-collector"
    }

    fn interested(&self, change: &Change, tables: &Tables) -> Vec<Key> {
        match (&change.old, &change.new) {
            (Some(Object::Node(_)), None) => vec![Key::new(NODE, &change.key.name)],
            (_, Some(Object::Pod(pod))) => match node_of(pod) {
                Some(node) if !tables.nodes.contains_key(&Key::new("", node)) => vec![Key::new(NODE, node)],
                None if pod.metadata.deletion_timestamp.is_some() => vec![change.key.clone()],
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn reconcile<'a>(&'a self, ctx: &'a Ctx, key: &'a Key) -> BoxFuture<'a, Result<Requeue, CallError>> {
        Box::pin(async move {
            if key.namespace == NODE {
                return self.of_lost_node(ctx, &key.name).await;
            }
            let pod = ctx.cache.tables().get::<Pod>(key);
            if let Some(pod) =
                pod.filter(|pod| node_of(pod).is_none() && pod.metadata.deletion_timestamp.is_some())
            {
                ctx.delete(pod.as_ref(), Some(0)).await?;
            }
            Ok(Requeue::No)
        })
    }
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

impl PodCollector {
    async fn of_lost_node(&self, ctx: &Ctx, name: &str) -> Result<Requeue, CallError> {
        let lost = {
            let tables = ctx.cache.tables();
            let gone = tables.get::<Node>(&Key::new("", name)).is_none();
            if gone { tables.pods_on(name) } else { Vec::new() }
        };
        {
            let now = ctx.clock.now();
            let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
            if lost.is_empty() {
                gone.remove(name);
                return Ok(Requeue::No);
            }
            let since = *gone.entry(name.to_owned()).or_insert(now);
            let passed: Duration = now.duration_since(since).try_into().unwrap_or_default();
            if passed < QUARANTINE {
                return Ok(Requeue::After(QUARANTINE.saturating_sub(passed)));
            }
        }
        for pod in lost {
            remove(ctx, &pod).await?;
        }
        Ok(Requeue::No)
    }
}

/// Marks a running pod of a deleted node as failed, and deletes it.
async fn remove(ctx: &Ctx, pod: &Pod) -> Result<(), CallError> {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if !matches!(phase, Some("Succeeded" | "Failed")) {
        let mut conditions = pod.status.clone().and_then(|status| status.conditions).unwrap_or_default();
        conditions.retain(|condition| condition.type_ != "DisruptionTarget");
        conditions.push(PodCondition {
            type_: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
            reason: Some("DeletionByPodGC".to_owned()),
            message: Some("PodGC: node no longer exists".to_owned()),
            last_transition_time: Some(ctx.time()),
            ..PodCondition::default()
        });
        let status = json!({ "status": { "phase": "Failed", "conditions": conditions } });
        ignore_not_found(ctx.patch_status::<Pod>(&Key::of(&pod.metadata), &status).await)?;
    }
    ctx.delete(pod, Some(0)).await
}
