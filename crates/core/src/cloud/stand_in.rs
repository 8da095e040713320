//! What a stand-in for a cloud says beside its API, to the conformance suite and to the simulator: what it really runs, and what goes
//! wrong in its calls.

use crate::model::{BatchId, ClaimName, Labels, Price, ProviderId, Resources, Str, Taint, labels::ON_DEMAND};

/// An instance as the cloud has it, read from the cloud and not by the provider.
///
/// The conformance suite does not read the fields from [`Self::claim`] on: they are for the simulator, whose nodes and invariants follow
/// from them.
///
/// ```
/// use fleetwright_core::{cloud::GroundTruth, model::Resources};
///
/// let server = GroundTruth::new("acme:///zone-a/s-1", "a4", "zone-a")
///     .of_cluster("0b1c")
///     .of_attempt("general-x1", "batch-1", 1)
///     .with_resources(Resources::of(4000, 8 << 30), Resources::of(3900, 7 << 30));
/// assert_eq!(server.node_name, "s-1".into());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroundTruth {
    /// Its id, as the provider writes it.
    pub provider_id: ProviderId,
    /// UID of the cluster that it carries.
    pub cluster_uid: Option<Str>,
    /// The instance type that runs.
    pub instance_type: Str,
    /// The zone that it runs in.
    pub zone: Str,
    /// What it is paid as: `on-demand`, `spot` or `reserved`.
    pub capacity_type: Str,
    /// Whether the cloud is terminating it.
    pub terminating: bool,
    /// The labels that its node registers with, from its user data.
    pub node_labels: Labels,
    /// The taints that its node registers with, from its user data.
    pub node_taints: Vec<Taint>,
    /// The NodeClaim that it carries, if it carries one.
    pub claim: Option<ClaimName>,
    /// The batch and attempt that it carries.
    pub launched_by: Option<(BatchId, u32)>,
    /// Whether the cloud has announced that it will end it.
    pub interrupted: bool,
    /// When it was launched.
    pub launched: Option<jiff::Timestamp>,
    /// The name of its node: the last part of its id, unless the cloud names nodes otherwise.
    pub node_name: Str,
    /// What its kubelet reports as capacity.
    pub capacity: Resources,
    /// What its kubelet reports as allocatable.
    pub allocatable: Resources,
    /// What an hour of it costs.
    pub price: Price,
}

impl GroundTruth {
    /// A running on-demand instance of no cluster, whose node is born with nothing.
    #[must_use]
    pub fn new(
        provider_id: impl Into<ProviderId>,
        instance_type: impl Into<Str>,
        zone: impl Into<Str>,
    ) -> Self {
        let provider_id = provider_id.into();
        let node_name = provider_id.as_str().rsplit('/').next().unwrap_or_default().into();
        Self {
            provider_id,
            cluster_uid: None,
            instance_type: instance_type.into(),
            zone: zone.into(),
            capacity_type: ON_DEMAND.into(),
            terminating: false,
            node_labels: Labels::new(),
            node_taints: Vec::new(),
            claim: None,
            launched_by: None,
            interrupted: false,
            launched: None,
            node_name,
            capacity: Resources::new(),
            allocatable: Resources::new(),
            price: Price::ZERO,
        }
    }

    /// The same instance with the UID of a cluster.
    #[must_use]
    pub fn of_cluster(self, uid: impl Into<Str>) -> Self {
        Self { cluster_uid: Some(uid.into()), ..self }
    }

    /// The same instance with the NodeClaim, the batch and the attempt that launched it.
    #[must_use]
    pub fn of_attempt(self, claim: impl Into<ClaimName>, batch: impl Into<BatchId>, attempt: u32) -> Self {
        Self { claim: Some(claim.into()), launched_by: Some((batch.into(), attempt)), ..self }
    }

    /// The same instance with what its kubelet reports.
    #[must_use]
    pub fn with_resources(self, capacity: Resources, allocatable: Resources) -> Self {
        Self { capacity, allocatable, ..self }
    }
}

/// A call of the cloud that a fault applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Launches instances.
    Launch,
    /// Terminates an instance.
    Terminate,
    /// Reads an instance.
    Get,
    /// Lists instances.
    List,
}

/// What goes wrong in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallFault {
    /// It has no effect and fails, in a way that leaves its outcome unknown to the caller.
    Fail,
    /// It is refused because of too many calls.
    Throttle,
    /// It is refused because of a missing permission.
    Deny,
    /// It takes effect, and its answer is lost.
    LoseAnswer,
}
