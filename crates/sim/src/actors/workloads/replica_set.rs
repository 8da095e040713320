//! ReplicaSets: a number of pods from a template.

use std::{collections::BTreeMap, time::Duration};

use futures::future::BoxFuture;
use k8s_openapi::api::{
    apps::v1::{ReplicaSet, ReplicaSetStatus},
    core::v1::Pod,
};
use serde_json::json;

use super::{count, is_active, is_ready, phase, ready_since, template, uid, until_available};
use crate::actors::{
    actor::{Actor, Requeue},
    cache::{Change, Key, Object, Tables},
    ctx::{CallError, Ctx, ignore_not_found},
    selector::matches,
};

/// Most pods that one reconciliation creates or deletes; the rest follows in the next.
const BURST: usize = 500;
/// A pod's deletion cost, set by its owner.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The actor.
pub(super) struct ReplicaSets;

impl Actor for ReplicaSets {
    fn name(&self) -> &'static str {
        "replica-sets"
    }

    fn interested(&self, change: &Change, _tables: &Tables) -> Vec<Key> {
        match &change.new {
            Some(Object::ReplicaSet(_)) => vec![change.key.clone()],
            _ => super::controllers(change, "ReplicaSet"),
        }
    }

    fn reconcile<'a>(&'a self, ctx: &'a Ctx, key: &'a Key) -> BoxFuture<'a, Result<Requeue, CallError>> {
        Box::pin(async move {
            let Some(set) = ctx.cache.tables().get::<ReplicaSet>(key) else { return Ok(Requeue::No) };
            let left =
                if set.metadata.deletion_timestamp.is_none() { scale(ctx, &set).await? } else { false };
            let again = status(ctx, key, &set).await?;
            Ok(if left { again.or(Requeue::After(Duration::ZERO)) } else { again })
        })
    }
}

/// Creates or deletes pods. Returns whether more must follow.
async fn scale(ctx: &Ctx, set: &ReplicaSet) -> Result<bool, CallError> {
    let active = active(ctx, set);
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let wanted = usize::try_from(wanted).unwrap_or(0);
    let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    let missing = wanted.saturating_sub(active.len());
    for _ in 0..missing.min(BURST) {
        ctx.create(&template::pod(set, &template)).await?;
    }
    let surplus = active.len().saturating_sub(wanted);
    if surplus > 0 {
        for pod in worst_first(ctx, active).iter().take(surplus.min(BURST)) {
            ctx.delete(pod.as_ref(), None).await?;
        }
    }
    Ok(missing.max(surplus) > BURST)
}

fn active(ctx: &Ctx, set: &ReplicaSet) -> Vec<std::sync::Arc<Pod>> {
    let mut pods = ctx.cache.tables().pods_of(uid(&set.metadata));
    pods.retain(|pod| is_active(pod));
    pods
}

/// Pods in deletion order: without a node, pending, not ready, low deletion cost, many siblings on the node, young. Ties are broken by
/// UID, as in Kubernetes.
fn worst_first(ctx: &Ctx, mut pods: Vec<std::sync::Arc<Pod>>) -> Vec<std::sync::Arc<Pod>> {
    let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
    let mut crowd: BTreeMap<String, usize> = BTreeMap::new();
    for pod in &pods {
        let there = crowd.entry(node(pod)).or_default();
        *there = there.saturating_add(1);
    }
    let now = ctx.clock.now();
    // Ages are compared by order of magnitude, so that the youngest pod is not always deleted.
    let magnitude = |since: Option<jiff::Timestamp>| {
        since.map(|since| now.duration_since(since).as_secs().max(1).unsigned_abs().ilog2())
    };
    let rank = |pod: &Pod| {
        let phases = ["Pending", "Unknown", "Running"];
        let annotations = pod.metadata.annotations.as_ref();
        let cost =
            annotations.and_then(|map| map.get(DELETION_COST)).and_then(|text| text.parse::<i32>().ok());
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (
            !node(pod).is_empty(),
            phases.iter().position(|known| *known == phase(pod)),
            is_ready(pod),
            cost.unwrap_or(0),
            std::cmp::Reverse(crowd.get(&node(pod)).copied().unwrap_or(0)),
            magnitude(ready_since(pod)),
            magnitude(created),
            uid(&pod.metadata).to_owned(),
        )
    };
    pods.sort_by_cached_key(|pod| rank(pod));
    pods
}

async fn status(ctx: &Ctx, key: &Key, set: &ReplicaSet) -> Result<Requeue, CallError> {
    let pods = active(ctx, set);
    let spec = set.spec.clone().unwrap_or_default();
    let labels = spec
        .template
        .as_ref()
        .and_then(|template| template.metadata.as_ref())
        .and_then(|meta| meta.labels.clone());
    let template_labels = labels.unwrap_or_default();
    let full = |pod: &Pod| {
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        matches(Some(&spec.selector), &labels)
            && template_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    };
    let now = ctx.clock.now();
    let mut again = Requeue::No;
    let mut available = 0_usize;
    for pod in &pods {
        match until_available(pod, spec.min_ready_seconds, now) {
            Some(left) if left.is_zero() => available = available.saturating_add(1),
            Some(left) => again = again.or(Requeue::After(left)),
            None => {}
        }
    }
    let status = ReplicaSetStatus {
        replicas: count(pods.len()),
        fully_labeled_replicas: Some(count(pods.iter().filter(|pod| full(pod)).count())),
        ready_replicas: Some(count(pods.iter().filter(|pod| is_ready(pod)).count())),
        available_replicas: Some(count(available)),
        observed_generation: set.metadata.generation,
        ..ReplicaSetStatus::default()
    };
    let known = set.status.clone().unwrap_or_default();
    let same = known.replicas == status.replicas
        && known.fully_labeled_replicas.unwrap_or(0) == status.fully_labeled_replicas.unwrap_or(0)
        && known.ready_replicas.unwrap_or(0) == status.ready_replicas.unwrap_or(0)
        && known.available_replicas.unwrap_or(0) == status.available_replicas.unwrap_or(0)
        && known.observed_generation == status.observed_generation;
    if !same {
        ignore_not_found(ctx.patch_status::<ReplicaSet>(key, &json!({ "status": status })).await)?;
    }
    Ok(again)
}
