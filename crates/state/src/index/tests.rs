//! The index as controllers read it: joins, writes that are visible at once, and late watch events.

mod admission;
mod classes;
mod convergence;
mod launches;
mod nominated_nodes;
mod tables;

use fleetwright_core::{
    model::{InstanceType, Requirement, Resources, labels},
    testing::instance_type,
};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{LimitRange, Node, PersistentVolume, PersistentVolumeClaim},
    storage::v1::{StorageClass, VolumeAttachment},
};
use serde_json::{Value, json};

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_750_000_000 + seconds).unwrap()
}

fn index() -> Index {
    let class =
        NodeClassRef { group: "karpenter.kwok.sh".into(), kind: "KWOKNodeClass".into(), name: "".into() };
    Index::new(Arc::default(), vec![class])
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn pod(name: &str, version: u64, node: &str) -> KubePod {
    let status = if node.is_empty() {
        json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]})
    } else {
        json!({"phase": "Running"})
    };
    object(json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": version.to_string()},
        "spec": {"nodeName": node, "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]},
        "status": status
    }))
}

fn node(name: &str, version: u64) -> Node {
    object(json!({
        "metadata": {"name": name, "resourceVersion": version.to_string(), "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {"providerID": format!("fake://{name}")},
        "status": {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "7"}}
    }))
}

fn claim(name: &str, version: u64, instance: &str, pods: &str) -> api::NodeClaim {
    object(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "labels": {"karpenter.sh/nodepool": "default"},
            "annotations": {"fleetwright.dev/nominated-pods": pods}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["small", "large"]}],
            "resources": {"requests": {"cpu": "3"}}
        },
        "status": {"providerID": instance}
    }))
}

fn catalog() -> Arc<Catalog> {
    let types: Vec<Arc<InstanceType>> = [("tiny", 1), ("small", 4), ("large", 16), ("other", 8)]
        .map(|(name, cpus)| instance_type(name, cpus, 8).build())
        .into();
    Arc::new(Catalog::new(types))
}

/// `name: pods; available cpu`, for each node.
fn nodes(index: &mut Index) -> Vec<String> {
    let snapshot = index.snapshot(at(0));
    let line = |node: &Arc<fleetwright_core::model::StateNode>| {
        let pods: Vec<&str> = node.pods.iter().map(|pod| &*pod.id.name).collect();
        format!("{}: {}; {}", node.name(), pods.join(" "), node.available().cpu())
    };
    snapshot.nodes.iter().map(line).collect()
}

#[test]
fn claim_and_node_are_one_node_by_provider_id() {
    let mut index = index();
    index.apply(node("n", 1));
    index.apply(pod("p", 2, "n"));
    assert_eq!(nodes(&mut index), ["n: p; 6000"], "an unmanaged node");
    index.apply(claim("c", 3, "fake://n", ""));
    assert_eq!(nodes(&mut index), ["c: p; 6000"], "named by its claim until it is registered");
    assert_eq!(index.node_of_claim("c").unwrap().metadata.name.as_deref(), Some("n"));
    assert_eq!(index.claim_of_node("n").unwrap().metadata.name.as_deref(), Some("c"));
    index.delete(&claim("c", 4, "fake://n", ""));
    assert_eq!(nodes(&mut index), ["n: p; 6000"]);
}

#[test]
fn a_claim_that_is_not_launched_is_room_of_the_smallest_type_that_it_allows() {
    let mut index = index();
    index.apply(claim("c", 1, "", ""));
    assert_eq!(nodes(&mut index), ["c: ; 0"]);
    index.set_catalog(&"default".into(), Some(catalog()));
    assert_eq!(nodes(&mut index), ["c: ; 4000"]);
    assert_eq!(index.usage_at_most("default").0.cpu(), 16_000, "limits count the largest");
}

#[test]
fn a_node_that_joins_before_its_claim_has_the_instance_counts_once() {
    let mut index = index();
    let mut joining = node("n", 1);
    joining.spec.as_mut().unwrap().taints =
        Some(object(json!([{"key": labels::UNREGISTERED_TAINT, "effect": "NoExecute"}])));
    index.apply(joining);
    index.apply(claim("c", 2, "", ""));
    assert_eq!(nodes(&mut index), ["c: ; 0"]);
}

#[test]
fn own_writes_are_visible_at_once_and_old_news_does_not_undo_them() {
    let mut index = index();
    let written = claim("c", 10, "fake://n", "");
    assert!(index.apply(written).is_some_and(|change| change.is_created()));
    assert!(index.apply(claim("c", 9, "", "")).is_none(), "an older watch event");
    assert!(index.claim_model("c").unwrap().provider_id.is_some());
    assert!(index.delete(&claim("c", 12, "", "")).is_some());
    assert!(index.apply(claim("c", 11, "", "")).is_none(), "a late answer does not bring it back");
    assert!(index.apply(claim("c", 13, "", "")).is_some(), "a new one of the name does");
    assert!(index.delete(&claim("c", 12, "", "")).is_none(), "and the old deletion does not take it");
}

#[test]
fn a_list_takes_away_what_it_does_not_have_but_for_what_is_newer() {
    let mut index = index();
    for (name, version) in [("old", 5), ("new", 20)] {
        index.apply(claim(name, version, "", ""));
    }
    let changes = index.reset(vec![claim("listed", 8, "", "")], "10", at(0));
    let changed: Vec<(String, bool)> = changes.iter().map(|c| (c.key.to_string(), c.is_deleted())).collect();
    assert_eq!(changed, [("old".to_owned(), true), ("listed".to_owned(), false)]);
    assert!(index.claim("new").is_some(), "written after the list was begun");
    assert_eq!(index.last_progress(WatchedKind::NodeClaim), Some(at(0)));
}

#[test]
fn nominations_are_leases() {
    let mut index = index();
    index.apply(node("n", 1));
    index.apply(claim("c", 2, "fake://n", ""));
    for (name, version) in [("a", 3), ("b", 4), ("gone", 5), ("ends", 6)] {
        index.apply(pod(name, version, ""));
        index.nominate(format!("uid-{name}").into(), "c", at(if name == "ends" { 1 } else { 20 }));
    }
    let nominated = |index: &mut Index, now| {
        let snapshot = index.snapshot(now);
        snapshot.nodes[0].nominations.iter().map(|n| n.pod.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(nominated(&mut index, at(0)), "uid-a uid-b uid-ends uid-gone");
    assert_eq!(nominated(&mut index, at(1)), "uid-a uid-b uid-gone", "a lease ends");
    index.apply(pod("a", 7, "n"));
    index.delete(&pod("gone", 8, ""));
    assert_eq!(nominated(&mut index, at(2)), "uid-b", "bound and gone pods release theirs");
}

/// A pod that kube-scheduler has refused in these words.
fn refused(name: &str, version: u64, words: &str) -> KubePod {
    object(json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": version.to_string()},
        "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words},
        ]}
    }))
}

/// A cluster with an initialized node, and whether the pod is nominated to it.
fn leased(ready: bool) -> (Index, impl Fn(&mut Index, i64) -> bool) {
    let mut index = index();
    index.apply(node("n", 1));
    let mut node = claim("c", 2, "fake://n", "");
    if ready {
        let conditions = json!([{"type": "Initialized", "status": "True", "reason": "Initialized", "message": "",
            "lastTransitionTime": "2025-01-01T00:00:00Z"}]);
        let mut value = serde_json::to_value(&node).unwrap();
        value["status"]["conditions"] = conditions;
        node = object(value);
    }
    index.apply(node);
    index.apply(refused("p", 3, "0/1 nodes are available"));
    let pass = |index: &mut Index, seconds: i64| {
        let granted = index.nominate("uid-p".into(), "c", at(seconds + 20));
        assert_eq!(granted, !index.snapshot(at(seconds)).nodes[0].nominations.is_empty());
        granted
    };
    (index, pass)
}

#[test]
fn a_lease_on_a_node_that_is_there_is_renewed_so_often_only() {
    let (mut index, pass) = leased(true);
    let held = (0..20).take_while(|n| pass(&mut index, n * 10)).count();
    assert_eq!(held, 5, "the first, and four renewals");
    assert!(!pass(&mut index, 9000), "not later either");
    // A pod that still runs elsewhere has not been tried.
    index.apply(pod("q", 9, "m"));
    for seconds in (0..200).step_by(10) {
        index.nominate("uid-q".into(), "c", at(seconds + 20));
        assert!(!index.snapshot(at(seconds)).nodes[0].nominations.is_empty(), "{seconds}");
    }
    let (mut index, pass) = leased(false);
    assert_eq!(
        (0..20).take_while(|n| pass(&mut index, n * 10)).count(),
        20,
        "a node that starts is waited for"
    );
}

#[test]
fn a_refusal_ends_a_lease() {
    let (mut index, pass) = leased(true);
    assert!(pass(&mut index, 0));
    index.apply(refused("p", 4, "0/2 nodes are available"));
    assert!(pass(&mut index, 10), "kube-scheduler rejected the pod while the node became ready");
    index.apply(refused("p", 5, "0/2 nodes are available"));
    assert!(!index.snapshot(at(11)).nodes[0].nominations.is_empty(), "the same words");
    index.apply(refused("p", 6, "0/2 nodes are available: 1 Insufficient cpu"));
    assert!(index.snapshot(at(12)).nodes[0].nominations.is_empty());
    assert!(!pass(&mut index, 20), "nor is it given again");
    // The pod may be nominated for another node too.
    index.apply(claim("d", 7, "", ""));
    index.nominate("uid-p".into(), "d", at(60));
    assert_eq!(index.lease_of(&"uid-p".into()).map(|(target, _)| &**target), Some("d"));
}

#[test]
fn a_command_is_one_entry() {
    let mut index = index();
    index.apply(claim("a", 1, "fake://a", ""));
    index.apply(claim("b", 2, "fake://b", ""));
    let command = CommandIntent { candidates: vec!["a".into(), "b".into()], replacements: vec!["c".into()] };
    index.begin_command("1", command);
    let marked =
        |index: &mut Index| index.snapshot(at(0)).nodes.iter().filter(|node| node.is_deleting()).count();
    assert_eq!((marked(&mut index), index.intents().replaces("c").is_some()), (2, true));
    index.end_command("1");
    assert_eq!(marked(&mut index), 0);
}

#[test]
fn pods_are_nominated_to_a_nodeclaim_until_it_is_initialized() {
    let mut index = index();
    let nominated = |index: &mut Index| index.snapshot(at(0)).nominated.len();
    index.apply(claim("c", 1, "", "default/a:uid-a,default/b:uid-b,nonsense"));
    assert_eq!(nominated(&mut index), 2);
    assert!(index.has_claim_in_flight(&"uid-b".into()));
    let mut initialized = claim("c", 2, "fake://c", "default/a:uid-a");
    let now =
        json!([{"type": "Initialized", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}]);
    initialized.status.as_mut().unwrap().conditions = object(now);
    index.apply(initialized);
    assert_eq!(nominated(&mut index), 0);
}

#[test]
fn one_object_that_means_nothing_does_not_hide_the_others() {
    let mut index = index();
    let mut bad = pod("bad", 1, "");
    bad.spec.as_mut().unwrap().containers[0].resources =
        Some(object(json!({"requests": {"memory": "9E9E"}})));
    index.apply(bad);
    index.apply(pod("good", 2, ""));
    let pending: Vec<String> = index.snapshot(at(0)).pending.iter().map(|pod| pod.id.to_string()).collect();
    assert_eq!(pending, ["default/good"]);
    let (key, why) = index.invalid().iter().next().unwrap();
    assert_eq!(key.1.to_string(), "default/bad");
    assert!(why.to_string().contains("9E9E"));
    index.apply(pod("bad", 3, ""));
    assert!(index.invalid().is_empty());
}

/// Invalid objects that run are in the index; only plans exclude them.
#[test]
fn a_running_pod_that_means_nothing_stays_on_its_node() {
    let mut index = index();
    index.apply(claim("a", 1, "fake://a", "a"));
    index.apply(node("a", 2));
    let terms = json!([
        {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]},
        {"matchExpressions": [{"key": "generation", "operator": "Gt", "values": ["third"]}]},
    ]);
    let mut odd = pod("odd", 3, "a");
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    odd.spec.as_mut().unwrap().affinity = Some(object(json!({"nodeAffinity": required})));
    index.apply(odd.clone());
    let snapshot = index.snapshot(at(0));
    let [held] = &*snapshot.nodes[0].pods else { panic!("{:?}", snapshot.nodes[0].pods) };
    assert!(held.unreadable.as_deref().is_some_and(|why| why.contains("generation")), "{held:?}");
    assert!(held.requests().cpu() > 0 && held.spec.required_node_terms.is_empty());
    odd.spec.as_mut().unwrap().node_name = None;
    odd.metadata.resource_version = Some("4".to_owned());
    index.apply(odd);
    let snapshot = index.snapshot(at(0));
    assert!(snapshot.nodes[0].pods.is_empty() && snapshot.pending.is_empty());
}

#[test]
fn classes_of_others_are_not_ours() {
    let mut index = index();
    let mut foreign = claim("c", 1, "fake://n", "");
    foreign.spec.node_class_ref.kind = "EC2NodeClass".to_owned();
    index.apply(foreign);
    index.apply(node("n", 2));
    assert_eq!(nodes(&mut index), ["n: ; 7000"]);
    assert!(index.claim("c").is_some() && index.claim_model("c").is_none());
}

#[test]
fn snapshots_share_what_did_not_change() {
    let mut index = index();
    for n in 0..3 {
        index.apply(node(&format!("n{n}"), n + 1));
    }
    let before = index.snapshot(at(0));
    assert!(Arc::ptr_eq(&before, &index.snapshot(at(0))), "nothing happened at all");
    let later = index.snapshot(at(1));
    assert_eq!((later.epoch, later.taken_at), (before.epoch, at(1)));
    index.apply(pod("p", 9, "n1"));
    let after = index.snapshot(at(2));
    let shared: Vec<bool> = before.nodes.iter().zip(&after.nodes).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
    assert_eq!(shared, [true, false, true]);
    assert!(after.epoch > before.epoch);
}

#[test]
fn volumes_follow_their_class_and_volume() {
    let mut index = index();
    let pvc = |version: u64, volume: &str| -> PersistentVolumeClaim {
        object(json!({
            "metadata": {"name": "data", "namespace": "default", "resourceVersion": version.to_string(),
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"storageClassName": "fast", "volumeName": volume}
        }))
    };
    let class = |version: u64, mode: &str| -> StorageClass {
        object(
            json!({"metadata": {"name": "fast", "resourceVersion": version.to_string()}, "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": mode, "allowedTopologies": [{"matchLabelExpressions": [
                {"key": "failure-domain.beta.kubernetes.io/zone", "values": ["z1"]}]}]}),
        )
    };
    let id = NamespacedName::new("default", "data");
    let state = |index: &Index| {
        let claim = index.volume_claim(&id).unwrap();
        let topology: Vec<String> = claim.topology.iter().flatten().map(Requirement::to_string).collect();
        format!("{:?} {}", claim.state, topology.join(","))
    };
    index.apply(pvc(1, ""));
    assert_eq!(
        state(&index),
        "Broken(\"storageclass fast of claim default/data does not exist: create it\") "
    );
    index.apply(class(2, "Immediate"));
    assert_eq!(state(&index), "UnboundImmediate ");
    index.apply(class(3, "WaitForFirstConsumer"));
    assert_eq!(state(&index), "WaitsForConsumer topology.kubernetes.io/zone In [z1]");
    index.apply(pvc(4, "pv"));
    assert_eq!(
        state(&index),
        "Broken(\"persistentvolume pv of claim default/data does not exist: create it\") "
    );
    let pv: PersistentVolume = object(json!({"metadata": {"name": "pv", "resourceVersion": "5"}, "spec": {
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z2"]}]}]}}}}));
    index.apply(pv);
    assert_eq!(state(&index), "Bound topology.kubernetes.io/zone In [z2]");
    assert_eq!(index.volume_claim(&id).unwrap().handle, "vol-1".into());
}

#[test]
fn volumes_that_are_being_attached_are_known_by_their_handle() {
    let mut index = index();
    index.apply(node("n", 1));
    index.apply(object::<PersistentVolume>(json!({
        "metadata": {"name": "pv", "resourceVersion": "2"},
        "spec": {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}}
    })));
    let attachment = |name: &str, version: u64, volume: &str| -> VolumeAttachment {
        object(json!({
            "metadata": {"name": name, "resourceVersion": version.to_string()},
            "spec": {"attacher": "ebs.csi.aws.com", "nodeName": "n", "source": {"persistentVolumeName": volume}}
        }))
    };
    index.apply(attachment("a", 3, "pv"));
    index.apply(attachment("b", 4, "unknown"));
    let attached = |index: &mut Index| -> Vec<String> {
        index.snapshot(at(0)).nodes[0].attached.iter().map(|(_, handle)| handle.to_string()).collect()
    };
    assert_eq!(attached(&mut index), ["unknown", "vol-1"]);
    index.delete(&attachment("b", 5, "unknown"));
    assert_eq!(attached(&mut index), ["vol-1"]);
}

#[test]
fn a_claim_that_is_not_launched_is_charged_as_the_largest_that_it_may_become() {
    let mut index = index();
    index.set_catalog(&"default".into(), Some(catalog()));
    index.apply(claim("c", 1, "", ""));
    let snapshot = index.snapshot(at(0));
    let node = &snapshot.nodes[0];
    assert_eq!((node.capacity().cpu(), node.charge().cpu()), (4000, 16_000));
    assert_eq!(snapshot.usage("default").0.cpu(), index.usage_at_most("default").0.cpu());
}

#[test]
fn a_disrupted_node_counts_until_its_replacement_is_initialized() {
    let mut index = index();
    for name in ["a", "b", "c"] {
        index.apply(claim(name, 1, "", ""));
    }
    let count = |index: &Index| index.usage_at_most("default").1;
    let names = |names: &[&str]| names.iter().map(|name| ClaimName::from(*name)).collect();
    index.begin_command("one", CommandIntent { candidates: names(&["a", "b"]), replacements: names(&["d"]) });
    assert_eq!(count(&index), 3, "the command may be taken back");
    index.apply(claim("d", 1, "", ""));
    assert_eq!(count(&index), 3, "one replacement makes room for itself");
    index.end_command("one");
    assert_eq!(count(&index), 4);
}

#[test]
fn room_that_is_kept_for_a_claim_counts_until_it_is_written_and_replaces_as_the_claim_does() {
    let mut index = index();
    index.apply(claim("a", 1, "", ""));
    let names = |names: &[&str]| names.iter().map(|name| ClaimName::from(*name)).collect::<Vec<_>>();
    let count = |index: &Index| index.usage_at_most("default").1;
    let of = |cpu: i64| Resources::of(cpu, 0);
    index.reserve("d", "default", of(4000));
    index.reserve("x", "other", of(4000));
    assert_eq!((count(&index), index.members("default")), (2, 2));
    let gone = names(&["a"]).into_iter().collect();
    assert_eq!(
        index.usage_without("default", &gone),
        (of(4000), 1),
        "a command counts without what it takes"
    );
    index.begin_command("one", CommandIntent { candidates: names(&["a"]), replacements: names(&["d"]) });
    assert_eq!((count(&index), index.members("default")), (1, 2), "one goes for one that has its room");
    index.apply(claim("d", 1, "", ""));
    assert_eq!((count(&index), index.members("default")), (1, 2), "the NodeClaim exists, and counts once");
    index.end_command("one");
    index.reserve("e", "default", of(4000));
    assert_eq!(count(&index), 3);
    assert!(index.end_creation("e").is_empty());
    assert_eq!(count(&index), 2, "it was not written after all");
}

#[test]
fn who_waits_for_a_batch_is_returned_by_its_last_creation() {
    let mut index = index();
    let batch = "plan-0".into();
    assert!(!index.awaits_batch("a", &batch), "no NodeClaim of it is being created");
    for claim in ["a", "b"] {
        index.create_in_batch(claim, "plan-0");
    }
    index.create_in_batch("other", "plan-1");
    assert!(index.awaits_batch("a", &batch));
    assert!(index.awaits_batch("a", &batch), "once more");
    assert!(index.end_creation("a").is_empty(), "b is being created");
    assert!(index.end_creation("other").is_empty(), "nothing waits for it");
    assert_eq!(index.end_creation("b"), ["a".into()].into());
    assert!(!index.awaits_batch("a", &batch));
    assert!(index.end_creation("b").is_empty(), "they are returned once");
}

#[test]
fn overlays_hold_from_the_next_snapshot_on_and_end_with_their_object() {
    let mut index = index();
    let pool = object::<api::NodePool>(json!({
        "metadata": {"name": "default", "resourceVersion": "1"},
        "spec": {"template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}}
    }));
    index.apply(pool);
    let sold: Vec<Arc<InstanceType>> = vec![instance_type("small", 4, 8).offer("a", "spot", 100).build()];
    index.set_catalog(&"default".into(), Some(Arc::new(Catalog::new(sold))));
    let overlay = |version: u64, spec: Value| -> api::NodeOverlay {
        object(json!({"metadata": {"name": "o", "resourceVersion": version.to_string()}, "spec": spec}))
    };
    let price = |index: &mut Index| {
        let snapshot = index.snapshot(at(0));
        snapshot.catalogs["default"].price("small", "a", "spot").unwrap().to_string()
    };
    assert_eq!(price(&mut index), "0.1");
    index.apply(overlay(2, json!({"requirements": [], "price": "7"})));
    assert_eq!(price(&mut index), "7");
    index.apply(overlay(3, json!({"requirements": [], "price": "many"})));
    assert_eq!(price(&mut index), "0.1");
    assert!(matches!(&index.overlay_outcomes()["o"], OverlayOutcome::Invalid(why) if why.contains("price")));
    index.apply(overlay(4, json!({"requirements": [], "priceAdjustment": "+50%"})));
    assert_eq!(price(&mut index), "0.15");
    index.delete(&overlay(5, json!({"requirements": []})));
    assert_eq!((price(&mut index), index.has_overlays()), ("0.1".to_owned(), false));
}

#[test]
fn hard_limits_count_until_a_node_is_gone() {
    let mut index = index();
    index.apply(object::<api::NodePool>(json!({
        "metadata": {"name": "default", "uid": "pool", "resourceVersion": "1",
            "annotations": {"fleetwright.dev/hard-limits": "true"}},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef":
            {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}},
    })));
    for name in ["a", "b"] {
        index.apply(claim(name, 1, "", ""));
    }
    let mut leaving = claim("a", 2, "", "");
    leaving.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH));
    leaving.metadata.finalizers = Some(vec!["karpenter.sh/termination".into()]);
    index.apply(leaving);
    assert_eq!(index.usage_at_most("default").1, 2, "it is not gone yet");
    let taken = [ClaimName::from("b")].into_iter().collect();
    assert_eq!(index.usage_without("default", &taken).1, 2, "a command finds no room in what it takes");
}

#[test]
fn the_newest_pod_of_a_daemon_set_says_what_the_next_one_requests() {
    fn agent(name: &str, hour: u32, cpu: &str) -> KubePod {
        let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": true});
        object(json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1",
                "creationTimestamp": format!("2026-01-01T{hour:02}:00:00Z"), "ownerReferences": [owner]},
            "spec": {"nodeName": "n", "containers": [
                {"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
            "status": {"phase": "Running"}
        }))
    }
    let mut index = index();
    let requested = |index: &mut Index| -> Vec<i64> {
        index.snapshot(at(0)).daemons.iter().map(|pod| pod.spec.requests.cpu()).collect()
    };
    index.apply(agent("a", 10, "1"));
    assert!(requested(&mut index).is_empty(), "pods alone are no DaemonSet");
    let set: DaemonSet = object(json!({
        "metadata": {"name": "agent", "namespace": "default", "resourceVersion": "1"},
        "spec": {"selector": {}, "template": {"spec": {"containers": [
            {"name": "c", "resources": {"limits": {"cpu": "500m"}}}]}}}
    }));
    index.apply(set);
    assert_eq!(requested(&mut index), [1_000]);
    index.apply(agent("b", 12, "2"));
    index.apply(agent("c", 11, "3"));
    assert_eq!(requested(&mut index), [2_000], "the newest, not the last to be seen");
    index.delete(&agent("b", 12, "2"));
    assert_eq!(requested(&mut index), [3_000]);
    index.delete(&agent("c", 11, "3"));
    index.delete(&agent("a", 10, "1"));
    assert_eq!(requested(&mut index), [500], "without a pod, the template");
    let range: LimitRange = object(json!({
        "metadata": {"name": "defaults", "namespace": "default", "resourceVersion": "1"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "4", "memory": "1Gi"}}]}
    }));
    let memory = |index: &mut Index| index.snapshot(at(0)).daemons[0].spec.requests.memory();
    index.apply(range.clone());
    assert_eq!((requested(&mut index), memory(&mut index)), (vec![500], 1 << 30), "with the defaults");
    index.apply(agent("d", 13, "1"));
    assert_eq!((requested(&mut index), memory(&mut index)), (vec![1_000], 0), "a pod shows what there is");
    index.delete(&agent("d", 13, "1"));
    index.delete(&range);
    assert_eq!((requested(&mut index), memory(&mut index)), (vec![500], 0));
}
