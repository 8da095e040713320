//! Periodic steps of a provider, run by the controllers: the input and the result of a round.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;

use super::CloudError;
use crate::model::{
    ClaimName, Labels, Node, NodeClaim, NodeClassRef, NodeName, NodePool, PoolName, ProviderId, Str,
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
pub struct Outlook {
    /// The time.
    pub now: Timestamp,
    /// All NodeClaims by name, each with its Node once that has joined.
    pub nodes: Vec<(Arc<NodeClaim>, Option<Arc<Node>>)>,
    /// All NodePools by name.
    pub pools: Vec<Arc<NodePool>>,
}

impl Outlook {
    /// A cluster without any node.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self { now, nodes: Vec::new(), pools: Vec::new() }
    }

    /// The NodeClaim that an instance belongs to, with its Node.
    #[must_use]
    pub fn node(&self, id: &str) -> Option<&(Arc<NodeClaim>, Option<Arc<Node>>)> {
        self.nodes.iter().find(|(claim, _)| claim.provider_id.as_deref() == Some(id))
    }
}

/// A metric of a provider's own.
#[derive(Clone, Copy, Debug, PartialEq)]
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
pub struct Figure {
    /// The metric.
    pub family: &'static FigureFamily,
    /// Values of its labels, in order.
    pub labels: Vec<Str>,
    /// The value; `None` takes the series away.
    pub value: Option<f64>,
}

/// The result of one round of a provider's step.
#[derive(Clone, Debug, Default, PartialEq)]
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
}

/// An object that a provider's step may change or speak of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
            status: None,
        }
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
    }
}

/// An event about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// An announcement about an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// The instance.
    pub id: ProviderId,
    /// The kind of the announcement.
    pub kind: InterruptionKind,
}

/// What the cloud announces about an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
            Self::CapacityReservation => {
                ("CapacityReservationInterrupted", "Capacity reservation interruption warning was triggered")
            }
        }
    }
}
