//! The kinds of objects that the index follows, and the key of one object.

use std::fmt;

use fleetwright_core::model::{NamespacedName, NodeClassRef, Str};

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WatchedKind {
    /// `v1` Namespace.
    Namespace,
    /// `storage.k8s.io/v1` StorageClass.
    StorageClass,
    /// `v1` PersistentVolume.
    PersistentVolume,
    /// `v1` PersistentVolumeClaim.
    PersistentVolumeClaim,
    /// `storage.k8s.io/v1` CSINode.
    CsiNode,
    /// `storage.k8s.io/v1` VolumeAttachment.
    VolumeAttachment,
    /// `policy/v1` PodDisruptionBudget.
    PodDisruptionBudget,
    /// `apps/v1` DaemonSet.
    DaemonSet,
    /// The provider's node class.
    NodeClass,
    /// `karpenter.sh/v1` NodePool.
    NodePool,
    /// `karpenter.sh/v1` NodeClaim.
    NodeClaim,
    /// `v1` Node.
    Node,
    /// `v1` Pod.
    Pod,
    /// `karpenter.sh/v1alpha1` NodeOverlay. Watched only if the settings enable it, as are all below.
    NodeOverlay,
    /// `v1` Service.
    Service,
    /// `v1` ReplicationController.
    ReplicationController,
    /// `apps/v1` ReplicaSet.
    ReplicaSet,
    /// `apps/v1` StatefulSet.
    StatefulSet,
    /// `autoscaling.x-k8s.io/v1beta1` CapacityBuffer.
    CapacityBuffer,
    /// `resource.k8s.io/v1` DeviceClass.
    DeviceClass,
    /// `resource.k8s.io/v1` ResourceSlice.
    ResourceSlice,
    /// `resource.k8s.io/v1` ResourceClaimTemplate.
    ResourceClaimTemplate,
    /// `resource.k8s.io/v1` ResourceClaim.
    ResourceClaim,
    /// `v1` LimitRange.
    LimitRange,
}

impl WatchedKind {
    /// Every kind that is always watched, in the best order of lists: objects that others refer to come first.
    pub const ALL: [Self; 13] = [
        Self::Namespace,
        Self::StorageClass,
        Self::PersistentVolume,
        Self::PersistentVolumeClaim,
        Self::CsiNode,
        Self::VolumeAttachment,
        Self::PodDisruptionBudget,
        Self::DaemonSet,
        Self::NodeClass,
        Self::NodePool,
        Self::NodeClaim,
        Self::Node,
        Self::Pod,
    ];

    /// The kinds that default spread constraints depend on.
    pub const SELECTING: [Self; 4] =
        [Self::Service, Self::ReplicationController, Self::ReplicaSet, Self::StatefulSet];

    /// The kinds that resource claims depend on (DRA).
    pub const DEVICES: [Self; 4] =
        [Self::DeviceClass, Self::ResourceSlice, Self::ResourceClaimTemplate, Self::ResourceClaim];

    /// The kind's name for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::StorageClass => "StorageClass",
            Self::PersistentVolume => "PersistentVolume",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::CsiNode => "CSINode",
            Self::VolumeAttachment => "VolumeAttachment",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::DaemonSet => "DaemonSet",
            Self::NodeClass => "NodeClass",
            Self::NodePool => "NodePool",
            Self::NodeClaim => "NodeClaim",
            Self::Node => "Node",
            Self::Pod => "Pod",
            Self::NodeOverlay => "NodeOverlay",
            Self::Service => "Service",
            Self::ReplicationController => "ReplicationController",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
            Self::CapacityBuffer => "CapacityBuffer",
            Self::DeviceClass => "DeviceClass",
            Self::ResourceSlice => "ResourceSlice",
            Self::ResourceClaimTemplate => "ResourceClaimTemplate",
            Self::ResourceClaim => "ResourceClaim",
            Self::LimitRange => "LimitRange",
        }
    }
}

impl fmt::Display for WatchedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Names one object of a kind. Objects without a namespace have an empty one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Str,
    /// The name.
    pub name: Str,
}

impl Key {
    /// The key of a namespaced object.
    pub fn new(namespace: impl Into<Str>, name: impl Into<Str>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<Str>) -> Self {
        Self { namespace: "".into(), name: name.into() }
    }

    /// The key of a NodeClass in the index: `<kind>.<group>` takes the place of a namespace, since names are unique per kind only.
    pub(crate) fn of_class(group: &str, kind: &str, name: &str) -> Self {
        Self::new(format!("{kind}.{group}"), name)
    }

    /// The NodeClass of [`Self::of_class`].
    pub(crate) fn class(&self) -> NodeClassRef {
        let (kind, group) = self.namespace.split_once('.').unwrap_or((&self.namespace, ""));
        NodeClassRef { group: group.into(), kind: kind.into(), name: self.name.clone() }
    }

    /// The key of a changed object as controllers see it: that of a NodeClass is its name.
    pub(crate) fn outside(self, kind: WatchedKind) -> Self {
        if kind == WatchedKind::NodeClass { Self::cluster(self.name) } else { self }
    }

    /// The only key of a loop that is about nothing in particular.
    #[must_use]
    pub fn singleton() -> Self {
        Self::cluster("")
    }
}

impl From<NamespacedName> for Key {
    fn from(id: NamespacedName) -> Self {
        Self { namespace: id.namespace, name: id.name }
    }
}

impl From<&Key> for NamespacedName {
    fn from(key: &Key) -> Self {
        Self { namespace: key.namespace.clone(), name: key.name.clone() }
    }
}

/// `namespace/name`, or `name` alone.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.namespace, &*self.name) {
            ("", name) => f.write_str(name),
            (namespace, name) => write!(f, "{namespace}/{name}"),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
