//! Reading NodePools that are ours, and writing their status.

use std::sync::Arc;

use fleetwright_api::{self as api, ConditionSet, HasConditions};
use fleetwright_core::model::NodeClassRef;
use fleetwright_state::{Change, Index, Key, Kind};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::runtime::{Ctx, ReconcileError, gone_is_ok};

/// The pool called `name`, where it is ours.
pub(super) fn managed(ctx: &Ctx, name: &str) -> Option<Arc<api::NodePool>> {
    let index = ctx.index();
    let pool = index.pool(name)?;
    let class = &pool.spec.template.spec.node_class_ref;
    index.is_managed(&class.group, &class.kind).then(|| pool.clone())
}

/// The class that a pool names.
pub(super) fn class_of(pool: &api::NodePool) -> NodeClassRef {
    let class = &pool.spec.template.spec.node_class_ref;
    NodeClassRef {
        group: class.group.as_str().into(),
        kind: class.kind.as_str().into(),
        name: class.name.as_str().into(),
    }
}

/// The keys of the pools that a change of a pool or of a class is about.
pub(super) fn pools_of(change: &Change, index: &Index) -> Vec<Key> {
    match change.kind {
        Kind::NodePool => vec![change.key.clone()],
        Kind::NodeClass => {
            let uses =
                |pool: &&Arc<api::NodePool>| *pool.spec.template.spec.node_class_ref.name == *change.key.name;
            let names = index.pools().filter(uses).filter_map(|pool| pool.metadata.name.clone());
            names.map(Key::cluster).collect()
        }
        _ => Vec::new(),
    }
}

/// Changes the status of a pool; fails where anybody else wrote meanwhile, writes nothing where nothing changes.
pub(super) async fn change(
    ctx: &Ctx,
    pool: &api::NodePool,
    change: impl FnOnce(&mut api::NodePoolStatus),
) -> Result<(), ReconcileError> {
    let mut status = pool.status.clone().unwrap_or_default();
    change(&mut status);
    if pool.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let body = Patch::Merge(json!({
        "metadata": { "resourceVersion": pool.metadata.resource_version },
        "status": status,
    }));
    let (api, params) = (ctx.cluster_api::<api::NodePool>(), PatchParams::default());
    let patched = ctx.call("write nodepool status", api.patch_status(name, &params, &body)).await;
    if let Some(pool) = gone_is_ok(patched)? {
        ctx.observe(pool);
    }
    Ok(())
}

/// [`change`] of conditions.
pub(super) async fn change_conditions(
    ctx: &Ctx,
    pool: &api::NodePool,
    apply: impl FnOnce(&mut ConditionSet<'_>),
) -> Result<(), ReconcileError> {
    let now = ctx.now();
    change(ctx, pool, |status| {
        apply(&mut ConditionSet::new(api::NodePool::TYPES, &pool.metadata, &mut status.conditions, now));
    })
    .await
}
