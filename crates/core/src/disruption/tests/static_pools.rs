//! Static NodePools: scale up, scale down, replace one for one.

use rstest::rstest;

use super::*;

fn fixed(replicas: i64) -> crate::testing::PoolBuilder {
    pool("default").replicas(replicas).with(|pool| pool.budgets = vec![budget(BudgetNodes::Count(2))])
}

fn scaled(builder: ClusterBuilder) -> Scaling {
    let snapshot = builder.build();
    let pool = snapshot.pools[0].clone();
    scale(&snapshot, &pool, now())
}

fn up(create: i64, limited: i64) -> Scaling {
    Scaling { create, limited, remove: Vec::new() }
}

fn down(names: &[&str]) -> Scaling {
    Scaling { remove: names.iter().map(|name| (*name).into()).collect(), ..Scaling::default() }
}

#[rstest]
#[case::missing(3, None, up(2, 0))]
#[case::limited(5, Some(3), up(2, 2))]
#[case::enough(1, None, up(0, 0))]
#[case::none(0, None, down(&["a"]))]
fn a_pool_is_scaled_to_its_replicas(
    #[case] replicas: i64,
    #[case] limit: Option<i64>,
    #[case] expected: Scaling,
) {
    let pool = fixed(replicas).with(|pool| pool.limits.nodes = limit);
    assert_eq!(scaled(ClusterBuilder::new().pool(pool).node(node("a").build())), expected);
}

#[test]
fn nodes_being_replaced_count_until_they_are_deleted() {
    let builder = |replicas| {
        ClusterBuilder::new()
            .pool(fixed(replicas))
            .node(node("a").marked().build())
            .node(node("b").build())
            .node(node("c").with_claim(|claim| claim.deleting = Some(now())).build())
    };
    assert_eq!(scaled(builder(2)), up(0, 0));
    assert_eq!(scaled(builder(3)), up(1, 0));
    // The node that is being deleted does not count twice.
    assert_eq!(scaled(builder(1)), up(0, 0));
}

#[test]
fn the_cheapest_to_disrupt_is_deleted_first() {
    let with_pod = |name: &str, pods: i64| {
        (0..pods).fold(node(name), |node, at| node.pod(on(name, &format!("{name}-{at}"), 10)))
    };
    let protected_node = |name: &str| {
        node(name).with_node(|node| {
            node.annotations.insert("karpenter.sh/do-not-disrupt".into(), "true".into());
        })
    };
    let old = with_pod("old", 2).with_claim(|claim| {
        claim.expire_after = Some(Duration::from_secs(1000));
        claim.created = now() - jiff::SignedDuration::from_secs(900);
    });
    let builder = |replicas| {
        ClusterBuilder::new()
            .pool(fixed(replicas))
            .node(protected_node("guarded").build())
            .node(with_pod("one", 1).build())
            .node(with_pod("two", 2).build())
            .node(old.clone().build())
            .node(node("empty").build())
            .node(node("unlaunched").unlaunched(&[]).build())
    };
    assert_eq!(scaled(builder(0)), down(&["unlaunched", "empty", "old", "one", "two", "guarded"]));
    assert_eq!(scaled(builder(4)), down(&["unlaunched", "empty"]));
}

#[test]
fn drifted_nodes_are_replaced_one_for_one() {
    let drifted = |name: &str| node(name).condition(ConditionType::Drifted);
    let builder = |pool: crate::testing::PoolBuilder| {
        ["a", "b", "c"]
            .iter()
            .fold(ClusterBuilder::new().pool(pool), |builder, name| builder.node(drifted(name).build()))
    };
    let summary_by = |builder: ClusterBuilder| summary(&propose(&builder.build(), &Rules::default(), now()));
    assert_eq!(summary_by(builder(fixed(3))), "static-drift: a -> small/spot, b -> small/spot");
    // The limit allows one more node.
    let limited = fixed(3).with(|pool| pool.limits.nodes = Some(4));
    assert_eq!(summary_by(builder(limited)), "static-drift: a -> small/spot");
    // Surplus nodes are deleted before any is replaced; emptiness ignores static NodePools.
    assert_eq!(summary_by(builder(fixed(2))), "nothing");
}

#[test]
fn nothing_is_replaced_if_nothing_can_be_launched() {
    let drifted = node("a").condition(ConditionType::Drifted).build();
    let closed = fixed(1).with(|pool| pool.ready = false);
    let proposal = checked(ClusterBuilder::new().pool(closed).node(drifted), "nothing");
    let why: Vec<_> = proposal.held.iter().map(|(_, why)| why.kind()).collect();
    assert_eq!(why, ["NodePoolNotReady"]);
}

#[test]
fn expired_nodes_are_replaced_one_for_one_if_the_pool_opts_in() {
    let old = |name: &str, days: i64| {
        node(name).with_claim(move |claim| {
            claim.expire_after = Some(Duration::from_secs(30 * 24 * 3600));
            claim.created = now() - jiff::SignedDuration::from_hours(24 * days);
        })
    };
    let builder = |grace: Option<Duration>| {
        let pool = fixed(3).with(|pool| pool.expiry_grace = grace);
        let drifted = node("c").condition(ConditionType::Drifted);
        ClusterBuilder::new()
            .pool(pool)
            .node(old("a", 31).build())
            .node(old("b", 29).build())
            .node(drifted.build())
    };
    let summary_by = |grace| summary(&propose(&builder(grace).build(), &Rules::default(), now()));
    assert_eq!(summary_by(None), "static-drift: c -> small/spot");
    assert_eq!(summary_by(Some(Duration::from_secs(3600))), "static-drift: a -> small/spot, c -> small/spot");
}

#[test]
fn a_claim_of_a_static_pool_lists_no_instance_types() {
    let snapshot = ClusterBuilder::new().pool(fixed(1)).build();
    let new_claim = static_new_claim(&snapshot, &snapshot.pools[0].clone()).unwrap();
    assert!(new_claim.requirements.get(crate::model::labels::INSTANCE_TYPE).is_none());
    assert!(new_claim.pods.is_empty());
    assert!(!new_claim.instance_types.is_empty());
}

#[test]
fn only_nodes_of_the_nodepool_that_stay_are_surplus() {
    let builder = ClusterBuilder::new()
        .pool(fixed(1))
        .pool(pool("another"))
        .node(node("a").pool("another").build())
        .node(node("b").marked().build())
        .node(node("c").with_claim(|claim| claim.deleting = Some(now())).build())
        .node(node("d").unmanaged().build())
        .node(node("e").build())
        .node(node("f").build());
    assert_eq!(scaled(builder.clone()), down(&["e"]));
    let counts = NodeCounts::of(&builder.build(), "default");
    assert_eq!(counts, NodeCounts { active: 2, replaced: 1, deleting: 1 });
}

#[test]
fn the_node_limit_counts_every_node_that_exists() {
    let pool = |limit| fixed(1).with(|pool| pool.limits.nodes = limit).into();
    let counts = NodeCounts { active: 3, replaced: 2, deleting: 1 };
    let room = |limit| counts.room(&Arc::<NodePool>::clone(&pool(limit)));
    assert_eq!([room(Some(8)), room(Some(6)), room(Some(1)), room(None)], [2, 0, 0, i64::MAX]);
}

#[test]
fn a_replacement_counts_for_its_nodepool_once_its_command_starts() {
    let drifted = node("a").condition(ConditionType::Drifted).build();
    let mut snapshot = ClusterBuilder::new().pool(fixed(1)).node(drifted).build();
    let proposal = propose(&snapshot, &Rules::default(), now());
    overlay::start(&mut snapshot, &proposal.commands[0], 0);
    let counts = NodeCounts::of(&snapshot, "default");
    assert_eq!(counts, NodeCounts { active: 1, replaced: 1, deleting: 0 });
}
