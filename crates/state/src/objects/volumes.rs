//! Volumes, their claims and classes. A claim is lowered with the volume and the class that it names.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_core::model::{LabelSchema, NamespacedName, StorageClasses, Str, VolumeClaim};
use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::{StorageClass, VolumeAttachment},
};

use crate::{
    change::{Put, by_key},
    kind::Key,
    lower::volume as lower,
};

/// The tables of volumes.
#[derive(Debug, Default)]
pub(crate) struct VolumeTable {
    claims: BTreeMap<NamespacedName, Arc<PersistentVolumeClaim>>,
    lowered_claims: Arc<BTreeMap<NamespacedName, VolumeClaim>>,
    volumes: BTreeMap<Str, Arc<PersistentVolume>>,
    classes: BTreeMap<Str, Arc<StorageClass>>,
    lowered_classes: Arc<StorageClasses>,
    attachments: BTreeMap<Str, Arc<VolumeAttachment>>,
    /// Whether a claim or a class changed since the last snapshot.
    pub(super) changed: bool,
}

impl VolumeTable {
    /// All claims, lowered with their volume and class.
    pub(crate) fn lowered_claims(&self) -> &Arc<BTreeMap<NamespacedName, VolumeClaim>> {
        &self.lowered_claims
    }

    /// All classes, lowered.
    pub(crate) fn lowered_classes(&self) -> &Arc<StorageClasses> {
        &self.lowered_classes
    }

    /// Name of the PersistentVolume that a claim is bound to.
    pub(crate) fn volume_name(&self, claim: &NamespacedName) -> Option<&str> {
        lower::volume_name(self.claims.get(claim)?)
    }

    /// All VolumeAttachments, by name.
    pub(crate) fn attachments(&self) -> impl Iterator<Item = &Arc<VolumeAttachment>> {
        self.attachments.values()
    }

    /// The node of a VolumeAttachment, with driver and handle of its volume.
    pub(super) fn attached(&self, attachment: &VolumeAttachment) -> Option<(Str, (Str, Str))> {
        let name = attachment.spec.source.persistent_volume_name.as_deref()?;
        let volume = self.volumes.get(name).map(|volume| &**volume);
        Some((Str::from(&*attachment.spec.node_name), lower::attached(attachment, volume)?))
    }

    pub(super) fn put_attachment(&mut self, key: &Key, attachment: Option<Arc<VolumeAttachment>>) -> Put {
        let exists = attachment.is_some();
        let before = match attachment {
            Some(attachment) => self.attachments.insert(key.name.clone(), attachment),
            None => self.attachments.remove(&key.name),
        };
        by_key(before.is_some(), exists)
    }

    pub(super) fn put_class(
        &mut self,
        key: &Key,
        class: Option<Arc<StorageClass>>,
        schema: &LabelSchema,
    ) -> Put {
        let exists = class.is_some();
        let lowered = class.as_deref().map(|class| lower::class(class, schema));
        if self.lowered_classes.get(&key.name) != lowered.as_ref() {
            let all = Arc::make_mut(&mut self.lowered_classes);
            match lowered {
                Some(lowered) => all.insert(key.name.clone(), lowered),
                None => all.remove(&key.name),
            };
            self.changed = true;
        }
        let before = match class {
            Some(class) => self.classes.insert(key.name.clone(), class),
            None => self.classes.remove(&key.name),
        };
        self.lower_claims(schema, |claim| lower::class_name(claim) == Some(&*key.name));
        by_key(before.is_some(), exists)
    }

    pub(super) fn put_volume(
        &mut self,
        key: &Key,
        volume: Option<Arc<PersistentVolume>>,
        schema: &LabelSchema,
    ) -> Put {
        let exists = volume.is_some();
        let before = match volume {
            Some(volume) => self.volumes.insert(key.name.clone(), volume),
            None => self.volumes.remove(&key.name),
        };
        self.lower_claims(schema, |claim| lower::volume_name(claim) == Some(&*key.name));
        by_key(before.is_some(), exists)
    }

    pub(super) fn put_claim(
        &mut self,
        key: &Key,
        claim: Option<Arc<PersistentVolumeClaim>>,
        schema: &LabelSchema,
    ) -> Put {
        let id = NamespacedName::from(key);
        let exists = claim.is_some();
        let before = match claim {
            Some(claim) => self.claims.insert(id.clone(), claim),
            None => {
                Arc::make_mut(&mut self.lowered_claims).remove(&id);
                self.claims.remove(&id)
            }
        };
        self.lower_claim(&id, schema);
        self.changed = true;
        by_key(before.is_some(), exists)
    }

    /// Lowers again the claims that refer to an object that changed.
    fn lower_claims(&mut self, schema: &LabelSchema, refers: impl Fn(&PersistentVolumeClaim) -> bool) {
        let ids: Vec<NamespacedName> =
            self.claims.iter().filter(|(_, claim)| refers(claim)).map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.lower_claim(&id, schema);
        }
    }

    fn lower_claim(&mut self, id: &NamespacedName, schema: &LabelSchema) {
        let Some(claim) = self.claims.get(id) else { return };
        let volume = lower::volume_name(claim).and_then(|name| self.volumes.get(name));
        let class = lower::class_name(claim).and_then(|name| self.classes.get(name));
        let lowered = lower::claim(claim, volume.map(|v| &**v), class.map(|c| &**c), schema);
        if self.lowered_claims.get(id) != Some(&lowered) {
            Arc::make_mut(&mut self.lowered_claims).insert(id.clone(), lowered);
            self.changed = true;
        }
    }
}
