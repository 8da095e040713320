//! The seam to a cloud. A provider implements [`CloudProvider`]; nothing else of it is visible to the rest.
//!
//! The contract is stated at each method and checked by the conformance suite.

mod bootstrap;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod layer;
mod step;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

pub use bootstrap::{Bootstrap, bootstrap, is_label_of_kubelet, taint_flag};
pub use error::{CloudError, LaunchError};
pub use layer::CloudLayer;
pub use step::{
    Figure, FigureFamily, FigureShape, Interruption, InterruptionKind, Notice, Object, Outlook, ProviderStep,
    Round, Write,
};

use crate::model::{
    BatchId, Catalog, ClaimName, LabelSchema, Labels, NodeClaim, NodeClassRef, NodePool, ObservedCapacity,
    ProviderId, Resources, Str,
};

/// A kind of NodeClass that a provider declares, and the controllers follow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeClassKind {
    /// API group.
    pub group: Str,
    /// Version in which objects are read.
    pub version: Str,
    /// Kind.
    pub kind: Str,
    /// Plural, as in the API server's paths.
    pub plural: Str,
}

impl NodeClassKind {
    /// A kind by its names.
    #[must_use]
    pub fn new(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into(), plural: plural.into() }
    }

    /// Refers to the object of this name.
    #[must_use]
    pub fn named(&self, name: &str) -> NodeClassRef {
        NodeClassRef { group: self.group.clone(), kind: self.kind.clone(), name: name.into() }
    }
}

/// What a provider is, fixed for the life of the process.
#[derive(Clone, Debug)]
pub struct ProviderInfo {
    /// Name for metrics: `aws`, `fake`.
    pub name: Str,
    /// The kinds of NodeClass that it supports, at least one. The controllers follow each of them.
    pub node_classes: Vec<NodeClassKind>,
    /// What label keys mean on its nodes.
    pub schema: Arc<LabelSchema>,
    /// When a node counts as broken.
    pub repair_policies: Vec<RepairPolicy>,
    /// Whether startup taints travel through the node's bootstrap. Where not, they are written once, in the registering
    /// patch.
    pub bootstraps_startup_taints: bool,
}

/// A node whose condition has stood like this for so long is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairPolicy {
    /// Node condition type.
    pub condition: Str,
    /// `True`, `False` or `Unknown`.
    pub status: Str,
    /// How long it is tolerated.
    pub toleration: Duration,
}

/// What is asked of the cloud for one NodeClaim.
#[derive(Clone, Debug)]
pub struct LaunchRequest {
    /// The NodeClaim: its requirements restrict instance types, zones and capacity types.
    pub claim: Arc<NodeClaim>,
    /// Claims of one batch differ in nothing that a launch depends on.
    pub batch: BatchId,
    /// Distinguishes calls; written to the claim before the call.
    pub attempt: u32,
    /// Which of the call's instances, sorted by id, belongs to the claim, unless instances name their claims from birth.
    pub rank: usize,
    /// How many instances the call launches. Claims that are gone since an earlier call have no request, but count.
    pub size: usize,
    /// The instance types of the claim's NodePool at the time of the decision, with the prices and capacity of NodeOverlays; `None` if
    /// unknown. The provider knows better what is available.
    pub decided_by: Option<Arc<Catalog>>,
    /// Whether this is the first call of the attempt, of any process: no instance of the attempt exists. `false` where that is unknown.
    pub first_call: bool,
}

/// How long a call of [`CloudProvider::launch`] may take. After that its outcome counts as unknown, and it is repeated.
pub const LAUNCH_DEADLINE: Duration = Duration::from_secs(270);

/// An instance in the cloud.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// The cloud's name of it; stable.
    pub provider_id: ProviderId,
    /// The NodeClaim that it was launched for, from its tags. `None` without such a tag.
    pub claim: Option<ClaimName>,
    /// The batch and attempt that launched it, from its tags.
    pub launched_by: Option<(BatchId, u32)>,
    /// UID of the cluster that owns it, from its tags.
    pub cluster_uid: Option<Str>,
    /// Instance type, zone, capacity type and the other labels of its node.
    pub labels: Labels,
    /// Annotations that its NodeClaim carries from the launch on, such as the hash of its class.
    pub annotations: Labels,
    /// The image that it runs.
    pub image_id: Option<Str>,
    /// What it has.
    pub capacity: Resources,
    /// What pods can have.
    pub allocatable: Resources,
    /// When it was launched, if the cloud reports it.
    pub created: Option<jiff::Timestamp>,
    /// Whether the cloud is already ending it.
    pub terminating: bool,
}

/// The outcome of a termination request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination {
    /// The cloud is ending it; ask again.
    Accepted,
    /// It is gone.
    Gone,
}

/// Whether the cloud and the API server belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Proven.
    Proven,
    /// The cloud does not know the cluster, so nothing proves it; with the reason.
    Unproven(Str),
    /// The cloud has another cluster with this name: nothing may be mutated; with the difference.
    Mismatch(Str),
}

/// Why a node does not match its NodeClass any more, in one word (`AMIDrift`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift(pub Str);

/// A cloud. What wraps one is a [`CloudLayer`].
#[async_trait]
pub trait CloudProvider: Send + Sync + 'static {
    /// What the provider is. The same at every call.
    fn info(&self) -> &ProviderInfo;

    /// Whether the configured cloud cluster is the one behind the API server, and takes note of the cluster's UID (of the
    /// `kube-system` namespace), which from now on every instance is stamped with at birth. Called once, before any
    /// other call that mutates.
    async fn identify(&self, cluster_uid: &str) -> Result<Identity, CloudError>;

    /// All instance types that `pool` may use by its class, the unavailable ones too. Requirements of the pool are not
    /// applied. Cheap when nothing changed: returns the same `Arc`.
    async fn catalog(&self, pool: &NodePool) -> Result<Arc<Catalog>, CloudError>;

    /// Launches `size` instances by one call and answers each request, in order. All requests are of one batch, attempt and
    /// size, and have different ranks. Where fewer instances were launched, the last ranks have none.
    ///
    /// Idempotent: batch and attempt are the call's token. Repeating a call, also for some of its requests, returns the
    /// same instances and creates none, also if the first call is still running or was dropped at any await. Each instance carries batch,
    /// attempt and cluster UID from birth, and its node is born with what [`bootstrap`] returns. Labels of the answer are allowed by the
    /// claim's requirements.
    async fn launch(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>>;

    /// Ends an instance. Idempotent until [`Termination::Gone`]. Refuses what this cluster does not own.
    async fn terminate(&self, claim: &NodeClaim, id: &ProviderId) -> Result<Termination, CloudError>;

    /// Terminates an instance without a NodeClaim. Idempotent until [`Termination::Gone`]. Refuses an instance without the UID of this
    /// cluster: without a claim there is no other proof of ownership.
    async fn terminate_orphan(&self, id: &ProviderId) -> Result<Termination, CloudError>;

    /// One instance, read afresh. [`CloudError::NotFound`] once it is gone, and only then: garbage collection deletes its NodeClaim. An id
    /// that is not of this cloud's form is [`CloudError::Invalid`] or not found.
    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError>;

    /// All instances that this cluster owns, terminating ones until they are gone: complete or an error.
    async fn list(&self) -> Result<Vec<Instance>, CloudError>;

    /// Whether the instance of a launched NodeClaim differs from its NodeClass. A failed call is an error, not drift.
    async fn drift(&self, claim: &NodeClaim) -> Result<Option<Drift>, CloudError>;

    /// When the oldest of its prices were updated, if they are updated regularly: a day without an update suspends consolidation. `None`
    /// if prices do not age.
    fn prices_as_of(&self) -> Option<jiff::Timestamp> {
        None
    }

    /// Takes the capacity that nodes report, whenever a figure changes. A provider whose instance types have a
    /// [`Prediction`](crate::model::Prediction) makes its catalogues and answers of it from now on: the capacity is
    /// [`ObservedCapacity::corrected`], and the overhead follows from that. Others ignore it.
    fn use_observed_capacity(&self, _observed: &Arc<ObservedCapacity>) {}

    /// Loops of the provider's own, for the controllers to run.
    fn steps(&self) -> Vec<Arc<dyn ProviderStep>> {
        Vec::new()
    }
}
