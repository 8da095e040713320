//! Pods with `status.nominatedNodeName`: pending on a node that was launched for them, and not where kube-scheduler makes room.

use super::*;

fn nominated(name: &str, version: u64, node: &str) -> KubePod {
    let mut pod = pod(name, version, "");
    pod.status.as_mut().unwrap().nominated_node_name = Some(node.to_owned());
    pod
}

/// Names of the pending pods, and of the others without a node.
fn waiting(index: &mut Index, seconds: i64) -> (String, String) {
    let snapshot = index.snapshot(at(seconds));
    let names = |pods: &[Arc<Pod>]| pods.iter().map(|pod| &*pod.id.name).collect::<Vec<_>>().join(" ");
    (names(&snapshot.pending), names(&snapshot.unscheduled))
}

fn both(pending: &str, others: &str) -> (String, String) {
    (pending.to_owned(), others.to_owned())
}

#[test]
fn a_pod_is_pending_on_a_node_that_was_launched_for_it_or_is_gone() {
    let mut index = index();
    index.apply(nominated("p", 1, "n"));
    assert_eq!(waiting(&mut index, 0), both("p", ""), "there is no such node");
    index.apply(node("n", 2));
    assert_eq!(waiting(&mut index, 0), both("", "p"), "kube-scheduler makes room there");
    index.apply(claim("c", 3, "fake://n", "default/other:uid-other"));
    assert_eq!(waiting(&mut index, 0), both("", "p"), "a node for other pods");
    index.apply(claim("c", 4, "fake://n", "default/p:uid-p"));
    assert_eq!(waiting(&mut index, 0), both("p", ""), "it was launched for the pod");
    index.apply(claim("c", 5, "fake://n", ""));
    assert_eq!(waiting(&mut index, 0), both("", "p"), "it is not any more");
    index.nominate("uid-p".into(), "n", at(20));
    assert_eq!(waiting(&mut index, 1), both("p", ""), "it is leased to the pod");
    assert_eq!(waiting(&mut index, 20), both("", "p"), "the lease ended");
    index.delete(&node("n", 6));
    assert_eq!(waiting(&mut index, 21), both("p", ""), "the node is gone");
    index.apply(pod("p", 7, ""));
    assert_eq!(waiting(&mut index, 21), both("p", ""), "kube-scheduler cleared it");
    index.apply(pod("p", 8, "m"));
    assert_eq!(waiting(&mut index, 21), both("", ""), "bound");
}

#[test]
fn a_nodeclaim_expects_the_pods_that_it_was_created_for_and_those_that_it_is_leased_to() {
    let mut index = index();
    index.apply(node("n", 1));
    index.apply(claim("c", 2, "fake://n", "default/a:uid-a,default/bound:uid-bound,default/gone:uid-gone"));
    for (name, version) in [("a", 3), ("b", 4), ("c", 5), ("d", 6)] {
        index.apply(pod(name, version, ""));
    }
    index.apply(pod("bound", 7, "n"));
    index.nominate("uid-b".into(), "c", at(20));
    index.nominate("uid-c".into(), "n", at(20));
    let mut model = (**index.claim_model("c").unwrap()).clone();
    model.node_name = Some("n".into());
    let expected: Vec<String> =
        index.pods_expected_by(&model).iter().map(|pod| pod.id.name.to_string()).collect();
    assert_eq!(expected, ["a", "b", "c"]);
    let by = |pod: &str| index.claims_expecting(&pod.into());
    assert_eq!(
        (by("uid-a"), by("uid-b"), by("uid-c")),
        (vec!["c".into()], vec!["c".into()], vec!["c".into()])
    );
    assert!(by("uid-d").is_empty());
}
