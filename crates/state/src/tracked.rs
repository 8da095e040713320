//! The Kubernetes types that the index follows.

use std::sync::Arc;

use fleetwright_api as api;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, ReplicaSet, StatefulSet},
        core::v1::{
            LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController,
            Service,
        },
        policy::v1::PodDisruptionBudget,
        resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice},
        storage::v1::{CSINode, StorageClass, VolumeAttachment},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::{
    kind::{Key, WatchedKind},
    watches,
};

/// A type of object that the index follows.
pub trait Tracked: Sized {
    /// Its kind.
    const KIND: WatchedKind;

    /// Its metadata.
    fn meta(&self) -> &ObjectMeta;

    /// Sets the kind that the object was read as, for a type that represents several kinds.
    #[must_use]
    fn of_kind(self, _api_version: &str, _kind: &str) -> Self {
        self
    }

    /// Its key in the index. A type that represents several kinds includes the kind.
    #[doc(hidden)]
    fn key(&self) -> Key {
        watches::key(self.meta())
    }

    /// The object by its type; `None` for one that was deleted.
    #[doc(hidden)]
    fn wrap(object: Option<Self>) -> TrackedObject;
}

macro_rules! tracked {
    ($($variant:ident: $type:ty, $kind:ident $({ $($own:tt)* })?;)+) => {
        /// An object of a type that the index follows, or the absence of one.
        #[doc(hidden)]
        #[derive(Debug)]
        pub enum TrackedObject {
            $(
                /// The object, or nothing if it is gone.
                $variant(Option<Arc<$type>>),
            )+
        }

        $(
            impl Tracked for $type {
                const KIND: WatchedKind = WatchedKind::$kind;

                fn meta(&self) -> &ObjectMeta {
                    &self.metadata
                }

                $($($own)*)?

                fn wrap(object: Option<Self>) -> TrackedObject {
                    let slim = object.map(|mut object| {
                        // They are large, and the index does not read them.
                        object.metadata.managed_fields = None;
                        Arc::new(object)
                    });
                    TrackedObject::$variant(slim)
                }
            }
        )+
    };
}

tracked! {
    Namespace: Namespace, Namespace;
    StorageClass: StorageClass, StorageClass;
    PersistentVolume: PersistentVolume, PersistentVolume;
    PersistentVolumeClaim: PersistentVolumeClaim, PersistentVolumeClaim;
    CsiNode: CSINode, CsiNode;
    VolumeAttachment: VolumeAttachment, VolumeAttachment;
    PodDisruptionBudget: PodDisruptionBudget, PodDisruptionBudget;
    DaemonSet: DaemonSet, DaemonSet;
    NodeClass: api::NodeClassView, NodeClass {
        fn of_kind(mut self, api_version: &str, kind: &str) -> Self {
            api_version.clone_into(&mut self.api_version);
            kind.clone_into(&mut self.kind);
            self
        }

        fn key(&self) -> Key {
            Key::of_class(self.group(), &self.kind, self.metadata.name.as_deref().unwrap_or_default())
        }
    };
    NodePool: api::NodePool, NodePool;
    NodeClaim: api::NodeClaim, NodeClaim;
    Node: Node, Node;
    Pod: Pod, Pod;
    NodeOverlay: api::NodeOverlay, NodeOverlay;
    Service: Service, Service;
    ReplicationController: ReplicationController, ReplicationController;
    ReplicaSet: ReplicaSet, ReplicaSet;
    StatefulSet: StatefulSet, StatefulSet;
    CapacityBuffer: api::CapacityBuffer, CapacityBuffer;
    DeviceClass: DeviceClass, DeviceClass;
    ResourceSlice: ResourceSlice, ResourceSlice;
    ResourceClaimTemplate: ResourceClaimTemplate, ResourceClaimTemplate;
    ResourceClaim: ResourceClaim, ResourceClaim;
    LimitRange: LimitRange, LimitRange;
}
