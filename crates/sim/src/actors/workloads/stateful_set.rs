//! StatefulSets: pods with ordinals, stable names and own volumes.
//!
//! Templates of earlier revisions are not kept: a recreated pod below `partition` gets the current template.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::BoxFuture;
use k8s_openapi::{
    api::{
        apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetStatus},
        core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::json;

use super::{count, has_ended, is_ready, phase, template, uid, until_available};
use crate::actors::{
    actor::{Actor, Requeue},
    cache::{Change, Key, Object, Tables},
    ctx::{CallError, Ctx, ignore_not_found},
};

/// The revision of a pod's template.
const REVISION: &str = "controller-revision-hash";

/// The actor.
pub(super) struct StatefulSets;

impl Actor for StatefulSets {
    fn name(&self) -> &'static str {
        "stateful-sets"
    }

    fn interested(&self, change: &Change, _tables: &Tables) -> Vec<Key> {
        match &change.new {
            Some(Object::StatefulSet(_)) => vec![change.key.clone()],
            _ => super::controllers(change, "StatefulSet"),
        }
    }

    fn reconcile<'a>(&'a self, ctx: &'a Ctx, key: &'a Key) -> BoxFuture<'a, Result<Requeue, CallError>> {
        Box::pin(async move {
            let Some(set) = StatefulSetState::read(ctx, key) else { return Ok(Requeue::No) };
            if set.object.metadata.deletion_timestamp.is_none() {
                step(ctx, &set).await?;
            }
            match StatefulSetState::read(ctx, key) {
                Some(set) => status(ctx, key, &set).await,
                None => Ok(Requeue::No),
            }
        })
    }
}

/// A StatefulSet with its pods by ordinal.
struct StatefulSetState {
    object: Arc<StatefulSet>,
    spec: StatefulSetSpec,
    revision: String,
    first: i32,
    pods: BTreeMap<i32, Arc<Pod>>,
}

impl StatefulSetState {
    fn read(ctx: &Ctx, key: &Key) -> Option<Self> {
        let tables = ctx.cache.tables();
        let object = tables.get::<StatefulSet>(key)?;
        let spec = object.spec.clone()?;
        let prefix = format!("{}-", key.name);
        let ordinal = |pod: &Pod| pod.metadata.name.as_deref()?.strip_prefix(&prefix)?.parse::<i32>().ok();
        let pods = tables.pods_of(uid(&object.metadata));
        let pods = pods.into_iter().filter_map(|pod| Some((ordinal(&pod)?, pod))).collect();
        let revision = format!("{}{}", prefix, template::hash(&spec.template, 0));
        let first = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0).max(0);
        Some(Self { object, spec, revision, first, pods })
    }

    /// The desired ordinals.
    fn ordinals(&self) -> std::ops::Range<i32> {
        let size = self.spec.replicas.unwrap_or(1).max(0);
        self.first..self.first.saturating_add(size)
    }

    fn is_parallel(&self) -> bool {
        self.spec.pod_management_policy.as_deref() == Some("Parallel")
    }

    fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    fn is_updated(&self, pod: &Pod) -> bool {
        pod.metadata.labels.as_ref().and_then(|labels| labels.get(REVISION)) == Some(&self.revision)
    }
}

fn is_healthy(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && phase(pod) == "Running" && is_ready(pod)
}

/// One step: replaces finished pods, creates missing ones, deletes excess ones, then updates; in order, and one at a time unless the
/// policy is `Parallel`.
async fn step(ctx: &Ctx, set: &StatefulSetState) -> Result<(), CallError> {
    for ordinal in set.ordinals() {
        match set.pods.get(&ordinal) {
            None => {
                create(ctx, set, ordinal).await?;
                if !set.is_parallel() {
                    return Ok(());
                }
            }
            Some(pod) if has_ended(pod) && pod.metadata.deletion_timestamp.is_none() => {
                ctx.delete(pod.as_ref(), None).await?;
                if !set.is_parallel() {
                    return Ok(());
                }
            }
            Some(pod) if !is_healthy(pod) && !set.is_parallel() => return Ok(()),
            Some(_) => {}
        }
    }
    let wanted = set.ordinals();
    let surplus = set.pods.iter().rev().filter(|(ordinal, _)| !wanted.contains(ordinal));
    for (_, pod) in surplus {
        if pod.metadata.deletion_timestamp.is_none() {
            ctx.delete(pod.as_ref(), None).await?;
        }
        if !set.is_parallel() {
            return Ok(());
        }
    }
    update(ctx, set).await
}

/// Deletes one outdated pod, the highest ordinal first, while all others are healthy.
async fn update(ctx: &Ctx, set: &StatefulSetState) -> Result<(), CallError> {
    let strategy = set.spec.update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return Ok(());
    }
    let partition = strategy.and_then(|strategy| strategy.rolling_update.as_ref()?.partition).unwrap_or(0);
    for (ordinal, pod) in set.pods.iter().rev().filter(|(ordinal, _)| set.ordinals().contains(ordinal)) {
        if *ordinal < partition {
            return Ok(());
        }
        if !set.is_updated(pod) && pod.metadata.deletion_timestamp.is_none() {
            return ctx.delete(pod.as_ref(), None).await;
        }
        if !is_healthy(pod) {
            return Ok(());
        }
    }
    Ok(())
}

async fn create(ctx: &Ctx, set: &StatefulSetState, ordinal: i32) -> Result<(), CallError> {
    let name = format!("{}-{ordinal}", set.name());
    let mut pod = template::pod(set.object.as_ref(), &set.spec.template);
    pod.metadata.generate_name = None;
    pod.metadata.name = Some(name.clone());
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), name.clone());
    labels.insert("apps.kubernetes.io/pod-index".to_owned(), ordinal.to_string());
    labels.insert(REVISION.to_owned(), set.revision.clone());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name.clone());
    spec.subdomain = set.spec.service_name.clone().filter(|service| !service.is_empty());
    for claim in set.spec.volume_claim_templates.iter().flatten() {
        let volume = claim.metadata.name.clone().unwrap_or_default();
        let claim_name = format!("{volume}-{name}");
        ensure_claim(ctx, set, claim, &claim_name).await?;
        let volumes = spec.volumes.get_or_insert_default();
        volumes.retain(|known| known.name != volume);
        volumes.push(Volume {
            name: volume,
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource { claim_name, read_only: None }),
            ..Volume::default()
        });
    }
    match ctx.create(&pod).await {
        // The previous pod is not gone yet, or the watch lags: its events trigger a retry.
        Err(error) if error.code() == 409 => Ok(()),
        created => created.map(drop),
    }
}

async fn ensure_claim(
    ctx: &Ctx,
    set: &StatefulSetState,
    template: &PersistentVolumeClaim,
    name: &str,
) -> Result<(), CallError> {
    let namespace = set.object.metadata.namespace.clone();
    let key = Key::new(namespace.as_deref().unwrap_or_default(), name);
    if ctx.cache.tables().get::<PersistentVolumeClaim>(&key).is_some() {
        return Ok(());
    }
    let mut labels = template.metadata.labels.clone().unwrap_or_default();
    labels.extend(set.spec.selector.match_labels.clone().unwrap_or_default());
    let claim = PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace,
            labels: Some(labels),
            annotations: template.metadata.annotations.clone(),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    };
    match ctx.create(&claim).await {
        Err(error) if error.code() == 409 => Ok(()),
        created => created.map(drop),
    }
}

async fn status(ctx: &Ctx, key: &Key, set: &StatefulSetState) -> Result<Requeue, CallError> {
    let now = ctx.clock.now();
    let mut again = Requeue::No;
    let mut available = 0_usize;
    let living: Vec<&Arc<Pod>> = set.pods.values().filter(|pod| !has_ended(pod)).collect();
    for pod in living.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        match until_available(pod, set.spec.min_ready_seconds, now) {
            Some(left) if left.is_zero() => available = available.saturating_add(1),
            Some(left) => again = again.or(Requeue::After(left)),
            None => {}
        }
    }
    let known = set.object.status.clone().unwrap_or_default();
    let wanted = set.spec.replicas.unwrap_or(1);
    let ready = count(living.iter().filter(|pod| is_healthy(pod)).count());
    let updated = count(living.iter().filter(|pod| set.is_updated(pod)).count());
    let rolled_out = updated == wanted && ready == wanted && count(living.len()) == wanted;
    let current =
        known.current_revision.clone().filter(|_| !rolled_out).unwrap_or_else(|| set.revision.clone());
    let on_current =
        |pod: &Pod| pod.metadata.labels.as_ref().and_then(|labels| labels.get(REVISION)) == Some(&current);
    let on_current = count(living.iter().filter(|pod| on_current(pod)).count());
    let some = |number: i32| (number != 0).then_some(number);
    let status = StatefulSetStatus {
        observed_generation: set.object.metadata.generation,
        replicas: count(living.len()),
        ready_replicas: some(ready),
        available_replicas: some(count(available)),
        current_replicas: some(on_current),
        updated_replicas: some(updated),
        current_revision: Some(current),
        update_revision: Some(set.revision.clone()),
        collision_count: known.collision_count,
        conditions: known.conditions.clone(),
    };
    let plain = |status: &StatefulSetStatus| {
        let number = |value: Option<i32>| value.unwrap_or(0);
        (
            (status.observed_generation, status.replicas, number(status.ready_replicas)),
            (
                number(status.available_replicas),
                number(status.current_replicas),
                number(status.updated_replicas),
            ),
            (status.current_revision.clone(), status.update_revision.clone()),
        )
    };
    if plain(&known) != plain(&status) {
        // Absent numbers are written as zero: a merge patch would keep the old values.
        let patch = json!({ "status": {
            "observedGeneration": status.observed_generation, "replicas": status.replicas,
            "readyReplicas": ready, "availableReplicas": available, "currentReplicas": on_current,
            "updatedReplicas": updated, "currentRevision": status.current_revision,
            "updateRevision": status.update_revision,
        } });
        ignore_not_found(ctx.patch_status::<StatefulSet>(key, &patch).await)?;
    }
    Ok(again)
}
