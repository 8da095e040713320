//! Launches of a cloud that launches one by one: each answer is recorded when it comes.

use std::{collections::BTreeSet, time::Duration};

use fleetwright_core::cloud::LaunchError;
use serde_json::json;

use super::harness::{Harness, LaunchFault};

/// Creates NodeClaims of one batch.
fn batch(harness: &Harness, names: &[&str]) {
    for (position, name) in names.iter().enumerate() {
        let position = position.to_string();
        let annotations =
            json!({"fleetwright.dev/batch-id": "plan-0", "fleetwright.dev/batch-position": position});
        harness.claim(name, json!({"metadata": {"annotations": annotations}}));
    }
}

fn is_launched(harness: &Harness, name: &str) -> bool {
    harness.condition(name, "Launched") == "True"
}

/// The ids of all instances, which are those of the NodeClaims.
fn check_instances(harness: &Harness, names: &[&str], context: &str) {
    let mut ids: Vec<String> = names
        .iter()
        .map(|name| {
            let claim = harness.get_claim(name).expect("a claim");
            claim["status"]["providerID"].as_str().expect("an id").to_owned()
        })
        .collect();
    ids.sort();
    let state = harness.cloud.state();
    let running: Vec<String> = state.instances.keys().map(ToString::to_string).collect();
    assert_eq!(running, ids, "{context}");
    assert_eq!(usize::try_from(state.launched).ok(), Some(names.len()), "{context}: {:?}", state.calls);
}

#[tokio::test(start_paused = true)]
async fn one_slow_launch_of_three_holds_up_no_other() {
    // Whichever NodeClaim is reconciled first.
    for slow in ["a", "b", "c"] {
        let harness = Harness::one_by_one(10);
        batch(&harness, &["a", "b", "c"]);
        harness.cloud.state().slow_claim = Some((slow.into(), Duration::from_secs(240)));
        let harness = harness.run();
        let others: Vec<&str> = ["a", "b", "c"].into_iter().filter(|name| *name != slow).collect();
        let took = harness.until("launched", || others.iter().all(|name| is_launched(&harness, name))).await;
        assert!(took < 10, "{took} s while {slow} takes 240 s");
        for name in &others {
            harness.join(&format!("node-{name}"), name);
        }
        let registered = |name: &&str| harness.condition(name, "Registered") == "True";
        let took = harness.until("registered", || others.iter().all(registered)).await;
        assert!(took < 10 && !is_launched(&harness, slow), "{took} s while {slow} takes 240 s");
        let took = harness.until("launched", || is_launched(&harness, slow)).await;
        assert!((200..250).contains(&took), "{took} s");
        check_instances(&harness, &["a", "b", "c"], slow);
        let state = harness.cloud.state();
        // One attempt of three members, one call for each.
        assert_eq!(state.first_calls, [true; 3]);
        assert!(state.calls.iter().all(|(_, attempt, names)| (*attempt, names.len()) == (1, 1)));
    }
}

#[tokio::test(start_paused = true)]
async fn as_many_calls_at_a_time_as_the_provider_says() {
    let names: Vec<String> = (0..25).map(|n| format!("c{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let harness = Harness::one_by_one(4);
    batch(&harness, &names);
    harness.cloud.state().slow = Duration::from_secs(1);
    let harness = harness.run();
    let took = harness.until("launched", || names.iter().all(|name| is_launched(&harness, name))).await;
    assert!(took < 15, "{took} s for 25 launches of 1.2 s, four at a time");
    assert_eq!(harness.cloud.state().most_under_way, 4);
    check_instances(&harness, &names, "");
}

/// A NodeClaim that waits for a call may be deleted: the others do not wait for it.
#[tokio::test(start_paused = true)]
async fn a_deleted_claim_leaves_the_queue() {
    let names = ["a", "b", "c", "d"];
    let harness = Harness::one_by_one(1);
    batch(&harness, &names);
    harness.cloud.state().slow = Duration::from_secs(20);
    let harness = harness.run();
    harness.sleep(5).await;
    let (under_way, waiting): (Vec<&str>, Vec<&str>) = names
        .into_iter()
        .partition(|name| harness.cloud.state().calls.iter().any(|(.., of)| of.contains(&(*name).into())));
    assert_eq!((under_way.len(), waiting.len()), (1, 3));
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", waiting[0]).expect("deletes");
    let left = || waiting[1..].iter().chain(&under_way);
    let took = harness.until("launched", || left().all(|name| is_launched(&harness, name))).await;
    assert!(took < 80, "{took} s for three launches of 20 s");
    harness.until("gone", || harness.get_claim(waiting[0]).is_none()).await;
    check_instances(&harness, &left().copied().collect::<Vec<_>>(), "");
}

/// One attempt after the other for the NodeClaim that fails, while another call of the batch is under way.
#[tokio::test(start_paused = true)]
async fn a_failed_launch_is_repeated_while_another_one_is_under_way() {
    let harness = Harness::one_by_one(10);
    batch(&harness, &["a", "b", "c"]);
    harness.cloud.state().slow_claim = Some(("c".into(), Duration::from_secs(200)));
    let refusal = || LaunchError::Failed { reason: "Refused".into(), message: "not now".into() };
    harness
        .cloud
        .state()
        .launch_faults
        .extend([LaunchFault::Refuse(refusal()), LaunchFault::Refuse(refusal())]);
    let harness = harness.run();
    // Faults apply to the first calls, which may be that of c.
    harness.until("launched", || ["a", "b", "c"].iter().all(|name| is_launched(&harness, name))).await;
    check_instances(&harness, &["a", "b", "c"], "");
    let attempts: Vec<u32> = harness.cloud.state().calls.iter().map(|(_, attempt, _)| *attempt).collect();
    assert!(attempts.iter().any(|attempt| *attempt > 1000), "{attempts:?}");
}

/// The NodeClaim whose answer was lost repeats its call, and no other one does.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_asked_for_again_by_its_claim_alone() {
    let names = ["a", "b", "c"];
    let harness = Harness::one_by_one(10);
    batch(&harness, &names);
    harness.cloud.state().launch_faults.push_back(LaunchFault::LoseResponse);
    let harness = harness.run();
    harness.until("launched", || names.iter().all(|name| is_launched(&harness, name))).await;
    check_instances(&harness, &names, "");
    let state = harness.cloud.state();
    assert_eq!(state.first_calls, [true, true, true, false]);
    assert_eq!(state.calls[0], state.calls[3]);
}

/// The process is killed after each effect: the writes of the attempt, each call, each answer that is recorded.
#[tokio::test(start_paused = true)]
async fn a_kill_between_any_two_answers_launches_nothing_twice() {
    let names = ["a", "b", "c"];
    let mut launched_before = BTreeSet::new();
    for effects in 1..=70 {
        let harness = Harness::one_by_one(10);
        batch(&harness, &names);
        harness.cloud.state().slow_claim = Some(("b".into(), Duration::from_secs(5)));
        harness.remaining_effects.set(effects);
        let harness = harness.run();
        harness.sleep(10).await;
        launched_before.insert(harness.cloud.state().launched);
        let harness = harness.crash().run();
        harness.until("launched", || names.iter().all(|name| is_launched(&harness, name))).await;
        check_instances(&harness, &names, &format!("after {effects} effects"));
    }
    assert_eq!(launched_before, [0, 1, 2, 3].into(), "kills before, between and after the answers");
}

/// NodeClaims that are deleted after a kill leave no instance, whether or not their launch was answered.
#[tokio::test(start_paused = true)]
async fn claims_deleted_after_a_kill_leave_no_instance() {
    for effects in 1..=12 {
        let harness = Harness::one_by_one(10);
        batch(&harness, &["a", "b", "c"]);
        harness.remaining_effects.set(effects);
        let harness = harness.run();
        harness.sleep(60).await;
        let harness = harness.crash();
        harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "a").expect("deletes");
        harness.server.delete("karpenter.sh/v1", "NodeClaim", "", "c").expect("deletes");
        let harness = harness.run();
        let gone = || ["a", "c"].iter().all(|name| harness.get_claim(name).is_none());
        harness.until("gone", || gone() && is_launched(&harness, "b")).await;
        harness.sleep(120).await;
        let state = harness.cloud.state();
        let names: Vec<_> = state.instances.values().map(|instance| instance.claim.clone()).collect();
        assert_eq!(names, [Some("b".into())], "after {effects} effects");
    }
}
