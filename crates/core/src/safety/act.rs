//! The acts, the limits, and which limit applies to which act.

use super::Share;
use crate::cloud::InterruptionKind;

/// A write that changes capacity or moves pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Act {
    /// Create a NodeClaim.
    CreateClaim,
    /// Delete a NodeClaim for this cause.
    DeleteClaim(Cause),
    /// Evict a pod through the Eviction API.
    Evict,
    /// Terminate the instance of a deleted NodeClaim.
    Terminate,
    /// Terminate an instance that no NodeClaim accounts for.
    TerminateOrphan,
    /// Taint the nodes of a disruption command.
    Taint,
}

/// Why a NodeClaim is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// No offering that it allows has capacity.
    InsufficientCapacity,
    /// Its NodeClass is not ready.
    NodeClassNotReady,
    /// It was not launched in time.
    LaunchTimeout,
    /// Its node did not register in time.
    RegistrationTimeout,
    /// Its node was not initialized in time.
    InitializationTimeout,
    /// It is older than its `expireAfter`.
    Expired,
    /// The cloud has no instance for it.
    GarbageCollected,
    /// A repair policy calls its node unhealthy.
    Unhealthy,
    /// Its Node was deleted by another client.
    NodeDeleted,
    /// Its NodePool has more nodes than replicas.
    Surplus,
    /// The cloud announced an interruption of the instance.
    Interrupted(InterruptionKind),
}

impl Cause {
    /// The reason in metrics; `None` where Karpenter counts none.
    #[must_use]
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::InsufficientCapacity => Some("insufficient_capacity"),
            Self::NodeClassNotReady => Some("nodeclass_not_ready"),
            Self::LaunchTimeout => Some("launch_timeout"),
            Self::RegistrationTimeout => Some("registration_timeout"),
            Self::InitializationTimeout => Some("initialization_timeout"),
            Self::Expired => Some("expired"),
            Self::GarbageCollected => Some("garbage_collected"),
            Self::Unhealthy => Some("unhealthy"),
            Self::NodeDeleted | Self::Surplus => None,
            Self::Interrupted(kind) => Some(kind.as_str()),
        }
    }

    /// The cause in one word: the reason in metrics, where there is one.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.as_str().unwrap_or(if self == Self::Surplus { "surplus" } else { "node_deleted" })
    }
}

impl Act {
    /// The act in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CreateClaim => "create_claim",
            Self::DeleteClaim(_) => "delete_claim",
            Self::Evict => "evict",
            Self::Terminate => "terminate",
            Self::TerminateOrphan => "terminate_orphan",
            Self::Taint => "taint",
        }
    }
}

/// What can hold an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// The wall clock jumped: ages and schedules are not believed for a while.
    ClockJump,
    /// The process began less than `STARTUP_DISRUPTION_DELAY` ago.
    StartupDelay,
    /// Nearly half of all nodes are NotReady.
    Outage,
    /// The cloud's list misses too many instances.
    ShortList,
    /// Too many nodes of the NodePool are unhealthy.
    UnhealthyShare,
    /// Share of nodes that expire within the window.
    ExpirationShare,
    /// Share of nodes that are repaired within the window.
    RepairShare,
    /// Share of NodeClaims without an instance that are deleted within the window.
    CollectionShare,
    /// Share of NodeClaims that are deleted within the window because their node did not register.
    RegistrationShare,
    /// Share of nodes that the cloud calls impaired and that are drained without a grace period within the window.
    ImpairedShare,
    /// Share of instances without a NodeClaim that are terminated within the window.
    OrphanShare,
    /// The token bucket of NodeClaim creations.
    CreationRate,
    /// NodeClaims of a NodePool with replicas keep failing before registration.
    ReplicaBackoff,
    /// Pods of one owner and class keep missing the nodes that are launched for them.
    LaunchLoop,
    /// The token bucket of evictions.
    EvictionRate,
}

impl Limit {
    /// All of them, in the order of the documents.
    pub const ALL: [Self; 15] = [
        Self::ClockJump,
        Self::StartupDelay,
        Self::Outage,
        Self::ShortList,
        Self::UnhealthyShare,
        Self::ExpirationShare,
        Self::RepairShare,
        Self::CollectionShare,
        Self::RegistrationShare,
        Self::ImpairedShare,
        Self::OrphanShare,
        Self::CreationRate,
        Self::ReplicaBackoff,
        Self::LaunchLoop,
        Self::EvictionRate,
    ];

    /// The limit in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClockJump => "clock_jump",
            Self::StartupDelay => "startup_delay",
            Self::Outage => "outage",
            Self::ShortList => "short_list",
            Self::UnhealthyShare => "unhealthy_share",
            Self::ExpirationShare => "expiration_share",
            Self::RepairShare => "repair_share",
            Self::CollectionShare => "collection_share",
            Self::RegistrationShare => "registration_share",
            Self::ImpairedShare => "impaired_share",
            Self::OrphanShare => "orphan_share",
            Self::CreationRate => "creation_rate",
            Self::ReplicaBackoff => "replica_backoff",
            Self::LaunchLoop => "launch_loop",
            Self::EvictionRate => "eviction_rate",
        }
    }

    /// The share that passes within a window, of limits that are one.
    #[must_use]
    pub fn share(self) -> Option<Share> {
        match self {
            Self::ExpirationShare => Some(Share::EXPIRED),
            Self::RepairShare | Self::CollectionShare | Self::OrphanShare => Some(Share::NODES),
            Self::RegistrationShare => Some(Share::NEVER_JOINED),
            Self::ImpairedShare => Some(Share::IMPAIRED),
            _ => None,
        }
    }
}

/// The limits of an act, in the order in which they are checked.
#[must_use]
pub fn limits_of(act: Act) -> &'static [Limit] {
    match act {
        Act::CreateClaim => &[Limit::ReplicaBackoff, Limit::LaunchLoop, Limit::CreationRate],
        Act::DeleteClaim(cause) => match cause {
            Cause::Expired => &[Limit::StartupDelay, Limit::ClockJump, Limit::Outage, Limit::ExpirationShare],
            Cause::Unhealthy => &[Limit::UnhealthyShare, Limit::RepairShare],
            Cause::GarbageCollected => &[Limit::ShortList, Limit::CollectionShare],
            Cause::RegistrationTimeout => &[Limit::RegistrationShare],
            Cause::Interrupted(InterruptionKind::InstanceStatus | InterruptionKind::SystemStatus) => {
                &[Limit::ImpairedShare]
            }
            Cause::InsufficientCapacity
            | Cause::NodeClassNotReady
            | Cause::LaunchTimeout
            | Cause::InitializationTimeout
            | Cause::NodeDeleted
            | Cause::Surplus
            | Cause::Interrupted(_) => &[],
        },
        Act::Evict => &[Limit::EvictionRate],
        Act::Terminate => &[],
        Act::TerminateOrphan => &[Limit::OrphanShare],
        Act::Taint => &[Limit::StartupDelay, Limit::ClockJump],
    }
}
