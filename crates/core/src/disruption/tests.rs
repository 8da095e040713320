//! Disruption on small clusters. Proposals are one line: candidates and replacements.

mod by_price;
mod merges;
mod moves;
mod order;
mod resume;
mod static_pools;
mod status;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::*;
use crate::{
    model::{
        Budget, ConsolidationPolicy, DisruptionReason, LabelSelector, NodeClaim, NodePool, Pod,
        PodDisruptionBudget, Str, nodeclaim::ConditionType, pod::DoNotDisrupt, pool::BudgetNodes,
    },
    testing::{ClusterBuilder, NodeBuilder, PodBuilder, node, now, pod, pool},
};

/// A running pod of a ReplicaSet on `host`.
fn on(host: &str, name: &str, milli: i64) -> Arc<Pod> {
    running(host, pod(name).cpu(milli)).into()
}

fn running(host: &str, template: PodBuilder) -> PodBuilder {
    let host = host.to_owned();
    template.with(move |pod| {
        pod.node = Some(host.as_str().into());
        pod.phase = crate::model::PodPhase::Running;
        pod.unschedulable = false;
        pod.ready = true;
        pod.started = Some(now());
    })
}

/// A node whose consolidateAfter is over.
fn idle(name: &str) -> NodeBuilder {
    node(name).condition(ConditionType::Consolidatable)
}

/// Makes a NodeClaim a replacement of `replaced` that was initialized some time ago.
fn replaced_offering(claim: &mut NodeClaim, replaced: &str) {
    claim.annotations.insert(crate::model::labels::LINEAGE.into(), format!("replaced={replaced}").into());
    let initialized = crate::model::Condition {
        status: crate::model::ConditionStatus::True,
        reason: "Initialized".into(),
        message: "".into(),
        since: now() - jiff::SignedDuration::from_mins(20),
    };
    claim.conditions.insert(ConditionType::Initialized, initialized);
}

/// The lineage of a replacement of all `candidates` by command `id`.
fn lineage_of(candidates: &[Candidate], now: Timestamp) -> String {
    lineage::of_replacement("id", candidates.iter().map(|candidate| &*candidate.node), now)
}

fn budget(nodes: BudgetNodes) -> Budget {
    Budget { reasons: None, nodes, schedule: None, duration: None, zone: None }
}

fn with_budget(nodes: BudgetNodes) -> impl Into<Arc<NodePool>> {
    pool("default").with(|pool| pool.budgets = vec![budget(nodes)])
}

fn on_demand_only() -> impl Into<Arc<NodePool>> {
    use crate::model::{Requirement, labels::CAPACITY_TYPE};
    let on_demand = Requirement::is_in(CAPACITY_TYPE, ["on-demand"]);
    pool("default").with(|pool| pool.template.requirements.add(on_demand))
}

/// The proposal as text: `emptiness: a b`, `multi-node-consolidation: a b -> small/spot`, or `nothing`.
fn summary(proposal: &Proposal) -> String {
    let Some(method) = proposal.method else { return "nothing".to_owned() };
    let commands = proposal.commands.iter().map(|command| {
        let mut names: Vec<&str> = command.candidates.iter().map(Candidate::name).collect();
        names.sort_unstable();
        let new = command
            .replacements
            .iter()
            .map(|o| format!(" -> {}/{}", o.chosen.instance_type, o.chosen.capacity_type));
        format!("{}{}", names.join(" "), new.collect::<String>())
    });
    format!("{method}: {}", commands.collect::<Vec<_>>().join(", "))
}

#[track_caller]
fn check(builder: ClusterBuilder, expected: &str) {
    let _ = check_with(builder, &Rules::default(), expected);
}

/// [`check`] that returns the proposal.
#[track_caller]
fn checked(builder: ClusterBuilder, expected: &str) -> Proposal {
    check_with(builder, &Rules::default(), expected)
}

#[track_caller]
fn check_with(builder: ClusterBuilder, rules: &Rules, expected: &str) -> Proposal {
    let snapshot = builder.build();
    let proposal = propose(&snapshot, rules, now());
    assert_eq!(
        summary(&proposal),
        expected,
        "blocked: {:?}, left: {:?}",
        blockers(&proposal),
        reasons(&proposal)
    );
    // Later commands of a pass rely on the earlier ones.
    for command in proposal.commands.iter().take(1) {
        assert!(
            validate(command, &snapshot, rules, now()).is_ok(),
            "a command must be valid on its own snapshot"
        );
    }
    proposal
}

fn blockers(proposal: &Proposal) -> Vec<String> {
    proposal.blocked.iter().map(|b| format!("{}: {}", b.node.name(), b.blocker)).collect()
}

fn reasons(proposal: &Proposal) -> Vec<String> {
    proposal.unconsolidatable.iter().map(|(c, why)| format!("{}: {why}", c.name())).collect()
}

#[test]
fn empty_nodes_are_deleted_together_within_the_budget() {
    let builder =
        || ClusterBuilder::new().node(idle("a").build()).node(idle("b").build()).node(idle("c").build());
    check(builder().pool(pool("default")), "emptiness: a b c");
    check(builder().pool(with_budget(BudgetNodes::Count(2))), "emptiness: a b");
    // Percentages round up, so that they do not block a small NodePool.
    check(builder().pool(with_budget(BudgetNodes::Percent(34))), "emptiness: a b");
    check(builder().pool(with_budget(BudgetNodes::Count(0))), "nothing");
    check(builder().pool(with_budget(BudgetNodes::Invalid("many".into()))), "nothing");
}

#[test]
fn nodes_being_disrupted_count_against_the_budget() {
    let unready = idle("b").with_node(|node| node.ready = false);
    let builder = ClusterBuilder::new()
        .pool(with_budget(BudgetNodes::Count(1)))
        .node(idle("a").build())
        .node(unready.build());
    let proposal = checked(builder, "nothing");
    assert!(proposal.constrained);
}

#[test]
fn a_node_waits_for_consolidate_after() {
    let waiting_pool = || pool("default").with(|pool| pool.consolidate_after = Some(Duration::from_secs(60)));
    let since = |secs: i64| now() - jiff::SignedDuration::from_secs(secs);
    for (age, expected) in [(59, "nothing"), (60, "emptiness: a")] {
        let node = idle("a").with_claim(|claim| claim.last_pod_event = Some(since(age)));
        check(ClusterBuilder::new().pool(waiting_pool()).node(node.build()), expected);
    }
    let never = pool("default").with(|pool| pool.consolidate_after = None);
    let proposal = checked(ClusterBuilder::new().pool(never).node(idle("a").build()), "nothing");
    assert_eq!(reasons(&proposal)[0], "a: NodePool \"default\" has consolidation disabled");
}

#[test]
fn blocked_nodes_have_a_reason() {
    let claim = |change: fn(&mut NodeClaim)| idle("a").with_claim(change);
    for (node, text) in [
        (node("a").uninitialized(), "a: node isn't initialized"),
        (idle("a").marked(), "a: candidate is already being disrupted"),
        (claim(|claim| claim.deleting = Some(now())), "a: node is deleting or marked for deletion"),
        (
            idle("a").with_node(|node| {
                node.annotations.insert("karpenter.sh/do-not-disrupt".into(), "true".into());
            }),
            "a: disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation",
        ),
        (idle("a").pool("other"), "a: NodePool not found (NodePool=other)"),
    ] {
        let proposal = checked(ClusterBuilder::with_default_pool().node(node.build()), "nothing");
        assert_eq!(blockers(&proposal), [text]);
    }
    let mut nominated = (*idle("a").build()).clone();
    nominated.nominations.push(crate::model::Nomination {
        pod: "p".into(),
        until: now() + jiff::SignedDuration::from_secs(1),
    });
    let proposal = checked(ClusterBuilder::with_default_pool().node(nominated), "nothing");
    assert_eq!(blockers(&proposal), ["a: node is nominated for a pending pod"]);
}

#[test]
fn protected_pods_block_their_node() {
    let protect = |what: DoNotDisrupt| running("a", pod("p").cpu(100)).with(|pod| pod.do_not_disrupt = what);
    for (what, blocked) in [
        (DoNotDisrupt::Always, true),
        (DoNotDisrupt::Invalid("soon".into()), true),
        (DoNotDisrupt::For(Duration::from_secs(1)), true),
        (DoNotDisrupt::For(Duration::ZERO), false),
    ] {
        let node = idle("a").pod(protect(what.clone()).into());
        let proposal = propose(
            &ClusterBuilder::with_default_pool().node(node.build()).build(),
            &Rules::default(),
            now(),
        );
        assert_eq!(blockers(&proposal).len(), usize::from(blocked), "{what:?}");
    }
    let pdb = |name: &str, allowed| PodDisruptionBudget {
        id: crate::model::NamespacedName::new("default", name),
        selector: Some(LabelSelector::of("app", "web")),
        disruptions_allowed: allowed,
        blocks_always: false,
        always_allow_unhealthy: false,
    };
    let node = || idle("a").pod(running("a", pod("p").cpu(100).app("web")).into()).build();
    for (pdbs, text) in [
        (vec![pdb("x", 0)], Some("a: pdb prevents pod evictions (PodDisruptionBudget=[default/x])")),
        (vec![pdb("x", 1)], None),
        (
            vec![pdb("x", 1), pdb("y", 1)],
            Some("a: eviction does not support multiple PDBs (PodDisruptionBudget(s)=[default/x default/y])"),
        ),
    ] {
        let builder =
            pdbs.into_iter().fold(ClusterBuilder::with_default_pool().node(node()), ClusterBuilder::pdb);
        let proposal = propose(&builder.build(), &Rules::default(), now());
        assert_eq!(blockers(&proposal), text.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_node_whose_pods_fit_elsewhere_is_deleted() {
    let builder = ClusterBuilder::new()
        .pool(on_demand_only())
        .node(idle("a").pod(on("a", "p", 500)).build())
        .node(idle("b").pod(on("b", "q", 2000)).pod(on("b", "r", 1000)).build());
    // The pods of either fit on the other; the one with fewer pods saves more per disruption.
    check(builder, "single-node-consolidation: a");
}

#[test]
fn several_nodes_are_replaced_by_one_cheaper_node() {
    let full = |name: &str| idle(name).pod(on(name, &format!("p-{name}"), 900)).build();
    let builder =
        ClusterBuilder::new().pool(on_demand_only()).node(full("a")).node(full("b")).node(full("c"));
    check(builder, "multi-node-consolidation: a b");
}

#[test]
fn a_node_that_is_too_large_is_replaced_by_a_smaller_one() {
    let too_large_node = || idle("a").size("xlarge", 16, 32).pod(on("a", "p", 1500)).build();
    check(
        ClusterBuilder::with_default_pool().node(too_large_node()),
        "single-node-consolidation: a -> small/spot",
    );
    // Not with a policy that allows only empty nodes.
    let when_empty = pool("default").with(|pool| pool.consolidation_policy = ConsolidationPolicy::WhenEmpty);
    let proposal = checked(ClusterBuilder::new().pool(when_empty).node(too_large_node()), "nothing");
    assert!(reasons(&proposal)[0].contains("consolidation policy WhenEmpty, but node is not empty"));
}

#[test]
fn a_node_that_is_already_cheapest_is_not_replaced() {
    let spot = idle("a").size("small", 2, 4).capacity_type("spot").pod(on("a", "p", 1500)).build();
    let builder = || ClusterBuilder::with_default_pool().node(spot.clone());
    let proposal = checked(builder(), "nothing");
    assert!(
        reasons(&proposal)[0].contains("SpotToSpotConsolidation is disabled"),
        "{:?}",
        reasons(&proposal)
    );
    let rules = Rules { spot_to_spot: true, ..Rules::default() };
    let proposal = check_with(builder(), &rules, "nothing");
    assert!(reasons(&proposal)[0].contains("Can't replace with a cheaper node"), "{:?}", reasons(&proposal));
    let large = idle("a").size("xlarge", 16, 32).capacity_type("spot").pod(on("a", "p", 1500)).build();
    let proposal = check_with(ClusterBuilder::with_default_pool().node(large), &rules, "nothing");
    assert!(
        reasons(&proposal)[0].contains("requires 15 cheaper instance type options"),
        "{:?}",
        reasons(&proposal)
    );
}

#[test]
fn drifted_nodes_are_replaced_oldest_first() {
    let drifted = |name: &str, ago: i64| {
        node(name).pod(on(name, &format!("p-{name}"), 3500)).condition(ConditionType::Drifted).with_claim(
            move |claim| {
                if let Some(condition) = claim.conditions.get_mut(&ConditionType::Drifted) {
                    condition.since = now() - jiff::SignedDuration::from_secs(ago);
                }
            },
        )
    };
    let builder =
        ClusterBuilder::with_default_pool().node(drifted("a", 10).build()).node(drifted("b", 20).build());
    let proposal = propose(&builder.build(), &Rules::default(), now());
    assert_eq!(summary(&proposal), "drift: b -> medium/spot, a -> medium/spot");
    assert_eq!(proposal.commands[0].method.reason, DisruptionReason::Drifted);
}

#[test]
fn a_command_is_rejected_when_the_cluster_has_changed() {
    let before = ClusterBuilder::with_default_pool().node(idle("a").build()).node(idle("b").build()).build();
    let command = propose(&before, &Rules::default(), now()).commands.remove(0);
    let verdict = |builder: ClusterBuilder| {
        validate(&command, &builder.build(), &Rules::default(), now())
            .map(|command| command.candidates.iter().map(|c| c.name().to_owned()).collect::<Vec<_>>())
    };
    let with_pod = || idle("a").pod(on("a", "p", 100)).build();
    assert_eq!(
        verdict(ClusterBuilder::with_default_pool().node(with_pod()).node(idle("b").build())),
        Ok(vec!["b".to_owned()])
    );
    assert_eq!(verdict(ClusterBuilder::with_default_pool().node(with_pod())), Err(Rejected::Churn));
    let blocked_budget = ClusterBuilder::new().pool(with_budget(BudgetNodes::Count(0)));
    assert_eq!(verdict(blocked_budget.node(idle("a").build())), Err(Rejected::Budget));
}

#[test]
fn a_replacement_is_rejected_when_it_does_not_fit_any_more() {
    let too_large_node = |milli| idle("a").size("xlarge", 16, 32).pod(on("a", "p", milli)).build();
    let before = ClusterBuilder::with_default_pool().node(too_large_node(1500)).build();
    let command = propose(&before, &Rules::default(), now()).commands.remove(0);
    let larger_pod = ClusterBuilder::with_default_pool().node(too_large_node(3500)).build();
    assert!(matches!(validate(&command, &larger_pod, &Rules::default(), now()), Err(Rejected::Scheduling)));
}

#[test]
fn budgets_by_reason_and_time() {
    let night = Budget {
        reasons: Some(vec![DisruptionReason::Empty]),
        nodes: BudgetNodes::Count(0),
        schedule: Some("0 15 * * *".into()),
        duration: Some(Duration::from_secs(3600)),
        zone: None,
    };
    let nodes = |change: fn(&mut Budget)| {
        let mut budget = night.clone();
        change(&mut budget);
        let pool: Arc<NodePool> = pool("default").with(|pool| pool.budgets = vec![budget]).into();
        allowed(&pool, DisruptionReason::Empty, 10, now())
    };
    // The test clock is at 15:06.
    assert_eq!(nodes(|_| {}), Ok(0));
    assert_eq!(nodes(|budget| budget.duration = Some(Duration::from_secs(300))), Ok(i64::MAX));
    assert_eq!(nodes(|budget| budget.reasons = Some(vec![])), Ok(i64::MAX));
    assert_eq!(nodes(|budget| budget.reasons = None), Ok(0));
    assert!(matches!(
        nodes(|budget| budget.schedule = Some("whenever".into())),
        Err(BudgetError::Schedule(_))
    ));
    assert!(matches!(nodes(|budget| budget.duration = None), Err(BudgetError::IncompleteWindow)));
    // In Berlin it is 17:06, in Kolkata 20:36.
    assert_eq!(nodes(|budget| budget.zone = Some("Europe/Berlin".into())), Ok(i64::MAX));
    assert_eq!(
        nodes(|budget| {
            budget.zone = Some("Asia/Kolkata".into());
            budget.schedule = Some("30 20 * * *".into());
        }),
        Ok(0)
    );
    assert_eq!(
        nodes(|budget| budget.zone = Some("Middle/Earth".into())),
        Err(BudgetError::TimeZone("Middle/Earth".into()))
    );
}

#[test]
fn balanced_pools_approve_only_savings_above_the_threshold() {
    let balanced = || pool("default").with(|pool| pool.consolidation_policy = ConsolidationPolicy::Balanced);
    let builder = ClusterBuilder::new()
        .pool(balanced())
        .node(idle("b").size("large", 8, 16).pod(on("b", "q", 1500)).build());
    // One small pod on a node that is far too large: approved.
    check(builder, "single-node-consolidation: b -> small/spot");
}
