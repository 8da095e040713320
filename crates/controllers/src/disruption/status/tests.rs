//! Which blockers are written, and when they are rewritten.

use fleetwright_core::{
    disruption::Unconsolidatable,
    model::{Currency, DisruptionReason, NamespacedName, Price, Prices},
    testing::{NodeBuilder, node},
};
use rstest::rstest;

use super::*;

fn at(seconds: i64) -> Timestamp {
    fleetwright_core::testing::now() + jiff::SignedDuration::from_secs(seconds)
}

fn pod(name: &str, until: Option<i64>) -> Blocker {
    Blocker::DoNotDisruptPod(NamespacedName::new("default", name), until.map(at))
}

fn pdb(name: &str) -> Blocker {
    Blocker::Pdb(NamespacedName::new("default", name))
}

fn quiet(until: i64, left: u64) -> Blocker {
    let (after, left) = (Duration::from_secs(3600), Duration::from_secs(left));
    Blocker::ConsolidateAfter {
        after,
        until: at(until),
        left,
        pod: Some(NamespacedName::new("default", "a")),
    }
}

fn budget(allowed: i64, disrupting: i64) -> Blocker {
    let (pool, reason) = ("default".into(), DisruptionReason::Drifted);
    Blocker::Budget { pool, reason, allowed, disrupting, started: 0, until: None, error: None }
}

fn dear(nanos: i64) -> Blocker {
    let price = Price::from_nanos(nanos);
    let now = Prices { list: price, effective: price };
    let currency = Currency::USD;
    Blocker::Unconsolidatable(Unconsolidatable::NotCheaper { now, cheapest: None, others: 0, currency })
}

fn desired(blockers: Vec<Blocker>, now: i64) -> DesiredCondition {
    let node = node("a").build();
    DesiredCondition::of(&DisruptionStatus { node, candidate: false, price: None, blockers }, at(now))
}

#[rstest]
#[case::the_same(vec![pod("a", None)], vec![pod("a", None)], true, false)]
#[case::the_pod_of_another(vec![pod("a", None)], vec![pod("b", None)], true, true)]
#[case::one_more(vec![pod("a", None)], vec![pod("a", None), pdb("b")], true, true)]
#[case::one_less(vec![pod("a", None), pdb("b")], vec![pod("a", None)], true, true)]
#[case::another_end(vec![pod("a", Some(900))], vec![pod("a", Some(1800))], true, true)]
#[case::nothing_any_more(vec![pod("a", None)], vec![], true, true)]
#[case::figures_of_a_budget(vec![budget(0, 1)], vec![budget(0, 2)], true, false)]
#[case::a_price(vec![dear(1)], vec![dear(2)], true, false)]
#[case::the_end_was_put_off(vec![quiet(3600, 3600)], vec![quiet(4200, 3600)], true, false)]
#[case::the_written_end_is_over(vec![quiet(500, 500)], vec![quiet(4200, 3600)], true, true)]
#[case::not_looked_at(vec![dear(1)], vec![], false, false)]
#[case::looked_at(vec![dear(1)], vec![], true, true)]
#[case::blocked_and_not_looked_at(vec![dear(1)], vec![pdb("b")], false, true)]
#[case::free_and_not_looked_at(vec![pdb("b")], vec![], false, true)]
fn a_condition_is_written_again_when_a_blocker_changes(
    #[case] before: Vec<Blocker>,
    #[case] blocks: Vec<Blocker>,
    #[case] complete_pass: bool,
    #[case] news: bool,
) {
    // Ten minutes later.
    let (before, now) = (desired(before, 0), desired(blocks, 600));
    assert_eq!(now.differs(&before.blockers_written, complete_pass, at(600)), news, "{before:?} {now:?}");
}

#[rstest]
#[case::forever(pdb("a"), true)]
#[case::for_minutes(pod("a", Some(300)), true)]
#[case::about_to_end(pod("a", Some(110)), false)]
#[case::consolidate_after(quiet(3600, 3600), true)]
#[case::short_consolidate_after(quiet(60, 60), false)]
#[case::no_room_in_a_budget(budget(1, 1), false)]
#[case::a_closed_budget(budget(0, 0), true)]
#[case::replaced_others(
    Blocker::Unconsolidatable(Unconsolidatable::RecentReplacement { since: at(0) }),
    false
)]
#[case::it_goes(Blocker::Deleting, false)]
fn short_blockers_are_not_written(#[case] blocker: Blocker, #[case] written: bool) {
    assert_eq!(desired(vec![blocker], 0).text.is_some(), written);
}

#[rstest]
#[case::has_not_joined(node("a").launched(), 3600, false)]
#[case::joined_just_now(node("a").uninitialized(), 60, false)]
#[case::joined_a_while_ago(node("a").uninitialized(), 120, true)]
fn a_node_uninitialized_for_two_minutes_is_listed(
    #[case] node: NodeBuilder,
    #[case] seconds: i64,
    #[case] written: bool,
) {
    assert_eq!(lasts(&Blocker::NotInitialized, &node.build(), at(seconds)), written);
}

#[rstest]
#[case::small(500)]
#[case::large(10_000)]
#[case::not_divisible(10_001)]
fn all_nodes_are_written_within_ten_updates(#[case] nodes: usize) {
    assert!(most_writes(nodes) * 10 >= nodes, "{}", most_writes(nodes));
    assert!(most_writes(nodes) <= nodes.div_ceil(10), "{}", most_writes(nodes));
}
