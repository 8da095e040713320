//! Deployments: a ReplicaSet per template, and rolling updates.
//!
//! A change of scale during a rollout is applied to the newest ReplicaSet first; `maxSurge` and `maxUnavailable` hold throughout.

use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec},
        core::v1::PodTemplateSpec,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::json;

use super::{
    rollout::{self, DeploymentState},
    template, uid,
};
use crate::actors::{
    actor::{Actor, Requeue},
    cache::{Change, Key, Object, Tables, controller_of},
    ctx::{CallError, Ctx, ignore_not_found},
};

/// The label that distinguishes the ReplicaSets of a Deployment.
pub(super) const HASH: &str = "pod-template-hash";
/// Revision of the rollout, on the Deployment and its ReplicaSets.
const REVISION: &str = "deployment.kubernetes.io/revision";
/// Default number of old ReplicaSets that are kept.
const HISTORY: i32 = 10;

/// The actor.
pub(super) struct Deployments;

impl DeploymentState {
    fn read(ctx: &Ctx, key: &Key) -> Option<Self> {
        let tables = ctx.cache.tables();
        let deployment = tables.get::<Deployment>(key)?;
        let spec = deployment.spec.clone()?;
        let own = uid(&deployment.metadata);
        let mut sets: Vec<Arc<ReplicaSet>> = tables
            .within::<ReplicaSet>(&key.namespace)
            .filter(|set| controller_of(&set.metadata).is_some_and(|owner| owner.uid == own))
            .cloned()
            .collect();
        drop(tables);
        sets.sort_by_key(|set| (set.metadata.creation_timestamp.clone(), set.metadata.name.clone()));
        let new = sets.iter().position(|set| same_template(set, &spec.template)).map(|at| sets.remove(at));
        Some(Self { deployment, spec, new, old: sets })
    }

    fn key(&self) -> Key {
        Key::of(&self.deployment.metadata)
    }
}

impl Actor for Deployments {
    fn name(&self) -> &'static str {
        "deployments"
    }

    fn interested(&self, change: &Change, _tables: &Tables) -> Vec<Key> {
        match &change.new {
            Some(Object::Deployment(_)) => vec![change.key.clone()],
            _ => super::controllers(change, "Deployment"),
        }
    }

    fn reconcile<'a>(&'a self, ctx: &'a Ctx, key: &'a Key) -> BoxFuture<'a, Result<Requeue, CallError>> {
        Box::pin(async move {
            let Some(mut family) = DeploymentState::read(ctx, key) else { return Ok(Requeue::No) };
            if family.deployment.metadata.deletion_timestamp.is_some() {
                return Ok(Requeue::No);
            }
            if family.spec.paused != Some(true) {
                advance(ctx, &mut family).await?;
                clean_up(ctx, &family).await?;
            } else if let Some(set) = family.new.clone() {
                scale_to(ctx, &set, rollout::wanted(&family)).await?;
            }
            let Some(family) = DeploymentState::read(ctx, key) else { return Ok(Requeue::No) };
            let status = rollout::status(&family, ctx.time());
            if rollout::differs(&family.deployment, &status) {
                ignore_not_found(ctx.patch_status::<Deployment>(key, &json!({ "status": status })).await)?;
            }
            Ok(Requeue::No)
        })
    }
}

/// The next step of the rollout: creates the new ReplicaSet, and scales within the bounds.
async fn advance(ctx: &Ctx, family: &mut DeploymentState) -> Result<(), CallError> {
    let recreate =
        family.spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate");
    if recreate && !family.old.is_empty() {
        for set in family.old.clone() {
            scale_to(ctx, &set, 0).await?;
        }
        let pods_left =
            family.old.iter().any(|set| !ctx.cache.tables().pods_of(uid(&set.metadata)).is_empty());
        if pods_left {
            return Ok(());
        }
    }
    let new = match family.new.clone() {
        Some(set) => set,
        None => create(ctx, family).await?,
    };
    family.new = Some(new.clone());
    if recreate {
        return scale_to(ctx, &new, rollout::wanted(family)).await;
    }
    let size = rollout::size_of_new(family);
    if scale_to_changed(ctx, &new, size).await? {
        return Ok(());
    }
    for (set, size) in rollout::sizes_of_old(family) {
        scale_to(ctx, &set, size).await?;
    }
    Ok(())
}

fn same_template(set: &ReplicaSet, template: &PodTemplateSpec) -> bool {
    let plain = |template: &PodTemplateSpec| {
        let mut plain = template.clone();
        if let Some(labels) = plain.metadata.as_mut().and_then(|meta| meta.labels.as_mut()) {
            labels.remove(HASH);
        }
        plain
    };
    let own = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    own.is_some_and(|own| plain(own) == plain(template))
}

async fn create(ctx: &Ctx, family: &DeploymentState) -> Result<Arc<ReplicaSet>, CallError> {
    let deployment = family.deployment.as_ref();
    let hash = template::hash(&family.spec.template, 0);
    let mut template = family.spec.template.clone();
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(HASH.to_owned(), hash.clone());
    let labels = labels.clone();
    let mut selector = family.spec.selector.clone();
    selector.match_labels.get_or_insert_default().insert(HASH.to_owned(), hash.clone());
    let revision =
        family.all().filter_map(|set| revision(&set.metadata)).max().unwrap_or(0).saturating_add(1);
    let mut annotations = deployment.metadata.annotations.clone().unwrap_or_default();
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    annotations.insert(REVISION.to_owned(), revision.to_string());
    let name = format!("{}-{hash}", deployment.metadata.name.as_deref().unwrap_or_default());
    let set = ReplicaSet {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: deployment.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![template::controller(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(rollout::initial_size(family)),
            min_ready_seconds: family.spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    };
    let created = ctx.create(&set).await?;
    let noted = json!({ "metadata": { "annotations": { REVISION: revision.to_string() } } });
    ignore_not_found(ctx.patch::<Deployment>(&family.key(), &noted).await)?;
    Ok(created)
}

fn revision(meta: &ObjectMeta) -> Option<i64> {
    meta.annotations.as_ref()?.get(REVISION)?.parse().ok()
}

async fn scale_to(ctx: &Ctx, set: &ReplicaSet, size: i32) -> Result<(), CallError> {
    scale_to_changed(ctx, set, size).await.map(drop)
}

async fn scale_to_changed(ctx: &Ctx, set: &ReplicaSet, size: i32) -> Result<bool, CallError> {
    if set.spec.as_ref().and_then(|spec| spec.replicas) == Some(size) {
        return Ok(false);
    }
    let patch = json!({ "metadata": { "uid": set.metadata.uid }, "spec": { "replicas": size } });
    ignore_not_found(ctx.patch::<ReplicaSet>(&Key::of(&set.metadata), &patch).await)?;
    Ok(true)
}

/// Deletes old empty ReplicaSets beyond the history limit, oldest first.
async fn clean_up(ctx: &Ctx, family: &DeploymentState) -> Result<(), CallError> {
    let keep = usize::try_from(family.spec.revision_history_limit.unwrap_or(HISTORY)).unwrap_or(0);
    let empty = |set: &&Arc<ReplicaSet>| {
        set.spec.as_ref().and_then(|spec| spec.replicas) == Some(0)
            && set.status.as_ref().is_none_or(|status| status.replicas == 0)
            && set.metadata.deletion_timestamp.is_none()
    };
    let surplus = family.old.len().saturating_sub(keep);
    for set in family.old.iter().filter(empty).take(surplus) {
        ctx.delete(set.as_ref(), None).await?;
    }
    Ok(())
}
