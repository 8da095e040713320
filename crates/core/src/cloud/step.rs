//! Periodic steps of a provider, run by the controllers: the input and the result of a round.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;

use super::CloudError;
use crate::model::{
    ClaimName, ConditionStatus, Labels, Node, NodeClaim, NodeClassRef, NodeName, NodePool, PoolName,
    ProviderId, Str,
};

/// A recurring piece of a provider's work: status of its classes, interruption messages, prices.
#[async_trait]
pub trait ProviderStep: Send + Sync + 'static {
    /// Name for metrics and logs, as Karpenter calls the controller.
    fn name(&self) -> &'static str;

    /// Does one round. What it reports is reported again until it has been acted on: a report may be lost.
    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError>;
}

/// The cluster as a round sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outlook {
    /// The time.
    pub now: Timestamp,
    /// All NodeClaims by name, each with its Node once that has joined.
    pub nodes: Vec<(Arc<NodeClaim>, Option<Arc<Node>>)>,
    /// All NodePools by name.
    pub pools: Vec<Arc<NodePool>>,
    /// What the Nodes of [`Self::nodes`] report, by name.
    pub statuses: BTreeMap<NodeName, NodeStatus>,
}

/// What a Node reports of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStatus {
    /// `status.conditions`.
    pub conditions: Vec<NodeCondition>,
    /// Type and address, as in `status.addresses`: `InternalIP` and `10.0.0.7`.
    pub addresses: Vec<(Str, Str)>,
}

impl NodeStatus {
    /// The condition of this type.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.conditions.iter().find(|condition| &*condition.kind == kind)
    }

    /// The first address of this type.
    #[must_use]
    pub fn address(&self, kind: &str) -> Option<&Str> {
        self.addresses.iter().find(|(known, _)| &**known == kind).map(|(_, address)| address)
    }
}

/// A condition of a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeCondition {
    /// Its `type`.
    pub kind: Str,
    /// `True`, `False` or `Unknown`.
    pub status: Str,
    /// Its reason in one word; may be empty.
    pub reason: Str,
    /// Its reason in a sentence; may be empty.
    pub message: Str,
    /// When the status last changed.
    pub since: Option<Timestamp>,
}

impl NodeCondition {
    /// A condition without reason and message.
    #[must_use]
    pub fn new(kind: impl Into<Str>, status: impl Into<Str>, since: Option<Timestamp>) -> Self {
        Self { kind: kind.into(), status: status.into(), reason: "".into(), message: "".into(), since }
    }
}

impl Outlook {
    /// A cluster without any node.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self { now, nodes: Vec::new(), pools: Vec::new(), statuses: BTreeMap::new() }
    }

    /// The same cluster with these NodeClaims and Nodes.
    #[must_use]
    pub fn with_nodes(self, nodes: Vec<(Arc<NodeClaim>, Option<Arc<Node>>)>) -> Self {
        Self { nodes, ..self }
    }

    /// The same cluster with these NodePools.
    #[must_use]
    pub fn with_pools(self, pools: Vec<Arc<NodePool>>) -> Self {
        Self { pools, ..self }
    }

    /// The same cluster with what its Nodes report.
    #[must_use]
    pub fn with_statuses(self, statuses: BTreeMap<NodeName, NodeStatus>) -> Self {
        Self { statuses, ..self }
    }

    /// The NodeClaim that an instance belongs to, with its Node.
    #[must_use]
    pub fn node(&self, id: &str) -> Option<&(Arc<NodeClaim>, Option<Arc<Node>>)> {
        self.nodes.iter().find(|(claim, _)| claim.provider_id.as_deref() == Some(id))
    }
}

/// A metric of a provider's own.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct FigureFamily {
    /// The full name.
    pub name: &'static str,
    /// Its help text.
    pub help: &'static str,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// Its shape.
    pub shape: FigureShape,
}

impl FigureFamily {
    /// A metric, with its full name.
    #[must_use]
    pub const fn new(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        shape: FigureShape,
    ) -> Self {
        Self { name, help, labels, shape }
    }
}

/// The shape of a provider's metric, and so what a value does to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FigureShape {
    /// Grows by the value.
    Counter,
    /// Is the value.
    Gauge,
    /// Counts the value, by these bounds.
    Histogram(&'static [f64]),
}

/// A value of a provider's metric.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Figure {
    /// The metric.
    pub family: &'static FigureFamily,
    /// Values of its labels, in order.
    pub labels: Vec<Str>,
    /// The value; `None` takes the series away.
    pub value: Option<f64>,
}

impl Figure {
    /// A value of a metric; `None` takes the series away. `labels` are the values of the metric's labels, in order.
    #[must_use]
    pub fn new(family: &'static FigureFamily, labels: Vec<Str>, value: Option<f64>) -> Self {
        Self { family, labels, value }
    }
}

/// The result of one round of a provider's step.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Round {
    /// When the next is due.
    pub again: Duration,
    /// Changes of objects, to be made before instances are interrupted.
    pub writes: Vec<Write>,
    /// Instances that the cloud is about to take back or break: their NodeClaims are to go at once.
    pub interruptions: Vec<Interruption>,
    /// Events to publish.
    pub notices: Vec<Notice>,
    /// What metrics show.
    pub figures: Vec<Figure>,
}

impl Round {
    /// A round without a result; the next one is due in `after`.
    #[must_use]
    pub fn quiet(after: Duration) -> Self {
        Self { again: after, ..Self::default() }
    }

    /// The same round with these changes of objects.
    #[must_use]
    pub fn with_writes(self, writes: Vec<Write>) -> Self {
        Self { writes, ..self }
    }

    /// The same round with these interruptions.
    #[must_use]
    pub fn with_interruptions(self, interruptions: Vec<Interruption>) -> Self {
        Self { interruptions, ..self }
    }

    /// The same round with these events.
    #[must_use]
    pub fn with_notices(self, notices: Vec<Notice>) -> Self {
        Self { notices, ..self }
    }

    /// The same round with these values of metrics.
    #[must_use]
    pub fn with_figures(self, figures: Vec<Figure>) -> Self {
        Self { figures, ..self }
    }
}

/// An object that a provider's step may change or speak of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Object {
    /// A NodeClaim.
    NodeClaim(ClaimName),
    /// A Node.
    Node(NodeName),
    /// A NodePool.
    NodePool(PoolName),
    /// A class of the provider's.
    NodeClass {
        /// Group, kind and name.
        class: NodeClassRef,
        /// Version of the group.
        version: Str,
        /// Its `metadata.uid`, by which events find it.
        uid: Str,
    },
}

/// A change of an object: other fields are unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Write {
    /// The object.
    pub object: Object,
    /// The resource version that the change is based on; the API server rejects it for another version. `None` if the change is right for
    /// every version.
    pub version: Option<Str>,
    /// Annotations; `None` takes one away.
    pub annotations: BTreeMap<Str, Option<Str>>,
    /// Labels; `None` takes one away.
    pub labels: BTreeMap<Str, Option<Str>>,
    /// All finalizers.
    pub finalizers: Option<Vec<Str>>,
    /// Finalizers to add and (`false`) to remove, by reading and writing the object. Karpenter's own finalizer is left alone.
    pub finalizer_changes: BTreeMap<Str, bool>,
    /// Conditions to set, by reading and writing the object: other conditions are unchanged. Those of Karpenter are left
    /// alone, and of a NodeClass all are the provider's.
    pub conditions: Vec<ConditionWrite>,
    /// What changes of the status, as a JSON merge patch.
    pub status: Option<Str>,
}

impl Write {
    /// Changes nothing yet.
    #[must_use]
    pub fn to(object: Object) -> Self {
        Self {
            object,
            version: None,
            annotations: BTreeMap::new(),
            labels: BTreeMap::new(),
            finalizers: None,
            finalizer_changes: BTreeMap::new(),
            conditions: Vec::new(),
            status: None,
        }
    }

    /// Depends on a resource version: the API server rejects the change for another one.
    #[must_use]
    pub fn at_version(self, version: impl Into<Option<Str>>) -> Self {
        Self { version: version.into(), ..self }
    }

    /// Changes the status by a JSON merge patch.
    #[must_use]
    pub fn with_status(self, patch: impl Into<Str>) -> Self {
        Self { status: Some(patch.into()), ..self }
    }

    /// Adds a finalizer of the provider's own. The object stays until the provider removes it.
    #[must_use]
    pub fn add_finalizer(mut self, name: &str) -> Self {
        self.finalizer_changes.insert(name.into(), true);
        self
    }

    /// Removes a finalizer of the provider's own.
    #[must_use]
    pub fn remove_finalizer(mut self, name: &str) -> Self {
        self.finalizer_changes.insert(name.into(), false);
        self
    }

    /// Sets a condition of the provider's own.
    #[must_use]
    pub fn condition(mut self, condition: ConditionWrite) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Whether the object has to be read before it is written.
    #[must_use]
    pub fn reads_first(&self) -> bool {
        !self.finalizer_changes.is_empty() || !self.conditions.is_empty()
    }

    /// Sets annotations.
    #[must_use]
    pub fn annotate(mut self, all: &Labels) -> Self {
        self.annotations.extend(all.iter().map(|(key, value)| (key.clone(), Some(value.clone()))));
        self
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty()
            && self.labels.is_empty()
            && self.finalizers.is_none()
            && self.status.is_none()
            && !self.reads_first()
    }
}

/// A condition that a step sets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConditionWrite {
    /// Its `type`, such as `LoadBalancerReady`.
    pub kind: Str,
    /// Its status.
    pub status: ConditionStatus,
    /// The reason in one word.
    pub reason: Str,
    /// The reason in a sentence.
    pub message: Str,
}

impl ConditionWrite {
    /// A condition whose reason is its type.
    #[must_use]
    pub fn new(kind: &str, status: ConditionStatus, message: impl Into<Str>) -> Self {
        Self { kind: kind.into(), status, reason: kind.into(), message: message.into() }
    }

    /// The same condition with another reason.
    #[must_use]
    pub fn because(self, reason: &str) -> Self {
        Self { reason: reason.into(), ..self }
    }
}

/// An event about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notice {
    /// The object.
    pub object: Object,
    /// Whether it is a warning.
    pub warning: bool,
    /// The reason in one word.
    pub reason: &'static str,
    /// The reason in a sentence.
    pub message: Str,
}

impl Notice {
    /// An event of type Warning.
    #[must_use]
    pub fn warning(object: Object, reason: &'static str, message: impl Into<Str>) -> Self {
        Self { object, warning: true, reason, message: message.into() }
    }

    /// An event of type Normal.
    #[must_use]
    pub fn normal(object: Object, reason: &'static str, message: impl Into<Str>) -> Self {
        Self { object, warning: false, reason, message: message.into() }
    }
}

/// An announcement about an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interruption {
    /// The instance.
    pub id: ProviderId,
    /// The kind of the announcement.
    pub kind: InterruptionKind,
}

impl Interruption {
    /// The cloud announces `kind` about the instance `id`.
    #[must_use]
    pub fn new(id: impl Into<ProviderId>, kind: InterruptionKind) -> Self {
        Self { id: id.into(), kind }
    }
}

/// What the cloud announces about an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum InterruptionKind {
    /// Spot capacity is taken back.
    Spot,
    /// Maintenance is due.
    ScheduledChange,
    /// It is being stopped.
    Stopped,
    /// It is being terminated.
    Terminated,
    /// The capacity reservation that it runs in is taken back.
    CapacityReservation,
    /// The capacity block that it runs in is about to end.
    ReservationExpiring,
    /// Its own checks have failed for too long.
    InstanceStatus,
    /// The checks of its host have failed for too long.
    SystemStatus,
    /// Its host is going to be worked on.
    EventStatus,
    /// What only this cloud announces.
    Other {
        /// The reason as metrics write it: `live_migration`.
        reason: &'static str,
        /// The reason of the event, in one word: `LiveMigration`.
        event: &'static str,
        /// The message of the event.
        message: &'static str,
    },
}

impl InterruptionKind {
    /// The reason as metrics write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spot => "spot_interrupted",
            Self::ScheduledChange => "scheduled_change",
            Self::Stopped => "instance_stopped",
            Self::Terminated => "instance_terminated",
            Self::CapacityReservation => "capacity_reservation_interrupted",
            Self::ReservationExpiring => "capacity_reservation_expiring",
            Self::InstanceStatus => "instance_status",
            Self::SystemStatus => "system_status",
            Self::EventStatus => "event_status",
            Self::Other { reason, .. } => reason,
        }
    }

    /// Reason and message of Karpenter's event.
    #[must_use]
    pub fn event(self) -> (&'static str, &'static str) {
        match self {
            Self::Spot => ("SpotInterrupted", "Spot interruption warning was triggered"),
            Self::ScheduledChange | Self::InstanceStatus | Self::SystemStatus | Self::EventStatus => {
                ("InstanceUnhealthy", "An unhealthy warning was triggered for the instance")
            }
            Self::ReservationExpiring => {
                ("CapacityReservationExpiring", "The capacity block of the instance is about to end")
            }
            Self::Stopped => ("InstanceStopping", "Instance is stopping"),
            Self::Terminated => ("InstanceTerminating", "Instance is terminating"),
            Self::CapacityReservation => (
                "CapacityReservationInstanceInterrupted",
                "Capacity Reservation interruption warning was triggered",
            ),
            Self::Other { event, message, .. } => (event, message),
        }
    }
}
