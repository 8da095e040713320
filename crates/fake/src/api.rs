//! The API of the fake cloud, called by the provider in process or as JSON over HTTP.

use std::collections::BTreeMap;

use async_trait::async_trait;
use fleetwright_core::{
    cloud::GroundTruth,
    model::{Price, Str, Taint, TaintEffect},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    catalogue::{Catalogue, OfferingKey},
    quantities::{QuantityMap, WireRequirement, from_quantities},
};

/// A call to launch instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Launch {
    /// UID of the cluster that owns the instances.
    pub cluster_uid: String,
    /// The batch; batch and attempt together are the idempotency token of the call.
    pub batch: String,
    /// The attempt.
    pub attempt: u32,
    /// One item per instance.
    pub items: Vec<LaunchItem>,
    /// How many instances a fleet launches.
    pub size: usize,
}

/// A requested instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchItem {
    /// The NodeClaim.
    #[serde(rename = "nodeClaim")]
    pub claim: String,
    /// The position of the instance among those of the fleet, sorted by id.
    pub position: usize,
    /// Its NodePool, if it has one.
    pub node_pool: Option<String>,
    /// Allowed offerings, in order of preference.
    pub offerings: Vec<OfferingKey>,
    /// Requirements on the instance; they determine labels for which the instance type has several values.
    pub requirements: Vec<WireRequirement>,
    /// The initial labels, annotations and taints of its node.
    pub bootstrap: Bootstrap,
    /// Delay between the boot of the instance and the registration of its node, in milliseconds.
    pub registration_delay_ms: u64,
}

/// The data that an instance's user data passes to its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Bootstrap {
    /// Labels besides those of instance type and offering.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Taints, including startup taints.
    pub taints: Vec<WireTaint>,
}

/// A taint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireTaint {
    /// The key.
    pub key: String,
    /// The value; may be empty.
    #[serde(default)]
    pub value: String,
    /// The effect as Kubernetes writes it.
    pub effect: String,
}

/// The answer to [`Launch`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchReply {
    /// One outcome per item, in order.
    pub outcomes: Vec<LaunchOutcome>,
    /// Offerings that were tried and had no capacity.
    pub unavailable: Vec<OfferingKey>,
    /// Whether the instances carry no NodeClaim, as those of an EC2 fleet: `outcomes` then has the instances of the call by id, and a
    /// failure for each missing one.
    #[serde(default)]
    pub fleet: bool,
}

/// The outcome of an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LaunchOutcome {
    /// The instance exists.
    Launched(Box<CloudInstance>),
    /// The instance of a fleet could not be tagged with its NodeClaim.
    Untagged(String),
    /// None of the offerings had capacity.
    InsufficientCapacity(String),
    /// The cloud rejects the request: reason and message.
    Rejected(String, String),
}

/// The lifecycle state of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Lifecycle {
    /// Launched, not running yet.
    Pending,
    /// Running.
    Running,
    /// Being terminated.
    Terminating,
    /// Terminated; still stored for a while.
    Terminated,
}

/// An instance in the cloud.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloudInstance {
    /// The provider id, as in a Node's `spec.providerID`.
    pub id: String,
    /// The name of its node.
    pub node_name: String,
    /// Its private address.
    pub address: String,
    /// Tags since its launch.
    pub tags: Tags,
    /// Its offering; absent for an adopted instance of an unknown type.
    pub offering: Option<OfferingKey>,
    /// Price per hour in nano-dollars.
    pub price_nanos: i64,
    /// Labels of instance type, offering and requirements.
    pub labels: BTreeMap<String, String>,
    /// The initial labels, annotations and taints of its node.
    pub bootstrap: Bootstrap,
    /// The advertised capacity.
    pub capacity: QuantityMap,
    /// The advertised allocatable resources.
    pub allocatable: QuantityMap,
    /// Its lifecycle state.
    pub state: Lifecycle,
    /// When it was launched.
    pub launched_at: Timestamp,
    /// When its node joins; `None` if the instance never joins.
    pub joins_at: Option<Timestamp>,
    /// Whether its node has joined.
    pub joined: bool,
    /// When its spot capacity is reclaimed, once announced.
    pub interrupted_at: Option<Timestamp>,
    /// When its termination began.
    pub terminating_since: Option<Timestamp>,
    /// Its defects.
    pub defects: Defects,
}

impl CloudInstance {
    /// What the cloud says of it beside its API.
    #[must_use]
    pub fn ground_truth(&self) -> GroundTruth {
        let offering = self.offering.as_ref();
        let of = |part: fn(&OfferingKey) -> &Str| offering.map_or_else(|| "".into(), |key| part(key).clone());
        let mut truth = GroundTruth::new(self.id.as_str(), of(|key| &key.instance_type), of(|key| &key.zone));
        truth.capacity_type = of(|key| &key.capacity_type);
        truth.cluster_uid = self.tags.cluster_uid.as_deref().map(Into::into);
        truth.terminating = self.state >= Lifecycle::Terminating;
        let labels = self.bootstrap.labels.iter();
        truth.node_labels = labels.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
        let taints = self.bootstrap.taints.iter().filter_map(|taint| {
            Some(Taint::new(taint.key.as_str(), taint.value.as_str(), TaintEffect::parse(&taint.effect)?))
        });
        truth.node_taints = taints.collect();
        truth.claim = self.tags.claim.as_deref().map(Into::into);
        truth.launched_by = self.tags.batch.as_deref().map(|batch| (batch.into(), self.tags.attempt));
        truth.interrupted = self.interrupted_at.is_some();
        truth.launched = Some(self.launched_at);
        truth.node_name = self.node_name.as_str().into();
        truth.capacity = from_quantities(&self.capacity).unwrap_or_default();
        truth.allocatable = from_quantities(&self.allocatable).unwrap_or_default();
        truth.price = Price::from_nanos(self.price_nanos);
        truth
    }
}

/// The owner of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tags {
    /// UID of the owning cluster.
    pub cluster_uid: Option<String>,
    /// The NodePool.
    pub node_pool: Option<String>,
    /// The NodeClaim.
    #[serde(rename = "nodeClaim")]
    pub claim: Option<String>,
    /// The batch that launched it.
    pub batch: Option<String>,
    /// The attempt that launched it.
    pub attempt: u32,
}

/// Faults of an instance since its launch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Defects {
    /// Actual memory of its node in percent of the advertised memory; absent means 100.
    pub memory_percent: Option<u32>,
    /// A taint that appears on the node, and its delay after joining in milliseconds.
    pub late_taint: Option<(WireTaint, u64)>,
}

/// The current spot prices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpotPrices {
    /// Prices per hour in nano-dollars; other offerings have the price of the catalogue.
    pub prices: Vec<(OfferingKey, i64)>,
    /// How long they are valid, in milliseconds; absent means forever.
    pub valid_for_ms: Option<u64>,
}

/// An interruption notice of a spot instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterruptionNotice {
    /// The instance.
    pub id: String,
    /// Its offering.
    pub offering: Option<OfferingKey>,
    /// When it is terminated.
    pub at: Timestamp,
}

/// A call to terminate an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Terminate {
    /// UID of the calling cluster, which must own the instance.
    pub cluster_uid: String,
    /// The instance.
    pub id: String,
    /// Whether a NodeClaim of the calling cluster has the instance's provider id: an instance without a cluster UID then counts as owned.
    pub has_node_claim: bool,
}

/// A call that tags an instance with its NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TagClaim {
    /// UID of the cluster that owns the instance.
    pub cluster_uid: String,
    /// The instance.
    pub id: String,
    /// The NodeClaim.
    #[serde(rename = "nodeClaim")]
    pub claim: String,
}

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstancePage {
    /// Its instances, by id.
    pub instances: Vec<CloudInstance>,
    /// The id after which the next page begins; absent on the last page.
    #[serde(default)]
    pub next: Option<String>,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ApiError {
    /// No such instance.
    #[error("no instance {id}")]
    NotFound {
        /// Its id.
        id: String,
    },
    /// The instance has another owner.
    #[error("instance {id} is not owned by this cluster: {why}")]
    NotOwned {
        /// Its id.
        id: String,
        /// The reason.
        why: String,
    },
    /// Too many calls.
    #[error("too many calls, next try in {after_ms} ms")]
    Throttled {
        /// How long to wait.
        after_ms: u64,
    },
    /// The action is not allowed.
    #[error("not authorized to perform {action}")]
    Unauthorized {
        /// The action.
        action: String,
    },
    /// The call is invalid.
    #[error("invalid {field}: {message}")]
    Invalid {
        /// The field.
        field: String,
        /// The problem and how to fix it.
        message: String,
    },
    /// The cloud failed; whether the call took effect is unknown.
    #[error("{message}")]
    Failed {
        /// The cloud's message.
        message: String,
    },
}

/// The API of the cloud. Every call may fail, be slow, or lose its answer.
#[async_trait]
pub trait CloudApi: Send + Sync + 'static {
    /// Returns the instance types and offerings; called once.
    async fn catalogue(&self) -> Result<Catalogue, ApiError>;
    /// Launches instances. The same token and claim return the same instance; a fleet is identified by its token alone.
    async fn launch(&self, call: &Launch) -> Result<LaunchReply, ApiError>;
    /// Tags an instance with its NodeClaim.
    async fn tag(&self, call: &TagClaim) -> Result<(), ApiError>;
    /// Terminates an instance and returns its state.
    async fn terminate(&self, call: &Terminate) -> Result<Lifecycle, ApiError>;
    /// Returns an instance that is not terminated; a new one may be invisible for a moment.
    async fn get(&self, id: &str) -> Result<CloudInstance, ApiError>;
    /// Returns a page of the instances with `cluster_uid` that are not terminated, by id: the first one, or that after an id. New instances may
    /// be invisible for a moment.
    async fn list(&self, cluster_uid: &str, after: Option<&str>) -> Result<InstancePage, ApiError>;
    /// Returns the current spot prices.
    async fn spot_prices(&self) -> Result<SpotPrices, ApiError>;
    /// Returns the interruption notices of instances with `cluster_uid`, by id, until they are terminated.
    async fn notices(&self, cluster_uid: &str) -> Result<Vec<InterruptionNotice>, ApiError>;
}
