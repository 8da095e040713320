//! The written NodeClaim equals the planned one.

use fleetwright_core::{
    model::{LabelSchema, Objective, Price, Requirements},
    scheduling::Chosen,
    testing::{pod, pool as pool_builder, small_catalog},
};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::lower;

fn new_claim() -> NewClaim {
    let catalog = small_catalog();
    let requirements: Requirements = [
        Requirement::is_in("kubernetes.io/arch", ["amd64"]),
        Requirement::is_in("node.kubernetes.io/instance-type", ["a", "b"]).with_min_values(Some(2)),
        Requirement::new("cpu", Operator::Gt, ["3"]).unwrap(),
        Requirement::not_in("team", ["x"]),
        Requirement::exists("tier"),
        Requirement::is_in("kubernetes.io/hostname", ["placeholder"]),
    ]
    .into_iter()
    .collect();
    NewClaim {
        claims: Vec::new(),
        pool: pool_builder("default").build(),
        requirements,
        instance_types: catalog.instance_types.iter().take(2).cloned().collect(),
        chosen: Chosen {
            instance_type: "a".into(),
            zone: "z".into(),
            capacity_type: "spot".into(),
            price: Price::ZERO,
            effective: Price::ZERO,
        },
        objective: Objective::LIST,
        requests: Resources::of(1500, 1 << 30).with("pods", 2),
        pods: vec![pod("a").build(), pod("b").build()],
        labels: [("team".into(), "red".into())].into_iter().collect(),
        annotations: [("karpenter.sh/nodeclaim-min-values-relaxed".into(), "true".into())]
            .into_iter()
            .collect(),
        taints: vec![Taint::new("a", "b", fleetwright_core::model::TaintEffect::NoSchedule)],
        startup_taints: vec![],
    }
}

fn nodepool() -> api::NodePool {
    serde_json::from_value(json!({
        "metadata": {"name": "default", "uid": "pool-uid"},
        "spec": {"template": {
            "metadata": {"annotations": {"k": "v"}},
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [], "expireAfter": "Never", "terminationGracePeriod": "5m"
            }}}
    }))
    .unwrap()
}

#[test]
fn a_claim_has_everything_of_the_plan() {
    let new_claim = new_claim();
    let identity =
        Identity { name: "default-abcde".to_owned(), batch: "plan-0", position: 4, cluster_uid: "cluster" };
    let claim = claim(&new_claim, &nodepool(), &new_claim.pods, identity);
    let meta = &claim.metadata;
    assert_eq!(meta.finalizers.as_ref().unwrap(), &["karpenter.sh/termination"]);
    let owner = &meta.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str()), ("NodePool", "pool-uid"));
    let labels = meta.labels.as_ref().unwrap();
    assert_eq!(labels["karpenter.sh/nodepool"], "default");
    assert_eq!(labels["team"], "red");
    let annotations = meta.annotations.as_ref().unwrap();
    assert_eq!(annotations["karpenter.sh/nodepool-hash"], nodepool().drift_hash());
    assert_eq!(annotations["karpenter.sh/nodepool-hash-version"], "v3");
    assert_eq!(
        ["k", "fleetwright.dev/batch-id", "fleetwright.dev/batch-position"]
            .map(|key| annotations[key].as_str()),
        ["v", "plan-0", "4"]
    );
    let written: Vec<(String, String, Vec<String>, Option<i64>)> = claim
        .spec
        .requirements
        .iter()
        .map(|r| (r.key.clone(), r.operator.to_string(), r.values.clone(), r.min_values))
        .collect();
    let types: Vec<String> = new_claim.instance_types.iter().map(|t| t.name.to_string()).collect();
    let row = |key: &str, operator: &str, values: &[&str]| {
        (key.to_owned(), operator.to_owned(), values.iter().map(ToString::to_string).collect(), None)
    };
    assert_eq!(
        written,
        [
            row("cpu", "Gte", &["4"]),
            row("kubernetes.io/arch", "In", &["amd64"]),
            ("node.kubernetes.io/instance-type".to_owned(), "In".to_owned(), types, Some(2)),
            row("team", "NotIn", &["x"]),
            row("tier", "Exists", &[]),
        ]
    );
    assert_eq!(claim.spec.resources.requests["cpu"].0, "1500m");
    assert_eq!(claim.spec.resources.requests["memory"].0, "1Gi");
    assert_eq!(claim.spec.expire_after, Some(api::NillableDuration::never()));
}

#[test]
fn what_is_written_is_read_back() {
    let new_claim = new_claim();
    let identity =
        Identity { name: "default-abcde".to_owned(), batch: "plan-0", position: 4, cluster_uid: "cluster" };
    let raised = claim(&new_claim, &nodepool(), &new_claim.pods, identity);
    let read = lower::claim::claim(&raised, &LabelSchema::default()).unwrap();
    let pods: Vec<_> = new_claim.pods.iter().map(|pod| pod.uid.clone()).collect();
    assert_eq!(read.intended_pods, pods);
    assert_eq!((&*read.batch, read.position, read.attempt, read.has_finalizer), ("plan-0", 4, 0, true));
    assert_eq!(read.requests, new_claim.requests);
    assert_eq!(read.taints, new_claim.taints);
    assert_eq!(read.requirements.get("cpu"), new_claim.requirements.get("cpu"));
    assert_eq!(read.requirements.get("team"), new_claim.requirements.get("team"));
}

#[test]
fn bounds_and_exclusions_take_an_entry_each() {
    let wanted = Requirement::new("n", Operator::Gt, ["3"])
        .unwrap()
        .intersection(&Requirement::new("n", Operator::Lt, ["9"]).unwrap())
        .intersection(&Requirement::not_in("n", ["5"]).with_min_values(Some(2)));
    let written: Vec<String> = requirement(&wanted)
        .iter()
        .map(|r| format!("{} {} {:?}", r.operator, r.values.join(" "), r.min_values))
        .collect();
    assert_eq!(written, ["Gte 4 Some(2)", "Lte 8 None", "NotIn 5 None"]);
    assert_eq!(requirement(&Requirement::does_not_exist("n"))[0].operator, api::Operator::DoesNotExist);
}

#[test]
fn a_label_that_must_be_there_and_may_not_be_this_takes_two_entries() {
    let both = Requirement::not_in("k", ["a"]).intersection(&Requirement::exists("k"));
    let written: Vec<String> =
        requirement(&both).into_iter().map(|entry| entry.operator.to_string()).collect();
    assert_eq!(written, ["NotIn", "Exists"]);
    let back = both.intersection(&Requirement::not_in("k", ["b"]));
    assert!(!back.allows_missing() && Requirement::not_in("k", ["a"]).allows_missing());
}

#[test]
fn bounds_that_no_label_can_reach_are_not_written() {
    // The API server refuses negative numbers, and no label has one.
    let raised = requirement(&Requirement::new("cpu", Operator::Gt, ["-5"]).unwrap());
    assert_eq!((raised.len(), &*raised[0].values), (1, &["0".to_owned()][..]));
}

#[test]
fn the_summary_of_pods_is_bounded_and_complete_for_a_full_node() {
    let pods: Vec<Arc<Pod>> = (0..5000)
        .map(|n| pod(&format!("{:0>200}", n)).with(|pod| pod.uid = format!("{n:0>36}").into()).build())
        .collect();
    let record = intended_pods(&pods[..737]);
    assert_eq!(lower::claim::intended_pods(&record).len(), 737);
    assert!(intended_pods(&pods).len() <= RECORD_BYTES);
    let released = [pods[0].uid.clone(), pods[700].uid.clone()].into();
    let left = lower::claim::intended_pods(&without_pods(&record, &released));
    assert_eq!(left.len(), 735);
    assert!(!left.contains(&pods[0].uid));
}

fn written(uid: Option<&str>, batch: &str, pods: &str) -> api::NodeClaim {
    let annotations = json!({
        names::BATCH_ID: batch, names::CLUSTER_UID: "cluster", names::NOMINATED_PODS: pods,
    });
    let object = json!({
        "metadata": {"name": "a", "uid": uid, "annotations": annotations},
        "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
    });
    serde_json::from_value(object).unwrap()
}

#[rstest]
#[case::as_written("b-0", "n/p:1", true)]
#[case::of_another_batch("b-1", "n/p:1", false)]
#[case::for_another_pod("b-0", "n/p:2", false)]
fn a_nodeclaim_is_recognized_by_batch_and_pods(#[case] batch: &str, #[case] pods: &str, #[case] same: bool) {
    assert_eq!(is_same(&written(Some("its-uid"), batch, pods), &written(None, "b-0", "n/p:1")), same);
}

#[test]
fn a_nodeclaim_without_chosen_types_keeps_the_requirement() {
    let new_claim = NewClaim { instance_types: Arc::default(), ..new_claim() };
    let types: Vec<_> =
        requirements(&new_claim).into_iter().filter(|entry| entry.key == labels::INSTANCE_TYPE).collect();
    let [only] = types.as_slice() else { panic!("{types:?}") };
    assert_eq!((only.values.as_slice(), only.min_values), (["a", "b"].map(String::from).as_slice(), Some(2)));
}

#[test]
fn nodeclaims_with_equal_launch_requirements_share_a_batch() {
    let changed = |change: fn(&mut NewClaim)| {
        let mut new_claim = new_claim();
        change(&mut new_claim);
        new_claim
    };
    let taint = || Taint::new("t", "", fleetwright_core::model::TaintEffect::NoSchedule);
    let changes: [fn(&mut NewClaim); 7] = [
        |claim| claim.pool = pool_builder("other").build(),
        |claim| claim.requirements.add(Requirement::exists("new")),
        |claim| drop(claim.labels.insert("new".into(), "x".into())),
        |claim| drop(claim.annotations.insert("new".into(), "x".into())),
        |claim| claim.taints.clear(),
        |claim| claim.instance_types = claim.instance_types[..1].into(),
        |claim| claim.requests = Resources::of(1, 1),
    ];
    let batch = |other: NewClaim| launch_batches("plan", &[new_claim(), other, new_claim()]);
    let apart =
        |number: u32| vec![("plan-0".to_owned(), 0), ("plan-1".to_owned(), 0), ("plan-0".to_owned(), number)];
    for change in &changes[..6] {
        assert_eq!(batch(changed(*change)), apart(1));
    }
    let mut started = new_claim();
    started.startup_taints.push(taint());
    assert_eq!(batch(started), apart(1));
    let together = [0, 1, 2].map(|position| ("plan-0".to_owned(), position));
    assert_eq!(batch(changed(changes[6])), together, "pods are no launch requirement");
}
