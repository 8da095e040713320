//! NodeClaims: the request to a cloud, and its result.

use std::{collections::BTreeMap, fmt, time::Duration};

use jiff::Timestamp;

use super::{
    ids::{BatchId, ClaimName, NodeName, PodUid, PoolName, ProviderId, Str},
    labels::Labels,
    positions::Positions,
    requirements::Requirements,
    resources::Resources,
    taint::Taint,
};

/// Names a provider's class object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeClassRef {
    /// API group.
    pub group: Str,
    /// Kind.
    pub kind: Str,
    /// Name.
    pub name: Str,
}

impl NodeClassRef {
    /// The label by which nodes and claims carry their class: `<group>/<lower-case kind>`.
    #[must_use]
    pub fn label_key(&self) -> String {
        format!("{}/{}", self.group, self.kind.to_ascii_lowercase())
    }
}

impl fmt::Display for NodeClassRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// A NodeClaim.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeClaim {
    /// The name.
    pub name: ClaimName,
    /// `metadata.uid`.
    pub uid: Str,
    /// The NodePool by label; `None` for a claim that was made by hand.
    pub pool: Option<PoolName>,
    /// Labels.
    pub labels: Labels,
    /// Annotations.
    pub annotations: Labels,
    /// Whether it has Karpenter's finalizer.
    pub has_finalizer: bool,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// `metadata.deletionTimestamp`.
    pub deleting: Option<Timestamp>,
    /// Taints for good.
    pub taints: Vec<Taint>,
    /// Taints that their owners remove.
    pub startup_taints: Vec<Taint>,
    /// What the instance must be.
    pub requirements: Requirements,
    /// What its pods asked for in sum.
    pub requests: Resources,
    /// The provider's class.
    pub class: NodeClassRef,
    /// How long its drain may take.
    pub termination_grace_period: Option<Duration>,
    /// How long it may live; `None` is for ever.
    pub expire_after: Option<Duration>,
    /// The NodeClaims that are launched together: written at creation, its own UID otherwise.
    pub batch: BatchId,
    /// Its position in the batch.
    pub position: u32,
    /// The number of its last launch attempt, written before the call; zero before the first.
    pub attempt: u32,
    /// The positions that the attempt launches.
    pub attempt_members: Positions,
    /// The pods that it was created for.
    pub intended_pods: Vec<PodUid>,
    /// `status.providerID`, once launched.
    pub provider_id: Option<ProviderId>,
    /// `status.nodeName`, once registered.
    pub node_name: Option<NodeName>,
    /// `status.imageID`.
    pub image_id: Option<Str>,
    /// `status.capacity`.
    pub capacity: Resources,
    /// `status.allocatable`.
    pub allocatable: Resources,
    /// Conditions that decisions read.
    pub conditions: BTreeMap<ConditionType, Condition>,
    /// When a pod was last bound to the node or left it.
    pub last_pod_event: Option<Timestamp>,
    /// The drift hash of its NodePool at creation, and the hash's version.
    pub pool_hash: Option<(Str, Str)>,
    /// When its drain must be over (`karpenter.sh/nodeclaim-termination-timestamp`).
    pub termination_deadline: Option<Timestamp>,
}

/// The conditions of a NodeClaim that decisions read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionType {
    /// The instance exists.
    Launched,
    /// The Node has registered and has its labels and taints.
    Registered,
    /// The Node is ready for pods.
    Initialized,
    /// consolidateAfter is over.
    Consolidatable,
    /// It does not match its NodePool any more.
    Drifted,
    /// The pods are gone.
    Drained,
    /// The volumes are detached.
    VolumesDetached,
    /// The termination of the instance was requested.
    InstanceTerminating,
    /// The Node is as large as was promised.
    ConsistentStateFound,
    /// A disruption command has taken it.
    DisruptionReason,
}

impl ConditionType {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Launched,
        Self::Registered,
        Self::Initialized,
        Self::Consolidatable,
        Self::Drifted,
        Self::Drained,
        Self::VolumesDetached,
        Self::InstanceTerminating,
        Self::ConsistentStateFound,
        Self::DisruptionReason,
    ];

    /// The condition's `type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Launched => "Launched",
            Self::Registered => "Registered",
            Self::Initialized => "Initialized",
            Self::Consolidatable => "Consolidatable",
            Self::Drifted => "Drifted",
            Self::Drained => "Drained",
            Self::VolumesDetached => "VolumesDetached",
            Self::InstanceTerminating => "InstanceTerminating",
            Self::ConsistentStateFound => "ConsistentStateFound",
            Self::DisruptionReason => "DisruptionReason",
        }
    }
}

/// The value of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// True, False or Unknown.
    pub status: ConditionStatus,
    /// The reason in one word.
    pub reason: Str,
    /// The reason in a sentence.
    pub message: Str,
    /// When the status last changed.
    pub since: Timestamp,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Not known (yet).
    Unknown,
}

impl NodeClaim {
    /// A claim that asks for any node of a class, as it is before it is launched: without a pool, with the finalizer, in
    /// a batch of its own name.
    #[must_use]
    pub fn new(name: &str, class: NodeClassRef, created: Timestamp) -> Self {
        Self {
            name: name.into(),
            uid: name.into(),
            pool: None,
            labels: Labels::new(),
            annotations: Labels::new(),
            has_finalizer: true,
            created,
            deleting: None,
            taints: Vec::new(),
            startup_taints: Vec::new(),
            requirements: Requirements::new(),
            requests: Resources::new(),
            class,
            termination_grace_period: None,
            expire_after: None,
            batch: name.into(),
            position: 0,
            attempt: 0,
            attempt_members: Positions::default(),
            intended_pods: Vec::new(),
            provider_id: None,
            node_name: None,
            image_id: None,
            capacity: Resources::new(),
            allocatable: Resources::new(),
            conditions: BTreeMap::new(),
            last_pod_event: None,
            pool_hash: None,
            termination_deadline: None,
        }
    }

    /// Whether `condition` is True.
    #[must_use]
    pub fn is(&self, condition: ConditionType) -> bool {
        self.true_since(condition).is_some()
    }

    /// Since when `condition` is True.
    #[must_use]
    pub fn true_since(&self, condition: ConditionType) -> Option<Timestamp> {
        let found = self.conditions.get(&condition)?;
        (found.status == ConditionStatus::True).then_some(found.since)
    }
}
