//! Which Kubernetes types the index takes in, and into which table each goes.

use std::sync::Arc;

use fleetwright_api as api;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, ReplicaSet, StatefulSet},
        core::v1::{
            Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service,
        },
        policy::v1::PodDisruptionBudget,
        resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice},
        storage::v1::{CSINode, StorageClass, VolumeAttachment},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::{
    change::Object,
    index::Index,
    kind::{Key, Kind},
};

/// A type of object that the index follows.
pub trait Tracked: Sized {
    /// Its kind.
    const KIND: Kind;

    /// Its metadata.
    fn meta(&self) -> &ObjectMeta;

    /// Puts the object into its table, or takes it out; returns what was and what is there. Versions were compared
    /// already.
    #[doc(hidden)]
    fn put(index: &mut Index, key: &Key, object: Option<Self>) -> (Option<Object>, Option<Object>);
}

macro_rules! tracked {
    ($($type:ty => $kind:ident, $put:ident;)+) => {$(
        impl Tracked for $type {
            const KIND: Kind = Kind::$kind;

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn put(index: &mut Index, key: &Key, object: Option<Self>) -> (Option<Object>, Option<Object>) {
                index.$put(key, object.map(slim).map(Arc::new))
            }
        }

        impl Slim for $type {
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    )+};
}

trait Slim {
    fn meta_mut(&mut self) -> &mut ObjectMeta;
}

/// Without what nobody reads and what is large.
fn slim<T: Slim>(mut object: T) -> T {
    object.meta_mut().managed_fields = None;
    object
}

tracked! {
    Namespace => Namespace, put_namespace;
    StorageClass => StorageClass, put_storage_class;
    PersistentVolume => PersistentVolume, put_volume;
    PersistentVolumeClaim => PersistentVolumeClaim, put_volume_claim;
    CSINode => CsiNode, put_csi_node;
    VolumeAttachment => VolumeAttachment, put_attachment;
    PodDisruptionBudget => PodDisruptionBudget, put_pdb;
    DaemonSet => DaemonSet, put_daemon_set;
    api::KwokNodeClass => NodeClass, put_kwok_class;
    api::Ec2NodeClassView => NodeClass, put_ec2_class;
    api::NodePool => NodePool, put_pool;
    api::NodeClaim => NodeClaim, put_claim;
    Node => Node, put_node;
    Pod => Pod, put_pod;
    api::NodeOverlay => NodeOverlay, put_overlay;
    Service => Service, put_service;
    ReplicationController => ReplicationController, put_replication_controller;
    ReplicaSet => ReplicaSet, put_replica_set;
    StatefulSet => StatefulSet, put_stateful_set;
    api::CapacityBuffer => CapacityBuffer, put_buffer;
    DeviceClass => DeviceClass, put_device_class;
    ResourceSlice => ResourceSlice, put_resource_slice;
    ResourceClaimTemplate => ResourceClaimTemplate, put_claim_template;
    ResourceClaim => ResourceClaim, put_resource_claim;
}
