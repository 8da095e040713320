//! Events of NodeClaims: reasons and messages in one place.

use std::time::Duration;

use jiff::Timestamp;

use crate::model::{NamespacedName, Pod, Str};

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The launch found no capacity; about the claim.
    InsufficientCapacity(Str),
    /// The launch found a quota of the account reached; about the claim.
    QuotaExceeded {
        /// The cloud's name of the quota.
        quota: Str,
        /// Its value, and how to raise it.
        message: Str,
    },
    /// The launch found its class not ready; about the claim.
    NodeClassNotReady(Str),
    /// A node joined without the unregistered taint; about the claim.
    UnregisteredTaintMissing,
    /// A node is smaller than promised; about the claim.
    FailedConsistencyCheck(String),
    /// The drain has a deadline; about the claim and the node.
    TerminationGracePeriodExpiring(Timestamp),
    /// Pods are in the way of a drain; about the node and the claim.
    FailedDraining {
        /// How many are waiting to go.
        waiting: usize,
        /// Those that do-not-disrupt holds, the first few.
        held: Vec<NamespacedName>,
    },
    /// Volumes are still attached; about the node.
    AwaitingVolumeDetachment(Vec<Str>),
    /// The instance is not ours, with what shows it; about the claim.
    NotOwned(Str),
    /// A pod is protected for a while.
    DoNotDisruptUntil {
        /// The pod.
        pod: NamespacedName,
        /// When that ends.
        until: Timestamp,
    },
    /// A pod's protection has ended.
    DoNotDisruptGracePeriodElapsed(NamespacedName),
    /// A pod's annotation is invalid.
    InvalidDoNotDisruptAnnotation {
        /// The pod.
        pod: NamespacedName,
        /// The value.
        value: Str,
    },
    /// A pod is deleted regardless of its budget, because the deadline is near.
    Disrupted {
        /// The pod.
        pod: NamespacedName,
        /// The deadline.
        deadline: Timestamp,
        /// What is left of its grace period.
        granted: Duration,
        /// Its `terminationGracePeriodSeconds`.
        grace: Duration,
    },
}

impl Notice {
    /// The reason of the event, as Karpenter calls it.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InsufficientCapacity(_) => "InsufficientCapacityError",
            Self::QuotaExceeded { .. } => "QuotaExceeded",
            Self::NodeClassNotReady(_) => "NodeClassNotReady",
            Self::UnregisteredTaintMissing => "UnregisteredTaintMissing",
            Self::FailedConsistencyCheck(_) => "FailedConsistencyCheck",
            Self::TerminationGracePeriodExpiring(_) => "TerminationGracePeriodExpiring",
            Self::FailedDraining { .. } => "FailedDraining",
            Self::AwaitingVolumeDetachment(_) => "AwaitingVolumeDetachment",
            Self::NotOwned(_) => "InstanceNotOwned",
            Self::DoNotDisruptUntil { .. } => "DoNotDisruptUntil",
            Self::DoNotDisruptGracePeriodElapsed(_) => "DoNotDisruptGracePeriodElapsed",
            Self::InvalidDoNotDisruptAnnotation { .. } => "InvalidDoNotDisruptAnnotation",
            Self::Disrupted { .. } => "Disrupted",
        }
    }

    /// Whether it is a warning.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        !matches!(
            self,
            Self::AwaitingVolumeDetachment(_)
                | Self::DoNotDisruptUntil { .. }
                | Self::DoNotDisruptGracePeriodElapsed(_)
                | Self::Disrupted { .. }
        )
    }

    /// The pod that it is about, if any.
    #[must_use]
    pub fn pod(&self) -> Option<&NamespacedName> {
        match self {
            Self::DoNotDisruptUntil { pod, .. }
            | Self::DoNotDisruptGracePeriodElapsed(pod)
            | Self::InvalidDoNotDisruptAnnotation { pod, .. }
            | Self::Disrupted { pod, .. } => Some(pod),
            _ => None,
        }
    }

    /// Whether it is published for the Node too.
    #[must_use]
    pub fn concerns_node(&self) -> bool {
        matches!(
            self,
            Self::TerminationGracePeriodExpiring(_)
                | Self::FailedDraining { .. }
                | Self::AwaitingVolumeDetachment(_)
        )
    }

    /// Cause, number, next step.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::InsufficientCapacity(why) => format!("NodeClaim event: insufficient capacity, {why}"),
            Self::QuotaExceeded { quota, message } => {
                format!("NodeClaim event: quota {quota} is reached, {message}")
            }
            Self::NodeClassNotReady(why) => format!("NodeClaim event: NodeClassRef not ready, {why}"),
            Self::UnregisteredTaintMissing => {
                "the node joined without taint karpenter.sh/unregistered:NoExecute, so pods may land on it before it \
                 is set up; let the node's bootstrap register it with the taint"
                    .to_owned()
            }
            Self::FailedConsistencyCheck(issues) => issues.clone(),
            Self::TerminationGracePeriodExpiring(at) => format!("All pods will be deleted by {at}"),
            Self::FailedDraining { waiting, held } => {
                let mut text = format!("Failed to drain node, {waiting} pods are waiting to be evicted");
                if !held.is_empty() {
                    let names: Vec<String> = held.iter().map(ToString::to_string).collect();
                    text.push_str(&format!(" (held by karpenter.sh/do-not-disrupt: {})", names.join(", ")));
                }
                text
            }
            Self::AwaitingVolumeDetachment(names) => {
                format!("Awaiting deletion of bound volumeattachments ({})", names.join(", "))
            }
            Self::NotOwned(why) => {
                format!("the instance is not owned by this cluster and is left alone: {why}")
            }
            Self::DoNotDisruptUntil { until, .. } => {
                format!("karpenter.sh/do-not-disrupt protects the pod until {until}")
            }
            Self::DoNotDisruptGracePeriodElapsed(_) => {
                "the duration of karpenter.sh/do-not-disrupt is over, the pod may be disrupted".to_owned()
            }
            Self::InvalidDoNotDisruptAnnotation { value, .. } => format!(
                "annotation karpenter.sh/do-not-disrupt has value {value:?}, which is neither \"true\" nor a positive \
                 duration such as \"4h\"; the pod is protected until it is corrected"
            ),
            Self::Disrupted { deadline, granted, grace, .. } => format!(
                "Deleting the pod to accommodate the terminationTime {deadline} of the node. The pod was granted {} seconds of \
                 grace-period of its {} terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt \
                 annotation.",
                granted.as_secs(),
                grace.as_secs()
            ),
        }
    }

    /// The notice that a pod's annotation calls for at `now`, if any.
    #[must_use]
    pub fn of_annotation(pod: &Pod, now: Timestamp) -> Option<Self> {
        use crate::model::pod::DoNotDisrupt;
        match (&pod.do_not_disrupt, pod.protected_until(now)) {
            (DoNotDisrupt::Invalid(value), _) => {
                Some(Self::InvalidDoNotDisruptAnnotation { pod: pod.id.clone(), value: value.clone() })
            }
            (DoNotDisrupt::For(_), Some(Some(until))) => {
                Some(Self::DoNotDisruptUntil { pod: pod.id.clone(), until })
            }
            (DoNotDisrupt::For(_), None) => Some(Self::DoNotDisruptGracePeriodElapsed(pod.id.clone())),
            _ => None,
        }
    }
}
