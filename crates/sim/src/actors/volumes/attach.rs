//! The attach-detach controller: a VolumeAttachment for each CSI volume that a pod of a node uses. Attaching and detaching take no time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::future::BoxFuture;
use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::VolumeAttachment,
};
use serde_json::json;

use crate::actors::{
    actor::{Actor, Requeue},
    binder::claims,
    cache::{Change, Key, Object, Tables},
    ctx::{CallError, Ctx, ignore_not_found},
    workloads::fnv,
};

/// The actor. Its keys are nodes.
pub(super) struct Attachments;

impl Actor for Attachments {
    fn name(&self) -> &'static str {
        "volume-attachments"
    }

    fn interested(&self, change: &Change, tables: &Tables) -> Vec<Key> {
        let mut nodes = BTreeSet::new();
        for object in change.sides() {
            match object {
                Object::Pod(pod) => nodes.extend(node_of(pod)),
                Object::VolumeAttachment(attachment) => {
                    nodes.insert(attachment.spec.node_name.clone());
                }
                Object::PersistentVolumeClaim(_) => {
                    let pods = tables.within::<Pod>(&change.key.namespace);
                    let users = pods.filter(|pod| claims(pod).contains(&change.key.name));
                    nodes.extend(users.filter_map(|pod| node_of(pod)));
                }
                _ => {}
            }
        }
        nodes.into_iter().map(|node| Key::new("", &node)).collect()
    }

    fn reconcile<'a>(&'a self, ctx: &'a Ctx, key: &'a Key) -> BoxFuture<'a, Result<Requeue, CallError>> {
        Box::pin(async move {
            let (wanted, present) = {
                let tables = ctx.cache.tables();
                let own = tables.attachments.values().filter(|found| found.spec.node_name == key.name);
                let present: Vec<Arc<VolumeAttachment>> = own.cloned().collect();
                (wanted(&tables, &key.name), present)
            };
            let named = |found: &VolumeAttachment| found.spec.source.persistent_volume_name.clone();
            for (volume, driver) in &wanted {
                if !present.iter().any(|found| named(found).as_ref() == Some(volume)) {
                    attach(ctx, &key.name, volume, driver).await?;
                }
            }
            for found in &present {
                if !named(found).is_some_and(|volume| wanted.contains_key(&volume)) {
                    ctx.delete(found.as_ref(), None).await?;
                }
            }
            Ok(Requeue::No)
        })
    }
}

fn node_of(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone().filter(|name| !name.is_empty())
}

/// The CSI volumes of a node's pods, each with its driver.
fn wanted(tables: &Tables, node: &str) -> BTreeMap<String, String> {
    let mut wanted = BTreeMap::new();
    for pod in tables.pods_on(node) {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) {
            continue;
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        for name in claims(&pod) {
            let claim = tables.get::<PersistentVolumeClaim>(&Key::new(namespace, &name));
            let volume = claim.and_then(|claim| claim.spec.as_ref()?.volume_name.clone());
            let volume = volume.and_then(|name| tables.get::<PersistentVolume>(&Key::new("", &name)));
            let source = volume.and_then(|volume| {
                Some((volume.metadata.name.clone()?, volume.spec.as_ref()?.csi.as_ref()?.driver.clone()))
            });
            wanted.extend(source);
        }
    }
    wanted
}

async fn attach(ctx: &Ctx, node: &str, volume: &str, driver: &str) -> Result<(), CallError> {
    let name = format!("csi-{:08x}", fnv(&format!("{volume}/{driver}/{node}")));
    let attachment = json!({
        "metadata": { "name": name },
        "spec": { "attacher": driver, "nodeName": node, "source": { "persistentVolumeName": volume } },
    });
    let Ok(attachment) = serde_json::from_value::<VolumeAttachment>(attachment) else { return Ok(()) };
    match ctx.create(&attachment).await {
        // An earlier attempt has created it.
        Err(error) if error.code() == 409 => {}
        created => drop(created?),
    }
    let attached = json!({ "status": { "attached": true } });
    ignore_not_found(ctx.patch_status::<VolumeAttachment>(&Key::new("", &name), &attached).await).map(drop)
}
