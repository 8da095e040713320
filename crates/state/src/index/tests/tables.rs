//! What the tables of the index show in the next snapshot: NodePools, volume limits, buffers, pods.
use fleetwright_core::{model::PodPhase, testing};
use k8s_openapi::api::storage::v1::CSINode;

use super::*;

fn nodepool(name: &str, version: u64, weight: i64) -> api::NodePool {
    object(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string()},
        "spec": {"weight": weight, "template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}}
    }))
}

#[test]
fn nodepools_are_tried_by_weight_then_by_name() {
    let mut index = index();
    for (name, version, weight) in [("a", 1, 10), ("b", 2, 50), ("c", 3, 10)] {
        index.apply(nodepool(name, version, weight));
    }
    let order = |index: &mut Index| -> Vec<String> {
        index.snapshot(at(0)).pools.iter().map(|pool| pool.name.to_string()).collect()
    };
    assert_eq!(order(&mut index), ["b", "c", "a"]);
    index.apply(nodepool("a", 4, 100));
    assert_eq!(order(&mut index), ["a", "b", "c"]);
    index.delete(&nodepool("b", 5, 50));
    assert_eq!(order(&mut index), ["a", "c"]);
}

#[test]
fn volume_limits_hold_from_the_next_snapshot_on() {
    let mut index = index();
    index.apply(node("n", 1));
    let limited = |version: u64, count: i64| -> CSINode {
        object(json!({
            "metadata": {"name": "n", "resourceVersion": version.to_string()},
            "spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": "n", "allocatable": {"count": count}}]}
        }))
    };
    let limits = |index: &mut Index| -> Vec<u32> {
        index.snapshot(at(0)).nodes[0].volume_limits.iter().map(|(_, limit)| *limit).collect()
    };
    assert_eq!(limits(&mut index), Vec::<u32>::new());
    index.apply(limited(2, 25));
    assert_eq!(limits(&mut index), [25]);
    index.apply(limited(3, 20));
    assert_eq!(limits(&mut index), [20]);
    index.delete(&limited(4, 20));
    assert_eq!(limits(&mut index), Vec::<u32>::new());
}

#[test]
fn a_volume_with_two_attachments_to_a_node_takes_one_place() {
    let mut index = index();
    index.apply(node("n", 1));
    for (name, version) in [("a", 2), ("b", 3)] {
        index.apply(object::<VolumeAttachment>(json!({
            "metadata": {"name": name, "resourceVersion": version.to_string()},
            "spec": {"attacher": "ebs.csi.aws.com", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
        })));
    }
    assert_eq!(index.snapshot(at(0)).nodes[0].attached.len(), 1);
}

#[test]
fn a_node_has_no_buffer_chunks_unless_a_pass_placed_some() {
    let mut index = index();
    index.apply(node("n", 1));
    assert_eq!(index.snapshot(at(0)).nodes[0].buffered, 0);
}

#[test]
fn virtual_pods_are_pending_from_the_next_snapshot_on() {
    let mut index = index();
    index.apply(object::<api::CapacityBuffer>(json!({
        "metadata": {"name": "spare", "namespace": "default", "uid": "u", "resourceVersion": "1"},
        "spec": {"podTemplateRef": {"name": "t"}, "replicas": 1}
    })));
    let pending = |index: &mut Index| index.snapshot(at(0)).pending.len();
    assert_eq!(pending(&mut index), 0);
    let pod = testing::pod("v").with(|pod| pod.is_virtual = true).build();
    assert!(index.set_buffer_pods(&NamespacedName::new("default", "spare"), vec![pod]));
    assert_eq!(pending(&mut index), 1);
}

#[test]
fn a_pod_without_a_node_is_listed_until_it_has_one() {
    let mut index = index();
    let waiting = |version: u64, node: &str| {
        let mut gated = pod("p", version, node);
        gated.status = Some(object(json!({"phase": if node.is_empty() { "Pending" } else { "Running" }})));
        gated
    };
    let unscheduled = |index: &mut Index| index.snapshot(at(0)).unscheduled.len();
    index.apply(waiting(1, ""));
    assert_eq!(unscheduled(&mut index), 1, "kube-scheduler has not tried it");
    index.apply(waiting(2, "n"));
    assert_eq!(unscheduled(&mut index), 0);
    assert_eq!(index.pod_by_uid(&"uid-p".into()).unwrap().phase, PodPhase::Running);
}

#[test]
fn pods_that_a_pass_did_not_reach_are_first_in_the_next() {
    let mut index = index();
    index.apply(pod("p", 1, ""));
    assert!(index.snapshot(at(0)).deferred.is_empty());
    index.defer(BTreeSet::from(["uid-p".into()]));
    assert_eq!(index.snapshot(at(0)).deferred.len(), 1);
    index.defer(BTreeSet::new());
    assert!(index.snapshot(at(0)).deferred.is_empty());
}

#[test]
fn a_storage_class_is_the_default_if_it_says_so() {
    let class = |annotations: Value| -> bool {
        let class: StorageClass =
            object(json!({"metadata": {"name": "fast", "annotations": annotations}, "provisioner": "p"}));
        crate::lower::volume::class(&class, &Default::default()).default_since.is_some()
    };
    let key = "storageclass.kubernetes.io/is-default-class";
    assert!(class(json!({key: "true"})) && !class(json!({key: "false"})) && !class(json!({})));
}

#[test]
fn device_kinds_are_known_again_once_the_api_server_lists_them() {
    use k8s_openapi::api::resource::v1::ResourceSlice;
    let mut index = index();
    let refused = |index: &mut Index| index.snapshot(at(0)).devices.refused.is_some();
    assert!(!refused(&mut index));
    index.refuse::<ResourceSlice>(Refusal {
        cause: crate::RefusalCause::Forbidden,
        group: "resource.k8s.io".into(),
        resource: "resourceslices".into(),
        verbs: Refusal::WATCH,
    });
    assert!(refused(&mut index), "RBAC does not grant it");
    index.reset::<ResourceSlice>(Vec::new(), "5", at(1));
    assert!(!refused(&mut index));
}
