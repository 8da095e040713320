//! Decisions of kubelets, as tables; and the queue without a client.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetwright_core::model::labels::{NOT_READY_TAINT, UNREACHABLE_TAINT};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    KubeletConfig, adopt,
    decide::{self, NextAction, NodeAct, NodeMemory, PodAct, PodMemory, PodNode},
    objects,
    queue::{Call, Key, KubeletQueue, Outcome},
    view::{NodeView, PodView},
};
use crate::api::{Bootstrap, CloudInstance, Defects, Lifecycle, Tags, WireTaint};

/// The given number of seconds after the start.
fn at(seconds: i64) -> Timestamp {
    "2026-01-01T00:00:00Z"
        .parse::<Timestamp>()
        .unwrap()
        .checked_add(SignedDuration::from_secs(seconds))
        .unwrap()
}

fn instance() -> CloudInstance {
    let text =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    CloudInstance {
        id: "kwok://n1".to_owned(),
        node_name: "n1".to_owned(),
        address: "10.1.2.3".to_owned(),
        tags: Tags::default(),
        offering: None,
        price_nanos: 1,
        labels: text(&[("kubernetes.io/arch", "arm64"), ("kubernetes.io/os", "linux")]),
        bootstrap: Bootstrap {
            labels: text(&[("team", "a")]),
            taints: vec![WireTaint {
                key: "karpenter.sh/unregistered".to_owned(),
                value: String::new(),
                effect: "NoExecute".to_owned(),
            }],
            ..Bootstrap::default()
        },
        capacity: text(&[("cpu", "4"), ("memory", "16Gi")]),
        allocatable: text(&[("cpu", "3900m"), ("memory", "15Gi")]),
        state: Lifecycle::Running,
        launched_at: at(0),
        joins_at: Some(at(10)),
        joined: false,
        interrupted_at: None,
        terminating_since: None,
        defects: Defects::default(),
    }
}

#[rstest]
#[case::node_and_claim_are_gone(Lifecycle::Running, true, "other", "other", true)]
#[case::claim_is_left(Lifecycle::Running, true, "n1", "other", false)]
#[case::node_is_left(Lifecycle::Running, true, "other", "n1", false)]
#[case::not_joined_yet(Lifecycle::Running, false, "other", "other", false)]
#[case::terminating_already(Lifecycle::Terminating, true, "other", "other", false)]
fn an_instance_ends_with_the_objects_of_another_controller(
    #[case] state: Lifecycle,
    #[case] joined: bool,
    #[case] claim: &str,
    #[case] node: &str,
    #[case] ends: bool,
) {
    let instance = Arc::new(CloudInstance { state, joined, ..instance() });
    let claim = json!({"metadata": {"name": "c"}, "status": {"providerID": format!("kwok://{claim}")}});
    let node = json!({"metadata": {"name": node}, "spec": {"providerID": format!("kwok://{node}")}});
    let claims = [serde_json::from_value(claim).unwrap()];
    let nodes = [serde_json::from_value(node).unwrap()];
    let ended = adopt::ended(&[instance], &claims, &nodes);
    assert_eq!(ended, if ends { vec!["kwok://n1"] } else { vec![] });
}

fn config() -> KubeletConfig {
    KubeletConfig::without_leases()
}

/// A joined node; `ready` is the status of Ready since second 20.
fn node(ready: &str, taints: &[&str]) -> NodeView {
    NodeView::of(&node_object(ready, "NodeStatusUnknown", taints))
}

fn node_object(ready: &str, reason: &str, taints: &[&str]) -> Node {
    let taints: Vec<Value> = taints.iter().map(|key| json!({"key": key, "effect": "NoSchedule"})).collect();
    serde_json::from_value(json!({
        "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "7"},
        "spec": {"providerID": "kwok://n1", "taints": taints},
        "status": {
            "allocatable": {"cpu": "3900m"},
            "conditions": [{"type": "Ready", "status": ready, "reason": reason, "lastTransitionTime": at(20)}],
        },
    }))
    .unwrap()
}

fn memory() -> NodeMemory {
    NodeMemory { seen_at: Some(at(15)), silent_since: Some(at(100)), ..NodeMemory::default() }
}

#[rstest]
#[case::before_it_boots(Lifecycle::Running, None, 9, NextAction::At(at(10)))]
#[case::boots(Lifecycle::Running, None, 10, NextAction::Act(NodeAct::Join))]
#[case::pending(Lifecycle::Pending, None, 99, NextAction::Rest)]
#[case::ended_before_joining(Lifecycle::Terminating, None, 99, NextAction::Rest)]
#[case::not_ready_yet(Lifecycle::Running, Some(node("False", &[])), 19, NextAction::At(at(20)))]
#[case::becomes_ready(Lifecycle::Running, Some(node("False", &[])), 20, NextAction::Act(NodeAct::BecomeReady))]
#[case::recovers(Lifecycle::Running, Some(node("Unknown", &[])), 90, NextAction::Act(NodeAct::BecomeReady))]
#[case::leaves_the_taint_to_others(Lifecycle::Running, Some(node("True", &[NOT_READY_TAINT])), 22, NextAction::At(at(23)))]
#[case::untaints(Lifecycle::Running, Some(node("True", &[NOT_READY_TAINT])), 23, NextAction::Act(NodeAct::Untaint))]
#[case::content(Lifecycle::Running, Some(node("True", &["other"])), 50, NextAction::Rest)]
#[case::silent(Lifecycle::Terminating, Some(node("True", &[])), 149, NextAction::At(at(150)))]
#[case::lost(Lifecycle::Terminated, Some(node("True", &[])), 150, NextAction::Act(NodeAct::LoseContact))]
#[case::half_lost(Lifecycle::Terminated, Some(node("Unknown", &[])), 150, NextAction::Act(NodeAct::LoseContact))]
#[case::waits_for_removal(Lifecycle::Terminated, Some(node("Unknown", &[UNREACHABLE_TAINT])), 160, NextAction::At(at(220)))]
#[case::removed(Lifecycle::Terminated, Some(node("Unknown", &[UNREACHABLE_TAINT])), 220, NextAction::Act(NodeAct::Remove))]
#[case::not_removed_while_ending(Lifecycle::Terminating, Some(node("Unknown", &[UNREACHABLE_TAINT])), 220, NextAction::Rest)]
fn nodes(
    #[case] state: Lifecycle,
    #[case] node: Option<NodeView>,
    #[case] now: i64,
    #[case] expected: NextAction<NodeAct>,
) {
    let instance = CloudInstance { state, ..instance() };
    assert_eq!(decide::node(&config(), &instance, node.as_ref(), &memory(), at(now)), expected);
}

#[rstest]
#[case::healed("False", "KubeletNotReady", None, NextAction::Act(NodeAct::BecomeReady))]
#[case::healed_after_silence("Unknown", "NodeStatusUnknown", None, NextAction::Act(NodeAct::BecomeReady))]
#[case::set_by_others("Unknown", "", None, NextAction::Rest)]
#[case::set_by_others_with_a_reason("False", "Maintenance", None, NextAction::Rest)]
#[case::the_stage_keeps_any_reason("False", "KubeletNotReady", Some("unhealthy"), NextAction::Rest)]
#[case::another_stage("False", "KubeletNotReady", Some("healthy"), NextAction::Act(NodeAct::BecomeReady))]
fn conditions_of_other_clients_stay(
    #[case] ready: &str,
    #[case] reason: &str,
    #[case] stage: Option<&str>,
    #[case] expected: NextAction<NodeAct>,
) {
    let mut node = node_object(ready, reason, &[]);
    node.metadata.labels =
        stage.map(|stage| BTreeMap::from([("kwok.x-k8s.io/stage".to_owned(), stage.to_owned())]));
    let memory = NodeMemory { silent_since: None, ..memory() };
    let seen = NodeView::of(&node);
    assert_eq!(decide::node(&config(), &instance(), Some(&seen), &memory, at(90)), expected);
}

#[test]
fn special_nodes() {
    let decide = |instance: &CloudInstance,
                  node: Option<&NodeView>,
                  memory: &NodeMemory,
                  config: &KubeletConfig,
                  now| { decide::node(config, instance, node, memory, at(now)) };
    // A deleted Node is not recreated, and a broken instance never joins.
    let joined = CloudInstance { joined: true, ..instance() };
    assert_eq!(decide(&joined, None, &memory(), &config(), 99), NextAction::Rest);
    let broken = CloudInstance { joins_at: None, ..instance() };
    assert_eq!(decide(&broken, None, &memory(), &config(), 99), NextAction::Rest);
    // A broken kubelet does not become ready.
    let dead = NodeView { is_broken: true, ..node("False", &[]) };
    assert_eq!(decide(&instance(), Some(&dead), &memory(), &config(), 99), NextAction::Rest);
    // A finalizer holds a Node.
    let held = NodeView { has_finalizers: true, ..node("Unknown", &[UNREACHABLE_TAINT]) };
    let gone = CloudInstance { state: Lifecycle::Terminated, ..instance() };
    assert_eq!(decide(&gone, Some(&held), &memory(), &config(), 999), NextAction::Rest);
    // Leases are renewed at their interval.
    let leases = KubeletConfig { lease_interval: Some(std::time::Duration::from_secs(15)), ..config() };
    let ready = node("True", &[]);
    assert_eq!(decide(&instance(), Some(&ready), &memory(), &leases, 30), NextAction::Act(NodeAct::Renew));
    let renewed = NodeMemory { renewed_at: Some(at(30)), ..memory() };
    assert_eq!(decide(&instance(), Some(&ready), &renewed, &leases, 44), NextAction::At(at(45)));
    // A late taint is added once.
    let taint = WireTaint { key: "late".to_owned(), value: String::new(), effect: "NoSchedule".to_owned() };
    let defects = Defects { late_taint: Some((taint.clone(), 30_000)), ..Defects::default() };
    let late = CloudInstance { defects, ..instance() };
    assert_eq!(decide(&late, Some(&ready), &memory(), &config(), 44), NextAction::At(at(45)));
    assert_eq!(
        decide(&late, Some(&ready), &memory(), &config(), 45),
        NextAction::Act(NodeAct::LateTaint(taint))
    );
    let done = NodeMemory { late_tainted: true, ..memory() };
    assert_eq!(decide(&late, Some(&ready), &done, &config(), 45), NextAction::Rest);
}

fn pod(change: impl FnOnce(&mut Value)) -> PodView {
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "p-uid"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Pending"},
    });
    change(&mut pod);
    PodView::of(&serde_json::from_value::<Pod>(pod).unwrap()).unwrap()
}

fn running(pod: &mut Value) {
    pod["status"] = json!({
        "phase": "Running", "startTime": at(5), "conditions": [{"type": "Ready", "status": "True"}],
    });
}

fn deleted(grace: i64) -> impl FnOnce(&mut Value) {
    move |pod| {
        running(pod);
        pod["metadata"]["deletionTimestamp"] = json!(at(60));
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
    }
}

fn runs_for(text: &'static str) -> impl FnOnce(&mut Value) {
    move |pod| {
        running(pod);
        pod["metadata"]["annotations"] = json!({"fleetwright.dev/run-for": text});
    }
}

fn half_past(seconds: i64) -> Timestamp {
    crate::time::later(at(seconds), std::time::Duration::from_millis(500))
}

/// Deleted with this grace period, of which at most 30 s are left; its preStop hook sleeps.
fn sleeps(seconds: i64, grace: i64) -> impl FnOnce(&mut Value) {
    move |pod| {
        deleted(grace)(pod);
        pod["spec"]["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": seconds}}});
    }
}

fn execs(line: &'static str) -> impl FnOnce(&mut Value) {
    move |pod| {
        deleted(60)(pod);
        let command = ["/bin/sh", "-c", line];
        pod["spec"]["containers"][0]["lifecycle"] = json!({"preStop": {"exec": {"command": command}}});
    }
}

fn unhealthy(phase: &'static str, ready: &'static str) -> impl FnOnce(&mut Value) {
    move |pod| {
        pod["metadata"]["labels"] = json!({"kwok.x-k8s.io/stage": "unhealthy"});
        pod["status"] = json!({"phase": phase, "conditions": [{"type": "Ready", "status": ready}]});
    }
}

fn fails(policy: &'static str) -> impl FnOnce(&mut Value) {
    move |pod| {
        running(pod);
        pod["spec"]["restartPolicy"] = json!(policy);
        pod["metadata"]["labels"] = json!({"pod-container-running-failed.stage.kwok.x-k8s.io": "true"});
        pod["metadata"]["annotations"] =
            json!({"pod-container-running-failed.stage.kwok.x-k8s.io/delay": "10s"});
    }
}

#[rstest]
#[case::starts(pod(|_| {}), PodNode::Ready, 2, NextAction::Act(PodAct::Start))]
#[case::waits_for_its_node(pod(|_| {}), PodNode::NotReady, 2, NextAction::Rest)]
#[case::runs(pod(running), PodNode::Ready, 50, NextAction::Rest)]
#[case::ends_slowly(
    pod(deleted(30)),
    PodNode::Ready,
    31,
    NextAction::At(crate::time::later(at(30), std::time::Duration::from_millis(1500)))
)]
#[case::ends(pod(deleted(30)), PodNode::Ready, 32, NextAction::Act(PodAct::Finish))]
#[case::ends_at_once(pod(deleted(0)), PodNode::Ready, 30, NextAction::Act(PodAct::Finish))]
#[case::a_pre_stop_hook_sleeps(pod(sleeps(20, 60)), PodNode::Ready, 51, NextAction::At(half_past(51)))]
#[case::until_the_grace_period_ends(pod(sleeps(90, 25)), PodNode::Ready, 54, NextAction::At(at(55)))]
#[case::or_is_shortened(pod(sleeps(90, 300)), PodNode::Ready, 60, NextAction::Act(PodAct::Finish))]
#[case::a_command_sleeps(pod(execs("sleep 20")), PodNode::Ready, 51, NextAction::At(half_past(51)))]
#[case::another_command_takes_no_time(
    pod(execs("nginx -s quit")),
    PodNode::Ready,
    31,
    NextAction::At(half_past(31))
)]
#[case::unhealthy_starts(
    pod(unhealthy("Pending", "False")),
    PodNode::Ready,
    2,
    NextAction::Act(PodAct::Start)
)]
#[case::unhealthy_is_never_ready(pod(unhealthy("Running", "False")), PodNode::Ready, 2, NextAction::Rest)]
#[case::becomes_unhealthy(
    pod(unhealthy("Running", "True")),
    PodNode::Ready,
    2,
    NextAction::Act(PodAct::Start)
)]
#[case::a_failing_job_runs(pod(fails("Never")), PodNode::Ready, 14, NextAction::At(at(15)))]
#[case::a_failing_job_fails(pod(fails("Never")), PodNode::Ready, 15, NextAction::Act(PodAct::Fail))]
#[case::what_is_restarted_does_not_fail(pod(fails("Always")), PodNode::Ready, 15, NextAction::Rest)]
#[case::a_job_runs(pod(runs_for("30s")), PodNode::Ready, 34, NextAction::At(at(35)))]
#[case::a_job_succeeds(pod(runs_for("30s")), PodNode::Ready, 35, NextAction::Act(PodAct::Succeed))]
#[case::nonsense_runs_for_ever(pod(runs_for("soon")), PodNode::Ready, 99, NextAction::Rest)]
#[case::an_orphan_waits(pod(running), PodNode::Gone, 60, NextAction::At(at(90)))]
#[case::an_orphan_goes(pod(running), PodNode::Gone, 90, NextAction::Act(PodAct::Finish))]
#[case::a_deleted_orphan_goes_at_once(pod(deleted(30)), PodNode::Gone, 50, NextAction::Act(PodAct::Finish))]
fn pods(#[case] pod: PodView, #[case] host: PodNode, #[case] now: i64, #[case] expected: NextAction<PodAct>) {
    let memory = PodMemory {
        bound_at: at(0),
        deleting_at: Some(at(30)),
        orphaned_at: Some(at(50)),
        finished_at: None,
    };
    assert_eq!(decide::pod(&config(), &pod, host, &memory, at(now)), expected);
}

#[test]
fn deletion_of_a_pod_with_a_finalizer_is_retried_slowly() {
    let memory = PodMemory {
        bound_at: at(0),
        deleting_at: Some(at(30)),
        orphaned_at: None,
        finished_at: Some(at(40)),
    };
    let decide = |now| decide::pod(&config(), &pod(deleted(0)), PodNode::Ready, &memory, at(now));
    assert_eq!((decide(41), decide(70)), (NextAction::At(at(70)), NextAction::Act(PodAct::Finish)));
}

#[test]
fn objects_have_the_expected_fields() {
    let defects = Defects { memory_percent: Some(50), ..Defects::default() };
    let joined = objects::node(&CloudInstance { defects, ..instance() }, at(10));
    let node: Node = serde_json::from_value(joined).unwrap();
    let view = NodeView::of(&node);
    assert_eq!((view.provider_id.as_str(), view.is_ready()), ("kwok://n1", false));
    assert!(view.has_taint("karpenter.sh/unregistered") && view.has_allocatable);
    let status = node.status.unwrap();
    assert_eq!(status.capacity.unwrap()["memory"].0, "8Gi");
    assert_eq!(status.node_info.unwrap().architecture, "arm64");
    let labels = node.metadata.labels.unwrap();
    assert_eq!((labels["team"].as_str(), labels["kubernetes.io/os"].as_str()), ("a", "linux"));
    let patch = objects::pod_status(&pod(|_| {}), PodAct::Start, "10.1.2.3", at(3));
    let mut full = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": []}});
    full["status"] = patch["status"].clone();
    let started = PodView::of(&serde_json::from_value::<Pod>(full.clone()).unwrap()).unwrap();
    assert!(started.ready && started.phase == "Running" && started.started == Some(at(3)));
    full["status"] = objects::pod_status(&started, PodAct::Fail, "10.1.2.3", at(9))["status"].clone();
    let failed = PodView::of(&serde_json::from_value::<Pod>(full).unwrap()).unwrap();
    assert!(!failed.ready && failed.phase == "Failed");
    let sick = objects::pod_status(&pod(unhealthy("Pending", "False")), PodAct::Start, "10.1.2.3", at(3));
    let ready = sick.pointer("/status/conditions/2").unwrap();
    assert_eq!((&sick["status"]["phase"], &ready["status"]), (&json!("Running"), &json!("False")));
    let seen = self::node("True", &[NOT_READY_TAINT, "kept"]);
    let untainted = objects::untaint(&seen);
    assert_eq!(untainted["spec"]["taints"].as_array().unwrap().len(), 1);
    assert_eq!(untainted["metadata"]["resourceVersion"], "7");
}

/// The next call of the queue, as text.
fn next(queue: &mut KubeletQueue, now: i64) -> Option<(Key, Call, String)> {
    let (key, call) = queue.next_call(at(now))?;
    let words = match &call {
        Call::Node { act, .. } => format!("{act:?}"),
        Call::Pod { act, .. } => format!("{act:?}"),
    };
    Some((key, call, words))
}

#[test]
fn an_instance_from_launch_to_removal() {
    let mut queue = KubeletQueue::new(config());
    queue.on_instance(Arc::new(instance()), at(0));
    assert!(next(&mut queue, 0).is_none(), "nothing is known of Nodes yet");
    queue.nodes_complete(&BTreeSet::new(), at(0));
    assert!(next(&mut queue, 0).is_none());
    assert_eq!(queue.next_due(), Some(at(10)));
    let (key, call, words) = next(&mut queue, 10).unwrap();
    assert_eq!((words.as_str(), queue.calls()), ("Join", 1));
    // A failed call is retried after a backoff and not earlier, whatever is observed meanwhile.
    assert_eq!(queue.on_outcome(&key, &call, Outcome::Failed, at(10)), None);
    queue.on_instance(Arc::new(instance()), at(10));
    assert!(next(&mut queue, 10).is_none());
    let (key, call, words) = next(&mut queue, 11).unwrap();
    assert_eq!(words, "Join");
    assert_eq!(queue.on_outcome(&key, &call, Outcome::Done, at(11)).as_deref(), Some("kwok://n1"));
    queue.on_instance(Arc::new(CloudInstance { joined: true, ..instance() }), at(11));
    queue.on_node("n1", Some(node("False", &[])), at(11));
    let key_of_pod = Key::Pod("default".to_owned(), "p".to_owned());
    queue.on_pod(key_of_pod.clone(), Some(pod(|_| {})), at(12));
    assert!(next(&mut queue, 12).is_none());
    let (key, call, words) = next(&mut queue, 16).unwrap();
    assert_eq!(words, "BecomeReady");
    queue.on_node("n1", Some(node("True", &[])), at(16));
    queue.on_outcome(&key, &call, Outcome::Done, at(16));
    let (key, call, words) = next(&mut queue, 16).unwrap();
    assert_eq!((&key, words.as_str()), (&key_of_pod, "Start"));
    queue.on_outcome(&key, &call, Outcome::Done, at(16));
    queue.on_pod(key_of_pod, Some(pod(running)), at(17));
    assert!(next(&mut queue, 90).is_none());
    // The instance is gone: the node is lost, its pod is deleted, the Node is deleted.
    queue.on_instance(
        Arc::new(CloudInstance { joined: true, state: Lifecycle::Terminated, ..instance() }),
        at(100),
    );
    assert!(next(&mut queue, 100).is_none());
    let mut done = Vec::new();
    for now in [140, 150, 220] {
        while let Some((key, call, words)) = next(&mut queue, now) {
            done.push(format!("{now} {words}"));
            match words.as_str() {
                "Finish" => queue.on_pod(key.clone(), None, at(now)),
                "Remove" => queue.on_node("n1", None, at(now)),
                _ => queue.on_node("n1", Some(node("Unknown", &[UNREACHABLE_TAINT])), at(now)),
            }
            queue.on_outcome(&key, &call, Outcome::Done, at(now));
        }
    }
    assert_eq!(done, ["140 Finish", "150 LoseContact", "220 Remove"]);
    assert!(next(&mut queue, 500).is_none());
    assert_eq!(queue.next_due(), None);
}
