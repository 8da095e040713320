//! The benefit of moves: to several nodes, over the remaining lifetime, against earlier moves, with the policy `Balanced`.

use super::*;
use crate::{
    model::{
        Catalog, Price, Requirement,
        labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE},
    },
    testing::instance_type,
};

fn on_demand(change: impl FnOnce(&mut NodePool)) -> Arc<NodePool> {
    let pool = pool("default").with(|pool| {
        pool.template.requirements.add(Requirement::is_in(CAPACITY_TYPE, ["on-demand"]));
        pool.budgets = vec![budget(BudgetNodes::Percent(100))];
    });
    pool.with(change).into()
}

/// A node of 16 CPUs whose pods have anti-affinity to each other.
pub(super) fn spread_pods(name: &str, milli: i64) -> NodeBuilder {
    let apart = |at: i64| {
        let pod = pod(&format!("p-{name}-{at}")).app("web").cpu(milli);
        let pod = pod.anti_affinity(crate::testing::affinity_to(crate::model::labels::HOSTNAME, "web"));
        running(name, pod).into()
    };
    (0..2).fold(idle(name).size("xlarge", 16, 32), |node, at| node.pod(apart(at)))
}

#[test]
fn a_node_is_split_if_two_small_ones_are_cheaper() {
    let builder = || ClusterBuilder::new().pool(on_demand(|_| {})).node(spread_pods("a", 1500).build());
    let proposal = checked(builder(), "n-to-m-consolidation: a -> small/on-demand -> small/on-demand");
    let [command] = proposal.commands.as_slice() else { panic!() };
    assert_eq!(command.savings(), command.price_before().saturating_sub(command.price_after()));
    assert!(command.savings() > Price::ZERO);
    // Without N-to-M consolidation, the reason of single-node consolidation is reported.
    let alone = propose_with(
        &builder().build(),
        &Rules::default(),
        now(),
        &[method("single-node-consolidation").unwrap()],
    );
    assert_eq!(reasons(&alone), ["a: Can't remove without creating 2 candidates"]);
    let asked_alone = propose_with(
        &builder().build(),
        &Rules::default(),
        now(),
        &[method("n-to-m-consolidation").unwrap()],
    );
    assert_eq!(summary(&asked_alone), summary(&proposal));
}

#[test]
fn a_split_must_save_fifteen_percent() {
    // Two nodes of 8 CPUs cost as much as one of 16.
    let builder = ClusterBuilder::new().pool(on_demand(|_| {})).node(spread_pods("a", 7500).build());
    let proposal = checked(builder, "nothing");
    assert_eq!(proposal.unconsolidatable[0].1.kind(), "NeedsSeveral");
    // Of 1,000 (thousandths of a dollar) 850 may be spent; an additional node counts as 3.
    let priced = |half: i64| {
        let offered = [("xlarge", 16, 32, 1_000), ("half", 8, 16, half)].map(|(name, cpus, gib, price)| {
            instance_type(name, cpus, gib).offer("a", "on-demand", price).build()
        });
        let catalog = Arc::new(Catalog::new(offered.to_vec()));
        ClusterBuilder::new()
            .catalog(catalog)
            .pool(on_demand(|_| {}))
            .node(spread_pods("a", 1500).zone("a").build())
    };
    check(priced(423), "n-to-m-consolidation: a -> half/on-demand -> half/on-demand");
    let proposal = checked(priced(424), "nothing");
    assert_eq!(reasons(&proposal), ["a: Can't remove without creating 2 candidates"]);
}

#[test]
fn a_split_needs_budget_for_all_its_nodes() {
    let none = |pool: &mut NodePool| pool.budgets = vec![budget(BudgetNodes::Count(0))];
    check(ClusterBuilder::new().pool(on_demand(none)).node(spread_pods("a", 1500).build()), "nothing");
}

#[test]
fn a_split_does_not_undo_a_merge() {
    let merged = spread_pods("a", 1500).with_claim(|claim| replaced_offering(claim, "small/on-demand"));
    let proposal = checked(ClusterBuilder::new().pool(on_demand(|_| {})).node(merged.build()), "nothing");
    assert!(proposal.unconsolidatable.iter().any(|(_, why)| why.kind() == "WouldUndo"));
}

#[test]
fn spot_is_split_into_spot_only_if_enabled() {
    let spot = || spread_pods("a", 1500).capacity_type("spot").build();
    let proposal = checked(ClusterBuilder::with_default_pool().node(spot()), "nothing");
    assert_eq!(proposal.unconsolidatable[0].1.kind(), "NeedsSeveral");
    // Spot-to-spot needs fifteen types, which this catalogue does not have.
    let rules = Rules { spot_to_spot: true, ..Rules::default() };
    let _ = check_with(ClusterBuilder::with_default_pool().node(spot()), &rules, "nothing");
}

#[test]
fn a_node_near_expiration_is_not_replaced() {
    let aged = |left: i64| {
        let node = idle("a").size("xlarge", 16, 32).pod(on("a", "p", 1500)).with_claim(move |claim| {
            claim.expire_after = Some(Duration::from_secs(86_400));
            claim.created = now() - jiff::SignedDuration::from_secs(86_400 - left);
        });
        ClusterBuilder::with_default_pool().node(node.build())
    };
    check(aged(3600), "single-node-consolidation: a -> small/spot");
    let proposal = checked(aged(300), "nothing");
    let Unconsolidatable::NoNetBenefit { savings, over, cost, .. } = &proposal.unconsolidatable[0].1 else {
        panic!("{:?}", reasons(&proposal))
    };
    assert_eq!(*over, Duration::from_secs(300));
    assert!(savings <= cost, "{savings} {cost}");
    // A deletion saves at once.
    let empty = idle("a").with_claim(|claim| {
        claim.expire_after = Some(Duration::from_secs(60));
    });
    check(ClusterBuilder::with_default_pool().node(empty.build()), "emptiness: a");
}

#[test]
fn a_recent_replacement_is_not_consolidated() {
    let node = |minutes: i64, wanted: i64| {
        let node = idle("a").size("xlarge", 16, 32).pod(on("a", "p", 1500)).with_claim(move |claim| {
            replaced_offering(claim, "large/on-demand");
            let since = now() - jiff::SignedDuration::from_mins(minutes);
            claim.conditions.get_mut(&ConditionType::Initialized).unwrap().since = since;
            claim.requests = crate::model::Resources::of(wanted, 0);
        });
        ClusterBuilder::with_default_pool().node(node.build())
    };
    let proposal = checked(node(9, 1500), "nothing");
    assert_eq!(proposal.unconsolidatable[0].1.kind(), "RecentReplacement");
    check(node(10, 1500), "single-node-consolidation: a -> small/spot");
    // It has lost pods that it was created for.
    check(node(9, 1600), "single-node-consolidation: a -> small/spot");
    let snapshot = node(9, 1500).build();
    let found = status(&snapshot, &Rules::default(), now(), "a").unwrap();
    assert_eq!(found.blockers[0].until(), Some(now() + jiff::SignedDuration::from_mins(1)));
}

#[test]
fn nothing_is_disrupted_while_nearly_half_of_the_nodes_are_not_ready() {
    let fleet = |unready: i64, all: i64| {
        let full_budget = pool("default").with(|pool| pool.budgets = vec![budget(BudgetNodes::Percent(100))]);
        (0..all).fold(ClusterBuilder::new().pool(full_budget), |builder, at| {
            builder.node(idle(&format!("n{at}")).with_node(move |node| node.ready = at >= unready).build())
        })
    };
    for (unready, all, moves) in [(3, 4, true), (4, 8, false), (4, 9, true), (9, 20, true), (10, 20, false)] {
        let proposal = propose(&fleet(unready, all).build(), &Rules::default(), now());
        assert_eq!(!proposal.commands.is_empty(), moves, "{unready} of {all}");
        let outage = proposal.blocked.iter().all(|blocked| blocked.blocker.kind() == "Outage");
        assert!(moves || outage && proposal.blocked.len() == usize::try_from(all).unwrap());
    }
}

#[test]
fn only_managed_nodes_that_have_been_initialized_count_for_an_outage() {
    let unready = |node: NodeBuilder| node.with_node(|node| node.ready = false).build();
    let found = |change: fn(NodeBuilder) -> NodeBuilder| {
        let odd = ["a", "b", "c", "d"].map(|name| unready(change(node(name))));
        let ready = ["e", "f"].map(|name| node(name).build());
        outage(odd.iter().chain(&ready).map(|node| &**node))
    };
    assert_eq!(found(|node| node), Some((4, 6)));
    assert_eq!(found(NodeBuilder::uninitialized), None, "a node that starts is not ready");
    assert_eq!(found(NodeBuilder::unmanaged), None, "they are not of Karpenter");
}

#[test]
fn stale_prices_suspend_consolidation() {
    let with_pod = || idle("a").size("xlarge", 16, 32).pod(on("a", "p", 1500)).build();
    let as_of = |hours: i64| Rules {
        prices_as_of: Some(now() - jiff::SignedDuration::from_hours(hours)),
        ..Rules::default()
    };
    let builder = || ClusterBuilder::with_default_pool().node(with_pod());
    let _ = check_with(builder(), &as_of(24), "single-node-consolidation: a -> small/spot");
    let proposal = check_with(builder(), &as_of(25), "nothing");
    assert_eq!(proposal.unconsolidatable[0].1.kind(), "PricesTooOld");
    let reasons = reasons(&proposal);
    assert!(reasons[0].starts_with("a: prices are as of 2025-"), "{reasons:?}");
    // Emptiness and drift do not depend on prices.
    let _ =
        check_with(ClusterBuilder::with_default_pool().node(idle("a").build()), &as_of(25), "emptiness: a");
    let drifted = node("a").pod(on("a", "p", 1500)).condition(ConditionType::Drifted).build();
    let _ =
        check_with(ClusterBuilder::with_default_pool().node(drifted), &as_of(25), "drift: a -> small/spot");
}

#[test]
fn pods_of_high_priority_increase_the_cost_of_a_move() {
    let node = |priority: i32| {
        let expensive = running("a", pod("p").cpu(1500).with_spec(|spec| spec.priority = priority));
        let node = idle("a").size("xlarge", 16, 32).pod(expensive.into()).with_claim(|claim| {
            claim.expire_after = Some(Duration::from_secs(1800));
        });
        ClusterBuilder::with_default_pool().node(node.build())
    };
    check(node(0), "single-node-consolidation: a -> small/spot");
    let proposal = checked(node(1_000_000_000), "nothing");
    assert_eq!(proposal.unconsolidatable[0].1.kind(), "NoNetBenefit");
}

#[test]
fn a_cycle_over_several_nodes_is_detected() {
    let secs = jiff::SignedDuration::from_secs;
    let too_large_node = |name: &str, replaced: String| {
        let node = idle(name).size("xlarge", 16, 32).pod(on(name, "p", 1500)).with_claim(move |claim| {
            replaced_offering(claim, &replaced);
            claim.created = now() - secs(60);
        });
        ClusterBuilder::with_default_pool().node(node.build()).build()
    };
    // small/spot became medium/spot half an hour ago, and that became this node a minute ago.
    let at = (now() - secs(1800)).as_second();
    let first = too_large_node("a", format!("medium/spot,small/spot@{at}"));
    let proposal = propose(&first, &Rules::default(), now());
    let Unconsolidatable::WouldUndo { since, .. } = &proposal.unconsolidatable[0].1 else {
        panic!("{:?}", reasons(&proposal))
    };
    assert_eq!(*since, now() - secs(1800));
    let (all, _) = candidates(&first, now(), false);
    let minute = (now() - secs(60)).as_second();
    let replaced = format!("medium/spot@{minute},small/spot@{at},xlarge/on-demand");
    assert_eq!(lineage_of(&all, now()), format!("command=id;replaced={replaced}"));
    // An hour after the first move, only the second counts.
    let (all, _) = candidates(&first, now() + secs(1800), false);
    let replaced = format!("medium/spot@{minute},xlarge/on-demand");
    assert_eq!(lineage_of(&all, now() + secs(1800)), format!("command=id;replaced={replaced}"));
}

#[test]
fn balanced_moves_have_a_score() {
    let balanced = || pool("default").with(|pool| pool.consolidation_policy = ConsolidationPolicy::Balanced);
    let too_large_node = idle("b").size("large", 8, 16).pod(on("b", "q", 1500)).build();
    let proposal = checked(
        ClusterBuilder::new().pool(balanced()).node(too_large_node),
        "single-node-consolidation: b -> small/spot",
    );
    let judged = proposal.scores.last().unwrap();
    assert!(judged.approved && judged.score() >= 0.5, "{judged:?}");
    // Nine tiny pods: moving them saves little, and disrupts nearly all pods of the NodePool.
    let many = (0..9).fold(idle("a").size("medium", 4, 8).capacity_type("on-demand"), |node, at| {
        node.pod(on("a", &format!("p{at}"), 210))
    });
    let only = |pool: &mut NodePool| {
        pool.consolidation_policy = ConsolidationPolicy::Balanced;
        pool.template.requirements.add(Requirement::is_in(INSTANCE_TYPE, ["medium", "arm", "small"]));
        pool.template.requirements.add(Requirement::is_in(ZONE, ["a"]));
    };
    let idle_neighbour = node("z").size("xlarge", 16, 32).pod(on("z", "big", 100)).build();
    let builder = ClusterBuilder::new().pool(on_demand(only)).node(many.build()).node(idle_neighbour);
    let proposal = propose(&builder.build(), &Rules::default(), now());
    let rejected: Vec<&BalancedScore> = proposal.scores.iter().filter(|judged| !judged.approved).collect();
    assert!(
        !rejected.is_empty() && rejected.iter().all(|judged| judged.score() < 0.5),
        "{:?}",
        proposal.scores
    );
}

#[test]
fn a_nodepool_without_prices_approves_no_move() {
    let one = Price::from_nanos(1);
    let judged = |savings, moved, pool_price| {
        let totals = (pool_price, DisruptionCost::NODE + DisruptionCost::NODE);
        let score = BalancedScore::new("default".into(), savings, moved, totals);
        (score.approved, score.score() >= BalancedScore::THRESHOLD)
    };
    assert_eq!(judged(one, DisruptionCost::NODE, Price::ZERO), (false, false));
    assert_eq!(judged(Price::ZERO, DisruptionCost::NODE, one), (false, false), "nothing is saved");
    assert_eq!(judged(one, DisruptionCost::NODE, one), (true, true));
    assert_eq!(judged(one, DisruptionCost::default(), one), (true, true), "nothing is disrupted");
}

/// A node that expired some hours ago.
fn expired(name: &str, hours_over: i64) -> NodeBuilder {
    idle(name).pod(on(name, &format!("p-{name}"), 3500)).with_claim(move |claim| {
        claim.expire_after = Some(Duration::from_secs(86_400));
        claim.created = now() - jiff::SignedDuration::from_hours(24 + hours_over);
    })
}

#[test]
fn expired_nodes_are_replaced_within_budgets_if_the_pool_opts_in() {
    let builder = |grace: Option<Duration>, budgeted| {
        let pool = pool("default").with(|pool| {
            pool.expiry_grace = grace;
            pool.budgets = vec![budget(budgeted)];
        });
        let builder =
            ClusterBuilder::new().pool(pool).node(expired("a", 1).build()).node(expired("b", 2).build());
        builder.node(expired("c", -1).build())
    };
    let expiration = method("expiration").unwrap();
    let found = |builder: ClusterBuilder| {
        summary(&propose_with(&builder.build(), &Rules::default(), now(), &[expiration]))
    };
    let day = Some(Duration::from_secs(86_400));
    assert_eq!(found(builder(day, BudgetNodes::Count(1))), "expiration: b -> medium/spot");
    assert_eq!(found(builder(day, BudgetNodes::Count(3))), "expiration: b -> medium/spot, a -> medium/spot");
    assert_eq!(found(builder(day, BudgetNodes::Count(0))), "nothing");
    assert_eq!(found(builder(None, BudgetNodes::Count(3))), "nothing");
}

#[test]
fn the_drift_cap_bounds_how_many_nodes_drift_replaces() {
    let secs = jiff::SignedDuration::from_secs;
    let drifted = |name: &str| {
        node(name).pod(on(name, &format!("p-{name}"), 3500)).condition(ConditionType::Drifted).build()
    };
    let created_ago = |name: &str, ago: i64| {
        let full = node(name).pod(on(name, &format!("p-{name}"), 3900));
        let created_ago = full.with_claim(move |claim| {
            claim.annotations.insert(crate::model::labels::LINEAGE.into(), "replaced=medium/spot".into());
            claim.created = now() - secs(ago);
        });
        created_ago.build()
    };
    let capped = || {
        pool("default").with(|pool| {
            pool.drift_cap =
                Some(crate::model::pool::DriftCap { nodes: 3, window: Duration::from_secs(3600) });
            pool.budgets = vec![budget(BudgetNodes::Percent(100))];
        })
    };
    let builder = |ages: &[i64]| {
        let builder = ClusterBuilder::new().pool(capped());
        let builder =
            ["a", "b", "c", "d"].into_iter().fold(builder, |builder, name| builder.node(drifted(name)));
        ages.iter()
            .enumerate()
            .fold(builder, |builder, (at, ago)| builder.node(created_ago(&format!("new-{at}"), *ago)))
    };
    let commands = |ages: &[i64]| propose(&builder(ages).build(), &Rules::default(), now()).commands.len();
    assert_eq!(commands(&[]), 3);
    assert_eq!(commands(&[60, 3600]), 2);
    assert_eq!(commands(&[60, 3599, 5]), 0);
    let reached = |builder: ClusterBuilder| {
        let caps = propose(&builder.build(), &Rules::default(), now()).drift_caps;
        caps.into_iter().map(|usage| usage.is_reached()).collect::<Vec<_>>()
    };
    assert_eq!(reached(builder(&[60, 3600])), [false]);
    assert_eq!(reached(builder(&[60, 3599, 5])), [true]);
    let taken = ClusterBuilder::new()
        .pool(capped())
        .node(created_ago("new", 5))
        .node(created_ago("newer", 5))
        .node(created_ago("newest", 5));
    assert_eq!(reached(taken.clone()), [false], "no drifted node waits");
    let mut marked = drifted("a");
    Arc::make_mut(&mut marked).marked_for_deletion = true;
    assert_eq!(reached(taken.clone().node(marked)), [false], "the node is being replaced");
    assert_eq!(reached(taken.node(drifted("a"))), [true]);
    let survey = survey(&builder(&[60, 3599, 5]).build(), &Rules::default(), now(), METHODS);
    let blocker = survey.nodes[0].blockers.iter().find(|blocker| blocker.kind() == "DriftCap").unwrap();
    assert_eq!(blocker.until(), Some(now() + secs(1)));
    assert_eq!(blocker.owner().as_deref(), Some("nodepool/default"));
    // Consolidation considers this node too.
    let both = idle("a").capacity_type("spot").pod(on("a", "p-a", 3500));
    let both = both.condition(ConditionType::Drifted).build();
    let all = ClusterBuilder::new().pool(capped()).node(both);
    let all = ["x", "y", "z"].into_iter().fold(all, |all, name| all.node(created_ago(name, 5)));
    let survey = super::survey(&all.build(), &Rules::default(), now(), METHODS);
    let blockers = &survey.nodes[0].blockers;
    assert!(blockers.iter().any(|blocker| blocker.kind() == "DriftCap"), "{blockers:?}");
}
