//! The objects and patches that kubelets write.

use std::collections::BTreeMap;

use fleetwright_core::model::labels::{NOT_READY_TAINT, UNREACHABLE_TAINT};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use serde_json::{Value, json};

use super::{
    LOST, NOT_READY,
    decide::PodAct,
    view::{NodeView, PodView},
};
use crate::{
    api::{CloudInstance, WireTaint},
    quantities::{QuantityMap, from_quantities, to_quantities},
};

/// The Kubernetes version of the fake cloud's nodes.
const KUBELET_VERSION: &str = "v1.35.0";

/// A time in Kubernetes' format: whole seconds.
fn seconds(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// Labels of an instance's node: those of its bootstrap, type and offering.
pub(super) fn node_labels(instance: &CloudInstance) -> BTreeMap<String, String> {
    let mut labels = instance.bootstrap.labels.clone();
    labels.extend(instance.labels.clone());
    labels
}

/// The Node of an instance when it joins.
pub(super) fn node(instance: &CloudInstance, now: Timestamp) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": instance.node_name,
            "labels": node_labels(instance),
            "annotations": instance.bootstrap.annotations,
        },
        "spec": {
            "providerID": instance.id,
            "taints": instance.bootstrap.taints.iter().map(taint).collect::<Vec<Value>>(),
        },
        "status": node_status(instance, false, now),
    })
}

fn taint(taint: &WireTaint) -> Value {
    let mut value = json!({"key": taint.key, "effect": taint.effect});
    if !taint.value.is_empty() {
        value["value"] = json!(taint.value);
    }
    value
}

/// The actual resources of a node, by its advertised ones and its defects.
fn actual(instance: &CloudInstance, sold: &QuantityMap) -> QuantityMap {
    let Some(percent) = instance.defects.memory_percent else { return sold.clone() };
    let Ok(mut resources) = from_quantities(sold) else { return sold.clone() };
    let memory = i128::from(resources.memory()) * i128::from(percent) / 100;
    resources.set(&"memory".into(), i64::try_from(memory).unwrap_or(i64::MAX));
    to_quantities(&resources)
}

/// A Node's status.
pub(super) fn node_status(instance: &CloudInstance, ready: bool, now: Timestamp) -> Value {
    let at = seconds(now);
    let condition = |kind: &str, status: bool, reason: &str, message: &str| {
        let status = if status { "True" } else { "False" };
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": at, "lastTransitionTime": at,
        })
    };
    let (reason, message) = if ready {
        ("KubeletReady", "kubelet is posting ready status")
    } else {
        (NOT_READY, "container runtime network not ready")
    };
    let label = |key: &str| instance.labels.get(key).cloned().unwrap_or_default();
    let hostname = instance.bootstrap.labels.get("kubernetes.io/hostname").unwrap_or(&instance.node_name);
    json!({
        "capacity": actual(instance, &instance.capacity),
        "allocatable": actual(instance, &instance.allocatable),
        "addresses": [
            {"type": "InternalIP", "address": instance.address},
            {"type": "Hostname", "address": hostname},
        ],
        "conditions": [
            condition("MemoryPressure", false, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", false, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", ready, reason, message),
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": label("kubernetes.io/arch"),
            "operatingSystem": label("kubernetes.io/os"),
            "bootID": instance.id, "machineID": instance.id, "systemUUID": instance.id,
            "kernelVersion": "6.12.0", "osImage": "Fake Linux", "containerRuntimeVersion": "containerd://2.1.0",
            "kubeletVersion": KUBELET_VERSION, "kubeProxyVersion": "",
        },
    })
}

/// The status of a lost node.
pub(super) fn lost_status(now: Timestamp) -> Value {
    let at = seconds(now);
    let conditions: Vec<Value> = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
        .iter()
        .map(|kind| {
            json!({
                "type": kind, "status": "Unknown", "reason": LOST,
                "message": "Kubelet stopped posting node status.",
                "lastHeartbeatTime": at, "lastTransitionTime": at,
            })
        })
        .collect();
    json!({"status": {"conditions": conditions}})
}

/// A patch that replaces a node's taints, if the node has not changed.
fn taints_patch(node: &NodeView, taints: &[Taint]) -> Value {
    json!({
        "metadata": {"resourceVersion": node.resource_version, "uid": node.uid},
        "spec": {"taints": taints},
    })
}

/// Removes the not-ready taints.
pub(super) fn untaint(node: &NodeView) -> Value {
    let gone = [NOT_READY_TAINT, UNREACHABLE_TAINT];
    let kept: Vec<Taint> = node.taints.iter().filter(|t| !gone.contains(&t.key.as_str())).cloned().collect();
    taints_patch(node, &kept)
}

/// Adds a taint, once.
pub(super) fn add_taint(node: &NodeView, key: &str, value: &str, effect: &str) -> Value {
    let mut taints: Vec<Taint> =
        node.taints.iter().filter(|taint| taint.key != key || taint.effect != effect).cloned().collect();
    let value = Some(value.to_owned()).filter(|value| !value.is_empty());
    taints.push(Taint { key: key.to_owned(), value, effect: effect.to_owned(), time_added: None });
    taints_patch(node, &taints)
}

/// The Lease of a node.
pub(super) fn lease(name: &str, node_uid: &str, interval_seconds: u64, now: Timestamp) -> Value {
    let micros = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": "kube-node-lease",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}],
        },
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": (interval_seconds * 4).max(40),
            "renewTime": format!("{micros:.6}"),
        },
    })
}

/// A pod's address, derived from its UID.
fn pod_ip(uid: &str) -> String {
    let hash =
        uid.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let [a, b, c, _] = hash.to_le_bytes();
    format!("10.{}.{b}.{c}", 100 + a % 100)
}

/// The status of a pod after `act`: its containers run, have succeeded, or have failed.
pub(super) fn pod_status(pod: &PodView, act: PodAct, host_ip: &str, now: Timestamp) -> Value {
    let (phase, exit_code, reason) = match act {
        PodAct::Succeed => ("Succeeded", 0, "Completed"),
        PodAct::Fail => ("Failed", 1, "Error"),
        PodAct::Start | PodAct::Finish => ("Running", 0, ""),
    };
    let over = phase != "Running";
    let ready = !over && !pod.is_unhealthy;
    let at = seconds(now);
    let started = pod.started.map_or_else(|| at.clone(), seconds);
    let condition = |kind: &str, status: bool| {
        let mut value = json!({
            "type": kind, "status": if status { "True" } else { "False" },
            "lastProbeTime": null, "lastTransitionTime": at,
        });
        if !status {
            let reason = match act {
                PodAct::Succeed => "PodCompleted",
                PodAct::Fail => "PodFailed",
                PodAct::Start | PodAct::Finish => "ContainersNotReady",
            };
            value["reason"] = json!(reason);
        }
        value
    };
    let ended = json!({"terminated": {
        "exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": at,
    }});
    let running = json!({"running": {"startedAt": started}});
    let container = |(name, image): &(String, String), over: bool, init: bool| {
        json!({
            "name": name, "image": image, "imageID": "", "restartCount": 0, "containerID": format!("fake://{}-{name}", pod.uid),
            "ready": init || ready, "started": !over,
            "state": if over { &ended } else { &running },
        })
    };
    let ip = if pod.host_network { host_ip.to_owned() } else { pod_ip(&pod.uid) };
    let mut status = json!({
        "phase": phase,
        "conditions": [
            condition("PodReadyToStartContainers", !over),
            condition("Initialized", true),
            condition("Ready", ready),
            condition("ContainersReady", ready),
            condition("PodScheduled", true),
        ],
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "startTime": started,
        "containerStatuses": pod.containers.iter().map(|c| container(c, over, false)).collect::<Vec<Value>>(),
    });
    if !pod.init_containers.is_empty() {
        let init = pod.init_containers.iter().map(|c| container(c, true, true)).collect::<Vec<Value>>();
        status["initContainerStatuses"] = Value::Array(init);
    }
    json!({"status": status})
}
