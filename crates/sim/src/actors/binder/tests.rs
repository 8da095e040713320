//! One decision per row: a cluster, a pod, and its node or message.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    Binder, BinderState, Waiting, decide::Verdicts, node::ClusterView, pod::PodInfo, preempt::preempt,
};
use crate::{
    actors::{
        cache::{Cache, Change, Key, Object, WatchedKind},
        ctx::Ctx,
    },
    clock::TokioClock,
    simulator::virtual_runtime,
};

/// A cluster of three nodes in two zones, each with 4 CPUs, 8 GiB and ten pods; `n3` has two CPUs and local disks. `objects` are added:
/// pods with a node run there.
fn cluster(objects: &[Value]) -> ClusterView {
    let cache = Cache::default();
    let node = |name: &str, zone: &str, cpu: &str, disk: &str| {
        json!({
            "kind": "Node",
            "metadata": { "name": name, "labels": {
                "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "disk": disk, "cpus": cpu,
            } },
            "status": { "allocatable": { "cpu": cpu, "memory": "8Gi", "pods": "10" } },
        })
    };
    let nodes = [node("n1", "a", "4", "net"), node("n2", "b", "4", "net"), node("n3", "b", "2", "local")];
    for (at, object) in nodes.iter().chain(objects).enumerate() {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = json!((at + 1).to_string());
        match object["kind"].as_str().unwrap() {
            "Node" => put::<Node>(&cache, merge_node(&nodes, object)),
            "Pod" => put::<Pod>(&cache, pod_with(object)),
            "Namespace" => put::<k8s_openapi::api::core::v1::Namespace>(&cache, object),
            "PersistentVolume" => put::<k8s_openapi::api::core::v1::PersistentVolume>(&cache, object),
            "PersistentVolumeClaim" => {
                put::<k8s_openapi::api::core::v1::PersistentVolumeClaim>(&cache, named(object))
            }
            "StorageClass" => put::<k8s_openapi::api::storage::v1::StorageClass>(&cache, object),
            "CSINode" => put::<k8s_openapi::api::storage::v1::CSINode>(&cache, object),
            other => unreachable!("{other}"),
        }
    }
    let tables = cache.tables();
    let bound = tables.pods.values().filter_map(|pod| {
        let node = pod.spec.as_ref()?.node_name.clone()?;
        Some((node, Arc::new(PodInfo::new(pod.clone()))))
    });
    let bound = bound.collect();
    ClusterView::new(&tables, bound, Vec::new())
}

fn put<K: WatchedKind>(cache: &Cache, object: Value) {
    cache.put::<K>(serde_json::from_value(object).unwrap());
}

/// A row may change a node of the standard cluster by its name.
fn merge_node(nodes: &[Value], mut object: Value) -> Value {
    if let Some(known) = nodes.iter().find(|node| node["metadata"]["name"] == object["metadata"]["name"]) {
        let mut labels = known["metadata"]["labels"].clone();
        for (key, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
            labels[key] = value.clone();
        }
        object["metadata"]["labels"] = labels;
        if object["status"].is_null() {
            object["status"] = known["status"].clone();
        }
    }
    object
}

fn named(mut object: Value) -> Value {
    if object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = json!("default");
    }
    object["metadata"]["uid"] = object["metadata"]["name"].clone();
    object
}

fn pod_with(object: Value) -> Value {
    let mut pod = named(object);
    if pod["spec"]["containers"].is_null() {
        pod["spec"]["containers"] = json!([{ "name": "c" }]);
    }
    pod
}

/// A pod named `p` with this specification and labels `app=p`.
fn pod(spec: Value) -> PodInfo {
    let pod =
        pod_with(json!({ "metadata": { "name": "p", "labels": { "app": "p", "v": "2" } }, "spec": spec }));
    PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap()))
}

fn running(name: &str, node: &str, app: &str, more: Value) -> Value {
    let mut spec = more;
    spec["nodeName"] = json!(node);
    json!({ "kind": "Pod", "metadata": { "name": name, "labels": { "app": app } }, "spec": spec })
}

fn cpu(amount: &str) -> Value {
    json!({ "containers": [{ "name": "c", "resources": { "requests": { "cpu": amount } } }] })
}

fn check(objects: &[Value], spec: Value, expected: &str) {
    let cluster = cluster(objects);
    let verdict = match Verdicts::default().decide(&pod(spec), &cluster) {
        Ok(place) => cluster.nodes[place.at].name.clone(),
        Err(message) => message.strip_prefix("0/3 nodes are available: ").unwrap_or(&message).to_owned(),
    };
    assert_eq!(verdict, expected);
}

fn taint(node: &str, effect: &str) -> Value {
    json!({ "kind": "Node", "metadata": { "name": node }, "spec": { "taints": [
        { "key": "team", "value": "x", "effect": effect },
    ] } })
}

fn cordon(node: &str) -> Value {
    json!({ "kind": "Node", "metadata": { "name": node }, "spec": { "unschedulable": true } })
}

fn tolerating(operator: &str, value: Option<&str>) -> Value {
    json!({ "tolerations": [{ "key": "team", "operator": operator, "value": value }] })
}

#[rstest]
#[case::emptiest_first(&[running("q", "n1", "q", cpu("1"))], cpu("1"), "n2")]
#[case::first_by_name_among_equals(&[], cpu("1"), "n1")]
#[case::cpu(&[running("q", "n1", "q", cpu("3")), running("r", "n2", "q", cpu("2500m"))], cpu("2"), "n3")]
#[case::too_large(&[], cpu("5"), "3 Insufficient cpu.")]
#[case::several_reasons(&[], json!({ "containers": [{ "name": "c", "resources": { "requests": {
    "cpu": "5", "example.com/gpu": "1" } } }] }), "3 Insufficient cpu, 3 Insufficient example.com/gpu.")]
#[case::init_containers_count_by_their_peak(&[], json!({
    "initContainers": [{ "name": "i", "resources": { "requests": { "cpu": "5" } } }],
    "containers": [{ "name": "c" }] }), "3 Insufficient cpu.")]
#[case::sidecars_add_up(&[], json!({
    "initContainers": [{ "name": "i", "restartPolicy": "Always", "resources": { "requests": { "cpu": "3" } } }],
    "containers": [{ "name": "c", "resources": { "requests": { "cpu": "2" } } }] }), "3 Insufficient cpu.")]
#[case::overhead(&[], json!({ "overhead": { "cpu": "4" },
    "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] }), "3 Insufficient cpu.")]
#[case::pod_count(&[json!({ "kind": "Node", "metadata": { "name": "n1" }, "status": { "allocatable": { "pods": "0" } } }),
    cordon("n2"), cordon("n3")], json!({}), "1 Too many pods, 2 node(s) were unschedulable.")]
#[case::taint(&[taint("n1", "NoSchedule"), taint("n2", "NoExecute")], cpu("1"), "n3")]
#[case::taint_everywhere(&[taint("n1", "NoSchedule"), taint("n2", "NoSchedule"), cordon("n3")], cpu("1"),
    "1 node(s) were unschedulable, 2 node(s) had untolerated taint {team: x}.")]
#[case::taint_avoided(&[taint("n1", "PreferNoSchedule")], cpu("1"), "n2")]
#[case::tolerated_by_value(&[taint("n1", "NoSchedule"), cordon("n2"), cordon("n3")], tolerating("Equal", Some("x")), "n1")]
#[case::tolerated_by_key(&[taint("n1", "NoSchedule"), cordon("n2"), cordon("n3")], tolerating("Exists", None), "n1")]
#[case::another_value(&[taint("n1", "NoSchedule"), cordon("n2"), cordon("n3")], tolerating("Equal", Some("y")),
    "1 node(s) had untolerated taint {team: x}, 2 node(s) were unschedulable.")]
#[case::node_selector(&[], json!({ "nodeSelector": { "disk": "local" } }), "n3")]
#[case::node_affinity(&[], json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
    "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "cpus", "operator": "Lt", "values": ["3"] }] }] } } } }), "n3")]
#[case::by_name(&[], json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
    "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n2"] }] }] } } } }), "n2")]
#[case::nowhere(&[], json!({ "nodeSelector": { "disk": "tape" } }),
    "3 node(s) didn't match Pod's node affinity/selector.")]
#[case::preferred(&[], json!({ "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
    { "weight": 5, "preference": { "matchExpressions": [{ "key": "disk", "operator": "In", "values": ["local"] }] } }] } } }), "n3")]
#[case::ports(&[running("q", "n1", "q", json!({ "containers": [{ "name": "c", "ports": [{ "containerPort": 80, "hostPort": 80 }] }] })),
    cordon("n2"), cordon("n3")],
    json!({ "containers": [{ "name": "c", "ports": [{ "containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.1" }] }] }),
    "1 node(s) didn't have free ports for the requested pod ports, 2 node(s) were unschedulable.")]
fn filters_of_one_node(#[case] objects: &[Value], #[case] spec: Value, #[case] expected: &str) {
    check(objects, spec, expected);
}

fn spread(more: Value) -> Value {
    let mut constraint = json!({
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "p" } },
    });
    for (key, value) in more.as_object().unwrap() {
        constraint[key] = value.clone();
    }
    json!({ "topologySpreadConstraints": [constraint] })
}

fn near(kind: &str, term: Value) -> Value {
    json!({ "affinity": { kind: { "requiredDuringSchedulingIgnoredDuringExecution": [term] } } })
}

fn of_app(app: &str, topology: &str) -> Value {
    json!({ "topologyKey": topology, "labelSelector": { "matchLabels": { "app": app } } })
}

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

#[rstest]
#[case::balances(&[running("q", "n1", "p", json!({}))], spread(json!({})), "n2")]
#[case::skew_kept(&[running("q", "n1", "p", json!({})), cordon("n2"), cordon("n3")], spread(json!({})),
    "1 node(s) didn't match pod topology spread constraints, 2 node(s) were unschedulable.")]
#[case::domains_of_excluded_nodes_do_not_count(&[running("q", "n1", "p", json!({}))], {
    let mut spec = spread(json!({})); spec["nodeSelector"] = json!({ "kubernetes.io/hostname": "n1" }); spec }, "n1")]
#[case::tainted_nodes_count_unless_honored(&[running("q", "n1", "p", json!({})), taint("n2", "NoSchedule"), taint("n3", "NoSchedule")],
    spread(json!({})),
    "1 node(s) didn't match pod topology spread constraints, 2 node(s) had untolerated taint {team: x}.")]
#[case::tainted_nodes_honored(&[running("q", "n1", "p", json!({})), taint("n2", "NoSchedule"), taint("n3", "NoSchedule")],
    spread(json!({ "nodeTaintsPolicy": "Honor" })), "n1")]
#[case::min_domains(&[running("q", "n1", "p", json!({})), running("r", "n2", "p", json!({}))], spread(json!({ "minDomains": 3 })),
    "3 node(s) didn't match pod topology spread constraints.")]
#[case::match_label_keys(&[running("q", "n1", "p", json!({})), cordon("n2"), cordon("n3")],
    spread(json!({ "matchLabelKeys": ["v"] })), "n1")]
#[case::missing_label(&[], spread(json!({ "topologyKey": "rack" })),
    "3 node(s) didn't match pod topology spread constraints (missing required label).")]
#[case::soft(&[running("q", "n1", "p", json!({})), cordon("n2"), cordon("n3")],
    spread(json!({ "whenUnsatisfiable": "ScheduleAnyway" })), "n1")]
#[case::soft_prefers(&[running("q", "n1", "p", json!({}))], spread(json!({ "whenUnsatisfiable": "ScheduleAnyway" })), "n2")]
#[case::anti_affinity(&[running("q", "n1", "p", json!({})), running("r", "n2", "p", json!({}))],
    near("podAntiAffinity", of_app("p", HOST)), "n3")]
#[case::anti_affinity_by_zone(&[running("q", "n1", "p", json!({})), running("r", "n2", "p", json!({}))],
    near("podAntiAffinity", of_app("p", ZONE)), "3 node(s) didn't match pod anti-affinity rules.")]
#[case::others_anti_affinity(&[running("q", "n2", "q", near("podAntiAffinity", of_app("p", ZONE))), cordon("n1")], json!({}),
    "1 node(s) were unschedulable, 2 node(s) didn't satisfy existing pods anti-affinity rules.")]
#[case::affinity(&[running("q", "n3", "q", json!({})), cordon("n3")], near("podAffinity", of_app("q", ZONE)), "n2")]
#[case::affinity_without_a_match(&[], near("podAffinity", of_app("q", ZONE)), "3 node(s) didn't match pod affinity rules.")]
#[case::affinity_to_itself(&[], near("podAffinity", of_app("p", ZONE)), "n1")]
#[case::affinity_to_itself_needs_the_label(&[], near("podAffinity", of_app("p", "rack")),
    "3 node(s) didn't match pod affinity rules.")]
#[case::other_namespace(&[{ let mut q = running("q", "n2", "q", json!({})); q["metadata"]["namespace"] = json!("far"); q }],
    near("podAffinity", of_app("q", HOST)), "3 node(s) didn't match pod affinity rules.")]
#[case::namespace_selector(&[{ let mut q = running("q", "n2", "q", json!({})); q["metadata"]["namespace"] = json!("far"); q },
    json!({ "kind": "Namespace", "metadata": { "name": "far", "labels": { "team": "x" } } })],
    near("podAffinity", { let mut term = of_app("q", HOST);
        term["namespaceSelector"] = json!({ "matchLabels": { "team": "x" } }); term }), "n2")]
#[case::wished_company(&[running("q", "n2", "q", json!({}))], json!({ "affinity": { "podAffinity": {
    "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "podAffinityTerm": of_app("q", HOST) }] } } }), "n2")]
#[case::wished_solitude(&[running("q", "n1", "q", json!({}))], json!({ "affinity": { "podAntiAffinity": {
    "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "podAffinityTerm": of_app("q", ZONE) }] } } }), "n2")]
fn among_other_pods(#[case] objects: &[Value], #[case] spec: Value, #[case] expected: &str) {
    check(objects, spec, expected);
}

fn claim(name: &str, class: &str, volume: &str) -> Value {
    json!({ "kind": "PersistentVolumeClaim", "metadata": { "name": name }, "spec": {
        "storageClassName": class, "volumeName": volume, "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } } } })
}

fn class(name: &str, mode: &str, more: Value) -> Value {
    let mut class = json!({ "kind": "StorageClass", "metadata": { "name": name }, "provisioner": "csi.x", "volumeBindingMode": mode });
    for (key, value) in more.as_object().unwrap() {
        class[key] = value.clone();
    }
    class
}

fn volume(name: &str, zone: &str) -> Value {
    json!({ "kind": "PersistentVolume", "metadata": { "name": name }, "spec": {
        "storageClassName": "late", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "2Gi" },
        "csi": { "driver": "csi.x", "volumeHandle": name },
        "nodeAffinity": { "required": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": ZONE, "operator": "In", "values": [zone] }] }] } } } })
}

fn uses(claims: &[&str]) -> Value {
    let volumes: Vec<Value> = claims
        .iter()
        .map(|claim| json!({ "name": claim, "persistentVolumeClaim": { "claimName": claim } }))
        .collect();
    json!({ "volumes": volumes })
}

fn limit(node: &str, count: i32) -> Value {
    json!({ "kind": "CSINode", "metadata": { "name": node }, "spec": { "drivers": [
        { "name": "csi.x", "nodeID": node, "allocatable": { "count": count } }] } })
}

#[rstest]
#[case::missing(&[], "persistentvolumeclaim \"d\" not found.")]
#[case::bound(&[claim("d", "late", "v"), volume("v", "b")], "n2")]
#[case::bound_elsewhere(&[claim("d", "late", "v"), volume("v", "z")],
    "3 node(s) didn't match PersistentVolume's node affinity.")]
#[case::unbound_immediate(&[claim("d", "now", ""), class("now", "Immediate", json!({}))],
    "pod has unbound immediate PersistentVolumeClaims.")]
#[case::waits_for_us(&[claim("d", "late", ""), class("late", "WaitForFirstConsumer", json!({}))], "n1")]
#[case::allowed_topologies(&[claim("d", "late", ""), class("late", "WaitForFirstConsumer", json!({ "allowedTopologies": [
    { "matchLabelExpressions": [{ "key": ZONE, "values": ["b"] }] }] }))], "n2")]
#[case::no_provisioner(&[claim("d", "late", ""), class("late", "WaitForFirstConsumer", json!({
    "provisioner": "kubernetes.io/no-provisioner" }))], "3 node(s) didn't find available persistent volumes to bind.")]
#[case::static_volume(&[claim("d", "late", ""), volume("v", "b"), class("late", "WaitForFirstConsumer", json!({
    "provisioner": "kubernetes.io/no-provisioner" }))], "n2")]
#[case::attach_limit(&[claim("d", "late", ""), class("late", "WaitForFirstConsumer", json!({})), claim("e", "late", "w"),
    volume("w", "a"), running("q", "n1", "q", uses(&["e"])), limit("n1", 1), limit("n2", 0)], "n3")]
#[case::a_shared_volume_counts_once(&[claim("d", "late", "w"), volume("w", "a"), limit("n1", 1),
    running("q", "n1", "q", uses(&["d"]))], "n1")]
#[case::a_node_that_is_over_its_limit_takes_pods_that_add_nothing(&[claim("d", "late", "w"), volume("w", "a"),
    limit("n1", 0), running("q", "n1", "q", uses(&["d"]))], "n1")]
#[case::one_pod_only(&[{ let mut d = claim("d", "late", "w"); d["spec"]["accessModes"] = json!(["ReadWriteOncePod"]); d },
    volume("w", "a"), running("q", "n1", "q", uses(&["d"]))],
    "3 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode.")]
fn volumes(#[case] objects: &[Value], #[case] expected: &str) {
    check(objects, uses(&["d"]), expected);
}

#[test]
fn an_empty_cluster_has_its_own_message() {
    let verdict = Verdicts::default().decide(&pod(json!({})), &ClusterView::default());
    assert_eq!(verdict.unwrap_err(), "no nodes available to schedule pods");
}

#[test]
fn equal_pods_have_one_signature() {
    let info = |name: &str, amount: &str| {
        let pod =
            pod_with(json!({ "metadata": { "name": name, "labels": { "app": "p" } }, "spec": cpu(amount) }));
        PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap()))
    };
    assert_eq!(info("a", "1").signature, info("b", "1").signature);
    assert_ne!(info("a", "1").signature, info("a", "2").signature);
    assert_eq!(info("a", "1").key, Key::new("default", "a"));
}

#[rstest]
#[case::no_more_than_needed("1", 5, Some("low"))]
#[case::all_lower_ones("1950m", 5, Some("low lower"))]
#[case::equals_stay("1", 1, None)]
fn pods_of_lower_priority_are_preempted(
    #[case] cpu: &str,
    #[case] priority: i32,
    #[case] expected: Option<&str>,
) {
    let with_cpu = |name: &str, cpu: &str, priority: i32, spec: Value| {
        let mut pod = json!({"kind": "Pod", "metadata": {"name": name}, "spec": spec});
        pod["spec"]["priority"] = priority.into();
        pod["spec"]["containers"] = json!([{"name": "a", "resources": {"requests": {"cpu": cpu}}}]);
        pod
    };
    let bound = || json!({"nodeName": "n3"});
    let cluster = cluster(&[with_cpu("low", "1500m", 1, bound()), with_cpu("lower", "100m", 0, bound())]);
    let pod = with_cpu("new", cpu, priority, json!({"nodeSelector": {"disk": "local"}}));
    let pod = PodInfo::new(Arc::new(serde_json::from_value::<Pod>(named(pod)).unwrap()));
    let victims = preempt(&pod, &cluster).map(|found| {
        let names: Vec<String> = found.victims.iter().map(|victim| victim.key.name.clone()).collect();
        names.join(" ")
    });
    assert_eq!(victims.as_deref(), expected);
}

/// A pod that is nominated to `node`, with this priority and these CPUs, and the cluster with it.
#[rstest]
#[case::tried_first("n2", 0, "1", "a pod", Ok("n2"))]
#[case::unless_it_does_not_fit("n3", 0, "3", "a pod", Ok("n1"))]
#[case::a_node_that_is_gone("n9", 0, "1", "a pod", Ok("n1"))]
#[case::keeps_its_room("n3", 0, "1500m", "another pod", Err("Insufficient cpu"))]
#[case::of_a_higher_priority_too("n3", 9, "1500m", "another pod", Err("Insufficient cpu"))]
#[case::not_from_a_higher_priority("n3", -1, "1500m", "another pod", Ok("n3"))]
fn the_nominated_node_is_tried_first_and_keeps_its_room(
    #[case] node: &str,
    #[case] priority: i32,
    #[case] cpu: &str,
    #[case] tried: &str,
    #[case] expected: Result<&str, &str>,
) {
    let of = |name: &str, cpu: &str, priority: i32| {
        let spec = json!({"priority": priority, "containers":
            [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]});
        let mut pod = json!({"metadata": {"name": name, "uid": name}, "spec": spec});
        if name == "another" {
            pod["spec"]["nodeSelector"] = json!({"disk": "local"});
        }
        Arc::new(PodInfo::new(Arc::new(serde_json::from_value::<Pod>(named(pod)).unwrap())))
    };
    let nominated = of("nominated", cpu, priority);
    let mut cluster = cluster(&[]);
    if let Some(at) = cluster.nodes.iter().position(|known| known.name == node) {
        cluster.nodes[at].nominated.push(nominated.clone());
        cluster.nominated.insert(nominated.uid.clone(), at);
    }
    let pod = if tried == "a pod" { nominated } else { of("another", "1", 0) };
    let found = Verdicts::default().decide(&pod, &cluster).map(|place| cluster.nodes[place.at].name.clone());
    match expected {
        Ok(name) => assert_eq!(found.as_deref(), Ok(name)),
        Err(why) => assert!(found.as_ref().is_err_and(|text| text.contains(why)), "{found:?}"),
    }
}

#[test]
fn verdicts_on_equal_pods_are_those_of_a_new_look() {
    let mut cluster = cluster(&[taint("a", "NoSchedule")]);
    let mut verdicts = Verdicts::default();
    for bound in 0.. {
        let next = pod(cpu("1"));
        let verdict = verdicts.decide(&next, &cluster);
        assert_eq!(verdict, Verdicts::default().decide(&next, &cluster), "after {bound} pods");
        let Ok(place) = verdict else {
            assert!(bound > 2, "the others fill nodes");
            break;
        };
        cluster.assume(place.at, Arc::new(next));
        verdicts.pod_bound();
    }
}

#[test]
fn a_pod_is_due_until_it_was_tried_bound_or_deleted() {
    let pod = |uid: &str, node: Option<&str>| {
        let object = json!({"metadata": {"name": "a", "namespace": "n", "uid": uid}, "spec": {"containers": [], "nodeName": node}});
        Some(Object::Pod(Arc::new(serde_json::from_value(object).unwrap())))
    };
    let now = jiff::Timestamp::UNIX_EPOCH;
    let follow = |state: &mut BinderState, old: Option<Object>, new: Option<Object>| {
        state.follow(&Change { key: Key::new("n", "a"), old, new });
        state.has_due(now)
    };
    let wait = |state: &mut BinderState, changed: bool| {
        state.untried.remove("u");
        state.waiting.insert("u".to_owned(), Waiting { attempts: 1, not_before: now, tried: state.epoch });
        state.epoch += u64::from(changed);
        state.has_due(now)
    };
    let mut state = BinderState::default();
    assert!(follow(&mut state, None, pod("u", None)), "new");
    assert!(!wait(&mut state, false), "nothing that could help");
    assert!(!follow(&mut state, pod("u", None), pod("u", None)), "its status");
    assert!(wait(&mut state, true), "something changed");
    assert!(!follow(&mut state, pod("u", None), pod("u", Some("x"))), "bound by somebody else");
    assert!(follow(&mut state, pod("u", Some("x")), pod("v", None)), "recreated under its name");
    assert!(!follow(&mut state, pod("v", None), None), "deleted");
    assert!(follow(&mut state, None, pod("u", None)) && wait(&mut state, true), "waits again");
    assert!(!follow(&mut state, pod("u", None), None) && state.waiting.is_empty(), "deleted while it waits");
}

#[rstest]
#[case::cleared(Some("n"), None, true)]
#[case::changed(Some("n"), Some("m"), true)]
#[case::written(None, Some("n"), false)]
#[case::kept(Some("n"), Some("n"), false)]
fn the_room_of_a_nomination_that_is_cleared_may_help_other_pods(
    #[case] old: Option<&str>,
    #[case] new: Option<&str>,
    #[case] helps: bool,
) {
    let pod = |node: Option<&str>| {
        let object = json!({"metadata": {"name": "a", "uid": "u"}, "spec": {"containers": []}, "status": {"nominatedNodeName": node}});
        Some(Object::Pod(Arc::new(serde_json::from_value(object).unwrap())))
    };
    let change = Change { key: Key::new("n", "a"), old: pod(old), new: pod(new) };
    assert_eq!(super::may_help(&change), helps);
}

#[test]
fn a_pod_that_went_within_a_round_waits_for_nothing() {
    virtual_runtime().unwrap().block_on(async {
        let clock = TokioClock::new(jiff::Timestamp::UNIX_EPOCH);
        let server = fleetwright_fake_kube::Server::new(fleetwright_fake_kube::Config::new(
            Arc::new(|| jiff::Timestamp::UNIX_EPOCH),
            7,
        ));
        let ctx = Ctx::new(kube::Client::new(server.service(), "default"), Arc::new(clock), 7);
        let binder = Binder::default();
        let tried = pod(cpu("1"));
        let waits = || {
            binder.record_unschedulable(&ctx, &tried, 0);
            !binder.state().waiting.is_empty()
        };
        assert!(!waits(), "deleted");
        let mut bound = Pod::clone(&tried.pod);
        bound.spec.as_mut().unwrap().node_name = Some("n1".to_owned());
        bound.metadata.resource_version = Some("1".to_owned());
        ctx.cache.put(bound);
        assert!(!waits(), "bound");
        let mut pending = Pod::clone(&tried.pod);
        pending.metadata.resource_version = Some("2".to_owned());
        ctx.cache.put(pending);
        assert!(waits(), "still there");
    });
}
