//! The fields of Nodes and Pods that kubelets need: small, whatever the size of the objects.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, Taint};

use crate::{labels::RUN_FOR, quantities::parse_duration};

/// A Node as a kubelet sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodeView {
    pub uid: String,
    pub resource_version: String,
    pub provider_id: String,
    pub taints: Vec<Taint>,
    /// Status of the Ready condition and since when.
    pub ready: Option<(String, Option<Timestamp>)>,
    /// Whether its kubelet is permanently broken.
    pub is_broken: bool,
    pub has_allocatable: bool,
    pub deleting: bool,
    pub has_finalizers: bool,
}

impl NodeView {
    pub(super) fn of(node: &Node) -> Self {
        let status = node.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready").map(|condition| {
            (condition.status.clone(), condition.last_transition_time.as_ref().map(|time| time.0))
        });
        let broken = |condition: &&NodeCondition| {
            condition.status != "True" && condition.reason.as_deref() == Some(super::BROKEN)
        };
        let spec = node.spec.as_ref();
        Self {
            is_broken: conditions.iter().any(|condition| broken(&condition)),
            uid: node.metadata.uid.clone().unwrap_or_default(),
            resource_version: node.metadata.resource_version.clone().unwrap_or_default(),
            provider_id: spec.and_then(|spec| spec.provider_id.clone()).unwrap_or_default(),
            taints: spec.and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            ready,
            has_allocatable: status
                .and_then(|status| status.allocatable.as_ref())
                .is_some_and(|allocatable| !allocatable.is_empty()),
            deleting: node.metadata.deletion_timestamp.is_some(),
            has_finalizers: node
                .metadata
                .finalizers
                .as_ref()
                .is_some_and(|finalizers| !finalizers.is_empty()),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready.as_ref().is_some_and(|(status, _)| status == "True")
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.ready.as_ref().is_some_and(|(status, _)| status == "Unknown")
    }

    pub(super) fn has_taint(&self, key: &str) -> bool {
        self.taints.iter().any(|taint| taint.key == key)
    }
}

/// A Pod as a kubelet sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodView {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub node: String,
    pub phase: String,
    pub ready: bool,
    pub deleting: bool,
    pub grace: Duration,
    pub has_finalizers: bool,
    pub started: Option<Timestamp>,
    pub run_for: Option<Duration>,
    /// Name and image of each container.
    pub containers: Vec<(String, String)>,
    /// The same of each init container.
    pub init_containers: Vec<(String, String)>,
    pub host_network: bool,
}

impl PodView {
    /// The view of a bound pod; `None` for others.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        let spec = pod.spec.as_ref()?;
        let node = spec.node_name.clone().filter(|node| !node.is_empty())?;
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.clone()).unwrap_or_default();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let annotation = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(RUN_FOR));
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(30);
        let names = |containers: &[k8s_openapi::api::core::v1::Container]| {
            containers.iter().map(|c| (c.name.clone(), c.image.clone().unwrap_or_default())).collect()
        };
        Some(Self {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            node,
            ready: conditions
                .iter()
                .any(|condition| condition.type_ == "Ready" && condition.status == "True"),
            phase,
            deleting: pod.metadata.deletion_timestamp.is_some(),
            grace: Duration::from_secs(u64::try_from(grace).unwrap_or(0)),
            has_finalizers: pod.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty()),
            started: status.and_then(|status| status.start_time.as_ref()).map(|time| time.0),
            run_for: annotation.and_then(|text| parse_duration(text)),
            containers: names(&spec.containers),
            init_containers: names(spec.init_containers.as_deref().unwrap_or_default()),
            host_network: spec.host_network.unwrap_or(false),
        })
    }

    /// Whether it has completed.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}
