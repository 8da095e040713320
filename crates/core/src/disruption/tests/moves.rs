//! What moves are worth: to several nodes, over a time, against an own move, by the policy `Balanced`.

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

/// A node of 16 CPUs whose pods cannot share another one: they keep apart.
fn crowded(name: &str, milli: i64) -> NodeBuilder {
    let apart = |at: i64| {
        let pod = pod(&format!("p-{name}-{at}")).app("web").cpu(milli);
        let pod = pod.anti_affinity(crate::testing::affinity_to(crate::model::labels::HOSTNAME, "web"));
        running(name, pod).into()
    };
    (0..2).fold(idle(name).size("xlarge", 16, 32), |node, at| node.pod(apart(at)))
}

#[test]
fn a_node_is_split_where_two_small_ones_are_cheaper() {
    let builder = || ClusterBuilder::new().pool(on_demand(|_| {})).node(crowded("a", 1500).build());
    let proposal = checked(builder(), "n-to-m-consolidation: a -> small/on-demand -> small/on-demand");
    let [command] = proposal.commands.as_slice() else { panic!() };
    assert_eq!(command.savings(), command.price_now().saturating_sub(command.price_then()));
    assert!(command.savings() > Price::ZERO);
    // What single-node consolidation says stays true, and is shown where nothing can be done.
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
fn a_split_must_save_a_tenth() {
    // Two of 8 CPUs cost what one of 16 does.
    let builder = ClusterBuilder::new().pool(on_demand(|_| {})).node(crowded("a", 7500).build());
    let proposal = checked(builder, "nothing");
    assert_eq!(proposal.unconsolidatable[0].1.kind(), "NeedsSeveral");
    // In thousandths of a dollar 900 of 1,000 may be spent, of which a node more weighs three.
    let priced = |half: i64| {
        let sold = [("xlarge", 16, 32, 1_000), ("half", 8, 16, half)].map(|(name, cpus, gib, price)| {
            instance_type(name, cpus, gib).offer("a", "on-demand", price).build()
        });
        let catalog = Arc::new(Catalog::new(sold.to_vec()));
        ClusterBuilder::new()
            .catalog(catalog)
            .pool(on_demand(|_| {}))
            .node(crowded("a", 1500).zone("a").build())
    };
    check(priced(448), "n-to-m-consolidation: a -> half/on-demand -> half/on-demand");
    let proposal = checked(priced(449), "nothing");
    assert_eq!(reasons(&proposal), ["a: Can't remove without creating 2 candidates"]);
}

#[test]
fn a_split_needs_the_budget_of_all_that_go() {
    let none = |pool: &mut NodePool| pool.budgets = vec![budget(BudgetNodes::Count(0))];
    check(ClusterBuilder::new().pool(on_demand(none)).node(crowded("a", 1500).build()), "nothing");
}

#[test]
fn a_split_must_not_undo_a_merge() {
    let merged = crowded("a", 1500).with_claim(|claim| came_for(claim, "small/on-demand"));
    let proposal = checked(ClusterBuilder::new().pool(on_demand(|_| {})).node(merged.build()), "nothing");
    assert!(proposal.unconsolidatable.iter().any(|(_, why)| why.kind() == "WouldUndo"));
}

#[test]
fn spot_is_split_into_spot_where_the_settings_say_so() {
    let spot = || crowded("a", 1500).capacity_type("spot").build();
    let proposal = checked(ClusterBuilder::with_default_pool().node(spot()), "nothing");
    assert_eq!(proposal.unconsolidatable[0].1.kind(), "NeedsSeveral");
    // One node that becomes spot must keep the choice among fifteen types, which this catalogue does not have.
    let rules = Rules { spot_to_spot: true, ..Rules::default() };
    let _ = check_with(ClusterBuilder::with_default_pool().node(spot()), &rules, "nothing");
}

#[test]
fn a_move_late_in_life_does_not_pay() {
    let aged = |left: i64| {
        let node = idle("a").size("xlarge", 16, 32).pod(on("a", "p", 1500)).with_claim(move |claim| {
            claim.expire_after = Some(Duration::from_secs(86_400));
            claim.created = now() - jiff::SignedDuration::from_secs(86_400 - left);
        });
        ClusterBuilder::with_default_pool().node(node.build())
    };
    check(aged(3600), "single-node-consolidation: a -> small/spot");
    let proposal = checked(aged(300), "nothing");
    let Unconsolidatable::NoNetBenefit { savings, over, cost } = &proposal.unconsolidatable[0].1 else {
        panic!("{:?}", reasons(&proposal))
    };
    assert_eq!(*over, Duration::from_secs(300));
    assert!(savings <= cost, "{savings} {cost}");
    // What merely goes costs nothing that is not saved at once.
    let empty = idle("a").with_claim(|claim| {
        claim.expire_after = Some(Duration::from_secs(60));
    });
    check(ClusterBuilder::with_default_pool().node(empty.build()), "emptiness: a");
}

#[test]
fn a_replacement_stays_for_a_while() {
    let node = |minutes: i64, wanted: i64| {
        let node = idle("a").size("xlarge", 16, 32).pod(on("a", "p", 1500)).with_claim(move |claim| {
            came_for(claim, "large/on-demand");
            let since = now() - jiff::SignedDuration::from_mins(minutes);
            claim.conditions.get_mut(&ConditionType::Initialized).unwrap().since = since;
            claim.requests = crate::model::Resources::of(wanted, 0);
        });
        ClusterBuilder::with_default_pool().node(node.build())
    };
    let proposal = checked(node(9, 1500), "nothing");
    assert_eq!(proposal.unconsolidatable[0].1.kind(), "RecentReplacement");
    check(node(10, 1500), "single-node-consolidation: a -> small/spot");
    // Pods that it was made for are gone.
    check(node(9, 1600), "single-node-consolidation: a -> small/spot");
    let snapshot = node(9, 1500).build();
    let found = status(&snapshot, &Rules::default(), now(), "a").unwrap();
    assert_eq!(found.blockers[0].until(), Some(now() + jiff::SignedDuration::from_mins(1)));
}

#[test]
fn nothing_is_ended_while_nearly_half_of_the_nodes_are_not_ready() {
    let fleet = |unready: i64, all: i64| {
        let generous = pool("default").with(|pool| pool.budgets = vec![budget(BudgetNodes::Percent(100))]);
        (0..all).fold(ClusterBuilder::new().pool(generous), |builder, at| {
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
fn old_prices_move_no_pods() {
    let busy = || idle("a").size("xlarge", 16, 32).pod(on("a", "p", 1500)).build();
    let as_of = |hours: i64| Rules {
        prices_as_of: Some(now() - jiff::SignedDuration::from_hours(hours)),
        ..Rules::default()
    };
    let builder = || ClusterBuilder::with_default_pool().node(busy());
    let _ = check_with(builder(), &as_of(24), "single-node-consolidation: a -> small/spot");
    let proposal = check_with(builder(), &as_of(25), "nothing");
    assert_eq!(proposal.unconsolidatable[0].1.kind(), "PricesTooOld");
    let reasons = reasons(&proposal);
    assert!(reasons[0].starts_with("a: prices are as of 2025-"), "{reasons:?}");
    // What is empty goes whatever it costs, and drift is no matter of prices.
    let _ =
        check_with(ClusterBuilder::with_default_pool().node(idle("a").build()), &as_of(25), "emptiness: a");
    let drifted = node("a").pod(on("a", "p", 1500)).condition(ConditionType::Drifted).build();
    let _ =
        check_with(ClusterBuilder::with_default_pool().node(drifted), &as_of(25), "drift: a -> small/spot");
}

#[test]
fn dear_pods_make_a_move_dearer() {
    let node = |priority: i32| {
        let dear = running("a", pod("p").cpu(1500).with_spec(|spec| spec.priority = priority));
        let node = idle("a").size("xlarge", 16, 32).pod(dear.into()).with_claim(|claim| {
            claim.expire_after = Some(Duration::from_secs(1800));
        });
        ClusterBuilder::with_default_pool().node(node.build())
    };
    check(node(0), "single-node-consolidation: a -> small/spot");
    let proposal = checked(node(1_000_000_000), "nothing");
    assert_eq!(proposal.unconsolidatable[0].1.kind(), "NoNetBenefit");
}

#[test]
fn a_circle_over_several_nodes_is_seen() {
    let secs = jiff::SignedDuration::from_secs;
    let lone = |name: &str, replaced: String| {
        let node = idle(name).size("xlarge", 16, 32).pod(on(name, "p", 1500)).with_claim(move |claim| {
            came_for(claim, &replaced);
            claim.created = now() - secs(60);
        });
        ClusterBuilder::with_default_pool().node(node.build()).build()
    };
    // small/spot became medium/spot half an hour ago, and that became this node a minute ago.
    let at = (now() - secs(1800)).as_second();
    let first = lone("a", format!("medium/spot,small/spot@{at}"));
    let proposal = propose(&first, &Rules::default(), now());
    let Unconsolidatable::WouldUndo { since, .. } = &proposal.unconsolidatable[0].1 else {
        panic!("{:?}", reasons(&proposal))
    };
    assert_eq!(*since, now() - secs(1800));
    let (all, _) = candidates(&first, now(), false);
    let minute = (now() - secs(60)).as_second();
    let replaced = format!("medium/spot@{minute},small/spot@{at},xlarge/on-demand");
    assert_eq!(lineage_of(&all, now()), format!("command=id;replaced={replaced}"));
    // An hour after the first move all is forgotten but the second.
    let (all, _) = candidates(&first, now() + secs(1800), false);
    let replaced = format!("medium/spot@{minute},xlarge/on-demand");
    assert_eq!(lineage_of(&all, now() + secs(1800)), format!("command=id;replaced={replaced}"));
}

#[test]
fn balanced_moves_have_a_score() {
    let balanced = || pool("default").with(|pool| pool.consolidation_policy = ConsolidationPolicy::Balanced);
    let lone = idle("b").size("large", 8, 16).pod(on("b", "q", 1500)).build();
    let proposal = checked(
        ClusterBuilder::new().pool(balanced()).node(lone),
        "single-node-consolidation: b -> small/spot",
    );
    let judged = proposal.scores.last().unwrap();
    assert!(judged.approved && judged.score() >= 0.5, "{judged:?}");
    // Nine pods of no size: to move them saves a little, and disturbs nearly everything that the pool runs.
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

/// A node of which half a day is over the age of one day.
fn expired(name: &str, hours_over: i64) -> NodeBuilder {
    idle(name).pod(on(name, &format!("p-{name}"), 3500)).with_claim(move |claim| {
        claim.expire_after = Some(Duration::from_secs(86_400));
        claim.created = now() - jiff::SignedDuration::from_hours(24 + hours_over);
    })
}

#[test]
fn nodes_past_their_age_are_replaced_within_budgets_where_the_pool_wants_it() {
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
    let came = |name: &str, ago: i64| {
        let full = node(name).pod(on(name, &format!("p-{name}"), 3900));
        let came = full.with_claim(move |claim| {
            claim.annotations.insert(crate::model::labels::LINEAGE.into(), "replaced=medium/spot".into());
            claim.created = now() - secs(ago);
        });
        came.build()
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
            .fold(builder, |builder, (at, ago)| builder.node(came(&format!("new-{at}"), *ago)))
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
        .node(came("new", 5))
        .node(came("newer", 5))
        .node(came("newest", 5));
    assert_eq!(reached(taken.clone()), [false], "no drifted node waits");
    let mut marked = drifted("a");
    Arc::make_mut(&mut marked).marked_for_deletion = true;
    assert_eq!(reached(taken.clone().node(marked)), [false], "it is being replaced");
    assert_eq!(reached(taken.node(drifted("a"))), [true]);
    let survey = survey(&builder(&[60, 3599, 5]).build(), &Rules::default(), now(), METHODS);
    let blocker = survey.nodes[0].blockers.iter().find(|blocker| blocker.kind() == "DriftCap").unwrap();
    assert_eq!(blocker.until(), Some(now() + secs(1)));
    assert_eq!(blocker.owner().as_deref(), Some("nodepool/default"));
}
