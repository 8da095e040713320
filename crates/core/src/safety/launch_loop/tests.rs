//! What counts as one demand, and what pauses it.
use jiff::SignedDuration;

use super::*;
use crate::model::PodPhase;
use crate::testing::{now, pod};

fn after(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

/// A pod of the Deployment `web`, by its ReplicaSet.
fn web(name: &str, hash: &str, cpu: i64) -> Arc<Pod> {
    pod(name).cpu(cpu).label(TEMPLATE_HASH, hash).owner("ReplicaSet", &format!("web-{hash}")).build()
}

/// The missed nodes and the seconds of the pause, where every launch is missed that is not answered.
fn held(history: &mut LaunchHistory, pod: &Pod, seconds: i64) -> Option<(usize, u64)> {
    history.judge(pod, after(seconds), |_, _| LaunchOutcome::Missed);
    history.pause(pod, after(seconds)).map(|pause| (pause.missed, pause.left.as_secs()))
}

#[test]
fn a_third_node_waits_and_each_further_one_twice_as_long() {
    let mut history = LaunchHistory::default();
    let mut at = 0;
    for (number, pause) in [(1, None), (2, Some(60)), (3, Some(120)), (4, Some(240)), (5, Some(480))] {
        let pod = web(&format!("web-{number}"), "a", 1000);
        history.launched(&format!("c{number}").into(), std::slice::from_ref(&pod), after(at));
        assert_eq!(held(&mut history, &pod, at + 5), pause.map(|left| (number, left)));
        at += 5 + i64::try_from(pause.unwrap_or(0)).unwrap();
        assert_eq!(held(&mut history, &pod, at), None, "after the pause");
    }
    assert_eq!(held(&mut history, &web("web-9", "a", 1000), 3700), None, "forgotten");
}

#[test]
fn nodes_that_are_launched_together_count_once() {
    let mut history = LaunchHistory::default();
    let pod = web("p", "a", 1000);
    for (round, at) in [0, 900].into_iter().enumerate() {
        for number in 0..14 {
            history.launched(&format!("c{round}-{number}").into(), std::slice::from_ref(&pod), after(at));
        }
        let expected = (round == 1).then_some((28, 60));
        assert_eq!(held(&mut history, &pod, at + 5), expected);
    }
}

#[test]
fn a_round_ends_with_the_first_of_its_nodes_in_any_order() {
    for batch in [[("a", 40), ("b", 60)], [("b", 60), ("a", 40)]] {
        let mut history = LaunchHistory::default();
        let pod = web("p", "a", 1000);
        for (claim, _) in batch {
            history.launched(&claim.into(), std::slice::from_ref(&pod), now());
        }
        history.launched(&"c".into(), std::slice::from_ref(&pod), after(40));
        for (claim, end) in batch.into_iter().chain([("c", 90)]) {
            history.ended(&claim.into(), true, after(end));
        }
        assert_eq!(held(&mut history, &pod, 90), Some((3, 60)), "{batch:?}");
    }
}

#[test]
fn a_demand_is_an_owner_and_a_class() {
    let mut history = LaunchHistory::default();
    for (number, hash) in ["a", "b"].into_iter().enumerate() {
        let at = i64::try_from(number).unwrap();
        history.launched(&format!("c{number}").into(), &[web("p", hash, 1000)], after(at));
        held(&mut history, &web("p", hash, 1000), at);
    }
    assert!(held(&mut history, &web("new", "c", 1000), 0).is_some(), "another ReplicaSet of the Deployment");
    assert_eq!(held(&mut history, &web("new", "c", 2000), 0), None, "another class");
    let other = pod("new").cpu(1000).owner("ReplicaSet", "api-a").build();
    assert_eq!(held(&mut history, &other, 0), None, "another owner");
    let bare = |uid: &str| pod(uid).cpu(1000).with(|pod| pod.owner = None).build();
    for claim in ["d1", "d2"] {
        history.launched(&claim.into(), &[bare("x")], now());
        held(&mut history, &bare("x"), 0);
    }
    assert!(held(&mut history, &bare("x"), 0).is_some());
    assert_eq!(held(&mut history, &bare("y"), 0), None, "another pod");
}

#[test]
fn pods_that_run_elsewhere_answer_nothing() {
    let mut history = LaunchHistory::default();
    for (number, at) in [(1, 0), (2, 10)] {
        let pod = web(&format!("p{number}"), "a", 1000);
        history.launched(&format!("c{number}").into(), std::slice::from_ref(&pod), after(at));
        held(&mut history, &pod, at + 5);
    }
    let other = web("other", "a", 1000);
    history.ran(&other, Some(&"elsewhere".into()), after(20));
    history.ran(&other, None, after(20));
    assert_eq!(held(&mut history, &other, 20), Some((2, 55)), "a large workload has such pods all the time");
    history.ran(&other, Some(&"c2".into()), after(20));
    assert_eq!(held(&mut history, &other, 20), None, "on the node that was launched for another one");
}

#[test]
fn a_pod_that_comes_to_a_missed_node_has_to_run_there() {
    let mut history = LaunchHistory::default();
    let pod = web("p", "a", 1000);
    for (claim, at) in [("c1", 0), ("c2", 10)] {
        history.launched(&claim.into(), std::slice::from_ref(&pod), after(at));
        held(&mut history, &pod, at + 5);
    }
    let pause =
        |history: &mut LaunchHistory, outcome| {
            history.judge(&pod, after(20), |_, launch| {
                if &*launch.claim == "c2" { outcome } else { LaunchOutcome::Missed }
            });
            history.pause(&pod, after(20)).map(|pause| pause.missed)
        };
    assert_eq!(pause(&mut history, LaunchOutcome::Open), Some(2), "bound, and perhaps preempted in a second");
    assert_eq!(pause(&mut history, LaunchOutcome::Answered), None);
}

#[test]
fn an_answered_launch_makes_up_for_one_that_was_missed_before() {
    let mut history = LaunchHistory::default();
    let pod = |number: usize| web(&format!("p{number}"), "a", 1000);
    let rounds = |history: &LaunchHistory, at| history.record(&pod(9), after(at)).map(|record| record.rounds);
    let rans = [true, false, false, true, true, true, false, false];
    let expected = [None, Some(1), Some(2), Some(1), None, None, Some(1), Some(2)];
    for ((number, ran), expected) in rans.into_iter().enumerate().zip(expected) {
        let at = i64::try_from(number).unwrap() * 100;
        history.launched(&format!("c{number}").into(), &[pod(number)], after(at));
        if ran {
            history.ran(&pod(number), None, after(at + 90));
        }
        held(&mut history, &pod(number), at + 95);
        assert_eq!(rounds(&history, at + 95), expected, "after launch {number}");
    }
    history.ended(&"c3".into(), false, after(800));
    assert_eq!(history.count, 7, "a NodeClaim without capacity is no node");
}

#[test]
fn launches_of_an_earlier_process_count_once_a_pod_shows_their_demand() {
    let pod = web("p", "a", 1000);
    let key = BTreeSet::from([Demand::of(&pod).key()]);
    let launch = |history: &mut LaunchHistory, claim: &str, at| {
        history.restore_launch(&claim.into(), key.clone(), BTreeSet::from(["gone".into()]), after(at));
    };
    let mut history = LaunchHistory::default();
    launch(&mut history, "c1", 0);
    launch(&mut history, "c2", 0);
    history.ended(&"c2".into(), false, after(1));
    assert!(history.knows(&pod) && !history.knows(&web("p", "a", 2000)), "another class");
    assert_eq!(held(&mut history, &pod, 5), None);
    assert!(history.unclaimed.by_claim.is_empty(), "all demands of c1 are known");
    launch(&mut history, "c3", 10);
    history.launched(&"c3".into(), std::slice::from_ref(&pod), after(10));
    launch(&mut history, "c3", 10);
    assert_eq!(held(&mut history, &pod, 15), Some((2, 60)), "c2 was no node, and c3 counts once");
    let record = history.record(&pod, after(15)).unwrap();
    let mut next = LaunchHistory::default();
    launch(&mut next, "c3", 10);
    next.restore(record);
    assert_eq!(held(&mut next, &pod, 15), Some((2, 60)), "the record has c3");
    launch(&mut next, "c4", 80);
    assert_eq!(held(&mut next, &pod, 90), Some((3, 120)), "and not c4");
    let mut late = LaunchHistory::default();
    launch(&mut late, "c1", 0);
    let other = crate::testing::pod("q").owner("ReplicaSet", "api-a").build();
    late.launched(&"d".into(), &[other], after(3700));
    assert!(!late.knows(&pod), "forgotten");
}

#[test]
fn launches_of_an_earlier_process_count_in_the_order_of_their_creation() {
    let pods = [web("p1", "a", 1000), web("p2", "a", 1000)];
    let keys = BTreeSet::from([Demand::of(&pods[0]).key()]);
    // Their names have the other order.
    let created = [("z", 100), ("b", 900)];
    let mut missed = LaunchHistory::default();
    for (claim, at) in created {
        missed.restore_launch(&claim.into(), keys.clone(), BTreeSet::new(), after(at));
        missed.ended(&claim.into(), true, after(at + 5));
    }
    assert_eq!(held(&mut missed, &pods[0], 910), Some((2, 55)), "the first was missed before the second");

    let record = LoopRecord {
        owner: DemandOwner::of(&pods[0]),
        class: Demand::of(&pods[0]).class(),
        rounds: 3,
        missed: 3,
        claim: "a".into(),
        launched: now(),
        since: now(),
    };
    let mut answered = LaunchHistory::default();
    answered.restore(record);
    for ((claim, at), pod) in created.into_iter().zip(&pods) {
        answered.restore_launch(&claim.into(), keys.clone(), BTreeSet::from([pod.uid.clone()]), after(at));
    }
    for ((_, at), pod) in created.into_iter().zip(&pods) {
        answered.ran(pod, None, after(at + 90));
    }
    let left = answered.record(&pods[0], after(1000)).map(|record| record.rounds);
    assert_eq!(left, Some(1), "two of three missed times are made up for");
}

#[test]
fn a_restart_keeps_the_pause() {
    let (mut before, mut after_restart) = (LaunchHistory::default(), LaunchHistory::default());
    let pod = web("p", "a", 1000);
    for (claim, at) in [("c1", 0), ("c2", 10)] {
        before.launched(&claim.into(), std::slice::from_ref(&pod), after(at));
        held(&mut before, &pod, at + 5);
    }
    let record = before.record(&pod, after(20)).unwrap();
    before.restore(record.clone());
    assert_eq!(held(&mut before, &pod, 20), Some((2, 55)), "its own launches count once");
    after_restart.restore(record.clone());
    assert!(after_restart.knows(&pod) && after_restart.holds(&record, after(20)));
    assert_eq!(held(&mut after_restart, &pod, 20), Some((2, 55)));
    assert_eq!(held(&mut after_restart, &web("p", "a", 2000), 20), None, "another class");
    after_restart.launched(&"c3".into(), std::slice::from_ref(&pod), after(80));
    assert_eq!(held(&mut after_restart, &pod, 85), Some((3, 120)), "the third node doubles the pause");
    assert_eq!(held(&mut after_restart.clone(), &pod, 3700), None, "forgotten");
    let mut wrong = LaunchHistory::default();
    let launched = after(7200);
    wrong.restore(LoopRecord { rounds: usize::MAX, missed: usize::MAX, launched, ..record.clone() });
    assert_eq!(held(&mut wrong, &pod, 20), None, "two hours ahead");
    assert!(after_restart.holds(&record, after(90)));
    for (claim, at) in [("c4", 100), ("c5", 200), ("c6", 300)] {
        let other = web(claim, "a", 1000);
        after_restart.launched(&claim.into(), std::slice::from_ref(&other), after(at));
        after_restart.ran(&other, Some(&claim.into()), after(at + 60));
    }
    assert!(!after_restart.holds(&record, after(400)), "three nodes were missed, and three are used");
}

#[test]
fn fifty_pods_of_one_nodeclaim_are_one_launch() {
    let mut history = LaunchHistory::default();
    let pods: Vec<_> = (0..50).map(|number| web(&format!("p{number}"), "a", 1000)).collect();
    history.launched(&"c".into(), &pods, now());
    assert_eq!((history.count, held(&mut history, &pods[0], 0)), (1, None));
    assert_eq!(history.by_owner.values().flatten().count(), 1, "and one demand");
}

#[test]
fn only_pods_that_wait_for_a_node_are_launches() {
    let mut history = LaunchHistory::default();
    history.launched(&"c1".into(), &[pod("bound").bound("node")], now());
    history.launched(&"c2".into(), &[pod("virtual").with(|pod| pod.is_virtual = true).build()], now());
    assert_eq!(history.count, 0);
    let other = pod("pending").build();
    assert_eq!(held(&mut history, &other, 0), None);
    assert!(!history.knows(&other), "judging a pod remembers nothing of it");
}

#[test]
fn a_pod_ran_once_it_was_bound_for_a_minute_or_completed() {
    let bound = |seconds: i64| pod("p").with(|pod| pod.bound_since = Some(after(-seconds))).build();
    assert_eq!([59, 60].map(|seconds| has_run(&bound(seconds), now())), [false, true]);
    let completed = |deleting: Option<Timestamp>| {
        let completed = pod("p").with(|pod| {
            pod.phase = PodPhase::Succeeded;
            pod.deleting = deleting;
        });
        has_run(&completed.build(), now())
    };
    assert!(completed(None));
    assert!(!completed(Some(now())), "a pod that is deleted may end as if it had completed");
}

#[test]
fn what_is_remembered_has_bounds() {
    let pods = [web("p", "a", 1000)];
    let mut full = LaunchHistory { count: BOUND, ..LaunchHistory::default() };
    full.swept = Some(now());
    full.launched(&"c".into(), &pods, now());
    assert!(!full.knows(&pods[0]), "a launch beyond the bound is not counted");

    let mut history = LaunchHistory::default();
    for (claim, at) in [("ahead", 100_000), ("c1", 0), ("c2", 3700)] {
        history.launched(&claim.into(), &pods, after(at));
    }
    let names: Vec<&str> = history.own.iter().map(|claim| &**claim).collect();
    assert_eq!(names, ["ahead", "c2"], "c1 is forgotten, also after the clock was a day ahead");
}

#[test]
fn a_nodeclaim_of_this_process_is_not_taken_over_from_its_object() {
    let mut history = LaunchHistory::default();
    let pod = web("p", "a", 1000);
    history.launched(&"c".into(), std::slice::from_ref(&pod), now());
    history.ended(&"c".into(), false, after(1));
    let key = BTreeSet::from([Demand::of(&pod).key()]);
    history.restore_launch(&"c".into(), key, BTreeSet::new(), now());
    assert!(!history.knows(&pod), "it had no capacity, and the watch shows it a little longer");
}

#[test]
fn the_later_record_of_a_demand_counts() {
    let pod = web("p", "a", 1000);
    let record = |rounds, since| LoopRecord {
        owner: DemandOwner::of(&pod),
        class: Demand::of(&pod).class(),
        rounds,
        missed: rounds,
        claim: "c".into(),
        launched: now(),
        since: after(since),
    };
    for order in [[(2, 5), (3, 10)], [(3, 10), (2, 5)]] {
        let mut history = LaunchHistory::default();
        order.into_iter().for_each(|(rounds, since)| history.restore(record(rounds, since)));
        assert_eq!(history.record(&pod, after(20)).map(|record| record.rounds), Some(3), "{order:?}");
    }
    let (first, later) = (record(2, 5), record(3, 10));
    assert!(later.replaces(&first));
    assert!(!later.replaces(&LoopRecord { class: first.class + 1, ..first }), "another class");
}
