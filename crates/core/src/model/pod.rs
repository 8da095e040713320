//! A pod as scheduling and disruption see it.
//!
//! What many pods share (requests, constraints) is in [`PodSpec`] behind an `Arc`: pods of one template share one
//! allocation, and two pods with the same `Arc` are equal without a comparison.

use std::{sync::Arc, time::Duration};

use fleetwright_kube_semantics::selector::SetOperator;
use jiff::Timestamp;

use super::{
    ids::{NamespacedName, NodeName, PodUid, Str},
    labels::Labels,
    requirement::{Operator, Requirement},
    resource_claim::{GeneratedClaim, PodClaim},
    resources::Resources,
    taint::Toleration,
    volume::VolumeRef,
};

/// A pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// `metadata.uid`.
    pub uid: PodUid,
    /// Namespace and name.
    pub id: NamespacedName,
    /// Labels, shared between pods that carry the same ones.
    pub labels: Arc<Labels>,
    /// What scheduling reads, shared between pods of one template.
    pub spec: Arc<PodSpec>,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// `metadata.deletionTimestamp`: when its grace period ends.
    pub deleting: Option<Timestamp>,
    /// `status.startTime`.
    pub started: Option<Timestamp>,
    /// The node that it is bound to.
    pub node: Option<NodeName>,
    /// `status.phase`.
    pub phase: PodPhase,
    /// Whether its `Ready` condition is True.
    pub ready: bool,
    /// Since when it is ready, if it is.
    pub ready_since: Option<Timestamp>,
    /// When it was bound to its node (`PodScheduled` became True).
    pub bound_since: Option<Timestamp>,
    /// Whether kube-scheduler found no node that fits (`PodScheduled=False`, reason `Unschedulable`).
    pub unschedulable: bool,
    /// The message of that condition: another text means that kube-scheduler tried again.
    pub refusal: Option<Str>,
    /// `status.nominatedNodeName`: kube-scheduler is making room for it there, or the node was launched for it.
    pub nominated_node: Option<NodeName>,
    /// The controller that owns it.
    pub owner: Option<Owner>,
    /// Its do-not-disrupt annotation.
    pub do_not_disrupt: DoNotDisrupt,
    /// `controller.kubernetes.io/pod-deletion-cost`.
    pub deletion_cost: i32,
    /// The claims that were made for it from templates.
    pub generated_claims: Vec<GeneratedClaim>,
    /// Whether it represents a chunk of a CapacityBuffer rather than a pod of the cluster.
    pub is_virtual: bool,
    /// Why its constraints are invalid: only for pods on a node, which then have no constraints here.
    pub unreadable: Option<Str>,
}

/// The part of a pod that pods of one template share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSpec {
    /// Effective requests, with `pods: 1`: containers, init containers, sidecars, overhead, pod level, in-place resizes.
    pub requests: Resources,
    /// Effective limits of containers, init containers and sidecars: shown, never decided by.
    pub limits: Resources,
    /// `nodeSelector`.
    pub node_selector: Vec<(Str, Str)>,
    /// Terms of the required node affinity: one of them must hold, each a conjunction.
    pub required_node_terms: Vec<Vec<Requirement>>,
    /// Preferred node affinity by weight.
    pub preferred_node_terms: Vec<(i32, Vec<Requirement>)>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Topology spread constraints.
    pub topology_spread: Vec<TopologySpread>,
    /// Required pod affinity.
    pub pod_affinity: Vec<PodAffinityTerm>,
    /// Preferred pod affinity by weight.
    pub preferred_pod_affinity: Vec<(i32, PodAffinityTerm)>,
    /// Required pod anti-affinity.
    pub pod_anti_affinity: Vec<PodAffinityTerm>,
    /// Preferred pod anti-affinity by weight.
    pub preferred_pod_anti_affinity: Vec<(i32, PodAffinityTerm)>,
    /// Ports on the host.
    pub host_ports: Vec<HostPort>,
    /// Persistent and generic ephemeral volumes. Names of generic ephemeral claims differ by pod: see [`VolumeRef`].
    pub volumes: Vec<VolumeRef>,
    /// Resource claims (DRA), as they stand in the spec.
    pub resource_claims: Vec<PodClaim>,
    /// `spec.priority`.
    pub priority: i32,
    /// `spec.priorityClassName`.
    pub priority_class: Option<Str>,
    /// `spec.terminationGracePeriodSeconds`.
    pub termination_grace_period: Duration,
    /// `spec.schedulerName`.
    pub scheduler: Option<Str>,
    /// Whether a scheduling gate holds the pod back.
    pub gated: bool,
}

/// `status.phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodPhase {
    /// Accepted, not all containers started.
    #[default]
    Pending,
    /// At least one container runs.
    Running,
    /// All containers ended well.
    Succeeded,
    /// A container failed for good.
    Failed,
    /// The node cannot be asked.
    Unknown,
}

/// The controlling owner of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// `ReplicaSet`, `DaemonSet`, `StatefulSet`, `Job`, `Node`, …; of groups beyond those of Kubernetes with the group
    /// (`DaemonSet.apps.kruise.io`).
    pub kind: Str,
    /// Its name.
    pub name: Str,
    /// Its UID.
    pub uid: Str,
}

impl Owner {
    /// The kind without its group.
    #[must_use]
    pub fn plain_kind(&self) -> &str {
        self.kind.split_once('.').map_or(&*self.kind, |(kind, _)| kind)
    }
}

/// The meaning of `karpenter.sh/do-not-disrupt` on a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DoNotDisrupt {
    /// Nothing, or explicitly no.
    #[default]
    No,
    /// `true`: as long as the pod lives.
    Always,
    /// A Go duration from the pod's start.
    For(Duration),
    /// Invalid: the pod is protected, and an event has the text.
    Invalid(Str),
}

/// A port that a pod takes on its host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// Address; empty, `0.0.0.0` and `::` mean all.
    pub ip: Str,
    /// Port number.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Str,
}

impl HostPort {
    /// Whether both cannot be on one host.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        let wildcard = |ip: &str| matches!(ip, "" | "0.0.0.0" | "::");
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || wildcard(&self.ip) || wildcard(&other.ip))
    }
}

/// A label selector; without terms it selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelSelector {
    /// Conditions that must all hold; only In, NotIn, Exists and DoesNotExist occur.
    pub terms: Vec<SelectorTerm>,
}

/// One condition of a label selector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SelectorTerm {
    /// Label key.
    pub key: Str,
    /// In, NotIn, Exists or DoesNotExist.
    pub operator: Operator,
    /// Values, sorted.
    pub values: Vec<Str>,
}

impl LabelSelector {
    /// Selects objects with exactly this label among theirs.
    #[must_use]
    pub fn of(key: &str, value: &str) -> Self {
        Self {
            terms: vec![SelectorTerm { key: key.into(), operator: Operator::In, values: vec![value.into()] }],
        }
    }

    /// Whether the selector selects an object with these labels.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.terms.iter().all(|term| {
            let operator = match term.operator {
                Operator::In => SetOperator::In,
                Operator::NotIn => SetOperator::NotIn,
                Operator::Exists => SetOperator::Exists,
                Operator::DoesNotExist => SetOperator::DoesNotExist,
                Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => return false,
            };
            operator.admits(labels.get(&term.key), |value| term.values.contains(value))
        })
    }
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopologySpread {
    /// The largest allowed difference between domains.
    pub max_skew: i32,
    /// The label key that names domains.
    pub key: Str,
    /// Whether the constraint is hard (`DoNotSchedule`).
    pub hard: bool,
    /// Which pods are counted; `None` counts none.
    pub selector: Option<LabelSelector>,
    /// Fewer domains than this count as an empty one.
    pub min_domains: Option<i32>,
    /// Whether only nodes that the pod's node affinity allows are domains (`Honor`, the default).
    pub honor_node_affinity: bool,
    /// Whether only nodes whose taints the pod tolerates are domains (`Honor`; the default is `Ignore`).
    pub honor_node_taints: bool,
    /// Keys whose values on the pod narrow the selector.
    pub match_label_keys: Vec<Str>,
}

/// A term of pod affinity or anti-affinity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodAffinityTerm {
    /// The label key that names domains.
    pub key: Str,
    /// Which pods; `None` selects none.
    pub selector: Option<LabelSelector>,
    /// Named namespaces. With no namespace selector and none named, the pod's own.
    pub namespaces: Vec<Str>,
    /// Namespaces by their labels.
    pub namespace_selector: Option<LabelSelector>,
    /// Keys whose values on the pod narrow the selector.
    pub match_label_keys: Vec<Str>,
    /// Keys whose values on the pod are excluded by the selector.
    pub mismatch_label_keys: Vec<Str>,
}

impl Pod {
    /// Effective requests, `pods: 1` included.
    #[must_use]
    pub fn requests(&self) -> &Resources {
        &self.spec.requests
    }

    /// Whether it has ended and holds no resources any more.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Whether it is on its way out.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.deleting.is_some()
    }

    /// Whether it occupies its node now and is to stay.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.is_terminal() && !self.is_terminating()
    }

    /// Whether a DaemonSet owns it, or what another group calls one: such a pod is created for its node and moves nowhere.
    #[must_use]
    pub fn is_daemon(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.plain_kind() == "DaemonSet")
    }

    /// Whether the kubelet made it from a file (a mirror of a static pod).
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.owned_by("Node")
    }

    /// Whether its controlling owner is of `kind`.
    #[must_use]
    pub fn owned_by(&self, kind: &str) -> bool {
        self.owner.as_ref().is_some_and(|owner| &*owner.kind == kind)
    }

    /// Whether it is pending for capacity: rejected by kube-scheduler, not bound, and not a pod that is created with its node. It may be
    /// nominated to a node ([`Self::nominated_node`]).
    #[must_use]
    pub fn is_provisionable(&self) -> bool {
        self.unschedulable
            && self.node.is_none()
            && self.is_active()
            && !self.is_daemon()
            && !self.is_static()
    }

    /// Whether it must be rescheduled if its node is deleted: active, or a terminating StatefulSet pod (which is recreated with its
    /// name); neither a DaemonSet pod nor static.
    #[must_use]
    pub fn is_reschedulable(&self) -> bool {
        (self.is_active() || (self.owned_by("StatefulSet") && self.is_terminating() && !self.is_terminal()))
            && !self.is_daemon()
            && !self.is_static()
    }

    /// Until when its annotation protects it: `None` not at all, `Some(None)` without end.
    #[must_use]
    pub fn protected_until(&self, now: Timestamp) -> Option<Option<Timestamp>> {
        match &self.do_not_disrupt {
            DoNotDisrupt::No => None,
            DoNotDisrupt::Always | DoNotDisrupt::Invalid(_) => Some(None),
            DoNotDisrupt::For(duration) => match self.started {
                None => Some(None),
                Some(started) => {
                    let end = started.checked_add(*duration).unwrap_or(Timestamp::MAX);
                    (now < end).then_some(Some(end))
                }
            },
        }
    }
}
