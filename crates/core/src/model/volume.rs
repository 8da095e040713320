//! Volumes in scheduling: their topology, and the driver that attaches them.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    ids::{NamespacedName, Str},
    requirement::Requirement,
};

/// A volume of a pod that is backed by a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumeRef {
    /// A PersistentVolumeClaim of this name in the pod's namespace.
    Claim(Str),
    /// A generic ephemeral volume of this name: its claim is called `<pod>-<volume>`.
    Ephemeral {
        /// Name of the volume in the pod.
        volume: Str,
        /// StorageClass of the template, which counts until the claim exists.
        storage_class: Option<Str>,
    },
}

/// What is known of a PersistentVolumeClaim with its volume and StorageClass.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeClaim {
    /// The claim.
    pub id: NamespacedName,
    /// Its state.
    pub state: VolumeState,
    /// Alternative topologies, each a conjunction; empty if the volume is accessible everywhere.
    pub topology: Vec<Vec<Requirement>>,
    /// The CSI driver that attaches it, against which a node's attach limit counts.
    pub driver: Option<Str>,
    /// Its identity among volumes of the driver: the volume's handle or, while unbound, the claim.
    pub handle: Str,
}

/// What of a StorageClass decides where its volumes can be.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageClass {
    /// Whether volumes are made as soon as they are claimed, wherever that is.
    pub immediate: bool,
    /// Whether claims that name no class get this one, and since when; of several the newest counts.
    pub default_since: Option<Timestamp>,
    /// Alternatives of where its volumes can be, each a conjunction; empty where that is everywhere.
    pub topology: Vec<Vec<Requirement>>,
    /// The CSI driver that attaches its volumes.
    pub driver: Str,
}

/// All StorageClasses by name.
pub type StorageClasses = BTreeMap<Str, StorageClass>;

/// The class that a claim gets which names none: the newest default, of equal age the last by name.
#[must_use]
pub fn default_class(classes: &StorageClasses) -> Option<&StorageClass> {
    classes.values().filter(|class| class.default_since.is_some()).max_by_key(|class| class.default_since)
}

/// The state of a PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeState {
    /// Bound to a volume.
    Bound,
    /// Waits for its first consumer: the StorageClass's topology counts.
    WaitsForConsumer,
    /// Unbound, with a StorageClass that binds immediately: its topology is not known yet, so its pods wait.
    UnboundImmediate,
    /// Unusable, with the reason in words that name the object.
    Broken(Str),
}
