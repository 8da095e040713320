//! The launch-loop breaker: what disruption sees of pods that it holds, and what it learns from replacements.
use fleetwright_api::labels::LAUNCHED_FOR;
use fleetwright_core::safety::launch_loop::Demand;

use super::*;

/// A pod of the ReplicaSet `web`; with a node, since `bound`.
fn web(name: &str, version: u64, bound: Option<i64>) -> KubePod {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": true}]);
    let mut pod = pod(name, version, if bound.is_some() { "n" } else { "" });
    pod.metadata.owner_references = Some(object(owner));
    if let Some(since) = bound {
        let conditions =
            json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(since).to_string()}]);
        pod.status.as_mut().unwrap().conditions = Some(object(conditions));
    }
    pod
}

fn model(index: &Index, name: &str) -> Arc<Pod> {
    index.pod_by_uid(&format!("uid-{name}").as_str().into()).unwrap().clone()
}

/// A NodeClaim of an earlier process for these pods, created at `created`.
fn named_for(name: &str, created: i64, pods: &str, key: &str) -> api::NodeClaim {
    let mut claim = claim(name, 50, &format!("fake://{name}"), pods);
    claim.metadata.creation_timestamp = Some(object(json!(at(created).to_string())));
    let annotations = claim.metadata.annotations.get_or_insert_default();
    annotations.insert(LAUNCHED_FOR.to_owned(), key.to_owned());
    claim
}

fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
    pods.iter().map(|pod| &*pod.id.name).collect()
}

#[test]
fn disruption_does_not_see_pods_that_are_held() {
    let mut index = index();
    index.apply(web("held", 1, None));
    index.apply(web("runs", 2, Some(0)));
    index.apply(pod("other", 3, ""));
    let held = model(&index, "held");
    for (name, second) in [("a", 0), ("b", 11)] {
        index.apply(claim(name, 10, &format!("fake://{name}"), ""));
        index.record_launch(&name.into(), std::slice::from_ref(&held), at(second));
        index.snapshot(at(second + 10));
        index.delete(&claim(name, 11, &format!("fake://{name}"), ""));
    }
    assert_eq!(names(&index.snapshot(at(30)).pending), ["held", "other"]);
    let seen = index.disruption_snapshot(at(30));
    assert_eq!((names(&seen.pending), names(&seen.unscheduled)), (vec!["other"], vec!["held"]));
    let decided = ["held", "other", "runs"].map(|name| model(&index, name));
    let pods = index.replacement_pods(&decided, at(30));
    assert_eq!(names(&pods), ["other", "runs"], "what runs needs its place on the replacement");
    assert_eq!(names(&index.disruption_snapshot(at(90)).pending), ["held", "other"], "after the pause");
}

/// A replacement is for pods of its candidates, which ran before, and for pending pods.
#[test]
fn pods_of_the_candidates_do_not_answer_a_replacement_of_an_earlier_process() {
    let mut index = index();
    index.apply(web("pending", 1, None));
    index.apply(web("moved", 2, Some(0)));
    let key = format!("{:016x}", Demand::of(&model(&index, "pending")).key());
    let pods = "default/pending:uid-pending,default/moved:uid-moved";
    index.apply(named_for("a", 100, pods, &key));
    index.snapshot(at(150));
    index.delete(&claim("a", 51, "fake://a", ""));
    let pending = model(&index, "pending");
    assert_eq!(index.launch_pause(&pending, at(200)), None, "once");
    let record = index.launch_record(&pending, at(200));
    assert_eq!(record.map(|record| (record.rounds, record.missed)), Some((1, 1)), "its node was missed");
}

/// What is missed of a launch for the pods `p` and `q` whose NodeClaim is deleted at second 1000, after `change`.
fn missed(change: impl FnOnce(&mut Index)) -> Option<usize> {
    let mut index = index();
    index.apply(web("p", 1, None));
    index.apply(web("q", 2, None));
    index.apply(claim("a", 3, "fake://a", ""));
    index.record_launch(&"a".into(), &[model(&index, "p"), model(&index, "q")], at(0));
    change(&mut index);
    index.snapshot(at(1000));
    index.delete(&claim("a", 20, "fake://a", ""));
    let pending = model(&index, "q");
    assert_eq!(index.launch_pause(&pending, at(1000)), None, "once");
    index.launch_record(&pending, at(1000)).map(|record| record.missed)
}

fn with_phase(mut pod: KubePod, phase: &str) -> KubePod {
    pod.status.get_or_insert_default().phase = Some(phase.to_owned());
    pod
}

#[test]
fn a_pod_that_ran_answers_the_launch_for_it() {
    let deleted = |bound: i64| {
        move |index: &mut Index| {
            index.apply(web("p", 10, Some(bound)));
            index.snapshot(at(1000));
            index.delete(&web("p", 11, Some(bound)));
        }
    };
    assert_eq!(missed(|_| {}), Some(1), "no pod had a node");
    assert_eq!(missed(deleted(10)), None, "it ran for 990 s");
    assert_eq!(missed(deleted(999)), Some(1), "it ran for a second");
    let completed = |index: &mut Index| {
        index.apply(with_phase(web("p", 10, Some(999)), "Succeeded"));
    };
    assert_eq!(missed(completed), None, "it completed, which one of the two pods has to");
}

#[test]
fn a_pod_that_fails_without_a_node_does_not_answer_its_launch() {
    let failed = |index: &mut Index| {
        index.snapshot(at(900));
        index.apply(with_phase(web("p", 10, None), "Failed"));
        index.delete(&web("p", 11, None));
    };
    assert_eq!(missed(failed), Some(1));
}
