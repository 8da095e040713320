//! What is admitted of a plan: NodeClaims for pods that still need one, each pod once, within limits.
use fleetwright_core::{disruption::static_new_claim, scheduling::NewClaim};

use super::*;
use crate::limits::{Admitted, NotAdmitted};

fn planned_for(pods: &[&str]) -> (Index, NewClaim) {
    let mut index = index();
    index.apply(object::<api::NodePool>(json!({
        "metadata": {"name": "default", "uid": "u", "resourceVersion": "1"},
        "spec": {"limits": {"nodes": "2"}, "template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}}
    })));
    let small = instance_type("small", 4, 8).offer("a", "spot", 100).build();
    index.set_catalog(&"default".into(), Some(Arc::new(Catalog::new(vec![small]))));
    for (name, version) in pods.iter().zip(2..) {
        index.apply(pod(name, version, ""));
    }
    let snapshot = index.snapshot(at(0));
    let mut new_claim = static_new_claim(&snapshot, &snapshot.pools[0]).unwrap();
    new_claim.pods.clone_from(&snapshot.pending);
    (index, new_claim)
}

/// The pods for which a NodeClaim is admitted.
fn admitted(admitted: &mut Admitted, index: &Index, new_claim: &NewClaim) -> String {
    match admitted.admit(index, new_claim) {
        Ok((_, pods)) => pods.iter().map(|pod| pod.id.name.to_string()).collect::<Vec<_>>().join(" "),
        Err(NotAdmitted::Needless) => "needless".to_owned(),
        Err(NotAdmitted::Rejected(why, _)) => why,
    }
}

#[test]
fn a_pod_gets_one_nodeclaim_of_a_plan() {
    let (index, new_claim) = planned_for(&["p", "q"]);
    let mut pass = Admitted::default();
    assert_eq!(admitted(&mut pass, &index, &new_claim), "p q");
    assert_eq!(admitted(&mut pass, &index, &new_claim), "needless");
}

#[test]
fn pods_that_were_bound_or_deleted_since_the_plan_need_no_nodeclaim() {
    let (mut index, new_claim) = planned_for(&["p", "q"]);
    index.apply(pod("p", 10, "n"));
    assert_eq!(admitted(&mut Admitted::default(), &index, &new_claim), "q");
    index.delete(&pod("q", 11, ""));
    assert_eq!(admitted(&mut Admitted::default(), &index, &new_claim), "needless");
}

#[test]
fn a_limit_counts_what_the_pass_was_admitted_so_far() {
    let (index, new_claim) = planned_for(&["p", "q", "r"]);
    let mut pass = Admitted::default();
    let of = |pod: usize| NewClaim { pods: vec![new_claim.pods[pod].clone()], ..new_claim.clone() };
    assert_eq!(admitted(&mut pass, &index, &of(0)), "p");
    assert_eq!(admitted(&mut pass, &index, &of(1)), "q");
    let why = admitted(&mut pass, &index, &of(2));
    assert!(why.starts_with("nodepool \"default\" would exceed its limit of nodes: 3 of 2"), "{why}");
}
