//! The persistent-volume controller and a provisioner: claims of `Immediate` classes get a volume at once, in a zone drawn at random;
//! volumes without their claim are deleted or released.
//!
//! The binder serves claims with `WaitForFirstConsumer`, with the same functions.

mod attach;

use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::StorageClass,
};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use super::{
    actor::{Actor, Requeue},
    binder::serves,
    cache::{Change, Key, Object, Tables},
    ctx::{CallError, Ctx, ignore_not_found},
};

/// The zone label of volumes.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
/// A provisioner without dynamic provisioning.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Annotation of the default class.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// The actors of this file and folder.
pub(crate) fn all(zones: Vec<String>) -> Vec<Arc<dyn Actor>> {
    vec![Arc::new(Claims { zones }), Arc::new(Reclaim), Arc::new(attach::Attachments)]
}

/// Binds claims.
struct Claims {
    zones: Vec<String>,
}

impl Actor for Claims {
    fn name(&self) -> &'static str {
        "volume-claims"
    }

    fn interested(&self, change: &Change, tables: &Tables) -> Vec<Key> {
        match &change.new {
            Some(Object::PersistentVolumeClaim(claim)) if is_unbound(claim) => vec![change.key.clone()],
            Some(Object::StorageClass(_) | Object::PersistentVolume(_)) => tables
                .claims
                .iter()
                .filter(|(_, claim)| is_unbound(claim))
                .map(|(key, _)| key.clone())
                .collect(),
            _ => Vec::new(),
        }
    }

    fn reconcile<'a>(&'a self, ctx: &'a Ctx, key: &'a Key) -> BoxFuture<'a, Result<Requeue, CallError>> {
        Box::pin(async move {
            let found = ctx.cache.tables().get::<PersistentVolumeClaim>(key);
            let Some(mut claim) = found.filter(|claim| is_unbound(claim)) else { return Ok(Requeue::No) };
            if class_of(&claim).is_none() {
                let Some(class) = default_class(&ctx.cache.tables()) else { return Ok(Requeue::No) };
                claim = ctx.patch(key, &json!({ "spec": { "storageClassName": class } })).await?;
            }
            let class =
                ctx.cache.tables().get::<StorageClass>(&Key::new("", class_of(&claim).unwrap_or_default()));
            let waits = class.as_ref().and_then(|class| class.volume_binding_mode.as_deref());
            if waits == Some("WaitForFirstConsumer") {
                return Ok(Requeue::No);
            }
            let existing = smallest(&ctx.cache.tables(), &claim);
            if let Some(volume) = existing {
                bind(ctx, &claim, &volume).await?;
            } else if let Some(class) = class.filter(|class| class.provisioner != NO_PROVISIONER) {
                let zone = self.zone(ctx.seed, key, &class);
                provision(ctx, &claim, zone).await?;
            }
            Ok(Requeue::No)
        })
    }
}

impl Claims {
    /// The zone of a claim, drawn at random among those that its class allows.
    fn zone(&self, seed: u64, key: &Key, class: &StorageClass) -> Option<String> {
        let allowed: Vec<String> = class
            .allowed_topologies
            .iter()
            .flatten()
            .flat_map(|term| term.match_label_expressions.iter().flatten())
            .filter(|wanted| wanted.key == ZONE)
            .flat_map(|wanted| wanted.values.clone())
            .collect();
        let zones = if allowed.is_empty() { &self.zones } else { &allowed };
        let lot = super::workloads::fnv(&format!("{}/{}", key.namespace, key.name));
        let mut dice = ChaCha8Rng::seed_from_u64(seed ^ u64::from(lot));
        if zones.is_empty() { None } else { zones.get(dice.random_range(0..zones.len())).cloned() }
    }
}

fn is_unbound(claim: &PersistentVolumeClaim) -> bool {
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    volume.is_empty() && claim.metadata.deletion_timestamp.is_none()
}

/// The class of a claim; the empty class is an explicit class.
fn class_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.storage_class_name.as_deref()
}

fn default_class(tables: &Tables) -> Option<String> {
    let is_default = |class: &StorageClass| {
        let annotations = class.metadata.annotations.as_ref();
        annotations.and_then(|map| map.get(DEFAULT_CLASS)).is_some_and(|text| text == "true")
    };
    tables.classes.iter().find(|(_, class)| is_default(class)).map(|(key, _)| key.name.clone())
}

/// The first volume by name that exists, is free and satisfies the claim.
fn smallest(tables: &Tables, claim: &PersistentVolumeClaim) -> Option<String> {
    tables.volumes.iter().find(|(_, volume)| serves(volume, claim)).map(|(key, _)| key.name.clone())
}

/// Binds a claim and an existing volume to each other.
///
/// # Errors
/// If the API server rejects it.
pub(crate) async fn bind(ctx: &Ctx, claim: &PersistentVolumeClaim, volume: &str) -> Result<(), CallError> {
    let key = Key::new("", volume);
    let reference = reference(claim);
    ctx.patch::<PersistentVolume>(&key, &json!({ "spec": { "claimRef": reference } })).await?;
    finish(ctx, claim, volume).await
}

/// Creates a volume for a claim, optionally in a zone, and binds them to each other.
///
/// # Errors
/// If the API server rejects it.
pub(crate) async fn provision(
    ctx: &Ctx,
    claim: &PersistentVolumeClaim,
    zone: Option<String>,
) -> Result<(), CallError> {
    let class = class_of(claim).unwrap_or_default();
    let class = ctx.cache.tables().get::<StorageClass>(&Key::new("", class));
    let name = format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default());
    let spec = claim.spec.as_ref();
    let requests =
        spec.and_then(|spec| spec.resources.as_ref()).and_then(|resources| resources.requests.clone());
    let affinity = zone.map(|zone| {
        json!({ "required": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": ZONE, "operator": "In", "values": [zone] }] },
        ] } })
    });
    let provisioner = class.as_ref().map(|class| class.provisioner.clone()).unwrap_or_default();
    let policy = class.as_ref().and_then(|class| class.reclaim_policy.clone());
    let volume = json!({
        "metadata": {
            "name": name,
            "annotations": { "pv.kubernetes.io/provisioned-by": provisioner },
        },
        "spec": {
            "accessModes": spec.and_then(|spec| spec.access_modes.clone()),
            "capacity": requests,
            "claimRef": reference(claim),
            "csi": { "driver": provisioner, "volumeHandle": name },
            "nodeAffinity": affinity,
            "persistentVolumeReclaimPolicy": policy.unwrap_or_else(|| "Delete".to_owned()),
            "storageClassName": class_of(claim),
            "volumeMode": spec.and_then(|spec| spec.volume_mode.clone()),
        },
    });
    let volume: PersistentVolume = serde_json::from_value(volume).unwrap_or_default();
    match ctx.create(&volume).await {
        // An earlier attempt has created it.
        Err(error) if error.code() == 409 => {}
        created => drop(created?),
    }
    finish(ctx, claim, &name).await
}

fn reference(claim: &PersistentVolumeClaim) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": claim.metadata.name,
        "namespace": claim.metadata.namespace, "uid": claim.metadata.uid,
    })
}

async fn finish(ctx: &Ctx, claim: &PersistentVolumeClaim, volume: &str) -> Result<(), CallError> {
    let bound = json!({ "status": { "phase": "Bound" } });
    let volume_now = ctx.patch_status::<PersistentVolume>(&Key::new("", volume), &bound).await?;
    let key = Key::of(&claim.metadata);
    let named = json!({
        "metadata": {
            "uid": claim.metadata.uid,
            "annotations": { "pv.kubernetes.io/bind-completed": "yes" },
        },
        "spec": { "volumeName": volume },
    });
    if ignore_not_found(ctx.patch::<PersistentVolumeClaim>(&key, &named).await)?.is_none() {
        return Ok(());
    }
    let spec = volume_now.spec.as_ref();
    let status = json!({ "status": {
        "phase": "Bound",
        "accessModes": spec.and_then(|spec| spec.access_modes.clone()),
        "capacity": spec.and_then(|spec| spec.capacity.clone()),
    } });
    ignore_not_found(ctx.patch_status::<PersistentVolumeClaim>(&key, &status).await).map(drop)
}

/// Deletes or releases volumes without their claim.
struct Reclaim;

impl Actor for Reclaim {
    fn name(&self) -> &'static str {
        "volume-reclaim"
    }

    fn interested(&self, change: &Change, _tables: &Tables) -> Vec<Key> {
        match (&change.old, &change.new) {
            (Some(Object::PersistentVolumeClaim(claim)), None) => {
                let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
                volume.map(|name| Key::new("", name)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn reconcile<'a>(&'a self, ctx: &'a Ctx, key: &'a Key) -> BoxFuture<'a, Result<Requeue, CallError>> {
        Box::pin(async move {
            let found = {
                let tables = ctx.cache.tables();
                let volume = tables.get::<PersistentVolume>(key);
                let claim = volume.as_ref().and_then(|volume| volume.spec.as_ref()?.claim_ref.clone());
                let claim =
                    claim.and_then(|claim| Some((Key::new(&claim.namespace?, &claim.name?), claim.uid)));
                let lives = claim.is_none_or(|(key, uid)| {
                    tables.get::<PersistentVolumeClaim>(&key).is_some_and(|claim| claim.metadata.uid == uid)
                });
                volume.filter(|_| !lives)
            };
            let Some(volume) = found else { return Ok(Requeue::No) };
            let policy =
                volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
            if policy == Some("Delete") {
                ctx.delete(volume.as_ref(), None).await?;
            } else {
                let released = json!({ "status": { "phase": "Released" } });
                ignore_not_found(ctx.patch_status::<PersistentVolume>(key, &released).await)?;
            }
            Ok(Requeue::No)
        })
    }
}
