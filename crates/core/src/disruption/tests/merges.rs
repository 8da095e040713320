//! Several nodes replaced by one, only if that saves more than deleting some of them.

use super::*;
use crate::{
    model::{Catalog, InstanceType},
    testing::instance_type,
};

/// `od` has 4 CPUs and costs $0.2 on-demand; the other types are spot.
fn builder(spot: &[Arc<InstanceType>], nodes: &[(&str, &[i64])]) -> ClusterBuilder {
    let od = instance_type("od", 4, 8).offer("a", "on-demand", 200).build();
    of_types(std::iter::once(od).chain(spot.iter().cloned()).collect(), nodes)
}

/// Nodes of the type `od`.
fn of_types(types: Vec<Arc<InstanceType>>, nodes: &[(&str, &[i64])]) -> ClusterBuilder {
    let catalog = Arc::new(Catalog::new(types));
    let builder = ClusterBuilder::new().catalog(catalog).pool(with_budget(BudgetNodes::Percent(100)));
    nodes.iter().fold(builder, |builder, (name, sizes)| {
        let node = idle(name).size("od", 4, 8).zone("a");
        let pods = sizes.iter().enumerate();
        builder.node(
            pods.fold(node, |node, (at, milli)| node.pod(on(name, &format!("{name}-{at}"), *milli))).build(),
        )
    })
}

fn spot(cpus: i64, milli_dollars: i64) -> Arc<InstanceType> {
    instance_type("sp", cpus, cpus * 2).offer("a", "spot", milli_dollars).build()
}

/// Two nodes whose pods fit on one of them.
const TWO: [(&str, &[i64]); 2] = [("n1", &[500, 500]), ("n2", &[500])];

#[test]
fn a_merge_must_save_more_than_a_deletion_within_its_set() {
    // One node may be kept, for $0.2.
    check(builder(&[spot(4, 190)], &TWO), "multi-node-consolidation: n1 n2 -> sp/spot");
    check(builder(&[spot(4, 200)], &TWO), "single-node-consolidation: n2");
    check(builder(&[spot(4, 300)], &TWO), "single-node-consolidation: n2");
}

#[test]
fn an_unavailable_spot_offering_of_the_type_counts() {
    let od = instance_type("od", 4, 8).offer("a", "on-demand", 200);
    let od = od.offer_with("a", "spot", 100, |offering| offering.available = false).build();
    check(of_types(vec![od, spot(4, 210)], &TWO), "single-node-consolidation: n2");
}

#[test]
fn several_nodes_are_deleted_if_one_fits_all_pods() {
    let nodes: [(&str, &[i64]); 3] = [("n1", &[500]), ("n2", &[500]), ("n3", &[500])];
    check(builder(&[spot(4, 300)], &nodes), "multi-node-consolidation: n1 n2");
}

#[test]
fn a_merge_must_save_more_than_a_deletion_that_keeps_several() {
    // Two pods fit on a node: two nodes have to be kept, for $0.4.
    let nodes: [(&str, &[i64]); 3] = [("n1", &[1_800]), ("n2", &[1_800]), ("n3", &[1_800])];
    check(builder(&[spot(16, 390)], &nodes), "multi-node-consolidation: n1 n2 n3 -> sp/spot");
    check(builder(&[spot(16, 400)], &nodes), "single-node-consolidation: n1");
    check(builder(&[spot(16, 500)], &nodes), "single-node-consolidation: n1");
}

#[test]
fn a_node_less_is_no_reason_to_pay_the_same() {
    let full: [(&str, &[i64]); 2] = [("n1", &[3_500]), ("n2", &[3_500])];
    let merged = |milli_dollars| builder(&[spot(16, milli_dollars)], &full).node_overhead(10);
    check(merged(390), "multi-node-consolidation: n1 n2 -> sp/spot");
    // Counts as $0.41 in place of $0.42.
    let proposal = checked(merged(400), "nothing");
    let expected = "Can't replace with a cheaper node (now $0.2/h, cheapest replacement $0.2/h)";
    assert!(reasons(&proposal).iter().any(|why| why.contains(expected)), "{:?}", reasons(&proposal));
}

#[test]
fn a_replacement_that_counts_as_less_must_not_cost_more() {
    let burstable = instance_type("od", 4, 8).burstable(200).offer("a", "on-demand", 200).build();
    let steady = |milli_dollars| instance_type("m", 4, 8).offer("a", "on-demand", milli_dollars).build();
    let replaced = |milli_dollars| {
        let types = vec![Arc::clone(&burstable), steady(milli_dollars)];
        of_types(types, &[("n1", &[3_500])]).node_overhead(10)
    };
    check(replaced(190), "single-node-consolidation: n1 -> m/on-demand");
    check(replaced(210), "nothing");
}

#[rstest::rstest]
#[case::cheaper_in_both_zones(&[("a", "spot", 100, true), ("b", "spot", 190, true)], true)]
#[case::the_launch_may_choose_the_dearer_zone(&[("a", "spot", 100, true), ("b", "spot", 200, true)], false)]
#[case::no_zone_that_is_unavailable(&[("a", "spot", 100, true), ("b", "spot", 500, false)], true)]
#[case::spot_is_chosen_before_on_demand(&[("a", "spot", 100, true), ("b", "on-demand", 500, true)], true)]
fn the_highest_price_that_a_launch_may_choose_must_be_lower(
    #[case] offerings: &[(&str, &str, i64, bool)],
    #[case] replaced: bool,
) {
    let od = instance_type("od", 4, 8).offer("a", "on-demand", 200).build();
    let other =
        offerings.iter().fold(instance_type("sp", 4, 8), |other, (zone, capacity_type, price, available)| {
            other.offer_with(zone, capacity_type, *price, |offering| offering.available = *available)
        });
    let expected = if replaced { "single-node-consolidation: n1 -> sp/spot" } else { "nothing" };
    check(of_types(vec![od, other.build()], &[("n1", &[3_500])]), expected);
}

#[test]
fn spot_is_replaced_by_the_fifteen_cheapest_types_or_as_many_as_min_values_need() {
    use crate::model::{Requirement, labels};
    let rules = Rules { spot_to_spot: true, ..Rules::default() };
    let replaced = |min_values: Option<u32>| {
        let types = (0..20).map(|number| {
            let of = instance_type(&format!("t{number:02}"), 4, 8);
            of.offer("a", "spot", 100 + number).offer("a", "on-demand", 150 + number).build()
        });
        let own = instance_type("own", 4, 8).offer("a", "spot", 300).build();
        let pool = pool("default").with(|pool| {
            let any = Requirement::exists(labels::INSTANCE_TYPE).with_min_values(min_values);
            pool.template.requirements.add(any);
        });
        let node = idle("n").size("own", 4, 8).zone("a").capacity_type("spot").pod(on("n", "p", 3_500));
        let catalog = Arc::new(Catalog::new(types.chain([own]).collect()));
        let builder = ClusterBuilder::new().catalog(catalog).pool(pool).node(node.build());
        let proposal = check_with(builder, &rules, "single-node-consolidation: n -> t00/spot");
        let new_claim = proposal.commands[0].replacements[0].clone();
        assert!(
            !new_claim.requirements.allows(labels::CAPACITY_TYPE, "on-demand"),
            "spot prices were compared"
        );
        new_claim.instance_types.iter().map(|known| known.name.to_string()).collect::<Vec<_>>()
    };
    let first = |count: usize| (0..count).map(|number| format!("t{number:02}")).collect::<Vec<_>>();
    assert_eq!(replaced(None), first(15));
    assert_eq!(replaced(Some(18)), first(18));
}
