//! Passes of several commands, and the blockers of each node.

use super::*;
use crate::model::{NodeClaim, Nomination};

fn surveyed(builder: ClusterBuilder, methods: &[&dyn Method]) -> Survey {
    survey(&builder.build(), &Rules::default(), now(), methods)
}

/// `name [candidate]: Type(owner, until); …` of every node.
fn listed(survey: &Survey) -> Vec<String> {
    let one = |status: &DisruptionStatus| {
        let blockers = status.blockers.iter().map(|blocker| {
            let owner = blocker.owner().unwrap_or_else(|| "-".to_owned());
            let until = blocker
                .until()
                .map_or_else(|| "-".to_owned(), |at| at.duration_since(now()).as_secs().to_string());
            format!("{}({owner}, {until})", blocker.kind())
        });
        let blockers: Vec<String> = blockers.collect();
        let candidate = if status.candidate { " candidate" } else { "" };
        format!("{}{candidate}: {}", status.node.name(), blockers.join("; "))
    };
    survey.nodes.iter().map(one).collect()
}

fn drifted(name: &str, ago: i64) -> NodeBuilder {
    node(name).pod(on(name, &format!("p-{name}"), 3500)).condition(ConditionType::Drifted).with_claim(
        move |claim| {
            if let Some(condition) = claim.conditions.get_mut(&ConditionType::Drifted) {
                condition.since = now() - jiff::SignedDuration::from_secs(ago);
            }
        },
    )
}

#[test]
fn a_pass_has_as_many_commands_as_the_budget_allows() {
    let fleet = |budget| {
        let builder = ClusterBuilder::new().pool(with_budget(budget));
        (0..5).fold(builder, |builder, at| builder.node(drifted(&format!("n{at}"), 10 - at).build()))
    };
    for (budget, expected) in [
        (BudgetNodes::Count(0), "nothing"),
        (BudgetNodes::Count(1), "drift: n0 -> medium/spot"),
        (BudgetNodes::Percent(40), "drift: n0 -> medium/spot, n1 -> medium/spot"),
        (BudgetNodes::Count(3), "drift: n0 -> medium/spot, n1 -> medium/spot, n2 -> medium/spot"),
    ] {
        let proposal = propose(&fleet(budget.clone()).build(), &Rules::default(), now());
        assert_eq!(summary(&proposal), expected, "{budget:?}");
        assert!(proposal.constrained, "{budget:?}: there is more to do than the budget allows");
    }
}

#[test]
fn commands_of_one_pass_do_not_use_the_same_capacity_twice() {
    // `room` fits the pod of one of them, not both.
    let builder = ClusterBuilder::new()
        .pool(pool("default").with(|pool| pool.budgets = vec![budget(BudgetNodes::Count(5))]))
        .node(node("room").build())
        .node(drifted("a", 9).build())
        .node(drifted("b", 8).build());
    let proposal = propose(&builder.build(), &Rules::default(), now());
    assert_eq!(summary(&proposal), "drift: a, b -> medium/spot");
}

#[test]
fn all_blockers_of_a_node_are_listed() {
    let secs = jiff::SignedDuration::from_secs;
    let waiting_pool = pool("default").with(|pool| {
        pool.consolidate_after = Some(Duration::from_secs(60));
        pool.budgets = vec![budget(BudgetNodes::Count(0))];
    });
    let recent = |claim: &mut NodeClaim| claim.last_pod_event = Some(now() - secs(20));
    let mut nominated = (*idle("a").build()).clone();
    nominated.nominations.push(Nomination { pod: pod("w").build().uid.clone(), until: now() + secs(9) });
    let protected_pod = running("b", pod("p").cpu(100)).with(|pod| {
        pod.do_not_disrupt = DoNotDisrupt::For(Duration::from_secs(300));
        pod.started = Some(now() - secs(20));
    });
    let protected = idle("b").with_claim(recent).pod(protected_pod.into()).with_node(|node| {
        node.annotations.insert("karpenter.sh/do-not-disrupt".into(), "true".into());
    });
    let builder = ClusterBuilder::new()
        .pool(waiting_pool)
        .pending(pod("w").cpu(100))
        .node(nominated)
        .node(protected.build())
        .node(idle("c").build())
        .node(node("d").uninitialized().build())
        .node(idle("e").marked().build());
    let survey = surveyed(builder, METHODS);
    assert_eq!(survey.method, None);
    assert_eq!(
        listed(&survey),
        [
            "a: Nominated(pod/default/w, 9); ConsolidateAfter(-, 60)",
            "b: DoNotDisruptNode(-, -); DoNotDisruptPod(pod/default/p, 280); \
             ConsolidateAfter(pod/default/p, 40)",
            "c: ConsolidateAfter(-, 60)",
            "d: NotInitialized(-, -)",
            "e: Queued(-, -)",
        ]
    );
}

#[test]
fn a_nomination_names_a_pod_that_runs_on_its_node_by_now() {
    let until = now() + jiff::SignedDuration::from_secs(9);
    let bound = pod("w").cpu(100);
    let mut nominated = (*idle("a").pod(running("a", bound).into()).build()).clone();
    nominated.nominations.push(Nomination { pod: pod("w").build().uid.clone(), until });
    let survey = surveyed(ClusterBuilder::new().pool(pool("default")).node(nominated), METHODS);
    let [listed] = listed(&survey).try_into().unwrap();
    assert!(listed.starts_with("a: Nominated(pod/default/w, 9)"), "{listed}");
}

#[test]
fn budgets_and_prices_are_listed_too() {
    let full = |name: &str| idle(name).pod(on(name, &format!("p-{name}"), 3900)).build();
    let builder = ClusterBuilder::new()
        .pool(pool("default").with(|pool| {
            pool.budgets = vec![budget(BudgetNodes::Count(1))];
            pool.template
                .requirements
                .add(crate::model::Requirement::is_in(crate::model::labels::CAPACITY_TYPE, ["on-demand"]));
        }))
        .node(idle("a").build())
        .node(idle("b").build())
        .node(full("c"));
    let survey = surveyed(builder, METHODS);
    assert_eq!((survey.method, survey.commands.len()), (Some("emptiness"), 1));
    assert_eq!(
        listed(&survey),
        [
            "a candidate: ",
            "b candidate: Budget(nodepool/default, -)",
            "c candidate: Budget(nodepool/default, -)"
        ]
    );
    let allowance = survey.budgets.iter().find(|budget| budget.reason == DisruptionReason::Empty).unwrap();
    assert_eq!((allowance.allowed, allowance.disrupting), (1, 0));
}

#[test]
fn the_status_of_one_node_has_the_reason() {
    let small = idle("a").size("small", 2, 4).capacity_type("spot").pod(on("a", "p", 1500)).build();
    let snapshot = ClusterBuilder::with_default_pool().node(small).build();
    let rules = Rules { spot_to_spot: true, ..Rules::default() };
    let found = status(&snapshot, &rules, now(), "a").unwrap();
    let [Blocker::Unconsolidatable(Unconsolidatable::NotCheaper { now: price, cheapest, .. })] =
        found.blockers.as_slice()
    else {
        panic!("{:?}", found.blockers)
    };
    assert_eq!((found.candidate, found.price), (true, Some(price.list)));
    assert_eq!(*cheapest, Some(*price));
    assert!(status(&snapshot, &rules, now(), "no-such").is_none());
    let starting = node("a0").launched().build();
    let snapshot = ClusterBuilder::with_default_pool().node(starting).node(idle("b").build()).build();
    let candidate = |name: &str| status(&snapshot, &rules, now(), name).unwrap().candidate;
    assert_eq!(
        (candidate("a0"), candidate("b")),
        (false, true),
        "a NodeClaim without a Node has its own name"
    );
}

/// The simulation places pending pods too: the node that one of them needs is not the price of replacing the candidate alone.
#[test]
fn a_replacement_that_other_pods_need_too_says_so() {
    let small = idle("a").size("small", 2, 4).capacity_type("on-demand").pod(on("a", "p", 500)).build();
    let builder = ClusterBuilder::with_default_pool().node(small);
    let refusal = |builder: ClusterBuilder| {
        let found = status(&builder.build(), &Rules::default(), now(), "a").unwrap();
        found.blockers.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let refused = refusal(builder.pending(pod("large").cpu(7000)));
    assert!(refused.contains("which 1 other pod needs too"), "{refused}");
}

#[test]
fn methods_are_found_by_name() {
    let names: Vec<&str> = METHODS.iter().map(|method| method.spec().name).collect();
    let expected = [
        "emptiness",
        "static-drift",
        "drift",
        "expiration",
        "multi-node-consolidation",
        "single-node-consolidation",
        "n-to-m-consolidation",
    ];
    assert_eq!(names, expected);
    for name in names {
        assert_eq!(method(name).map(|found| found.spec().name), Some(name));
    }
    assert!(method("repair").is_none());
}

#[test]
fn a_budget_blocks_until_its_last_window_closes() {
    let zero = |schedule: &str, hours: u64| Budget {
        schedule: Some(schedule.into()),
        duration: Some(Duration::from_secs(hours * 3600)),
        ..budget(BudgetNodes::Count(0))
    };
    let noon: Timestamp = "2026-01-05T12:00:00Z".parse().unwrap();
    let until = |budgets: Vec<Budget>| {
        let builder = ClusterBuilder::default().pool(pool("default").with(|pool| pool.budgets = budgets));
        let snapshot = builder.node(idle("a").build()).build();
        let found =
            allowances(&snapshot, noon).into_iter().find(|found| found.reason == DisruptionReason::Empty);
        found.unwrap().until.map(|until| until.to_string())
    };
    let longer = Some("2026-01-05T15:00:00Z".to_owned());
    assert_eq!(until(vec![zero("0 9 * * *", 4), zero("0 10 * * *", 5)]), longer);
    assert_eq!(until(vec![zero("0 10 * * *", 5), zero("0 9 * * *", 4)]), longer);
    assert_eq!(until(vec![zero("0 10 * * *", 5), zero("@daily", 24)]), None);
}

#[test]
fn a_replacement_is_not_reverted() {
    let secs = jiff::SignedDuration::from_secs;
    let too_large_node = |replaced: &'static str, ago: i64| {
        let large = idle("a").size("xlarge", 16, 32).pod(on("a", "p", 1500)).with_claim(move |claim| {
            replaced_offering(claim, replaced);
            claim.created = now() - secs(ago);
        });
        ClusterBuilder::with_default_pool().node(large.build())
    };
    let names = |builder: ClusterBuilder| {
        let proposal = checked(builder, "single-node-consolidation: a -> small/spot");
        let types = proposal.commands[0].replacements[0].instance_types.iter();
        types.map(|known| known.name.to_string()).collect::<Vec<_>>()
    };
    // The launch may choose any listed type, so the replaced one is not listed.
    let all = names(too_large_node("memory/on-demand", 60));
    assert!(all.iter().any(|name| name == "memory"), "{all:?}");
    let others: Vec<String> = all.into_iter().filter(|name| name != "memory").collect();
    assert_eq!(names(too_large_node("memory/spot", 60)), others);
    check(too_large_node("small/on-demand", 60), "single-node-consolidation: a -> small/spot");
    check(too_large_node("medium/spot,small/spot", 3600), "single-node-consolidation: a -> small/spot");
    let proposal = checked(too_large_node("medium/spot,small/spot", 3599), "nothing");
    assert_eq!(proposal.unconsolidatable[0].1.kind(), "WouldUndo");
    let snapshot = too_large_node("small/spot", 3599).build();
    let found = status(&snapshot, &Rules::default(), now(), "a").unwrap();
    assert_eq!(found.blockers[0].until(), Some(now() + secs(1)));
    // It was created for as many pods as it has, or for more: the load went down, if not only for a moment.
    let back = "single-node-consolidation: a -> small/spot";
    for (created_for, ago, expected) in [(1500, 600, "nothing"), (1600, 600, back), (1600, 599, "nothing")] {
        let node = idle("a").size("xlarge", 16, 32).pod(on("a", "p", 1500)).with_claim(move |claim| {
            replaced_offering(claim, "small/spot");
            claim.requests = crate::model::Resources::of(created_for, 0);
            claim.created = now() - secs(ago);
        });
        check(ClusterBuilder::with_default_pool().node(node.build()), expected);
    }
}

#[test]
fn a_recreated_node_is_not_deleted_without_a_replacement() {
    let secs = jiff::SignedDuration::from_secs;
    let returned = |ago: i64| (now() - secs(ago)).as_second().to_string();
    let created_ago = |name: &str, milli: i64, ago: i64| {
        let returned = returned(ago);
        idle(name).pod(on(name, &format!("p-{name}"), milli)).with_claim(move |claim| {
            claim
                .annotations
                .insert(crate::model::labels::LINEAGE.into(), format!("recreated={returned}").into());
            claim.created = now() - secs(ago);
        })
    };
    let room = |ago: i64| {
        let created = now() - secs(ago);
        let room = node("b").size("xlarge", 16, 32).pod(on("b", "q", 9000));
        room.with_claim(move |claim| claim.created = created).build()
    };
    let beside = |room_ago: i64, ago: i64| {
        ClusterBuilder::with_default_pool().node(room(room_ago)).node(created_ago("a", 500, ago).build())
    };
    let pair = |ago: i64| beside(7200, ago);
    check(pair(3600), "single-node-consolidation: a");
    let proposal = checked(pair(3599), "nothing");
    assert!(
        proposal.unconsolidatable.iter().any(|(_, why)| why.kind() == "WouldRecreate"),
        "{:?}",
        reasons(&proposal)
    );
    let found = status(&pair(3599).build(), &Rules::default(), now(), "a").unwrap();
    assert_eq!(found.blockers[0].until(), Some(now() + secs(1)));
    // Nodes that were created later may take its pods.
    check(beside(2999, 3000), "single-node-consolidation: a");
    check(beside(3000, 3000), "nothing");
    check(beside(1, 600), "single-node-consolidation: a");
    check(beside(1, 599), "nothing");
    // It may be replaced; the replacement records that.
    let too_large_node = created_ago("c", 1500, 60).size("xlarge", 16, 32).build();
    let proposal = checked(
        ClusterBuilder::with_default_pool().node(too_large_node),
        "single-node-consolidation: c -> small/spot",
    );
    let returned = returned(60);
    assert_eq!(
        lineage_of(&proposal.commands[0].candidates, now()),
        format!("command=id;replaced=xlarge/on-demand;recreated={returned}")
    );
    // It does not block the others.
    let three = pair(60)
        .node(idle("d").pod(on("d", "r", 500)).build())
        .node(idle("e").pod(on("e", "s", 500)).build());
    check(three, "multi-node-consolidation: d e");
}

#[test]
fn replacements_record_what_they_replace() {
    let snapshot = ClusterBuilder::with_default_pool()
        .node(idle("a").size("small", 2, 4).capacity_type("spot").build())
        .node(idle("b").build())
        .node(idle("c").build())
        .build();
    let (all, _) = candidates(&snapshot, now(), false);
    assert_eq!(lineage_of(&all, now()), "command=id;replaced=medium/on-demand,small/spot");
}

#[test]
fn running_pods_do_not_wait_for_uninitialized_nodes() {
    // The replacement of a rolled back command is still nominated for the pod.
    let stranded = drifted("a", 9).build();
    let mut snapshot =
        ClusterBuilder::with_default_pool().node(stranded).node(node("b").launched().build()).build();
    let uid = snapshot.nodes[0].pods[0].uid.clone();
    snapshot.nominated.insert(uid, "b".into());
    let proposal = propose(&snapshot, &Rules::default(), now());
    assert_eq!(summary(&proposal), "nothing");
    assert_eq!(proposal.held[0].1.kind(), "LandsOnUninitialized");
}
