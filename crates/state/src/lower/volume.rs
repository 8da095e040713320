//! Volume claims with what they refer to, and attach limits.

use fleetwright_core::model::{
    self, LabelSchema, NamespacedName, Requirement, Str, VolumeClaim, VolumeState, labels::HOSTNAME,
};
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::{CSINode, StorageClass, VolumeAttachment},
};

use super::{affinity, text, time};

/// Set by the volume binder when the volume is bound to the claim from both sides.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// Set on the class of claims that name none.
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// In-tree plugins and the CSI drivers that they were moved to.
const MIGRATED: [(&str, &str); 3] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
];

/// A claim with its volume (by `spec.volumeName`) and its StorageClass (by `spec.storageClassName`).
#[must_use]
pub fn claim(
    claim: &PersistentVolumeClaim,
    volume: Option<&PersistentVolume>,
    class: Option<&StorageClass>,
    schema: &LabelSchema,
) -> VolumeClaim {
    let id = NamespacedName::new(
        claim.metadata.namespace.as_deref().unwrap_or_default(),
        claim.metadata.name.as_deref().unwrap_or_default(),
    );
    let mut lowered = VolumeClaim {
        handle: text(&id.to_string()),
        id,
        state: VolumeState::Bound,
        topology: Vec::new(),
        driver: None,
    };
    let result = if claim.metadata.deletion_timestamp.is_some() {
        Err(format!("persistentvolumeclaim {} is being deleted", lowered.id))
    } else if is_lost(claim) {
        // The binder clears the volume name if the claim lost its reference: it does not wait for a consumer.
        let of = volume_name(claim).map(|name| format!(" {name}")).unwrap_or_default();
        Err(format!("persistentvolumeclaim {} has lost its volume{of}", lowered.id))
    } else if volume_name(claim).is_some() {
        bound(&mut lowered, claim, volume, schema)
    } else {
        unbound(&mut lowered, claim, class, schema)
    };
    if let Err(why) = result {
        lowered.state = VolumeState::Broken(why.into());
    }
    lowered
}

/// Whether the volume of a claim is gone.
fn is_lost(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Lost")
}

/// The volume that a claim is bound to.
#[must_use]
pub fn volume_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}

/// The StorageClass of a claim.
#[must_use]
pub fn class_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.storage_class_name.as_deref().filter(|name| !name.is_empty())
}

fn bound(
    lowered: &mut VolumeClaim,
    claim: &PersistentVolumeClaim,
    volume: Option<&PersistentVolume>,
    schema: &LabelSchema,
) -> Result<(), String> {
    let id = &lowered.id;
    let name = volume_name(claim).unwrap_or_default();
    let volume =
        volume.ok_or_else(|| format!("persistentvolume {name} of claim {id} does not exist: create it"))?;
    if volume.metadata.deletion_timestamp.is_some() {
        return Err(format!("persistentvolume {name} of claim {id} is being deleted"));
    }
    let annotated = claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(BIND_COMPLETED));
    if !annotated {
        return Err(format!("persistentvolumeclaim {id} is not bound completely yet"));
    }
    let Some(spec) = &volume.spec else { return Ok(()) };
    let local = spec.local.is_some() || spec.host_path.is_some();
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let field = "spec.nodeAffinity.required";
    let terms = required.map(|required| affinity::required_terms(required, schema, field)).transpose();
    let terms = terms.map_err(|error| format!("persistentvolume {name} of claim {id}: {error}"))?;
    for mut term in terms.unwrap_or_default() {
        // The host of a local volume may be gone, and no new one can have its name: its zone is all that counts.
        term.retain(|requirement| !(local && &**requirement.key() == HOSTNAME));
        lowered.topology.push(term);
    }
    if let Some(csi) = &spec.csi {
        (lowered.driver, lowered.handle) = (Some(text(&csi.driver)), text(&csi.volume_handle));
    } else if let Some(ebs) = &spec.aws_elastic_block_store {
        (lowered.driver, lowered.handle) = (Some("ebs.csi.aws.com".into()), text(&ebs.volume_id));
    }
    Ok(())
}

fn unbound(
    lowered: &mut VolumeClaim,
    claim: &PersistentVolumeClaim,
    class: Option<&StorageClass>,
    schema: &LabelSchema,
) -> Result<(), String> {
    let id = &lowered.id;
    let name = class_name(claim)
        .ok_or_else(|| format!("persistentvolumeclaim {id} is not bound and names no storage class"))?;
    let class =
        class.ok_or_else(|| format!("storageclass {name} of claim {id} does not exist: create it"))?;
    lowered.driver = Some(driver(&class.provisioner));
    if class.volume_binding_mode.as_deref() != Some("WaitForFirstConsumer") {
        lowered.state = VolumeState::UnboundImmediate;
        return Ok(());
    }
    lowered.state = VolumeState::WaitsForConsumer;
    lowered.topology = topology(class, schema);
    Ok(())
}

/// Alternative topologies of a StorageClass's volumes.
fn topology(class: &StorageClass, schema: &LabelSchema) -> Vec<Vec<Requirement>> {
    let terms = class.allowed_topologies.iter().flatten();
    terms
        .map(|term| {
            let expressions = term.match_label_expressions.iter().flatten();
            let requirement = |wanted: &k8s_openapi::api::core::v1::TopologySelectorLabelRequirement| {
                Requirement::is_in(schema.normalize(&wanted.key), wanted.values.iter().map(String::as_str))
            };
            expressions.map(requirement).collect()
        })
        .collect()
}

/// A StorageClass, for claims that do not exist yet.
#[must_use]
pub fn class(class: &StorageClass, schema: &LabelSchema) -> model::StorageClass {
    let annotations = class.metadata.annotations.as_ref();
    let is_default = annotations.and_then(|all| all.get(IS_DEFAULT)).is_some_and(|value| value == "true");
    let created = time(class.metadata.creation_timestamp.as_ref()).unwrap_or(Timestamp::UNIX_EPOCH);
    model::StorageClass {
        immediate: class.volume_binding_mode.as_deref() != Some("WaitForFirstConsumer"),
        default_since: is_default.then_some(created),
        topology: topology(class, schema),
        driver: driver(&class.provisioner),
    }
}

/// What a VolumeAttachment attaches: driver and handle, by its volume where that is known.
#[must_use]
pub fn attached(attachment: &VolumeAttachment, volume: Option<&PersistentVolume>) -> Option<(Str, Str)> {
    let name = attachment.spec.source.persistent_volume_name.as_deref()?;
    let csi = volume.and_then(|volume| volume.spec.as_ref()?.csi.as_ref());
    Some(csi.map_or_else(
        || (driver(&attachment.spec.attacher), text(name)),
        |csi| (text(&csi.driver), text(&csi.volume_handle)),
    ))
}

fn driver(provisioner: &str) -> Str {
    let migrated = MIGRATED.iter().find(|(plugin, _)| *plugin == provisioner);
    migrated.map_or_else(|| text(provisioner), |(_, driver)| text(driver))
}

/// How many volumes of each driver a node can have attached, by driver.
#[must_use]
pub fn attach_limits(node: &CSINode) -> Vec<(Str, u32)> {
    let mut limits: Vec<(Str, u32)> = node
        .spec
        .drivers
        .iter()
        .filter_map(|driver| {
            let count = driver.allocatable.as_ref()?.count?;
            Some((text(&driver.name), u32::try_from(count).ok()?))
        })
        .collect();
    limits.sort();
    limits
}
