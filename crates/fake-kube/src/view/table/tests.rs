//! Tables as a real server gives them.

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};

use super::{IncludeObject, human_duration, table};
use crate::registry::ResourceInfo;

fn resource(group: &str, plural: &str) -> ResourceInfo {
    ResourceInfo {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: String::new(),
        plural: plural.to_owned(),
        singular: String::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: Vec::new(),
        subresources: Vec::new(),
    }
}

const CREATED: &str = "2025-01-01T00:00:00Z";

fn now() -> Timestamp {
    "2025-01-01T00:05:00Z".parse().unwrap()
}

/// Cells of one object, which gets a name and an age of five minutes.
fn cells(group: &str, plural: &str, mut object: Value) -> Value {
    object["metadata"]["name"] = json!("a");
    object["metadata"]["creationTimestamp"] = json!(CREATED);
    let table = table(&resource(group, plural), None, &[&object], now(), &json!({}), IncludeObject::None);
    let (columns, cells) = (&table["columnDefinitions"], &table["rows"][0]["cells"]);
    assert_eq!(columns.as_array().unwrap().len(), cells.as_array().unwrap().len(), "{table}");
    cells.clone()
}

#[rstest]
#[case(-2, "<invalid>")]
#[case(-1, "0s")]
#[case(0, "0s")]
#[case(119, "119s")]
#[case(120, "2m")]
#[case(121, "2m1s")]
#[case(599, "9m59s")]
#[case(600, "10m")]
#[case(10_799, "179m")]
#[case(10_800, "3h")]
#[case(10_860, "3h1m")]
#[case(28_800, "8h")]
#[case(172_799, "47h")]
#[case(172_800, "2d")]
#[case(176_400, "2d1h")]
#[case(691_200, "8d")]
#[case(63_071_999, "729d")]
#[case(63_072_000, "2y")]
#[case(63_158_400, "2y1d")]
#[case(252_288_000, "8y")]
fn durations(#[case] seconds: i64, #[case] expected: &str) {
    assert_eq!(human_duration(SignedDuration::from_secs(seconds)), expected);
}

/// A pod with two containers; `change` is merged into it.
fn pod(change: &Value) -> Value {
    let mut pod = json!({
        "kind": "Pod", "metadata": {}, "spec": {"containers": [{"name": "x"}, {"name": "y"}]},
        "status": {"phase": "Running"}
    });
    json_patch::merge(&mut pod, change);
    pod
}

#[rstest]
#[case::pending(json!({"status": {"phase": "Pending"}}), ["0/2", "Pending", "0"])]
#[case::running(json!({"status": {"containerStatuses": [
    {"ready": true, "restartCount": 0, "state": {"running": {}}}, {"ready": true, "restartCount": 0, "state": {"running": {}}}]}}),
    ["2/2", "Running", "0"])]
#[case::completed(json!({"status": {"phase": "Succeeded", "containerStatuses": [
    {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}}), ["0/2", "Completed", "0"])]
#[case::half_completed(json!({"status": {"containerStatuses": [
    {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}, {"ready": true, "state": {"running": {}}}]}}),
    ["1/2", "NotReady", "0"])]
#[case::crash(json!({"status": {"containerStatuses": [
    {"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
     "lastState": {"terminated": {"finishedAt": "2025-01-01T00:04:30Z"}}}]}}), ["0/2", "CrashLoopBackOff", "3 (30s ago)"])]
#[case::exit_code(json!({"status": {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 2}}}]}}),
    ["0/2", "ExitCode:2", "0"])]
#[case::terminating(json!({"metadata": {"deletionTimestamp": CREATED}}), ["0/2", "Terminating", "0"])]
#[case::deleted_after_its_end(json!({"metadata": {"deletionTimestamp": CREATED}, "status": {"phase": "Succeeded"}}),
    ["0/2", "Succeeded", "0"])]
#[case::evicted(json!({"status": {"phase": "Failed", "reason": "Evicted"}}), ["0/2", "Evicted", "0"])]
#[case::gated(json!({"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}}),
    ["0/2", "SchedulingGated", "0"])]
#[case::init(json!({"spec": {"initContainers": [{"name": "i"}]},
    "status": {"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}}), ["0/2", "Init:0/1", "0"])]
#[case::sidecar(json!({"spec": {"initContainers": [{"name": "i", "restartPolicy": "Always"}]},
    "status": {"initContainerStatuses": [{"name": "i", "started": true, "ready": true, "state": {"running": {}}}]}}),
    ["1/3", "Running", "0"])]
fn pods(#[case] change: Value, #[case] expected: [&str; 3]) {
    let cells = cells("", "pods", pod(&change));
    let [ready, status, restarts] = expected;
    assert_eq!(cells, json!(["a", ready, status, restarts, "5m", "<none>", "<none>", "<none>", "<none>"]));
}

#[rstest]
#[case("", "nodes",
    json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "spot"}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}], "nodeInfo": {"kubeletVersion": "v1.35.0"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}}),
    json!(["a", "NotReady,SchedulingDisabled", "spot,worker", "5m", "v1.35.0", "10.0.0.1", "<none>", "<unknown>", "<unknown>", "<unknown>"]))]
#[case("", "namespaces", json!({"status": {"phase": "Active"}}), json!(["a", "Active", "5m"]))]
#[case("apps", "deployments",
    json!({"spec": {"replicas": 3, "selector": {"matchLabels": {"b": "2", "a": "1"}},
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}}},
        "status": {"readyReplicas": 1, "updatedReplicas": 3, "availableReplicas": 1}}),
    json!(["a", "1/3", 3, 1, "5m", "c,d", "i,j", "a=1,b=2"]))]
#[case("apps", "replicasets", json!({"spec": {"replicas": 2, "selector": {"matchExpressions": [
    {"key": "k", "operator": "In", "values": ["y", "x"]}, {"key": "n", "operator": "DoesNotExist"}]}}, "status": {"replicas": 1}}),
    json!(["a", 2, 1, 0, "5m", "", "", "!n,k in (x,y)"]))]
#[case("apps", "statefulsets", json!({"spec": {"replicas": 2}}), json!(["a", "0/2", "5m", "", ""]))]
#[case("apps", "daemonsets", json!({"status": {"desiredNumberScheduled": 2, "numberReady": 1}}),
    json!(["a", 2, 0, 1, 0, 0, "<none>", "5m", "", "", "<none>"]))]
#[case("batch", "jobs", json!({"spec": {"completions": 2}, "status": {"succeeded": 1, "startTime": CREATED}}),
    json!(["a", "Running", "1/2", "5m", "5m", "", "", "<none>"]))]
#[case("batch", "jobs", json!({"spec": {"parallelism": 3}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}),
    json!(["a", "Complete", "0/1 of 3", "", "5m", "", "", "<none>"]))]
#[case("policy", "poddisruptionbudgets", json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}}),
    json!(["a", "50%", "N/A", 1, "5m"]))]
#[case("", "services", json!({"spec": {"type": "NodePort", "clusterIP": "10.0.0.2", "ports": [{"port": 80, "nodePort": 30000}]}}),
    json!(["a", "NodePort", "10.0.0.2", "<none>", "80:30000/TCP", "5m", "<none>"]))]
#[case("", "configmaps", json!({"data": {"a": "1"}, "binaryData": {"b": "2"}}), json!(["a", 2, "5m"]))]
#[case("", "persistentvolumeclaims", json!({"spec": {"volumeName": "v", "storageClassName": "s"},
    "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]}}),
    json!(["a", "Bound", "v", "1Gi", "RWO,RWX", "s", "<unset>", "5m", "<unset>"]))]
#[case("", "persistentvolumes", json!({"spec": {"claimRef": {"namespace": "n", "name": "c"}, "capacity": {"storage": "1Gi"},
    "persistentVolumeReclaimPolicy": "Delete"}, "status": {"phase": "Bound"}}),
    json!(["a", "1Gi", "", "Delete", "Bound", "n/c", "", "<unset>", "", "5m", "<unset>"]))]
#[case("storage.k8s.io", "storageclasses",
    json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"}),
    json!(["a (default)", "p", "Delete", "Immediate", false, "5m"]))]
#[case("coordination.k8s.io", "leases", json!({"spec": {"holderIdentity": "me"}}), json!(["a", "me", "5m"]))]
#[case("", "events", json!({"type": "Normal", "reason": "Launched", "message": " text ", "count": 4,
    "involvedObject": {"kind": "NodeClaim", "name": "n"}, "source": {"component": "c"},
    "firstTimestamp": CREATED, "lastTimestamp": "2025-01-01T00:04:50Z"}),
    json!(["10s", "Normal", "Launched", "nodeclaim/n", "", "c", "text", "5m", 4, "a"]))]
#[case("apiextensions.k8s.io", "customresourcedefinitions", json!({}), json!(["a", CREATED]))]
fn built_ins(#[case] group: &str, #[case] plural: &str, #[case] object: Value, #[case] expected: Value) {
    assert_eq!(cells(group, plural, object), expected);
}

#[test]
fn custom_resources_have_the_columns_of_their_definition() {
    let crd = json!({"spec": {"versions": [{"name": "v1", "additionalPrinterColumns": [
        {"name": "Nodes", "type": "integer", "jsonPath": ".status.nodes"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "CPU", "type": "string", "jsonPath": ".status.resources.cpu", "priority": 1, "description": "d"}
    ]}]}});
    let object = json!({"metadata": {"name": "p", "creationTimestamp": CREATED},
        "status": {"nodes": 3, "conditions": [{"type": "Ready", "status": "True"}]}});
    let meta = json!({"resourceVersion": "7"});
    let table = table(
        &resource("karpenter.sh", "nodepools"),
        Some(&crd),
        &[&object],
        now(),
        &meta,
        IncludeObject::Metadata,
    );
    assert_eq!(table["metadata"], meta);
    assert_eq!(table["rows"][0]["cells"], json!(["p", 3, "True", "5m", null]));
    assert_eq!(
        table["rows"][0]["object"],
        json!({
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]
        })
    );
    let priorities: Vec<_> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["priority"]).collect();
    assert_eq!(json!(priorities), json!([0, 0, 0, 0, 1]));
    assert_eq!(table["columnDefinitions"][4]["description"], "d");
}

#[test]
fn a_definition_without_columns_shows_the_age() {
    let crd = json!({"spec": {"versions": [{"name": "v1"}]}});
    let object = json!({"metadata": {"name": "p", "creationTimestamp": CREATED}});
    let info = resource("g", "things");
    let table = table(&info, Some(&crd), &[&object], now(), &json!({}), IncludeObject::Object);
    assert_eq!(table["rows"][0], json!({"cells": ["p", "5m"], "object": object}));
}

#[test]
fn rows_of_pods_that_have_ended_say_so() {
    let ended = pod(&json!({"status": {"phase": "Succeeded"}}));
    let table = table(&resource("", "pods"), None, &[&ended], now(), &json!({}), IncludeObject::None);
    assert_eq!(table["rows"][0]["conditions"][0]["reason"], "Succeeded");
}
