//! Requests of pods as kube-scheduler computes them, and the other fields of a pod.

use std::sync::Arc;

use fleetwright_core::model::{LabelSchema, Pod, Resources, StateNode};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn lowered(pod: Value) -> Result<Pod, Invalid> {
    let pod: k8s::Pod = serde_json::from_value(pod).unwrap();
    super::pod(&pod, &LabelSchema::default(), &mut Interner::default())
}

fn requests(spec: Value, status: Value) -> Resources {
    let pod = json!({"metadata": {"name": "p", "namespace": "default"}, "spec": spec, "status": status});
    lowered(pod).unwrap().requests().clone()
}

fn container(name: &str, cpu: &str) -> Value {
    json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
}

fn sidecar(name: &str, cpu: &str) -> Value {
    json!({"name": name, "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
}

/// The upstream cases: containers, init containers before and after sidecars.
#[rstest]
#[case::none(json!({"containers": [{"name": "a"}]}), 0)]
#[case::sum(json!({"containers": [container("a", "1"), container("b", "0.5001")]}), 1501)]
#[case::init_is_larger(json!({"containers": [container("a", "1")], "initContainers": [container("i", "3")]}), 3000)]
#[case::init_is_smaller(json!({"containers": [container("a", "4")], "initContainers": [container("i", "3")]}), 4000)]
#[case::sidecar_adds(json!({"containers": [container("a", "1")], "initContainers": [sidecar("s", "2")]}), 3000)]
#[case::init_beside_earlier_sidecar(
    json!({"containers": [container("a", "1")], "initContainers": [sidecar("s", "2"), container("i", "5")]}), 7000)]
#[case::init_before_sidecar(
    json!({"containers": [container("a", "1")], "initContainers": [container("i", "5"), sidecar("s", "2")]}), 5000)]
#[case::overhead(json!({"containers": [container("a", "1")], "overhead": {"cpu": "250m"}}), 1250)]
#[case::pod_level(
    json!({"containers": [container("a", "1")], "resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "1"}}), 4000)]
fn cpu_requests(#[case] spec: Value, #[case] milli: i64) {
    let found = requests(spec, json!({}));
    assert_eq!((found.cpu(), found.pods()), (milli, 1));
}

/// While a resize is under way, the larger counts; what cannot be had does not.
#[rstest]
#[case::growing("2", json!({"containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}), 2000)]
#[case::shrinking("1", json!({"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "3"}}]}), 3000)]
#[case::infeasible("8", json!({
    "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
    "containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}}]}), 1000)]
#[case::deferred("8", json!({
    "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
    "containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}), 8000)]
fn resizes(#[case] wanted: &str, #[case] mut status: Value, #[case] milli: i64) {
    for container in status["containerStatuses"].as_array_mut().unwrap() {
        for (key, value) in
            [("image", json!("")), ("imageID", json!("")), ("ready", json!(true)), ("restartCount", json!(0))]
        {
            container[key] = value;
        }
    }
    assert_eq!(requests(json!({"containers": [container("a", wanted)]}), status).cpu(), milli);
}

#[rstest]
#[case("9E9E", "spec.containers[a].resources.requests[cpu]: \"9E9E\" is not a quantity")]
#[case("1e400", "spec.containers[a].resources.requests[cpu]: \"1e400\" is out of range")]
#[case("-1", "spec.containers[a].resources.requests[cpu]: -1 is negative: give zero or more")]
fn bad_quantities_are_named(#[case] cpu: &str, #[case] expected: &str) {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container("a", cpu)]}});
    let error = lowered(pod).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
}

#[rstest]
#[case(None, DoNotDisrupt::No)]
#[case(Some("true"), DoNotDisrupt::Always)]
#[case(Some("false"), DoNotDisrupt::No)]
#[case(Some("1h30m"), DoNotDisrupt::For(Duration::from_secs(5400)))]
#[case(Some("False"), DoNotDisrupt::No)]
#[case(Some("NO"), DoNotDisrupt::No)]
#[case(Some("0"), DoNotDisrupt::No)]
#[case(Some("0s"), DoNotDisrupt::No)]
#[case(Some("0S"), DoNotDisrupt::No)]
#[case(Some("0h0m"), DoNotDisrupt::No)]
#[case(Some(""), DoNotDisrupt::No)]
#[case(Some(" "), DoNotDisrupt::No)]
#[case(Some("True"), DoNotDisrupt::Invalid("True".into()))]
#[case(Some("5M"), DoNotDisrupt::Invalid("5M".into()))]
#[case(Some("soon"), DoNotDisrupt::Invalid("soon".into()))]
#[case(Some("-5m"), DoNotDisrupt::Invalid("-5m".into()))]
fn do_not_disrupt_values(#[case] value: Option<&str>, #[case] expected: DoNotDisrupt) {
    assert_eq!(do_not_disrupt(value), expected);
}

#[test]
fn what_scheduling_reads() {
    let pod = lowered(json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "r", "controller": true}]},
        "spec": {
            "containers": [{"name": "a", "ports": [{"containerPort": 80, "hostPort": 8080}]}],
            "nodeSelector": {"beta.kubernetes.io/arch": "arm64"},
            "tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Near"}],
            "affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]},
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}},
                    {"weight": 9, "preference": {"matchExpressions": [{"key": "y", "operator": "Exists"}]}}]}},
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}},
                {"name": "none", "emptyDir": {}}],
            "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "nodeTaintsPolicy": "Honor", "labelSelector": {"matchExpressions": [
                    {"key": "app", "operator": "NotIn", "values": ["b", "a"]}]}}]
        },
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    }))
    .unwrap();
    assert!(pod.is_provisionable() && pod.owned_by("ReplicaSet"));
    assert_eq!(pod.spec.node_selector, [(Str::from("kubernetes.io/arch"), Str::from("arm64"))]);
    assert_eq!(pod.spec.tolerations.len(), 1, "an operator that is not known tolerates nothing");
    assert_eq!(pod.spec.required_node_terms[0][0].to_string(), "metadata.name In [n]");
    assert_eq!(pod.spec.preferred_node_terms[0].0, 9, "heaviest first");
    assert_eq!(pod.spec.host_ports[0].protocol, "TCP".into());
    assert_eq!(pod.spec.volumes.len(), 2);
    let spread = &pod.spec.topology_spread[0];
    assert!(spread.hard && spread.honor_node_affinity && spread.honor_node_taints);
    assert_eq!(spread.selector.as_ref().unwrap().terms[0].values, ["a".into(), "b".into()]);
}

#[test]
fn pods_of_one_template_share_it() {
    let mut interner = Interner::default();
    let mut pod = |name: &str, cpu: &str| {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [container("a", cpu)]}});
        super::pod(&serde_json::from_value(pod).unwrap(), &LabelSchema::default(), &mut interner).unwrap()
    };
    let (a, b, c) = (pod("a", "1"), pod("b", "1"), pod("c", "2"));
    assert!(Arc::ptr_eq(&a.spec, &b.spec) && Arc::ptr_eq(&a.labels, &c.labels));
    assert!(!Arc::ptr_eq(&a.spec, &c.spec));
}

#[test]
fn templates_are_pods_as_the_api_server_would_create_them() {
    let template: k8s::PodTemplateSpec = serde_json::from_value(json!({"spec": {
        "hostNetwork": true,
        "containers": [
            {"name": "a", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "2"}}},
            {"name": "b", "resources": {"limits": {"cpu": "9"}, "requests": {"cpu": "1"}}},
        ],
        "resources": {"limits": {"cpu": "20", "memory": "1Gi"}},
    }}))
    .unwrap();
    let interner = &mut Interner::default();
    let (meta, none) = (ObjectMeta::default(), ContainerDefaults::default());
    let pod = of_template(&meta, "DaemonSet", &template, &none, &LabelSchema::default(), interner).unwrap();
    assert_eq!((pod.requests().cpu(), pod.requests().memory()), (3000, 1 << 30));
    assert_eq!(pod.spec.host_ports.iter().map(|port| port.port).collect::<Vec<_>>(), [80]);
}

/// As kube-scheduler sees them: a required term without a condition matches nothing, a preferred one prefers nothing.
#[test]
fn terms_without_a_condition_are_left_out() {
    let with = |affinity: Value| {
        let spec = json!({"containers": [{"name": "a"}], "affinity": {"nodeAffinity": affinity}});
        lowered(json!({"metadata": {"name": "p", "namespace": "default"}, "spec": spec}))
    };
    let zone = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]});
    let required = |terms: Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    let found = with(required(json!([{}, zone, {"matchExpressions": []}]))).unwrap();
    assert_eq!(found.spec.required_node_terms.len(), 1);
    let error = with(required(json!([{}]))).unwrap_err().to_string();
    assert!(error.contains("no term has a condition"), "{error}");
    let preferred = json!([{"weight": 5, "preference": {}}, {"weight": 1, "preference": zone}]);
    let found = with(json!({"preferredDuringSchedulingIgnoredDuringExecution": preferred})).unwrap();
    assert_eq!(found.spec.preferred_node_terms.len(), 1);
}

#[rstest]
#[case::the_controller(&[("v1", "Node", false), ("apps/v1", "ReplicaSet", true)], Some("ReplicaSet"))]
#[case::a_daemon_without_the_mark(&[("example.com/v1", "Batch", false), ("apps/v1", "DaemonSet", false)], Some("DaemonSet"))]
#[case::a_static_pod_without_it(&[("v1", "Node", false)], Some("Node"))]
#[case::of_another_group(&[("example.com/v1", "DaemonSet", false)], None)]
#[case::the_controller_of_another_group(&[("apps.kruise.io/v1alpha1", "DaemonSet", true)], Some("DaemonSet.apps.kruise.io"))]
#[case::a_job(&[("batch/v1", "Job", true)], Some("Job"))]
#[case::not_a_controller(&[("apps/v1", "ReplicaSet", false)], None)]
fn the_owner_of_a_pod(#[case] given: &[(&str, &str, bool)], #[case] expected: Option<&str>) {
    let reference = |(version, kind, controller): &(&str, &str, bool)| json!({"apiVersion": version, "kind": kind, "name": "o", "uid": "u", "controller": controller});
    let references: Vec<Value> = given.iter().map(reference).collect();
    let metadata = json!({"name": "p", "namespace": "default", "ownerReferences": references});
    let found = lowered(json!({"metadata": metadata, "spec": {"containers": []}})).unwrap().owner;
    assert_eq!(found.as_ref().map(|owner| &*owner.kind), expected);
}

/// A pod of a Node of another group is drained, and one of a DaemonSet of another group is no part of the overhead that a node expects.
#[test]
fn kinds_of_other_groups_are_told_apart() {
    let of = |version: &str, kind: &str| {
        let owner =
            json!([{"apiVersion": version, "kind": kind, "name": "o", "uid": "u", "controller": true}]);
        let metadata = json!({"name": "p", "namespace": "default", "ownerReferences": owner});
        let pod = lowered(json!({"metadata": metadata, "spec": {"containers": []}})).unwrap();
        let expected = StateNode::new(None, None, vec![Arc::new(pod.clone())]).requested_by_daemons;
        (pod.is_daemon(), pod.is_static(), pod.is_reschedulable(), !expected.is_zero())
    };
    assert_eq!(of("apps/v1", "DaemonSet"), (true, false, false, true));
    assert_eq!(of("apps.kruise.io/v1alpha1", "DaemonSet"), (true, false, false, false));
    assert_eq!(of("v1", "Node"), (false, true, false, false));
    assert_eq!(of("longhorn.io/v1beta2", "Node"), (false, false, true, false));
    assert_eq!(of("apps.kruise.io/v1beta1", "StatefulSet"), (false, false, true, false));
}

#[test]
fn annotations_and_gates_of_a_pod() {
    let of = |metadata: Value, gates: Value| {
        let mut pod = json!({"metadata": metadata, "spec": {"containers": [], "schedulingGates": gates}});
        pod["metadata"]["name"] = json!("p");
        lowered(pod).unwrap()
    };
    let annotated =
        of(json!({"annotations": {"karpenter.sh/do-not-disrupt": "true", DELETION_COST: "-7"}}), json!(null));
    assert_eq!((&annotated.do_not_disrupt, annotated.deletion_cost), (&DoNotDisrupt::Always, -7));
    let plain = of(json!({}), json!(null));
    assert_eq!((&plain.do_not_disrupt, plain.deletion_cost), (&DoNotDisrupt::No, 0));
    let gated = |gates| of(json!({}), gates).spec.gated;
    assert_eq!(
        [gated(json!(null)), gated(json!([])), gated(json!([{"name": "example.com/quota"}]))],
        [false, false, true]
    );
}

/// A cluster that makes pods for ever uses no more memory than for those that exist.
#[test]
fn specs_that_no_pod_has_any_more_are_dropped() {
    let mut shelf = Shelf::default();
    let kept: Vec<Arc<u64>> = (0..10).map(|number| shelf.share(number, number)).collect();
    for number in 10..10_000 {
        drop(shelf.share(number, number));
    }
    assert!(shelf.by_hash.len() <= 1024, "{}", shelf.by_hash.len());
    assert!(kept.iter().all(|known| Arc::ptr_eq(known, &shelf.share(**known, **known))));
}

/// Requests of the pod while its resize is under way.
#[rstest]
#[case::growing("2", "1", "Deferred", 2000)]
#[case::shrinking("1", "3", "Deferred", 3000)]
#[case::infeasible("8", "1", "Infeasible", 1000)]
fn resizes_of_the_pod(#[case] wanted: &str, #[case] held: &str, #[case] reason: &str, #[case] milli: i64) {
    let spec = json!({"containers": [container("a", "1")], "resources": {"requests": {"cpu": wanted}}});
    let status = json!({
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
        "resources": {"requests": {"cpu": held}}, "allocatedResources": {"cpu": held},
    });
    assert_eq!(requests(spec, status).cpu(), milli);
}
