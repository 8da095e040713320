//! What is off while the API server refuses a kind, and why it refuses it.

use std::fmt;

use fleetwright_core::model::Str;

use crate::kind::WatchedKind;

/// A part of the controller that it can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// CapacityBuffers.
    CapacityBuffers,
    /// The status of CapacityBuffers.
    CapacityBufferStatus,
    /// NodeOverlays.
    NodeOverlays,
    /// The status of NodeOverlays.
    NodeOverlayStatus,
    /// ResourceQuotas as limits of CapacityBuffers.
    ResourceQuotas,
    /// The defaults of LimitRanges.
    LimitRangeDefaults,
    /// Resource claims of pods (DRA).
    DynamicResources,
    /// kube-scheduler's default topology spread, for the pods that a kind selects.
    DefaultSpread,
    /// Attach limits of nodes.
    VolumeLimits,
    /// Waiting until volumes are detached.
    VolumeDetachment,
    /// Volumes that are not provisioned yet.
    VolumeProvisioning,
    /// Nominating pods to the nodes that are launched for them.
    PodNominations,
    /// Writing events.
    Events,
}

impl Feature {
    /// The feature's name for metrics, logs and conditions.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CapacityBuffers => "capacity-buffers",
            Self::CapacityBufferStatus => "capacity-buffer-status",
            Self::NodeOverlays => "node-overlays",
            Self::NodeOverlayStatus => "node-overlay-status",
            Self::ResourceQuotas => "resource-quotas",
            Self::LimitRangeDefaults => "limit-range-defaults",
            Self::DynamicResources => "dynamic-resources",
            Self::DefaultSpread => "default-topology-spread",
            Self::VolumeLimits => "volume-limits",
            Self::VolumeDetachment => "volume-detachment",
            Self::VolumeProvisioning => "volume-provisioning",
            Self::PodNominations => "pod-nominations",
            Self::Events => "events",
        }
    }

    /// What the controller does without it.
    #[must_use]
    pub fn without(self) -> &'static str {
        match self {
            Self::CapacityBuffers => "no capacity is kept for CapacityBuffers",
            Self::CapacityBufferStatus => "CapacityBuffers have no status",
            Self::NodeOverlays => "prices and capacities are the provider's",
            Self::NodeOverlayStatus => "NodeOverlays have no status",
            Self::ResourceQuotas => "CapacityBuffers are not limited by ResourceQuotas",
            Self::LimitRangeDefaults => {
                "pods of new DaemonSets and of CapacityBuffers are expected to request what their templates say"
            }
            Self::DynamicResources => "pods with resource claims are not scheduled",
            Self::DefaultSpread => "pods that it selects have no default topology spread",
            Self::VolumeLimits => "attach limits of nodes are unknown",
            Self::VolumeDetachment => "nodes are terminated before their volumes are detached",
            Self::VolumeProvisioning => "pods with unbound PersistentVolumeClaims are not scheduled",
            Self::PodNominations => "kube-scheduler is not told which pods a node was launched for",
            Self::Events => "events are not written",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl WatchedKind {
    /// The feature that needs this kind alone; `None` if the controller cannot do without it. A node that is built without its
    /// DaemonSets, a disruption that does not know budgets, would be wrong: those kinds are required.
    #[must_use]
    pub fn feature(self) -> Option<Feature> {
        match self {
            Self::CapacityBuffer => Some(Feature::CapacityBuffers),
            Self::NodeOverlay => Some(Feature::NodeOverlays),
            Self::DeviceClass | Self::ResourceSlice | Self::ResourceClaimTemplate | Self::ResourceClaim => {
                Some(Feature::DynamicResources)
            }
            Self::Service | Self::ReplicationController | Self::ReplicaSet | Self::StatefulSet => {
                Some(Feature::DefaultSpread)
            }
            Self::LimitRange => Some(Feature::LimitRangeDefaults),
            Self::CsiNode => Some(Feature::VolumeLimits),
            Self::VolumeAttachment => Some(Feature::VolumeDetachment),
            Self::StorageClass => Some(Feature::VolumeProvisioning),
            Self::Namespace
            | Self::PersistentVolume
            | Self::PersistentVolumeClaim
            | Self::PodDisruptionBudget
            | Self::DaemonSet
            | Self::NodeClass
            | Self::NodePool
            | Self::NodeClaim
            | Self::Node
            | Self::Pod => None,
        }
    }
}

/// Why the API server refuses a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// RBAC grants too little: HTTP 403.
    Forbidden,
    /// The API server does not serve the resource: HTTP 404.
    NotServed,
}

impl RefusalCause {
    /// The cause of an HTTP status, if it is one.
    #[must_use]
    pub fn of(code: u16) -> Option<Self> {
        match code {
            403 => Some(Self::Forbidden),
            404 => Some(Self::NotServed),
            _ => None,
        }
    }

    /// The cause in one word, for metrics and conditions.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "Forbidden",
            Self::NotServed => "NotServed",
        }
    }
}

/// A resource that the API server refuses, with the remedy as its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub cause: RefusalCause,
    /// The API group; empty for the core group.
    pub group: Str,
    /// The plural of the resource, with `/` and its subresource.
    pub resource: Str,
    /// The verbs that the controller needs.
    pub verbs: &'static [&'static str],
}

impl Refusal {
    /// The verbs of a watched kind.
    pub const WATCH: &'static [&'static str] = &["get", "list", "watch"];
}

/// Cause and remedy in one line.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cause, group, resource, verbs } = self;
        let dot = if group.is_empty() { "" } else { "." };
        match cause {
            RefusalCause::Forbidden => write!(
                f,
                "{resource}{dot}{group} is forbidden (403): add the rule apiGroups: [\"{group}\"], resources: \
                 [\"{resource}\"], verbs: {verbs:?} to the controller's ClusterRole"
            ),
            RefusalCause::NotServed => write!(
                f,
                "{resource}{dot}{group} is not served (404): install its CustomResourceDefinition, or enable the API group"
            ),
        }
    }
}
