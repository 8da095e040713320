//! The fields of Nodes and Pods that kubelets need: small, whatever the size of the objects.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Container, Node, NodeCondition, Pod, Taint},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::{
    labels::{RUN_FOR, RUNNING_FAILED, RUNNING_FAILED_DELAY, STAGE, UNHEALTHY},
    quantities::parse_duration,
};

/// Reasons of a Ready condition that a running kubelet replaces: its own, and those of the node lifecycle controller. A condition with
/// another reason was set by another client.
const HEALED: [&str; 3] = [super::NOT_READY, super::LOST, "NodeStatusNeverUpdated"];

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
    /// Whether its kubelet leaves the Ready condition as another client set it.
    pub is_unhealthy: bool,
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
        let set_by_others = |condition: &&NodeCondition| {
            condition.type_ == "Ready"
                && condition.status != "True"
                && !condition.reason.as_deref().is_some_and(|reason| HEALED.contains(&reason))
        };
        let spec = node.spec.as_ref();
        Self {
            is_unhealthy: is_unhealthy(&node.metadata)
                || conditions.iter().any(|condition| set_by_others(&condition)),
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
    /// When its grace period ends, if it is being deleted.
    pub delete_by: Option<Timestamp>,
    /// How long the preStop hooks of its containers sleep, at most.
    pub pre_stop: Duration,
    /// Whether it never becomes ready.
    pub is_unhealthy: bool,
    /// How long it runs until it fails, if it does.
    pub fails_after: Option<Duration>,
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
        let duration =
            |key: &str| parse_duration(pod.metadata.annotations.as_ref()?.get(key).map(String::as_str)?);
        let fails = label(&pod.metadata, RUNNING_FAILED) == Some("true")
            && spec.restart_policy.as_deref() == Some("Never");
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(30);
        let names = |containers: &[Container]| {
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
            delete_by: pod.metadata.deletion_timestamp.as_ref().map(|time| time.0),
            pre_stop: spec.containers.iter().map(pre_stop_sleep).max().unwrap_or_default(),
            is_unhealthy: is_unhealthy(&pod.metadata),
            fails_after: fails.then(|| duration(RUNNING_FAILED_DELAY).unwrap_or_default()),
            has_finalizers: pod.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty()),
            started: status.and_then(|status| status.start_time.as_ref()).map(|time| time.0),
            run_for: duration(RUN_FOR),
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

fn label<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}

fn is_unhealthy(meta: &ObjectMeta) -> bool {
    label(meta, STAGE) == Some(UNHEALTHY)
}

/// How long the preStop hook of a container sleeps: by the `sleep` action, or by a command that ends in `sleep SECONDS`. No other command
/// takes time.
fn pre_stop_sleep(container: &Container) -> Duration {
    let Some(hook) = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref()) else {
        return Duration::ZERO;
    };
    let action = hook.sleep.as_ref().map(|sleep| u64::try_from(sleep.seconds).unwrap_or(0));
    let command = || {
        let line = hook.exec.as_ref()?.command.as_ref()?.join(" ");
        line.rsplit_once("sleep ")?.1.trim().parse::<u64>().ok()
    };
    Duration::from_secs(action.or_else(command).unwrap_or(0))
}
