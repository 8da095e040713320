//! The seam to a cloud. A provider implements [`CloudProvider`]; nothing else of it is visible to the rest.
//!
//! The contract is stated at each method and checked by the conformance suite.
//!
//! # The provider API
//!
//! A provider may rely on this module, on [`crate::clock`] and on the types of [`crate::model`] that occur in their signatures:
//! - what it builds: [`ProviderInfo`], [`NodeClassKind`], [`RepairPolicy`], [`Instance`], [`RegistrationHold`], [`Round`] and what is in it, and of the model
//!   [`Catalog`], [`InstanceType`](crate::model::InstanceType), [`Offering`](crate::model::Offering),
//!   [`Overhead`](crate::model::Overhead), [`LabelSchema`], [`Requirements`](crate::model::Requirements), [`Resources`](crate::model::Resources),
//!   [`Price`](crate::model::Price) and [`Taint`](crate::model::Taint);
//! - what it reads: [`LaunchRequest`], [`NodeClaim`], [`NodePool`], [`Outlook`], [`Bootstrap`].
//!
//! A compatible version (0.1.1 after 0.1.0) adds to it and changes nothing of it: structs and enums are `#[non_exhaustive]`, values are
//! built by constructors, and new methods have defaults. The three that only the controllers build ([`NodeClaim`], [`NodePool`],
//! [`Node`]) may get new fields in one: build them by their `new` in tests. The feature `provider-api` hides
//! everything else from the documentation. The versions of foreign crates that occur in signatures are re-exported: `async_trait` and `jiff`.

mod bootstrap;
mod classes;
mod concurrent;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod instance;
mod layer;
mod registration;
mod request;
mod stand_in;
mod step;

use std::{sync::Arc, time::Duration};

pub use ::async_trait::{self, async_trait};
pub use ::jiff;

pub use bootstrap::{Bootstrap, bootstrap, is_label_of_kubelet, taint_flag};
pub use classes::{NodeClassError, NodeClasses};
pub use error::{CloudError, LaunchError};
pub use instance::Instance;
pub use layer::CloudLayer;
pub use registration::RegistrationHold;
pub use request::LaunchRequest;
pub use stand_in::{CallFault, GroundTruth, Operation};
pub use step::{
    ConditionWrite, Figure, FigureFamily, FigureShape, Interruption, InterruptionKind, NodeCondition,
    NodeStatus, Notice, Object, Outlook, ProviderStep, Round, Write,
};

use concurrent::at_most;

use crate::model::{
    Catalog, Currency, LabelSchema, Node, NodeClaim, NodeClassRef, NodePool, ObservedCapacity, ProviderId,
    Str,
};

/// A kind of NodeClass that a provider declares, and the controllers follow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
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
///
/// ```
/// use fleetwright_core::cloud::{NodeClassKind, ProviderInfo, RepairPolicy};
/// use std::time::Duration;
///
/// let classes = NodeClassKind::new("acme.example", "v1", "AcmeNodeClass", "acmenodeclasses");
/// let mut info = ProviderInfo::new("acme", [classes]);
/// info.repair_policies.push(RepairPolicy::new("Ready", "False", Duration::from_secs(600)));
/// assert_eq!(&*info.node_classes[0].named("default").name, "default");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
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
    /// How long its launches and its nodes may take.
    pub patience: Patience,
    /// Whether each instance is launched by a call of its own, as by [`CloudProvider::launch_one`], and carries its NodeClaim from birth. The
    /// controllers then call [`CloudProvider::launch`] for one NodeClaim at a time and record each answer as it comes. Otherwise they call
    /// it for a batch, and its slowest launch holds up the answers of the others.
    pub launches_one_by_one: bool,
    /// How many launches are under way at a time: of all, if they are [one by one](Self::launches_one_by_one), otherwise calls of
    /// [`CloudProvider::launch_one`] of one [`CloudProvider::launch`].
    pub launch_concurrency: usize,
    /// What its prices are in, if that follows from what it connected to, such as a region. Otherwise the binary says it for the whole cloud.
    pub currency: Option<Currency>,
}

/// How long a NodeClaim may take before it is given up. The defaults are Karpenter's; shorter times count as the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Patience {
    /// From the creation of a NodeClaim to its instance: 5 minutes.
    pub launch: Duration,
    /// From the instance to its registered Node: 15 minutes.
    pub registration: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { launch: Duration::from_secs(5 * 60), registration: Duration::from_secs(15 * 60) }
    }
}

/// The default of [`ProviderInfo::launch_concurrency`].
const LAUNCH_CONCURRENCY: usize = 10;

impl ProviderInfo {
    /// A provider with Karpenter's labels, without repair policies, whose startup taints travel through the bootstrap.
    #[must_use]
    pub fn new(name: &str, node_classes: impl IntoIterator<Item = NodeClassKind>) -> Self {
        Self {
            name: name.into(),
            node_classes: node_classes.into_iter().collect(),
            schema: Arc::default(),
            repair_policies: Vec::new(),
            bootstraps_startup_taints: true,
            patience: Patience::default(),
            launches_one_by_one: false,
            launch_concurrency: LAUNCH_CONCURRENCY,
            currency: None,
        }
    }
}

/// A node whose condition has stood like this for so long is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairPolicy {
    /// Node condition type.
    pub condition: Str,
    /// `True`, `False` or `Unknown`.
    pub status: Str,
    /// How long it is tolerated.
    pub toleration: Duration,
}

impl RepairPolicy {
    /// A node is broken once `condition` has had `status` for longer than `toleration`.
    #[must_use]
    pub fn new(condition: &str, status: &str, toleration: Duration) -> Self {
        Self { condition: condition.into(), status: status.into(), toleration }
    }
}

/// How long a call of [`CloudProvider::before_registration`] may take. After that it counts as failed, and it is repeated.
pub const HOOK_DEADLINE: Duration = Duration::from_secs(60);

/// How long a call of [`CloudProvider::launch`] may take. After that its outcome counts as unknown, and it is repeated.
pub const LAUNCH_DEADLINE: Duration = Duration::from_secs(270);

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
#[non_exhaustive]
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
    ///
    /// ```
    /// # use fleetwright_core::cloud::CloudProvider;
    /// fn follows(cloud: &dyn CloudProvider, group: &str) -> bool {
    ///     cloud.info().node_classes.iter().any(|class| &*class.group == group)
    /// }
    /// ```
    fn info(&self) -> &ProviderInfo;

    /// Whether the configured cloud cluster is the one behind the API server, and takes note of the cluster's UID (of the
    /// `kube-system` namespace), which from now on every instance is stamped with at birth. Called once, before any
    /// other call that mutates.
    ///
    /// ```
    /// # use fleetwright_core::cloud::{CloudError, CloudProvider, Identity};
    /// async fn may_act(cloud: &dyn CloudProvider, cluster_uid: &str) -> Result<bool, CloudError> {
    ///     Ok(!matches!(cloud.identify(cluster_uid).await?, Identity::Mismatch(_)))
    /// }
    /// ```
    async fn identify(&self, cluster_uid: &str) -> Result<Identity, CloudError>;

    /// All instance types that `pool` may use by its class, the unavailable ones too. Requirements of the pool are not
    /// applied. Cheap when nothing changed: returns the same `Arc`.
    ///
    /// ```
    /// # use fleetwright_core::{cloud::{CloudError, CloudProvider}, model::NodePool};
    /// async fn count(cloud: &dyn CloudProvider, pool: &NodePool) -> Result<usize, CloudError> {
    ///     Ok(cloud.catalog(pool).await?.instance_types.len())
    /// }
    /// ```
    async fn catalog(&self, pool: &NodePool) -> Result<Arc<Catalog>, CloudError>;

    /// Launches `size` instances by one call and answers each request, in order. All requests are of one batch, attempt and
    /// size, and have different ranks. Where fewer instances were launched, the last ranks have none.
    ///
    /// Idempotent: batch and attempt are the call's token. Repeating a call, also for some of its requests, returns the
    /// same instances and creates none, also if the first call is still running or was dropped at any await. Each instance carries batch,
    /// attempt and cluster UID from birth, and its node is born with what [`bootstrap`] returns. Labels of the answer are allowed by the
    /// claim's requirements.
    ///
    /// By default [`Self::launch_one`] is called for each request, a few at a time: for clouds whose call launches one instance. With
    /// [`ProviderInfo::launches_one_by_one`], the requests of an attempt come one by one, several at the same time: each launches one instance,
    /// whatever `size` is, and waits for no other.
    ///
    /// ```
    /// # use fleetwright_core::{cloud::{CloudProvider, LaunchRequest}, model::NodeClaim};
    /// async fn launched(cloud: &dyn CloudProvider, claims: [NodeClaim; 3]) -> usize {
    ///     let size = claims.len();
    ///     let requests: Vec<LaunchRequest> =
    ///         claims.into_iter().enumerate().map(|(rank, claim)| LaunchRequest::new(claim).at(rank, size)).collect();
    ///     cloud.launch(&requests).await.iter().flatten().count()
    /// }
    /// ```
    async fn launch(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        let calls = requests.iter().map(|request| self.launch_one(request)).collect();
        at_most(self.info().launch_concurrency, calls).await
    }

    /// Launches one instance, for the default of [`Self::launch`], with the same promises: batch, attempt and rank are the call's token.
    ///
    /// ```
    /// # use fleetwright_core::cloud::{CloudProvider, Instance, LaunchError, LaunchRequest};
    /// /// The name of a server that is launched once: the cloud refuses a second one of this name.
    /// fn name(request: &LaunchRequest) -> String {
    ///     format!("{}-{}-{}", request.batch, request.attempt, request.rank)
    /// }
    /// ```
    async fn launch_one(&self, request: &LaunchRequest) -> Result<Instance, LaunchError> {
        let message = format!("the provider has no call that launches {}", request.claim.name).into();
        Err(LaunchError::Failed { reason: "LaunchFailed".into(), message })
    }

    /// Ends an instance. Idempotent until [`Termination::Gone`]. Refuses what this cluster does not own.
    ///
    /// ```
    /// # use fleetwright_core::{cloud::{CloudError, CloudProvider, Termination}, model::NodeClaim};
    /// async fn is_gone(cloud: &dyn CloudProvider, claim: &NodeClaim) -> Result<bool, CloudError> {
    ///     let Some(id) = &claim.provider_id else { return Ok(true) };
    ///     Ok(cloud.terminate(claim, id).await? == Termination::Gone)
    /// }
    /// ```
    async fn terminate(&self, claim: &NodeClaim, id: &ProviderId) -> Result<Termination, CloudError>;

    /// Terminates an instance without a NodeClaim. Idempotent until [`Termination::Gone`]. Refuses an instance without the UID of this
    /// cluster: without a claim there is no other proof of ownership.
    ///
    /// ```
    /// # use fleetwright_core::{cloud::{CloudError, CloudProvider}, model::ProviderId};
    /// async fn is_ours(cloud: &dyn CloudProvider, id: &ProviderId) -> bool {
    ///     !matches!(cloud.terminate_orphan(id).await, Err(CloudError::NotOwned { .. }))
    /// }
    /// ```
    async fn terminate_orphan(&self, id: &ProviderId) -> Result<Termination, CloudError>;

    /// One instance, read afresh. [`CloudError::NotFound`] once it is gone, and only then: garbage collection deletes its NodeClaim. An id
    /// that is not of this cloud's form is [`CloudError::Invalid`] or not found.
    ///
    /// ```
    /// # use fleetwright_core::{cloud::{CloudError, CloudProvider}, model::ProviderId};
    /// async fn exists(cloud: &dyn CloudProvider, id: &ProviderId) -> Result<bool, CloudError> {
    ///     match cloud.get(id).await {
    ///         Ok(_) => Ok(true),
    ///         Err(CloudError::NotFound(_)) => Ok(false),
    ///         Err(error) => Err(error),
    ///     }
    /// }
    /// ```
    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError>;

    /// All instances that this cluster owns, terminating ones until they are gone: complete or an error.
    ///
    /// ```
    /// # use fleetwright_core::cloud::{CloudError, CloudProvider};
    /// async fn alive(cloud: &dyn CloudProvider) -> Result<usize, CloudError> {
    ///     Ok(cloud.list().await?.iter().filter(|instance| !instance.terminating).count())
    /// }
    /// ```
    async fn list(&self) -> Result<Vec<Instance>, CloudError>;

    /// Whether the instance of a launched NodeClaim differs from its NodeClass. A failed call is an error, not drift.
    ///
    /// ```
    /// # use fleetwright_core::{cloud::{CloudError, CloudProvider}, model::NodeClaim};
    /// async fn reason(cloud: &dyn CloudProvider, claim: &NodeClaim) -> Result<String, CloudError> {
    ///     Ok(cloud.drift(claim).await?.map_or_else(String::new, |drift| drift.0.to_string()))
    /// }
    /// ```
    async fn drift(&self, claim: &NodeClaim) -> Result<Option<Drift>, CloudError>;

    /// Called before the Node of a launched NodeClaim is registered: `None` lets it be registered, and pods are scheduled to it. While the
    /// provider holds it, the Node has the labels, taints and finalizer of its NodeClaim, and keeps the taint
    /// `karpenter.sh/unregistered`; the message is shown by condition `Registered` with the reason `RegistrationHookPending`.
    ///
    /// It is called until it answers `None` and that is written down, again after a restart or an error, and not afterwards: what it does must
    /// be idempotent. An error holds the node, too. A NodeClaim that is held for longer than [`Patience::registration`] is deleted.
    ///
    /// By default a node is held while a label is still to come, which annotation `fleetwright.dev/awaits-label` of the [`Instance`] names
    /// and a step writes to the NodeClaim.
    ///
    /// ```
    /// # use fleetwright_core::{cloud::{CloudError, RegistrationHold}, model::{Node, NodeClaim}};
    /// # use std::time::Duration;
    /// # async fn join_load_balancer(node: &Node) -> Result<bool, CloudError> { Ok(true) }
    /// async fn before_registration(claim: &NodeClaim, node: &Node) -> Result<Option<RegistrationHold>, CloudError> {
    ///     if join_load_balancer(node).await? {
    ///         return Ok(None);
    ///     }
    ///     let message = "the node is not in its load balancer yet";
    ///     Ok(Some(RegistrationHold::new(message, Duration::from_secs(5))))
    /// }
    /// ```
    async fn before_registration(
        &self,
        claim: &NodeClaim,
        _node: &Node,
    ) -> Result<Option<RegistrationHold>, CloudError> {
        Ok(RegistrationHold::for_awaited_label(claim))
    }

    /// When the oldest of its prices were updated, if they are updated regularly: a day without an update suspends consolidation. `None`
    /// if prices do not age.
    ///
    /// ```
    /// # use fleetwright_core::cloud::{CloudProvider, jiff::{SignedDuration, Timestamp}};
    /// fn are_old(cloud: &dyn CloudProvider, now: Timestamp) -> bool {
    ///     cloud.prices_as_of().is_some_and(|as_of| now.duration_since(as_of) > SignedDuration::from_hours(24))
    /// }
    /// ```
    fn prices_as_of(&self) -> Option<jiff::Timestamp> {
        None
    }

    /// Takes the capacity that nodes report, whenever a figure changes. A provider whose instance types have a
    /// [`Prediction`](crate::model::Prediction) makes its catalogues and answers of it from now on: the capacity is
    /// [`ObservedCapacity::corrected`], and the overhead follows from that. Others ignore it.
    ///
    /// ```
    /// # use fleetwright_core::model::{InstanceType, ObservedCapacity, Resources};
    /// fn capacity(sold: &InstanceType, observed: &ObservedCapacity) -> Resources {
    ///     match &sold.prediction {
    ///         Some(prediction) => observed.corrected(&sold.name, &prediction.image, &prediction.capacity),
    ///         None => sold.capacity.clone(),
    ///     }
    /// }
    /// ```
    fn use_observed_capacity(&self, _observed: &Arc<ObservedCapacity>) {}

    /// Loops of the provider's own, for the controllers to run.
    ///
    /// ```
    /// # use fleetwright_core::cloud::CloudProvider;
    /// fn names(cloud: &dyn CloudProvider) -> Vec<&'static str> {
    ///     cloud.steps().iter().map(|step| step.name()).collect()
    /// }
    /// ```
    fn steps(&self) -> Vec<Arc<dyn ProviderStep>> {
        Vec::new()
    }
}
