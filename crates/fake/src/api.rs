//! The calls of the fake cloud: what goes over the seam between a provider and the cloud, in process or as JSON.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    catalogue::{Catalogue, OfferingKey},
    quantities::{QuantityMap, WireRequirement},
};

/// A call to launch instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Launch {
    /// UID of the cluster that will own the instances.
    pub cluster_uid: String,
    /// The batch; together with the attempt the call's token.
    pub batch: String,
    /// The attempt.
    pub attempt: u32,
    /// One instance each.
    pub items: Vec<LaunchItem>,
    /// How many instances a fleet launches.
    pub size: usize,
}

/// An instance that is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchItem {
    /// The NodeClaim.
    pub claim: String,
    /// Which of a fleet's instances, by id, is meant.
    pub rank: usize,
    /// Its NodePool, where it has one.
    pub node_pool: Option<String>,
    /// What may be launched, best first.
    pub choices: Vec<OfferingKey>,
    /// What the instance must be: fixes the labels that its type leaves open.
    pub requirements: Vec<WireRequirement>,
    /// What its node is born with.
    pub bootstrap: Bootstrap,
    /// How long the node stays away after the instance has booted, in milliseconds.
    pub registration_delay_ms: u64,
}

/// What travels to a node through its instance's user data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Bootstrap {
    /// Labels beside those of type and offering.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Taints, startup taints among them.
    pub taints: Vec<WireTaint>,
}

/// A taint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireTaint {
    /// The key.
    pub key: String,
    /// The value, often empty.
    #[serde(default)]
    pub value: String,
    /// The effect as Kubernetes writes it.
    pub effect: String,
}

/// The answer to [`Launch`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchReply {
    /// One answer per item, in order.
    pub outcomes: Vec<LaunchOutcome>,
    /// Offerings that were tried and had nothing left.
    pub exhausted: Vec<OfferingKey>,
    /// Whether the instances name no NodeClaim, as those of an EC2 fleet: `outcomes` then has the instances of the call by id,
    /// and a failure for each that is missing.
    #[serde(default)]
    pub fleet: bool,
}

/// What became of an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LaunchOutcome {
    /// The instance exists.
    Launched(Box<CloudInstance>),
    /// The instance of a fleet could not be named.
    Unnamed(String),
    /// None of the choices had capacity.
    InsufficientCapacity(String),
    /// The cloud refuses: reason and message.
    Refused(String, String),
}

/// Where an instance is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Lifecycle {
    /// Bought, not running yet.
    Pending,
    /// Running.
    Running,
    /// Being ended.
    Terminating,
    /// Ended; remembered for a while.
    Gone,
}

/// An instance, as the cloud knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloudInstance {
    /// The provider id, as in a Node's `spec.providerID`.
    pub id: String,
    /// The name of its node.
    pub node_name: String,
    /// Its private address.
    pub address: String,
    /// Tags from birth.
    pub tags: Tags,
    /// What it was bought as; absent for an adopted instance of an unknown type.
    pub offering: Option<OfferingKey>,
    /// Price per hour in nano-dollars.
    pub price_nanos: i64,
    /// Labels by type, offering and requirements.
    pub labels: BTreeMap<String, String>,
    /// What its node is born with beside them.
    pub bootstrap: Bootstrap,
    /// What it was sold as.
    pub capacity: QuantityMap,
    /// What pods can have of it.
    pub allocatable: QuantityMap,
    /// Where it is in its life.
    pub state: Lifecycle,
    /// When it was launched.
    pub launched_at: Timestamp,
    /// When its node joins; never where the instance is broken.
    pub joins_at: Option<Timestamp>,
    /// Whether its node has joined.
    pub joined: bool,
    /// When the cloud will take it back, once that is announced.
    pub interrupted_at: Option<Timestamp>,
    /// When it began to end.
    pub ending_since: Option<Timestamp>,
    /// What is wrong with it.
    pub defects: Defects,
}

/// Who an instance belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tags {
    /// UID of the owning cluster.
    pub cluster_uid: Option<String>,
    /// The NodePool.
    pub node_pool: Option<String>,
    /// The NodeClaim.
    pub claim: Option<String>,
    /// The batch that launched it.
    pub batch: Option<String>,
    /// The attempt that launched it.
    pub attempt: u32,
}

/// Faults that an instance was born with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Defects {
    /// How much of the advertised memory its node really has, in per cent; absent means all.
    pub memory_percent: Option<u32>,
    /// A taint that appears on the node so many milliseconds after it joined.
    pub late_taint: Option<(WireTaint, u64)>,
}

/// What spot capacity costs now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpotPrices {
    /// Prices per hour in nano-dollars; offerings that are not named cost what the catalogue says.
    pub prices: Vec<(OfferingKey, i64)>,
    /// For how long they stand, in milliseconds; absent means for ever.
    pub stand_for_ms: Option<u64>,
}

/// The announcement that an instance is taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TakeBack {
    /// The instance.
    pub id: String,
    /// What it was bought as.
    pub offering: Option<OfferingKey>,
    /// When it ends.
    pub at: Timestamp,
}

/// A call to end an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Terminate {
    /// UID of the cluster that asks: the instance must carry it.
    pub cluster_uid: String,
    /// The instance.
    pub id: String,
    /// A NodeClaim of the asking cluster names the instance: then one without a cluster's UID counts as its own.
    pub named_by_claim: bool,
}

/// A call that names the NodeClaim of an instance that carries none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TagClaim {
    /// UID of the cluster that owns the instance.
    pub cluster_uid: String,
    /// The instance.
    pub id: String,
    /// The NodeClaim.
    pub claim: String,
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
    /// The instance belongs to somebody else.
    #[error("instance {id} is not owned by this cluster: {why}")]
    NotOwned {
        /// Its id.
        id: String,
        /// What shows it.
        why: String,
    },
    /// Too many calls.
    #[error("too many calls, next try in {after_ms} ms")]
    Throttled {
        /// How long to wait.
        after_ms: u64,
    },
    /// Not allowed.
    #[error("not authorized to perform {action}")]
    Unauthorized {
        /// The action.
        action: String,
    },
    /// The call is wrong.
    #[error("invalid {field}: {message}")]
    Invalid {
        /// The field.
        field: String,
        /// What is wrong and how to fix it.
        message: String,
    },
    /// The cloud failed, without saying whether it did anything.
    #[error("{message}")]
    Failed {
        /// What it said.
        message: String,
    },
}

/// The cloud behind its seam. Every call may fail, be slow, or lose its answer.
#[async_trait]
pub trait CloudApi: Send + Sync + 'static {
    /// What the cloud sells; read once.
    async fn catalogue(&self) -> Result<Catalogue, ApiError>;
    /// Launches instances. The same token and claim give the same instance; a fleet is known by its token alone.
    async fn launch(&self, call: &Launch) -> Result<LaunchReply, ApiError>;
    /// Names the NodeClaim of an instance.
    async fn tag(&self, call: &TagClaim) -> Result<(), ApiError>;
    /// Ends an instance; tells its state, `Gone` once it is gone.
    async fn terminate(&self, call: &Terminate) -> Result<Lifecycle, ApiError>;
    /// One instance that is not gone; a new one may stay invisible for a moment.
    async fn get(&self, id: &str) -> Result<CloudInstance, ApiError>;
    /// The instances that carry `cluster_uid` and are not gone, by id; new ones may stay invisible for a moment.
    async fn list(&self, cluster_uid: &str) -> Result<Vec<CloudInstance>, ApiError>;
    /// What spot capacity costs now.
    async fn spot_prices(&self) -> Result<SpotPrices, ApiError>;
    /// The instances that carry `cluster_uid` and are announced to be taken back, by id, until they end.
    async fn notices(&self, cluster_uid: &str) -> Result<Vec<TakeBack>, ApiError>;
}
