//! Plans by effective price: the overhead of nodes, and burstable types by their baseline.

use rstest::rstest;

use super::*;
use crate::{model::Price, scheduling::LeastCost};

/// A burstable type of the family t, and one of the family m that costs more for the same.
fn two_families() -> Arc<crate::model::Catalog> {
    let large = |name: &str, family: &str| instance_type(name, 2, 4).label("family", family);
    let types = vec![
        large("t.large", "t").burstable(300).offer("a", ON_DEMAND, 60).build(),
        large("m.large", "m").offer("a", ON_DEMAND, 80).build(),
        instance_type("m.xlarge", 4, 8).label("family", "m").offer("a", ON_DEMAND, 160).build(),
    ];
    Arc::new(crate::model::Catalog::new(types))
}

fn planned(overhead: i64, family: Option<&str>, pods: usize) -> (Snapshot, Plan) {
    let named = family.map(|family| ("family", family));
    let pool = named
        .into_iter()
        .fold(pool("default"), |pool, (key, family)| pool.require(key, Operator::In, &[family]));
    let builder = ClusterBuilder::new()
        .catalog(two_families())
        .schema(|schema| {
            schema.well_known.insert("family".into());
        })
        .node_overhead(overhead)
        .pool(pool)
        .pending_many(pods, &pod("p").cpu(1800).memory(1024));
    let snapshot = builder.build();
    let plan = pack(&snapshot);
    (snapshot, plan)
}

fn pack(snapshot: &Snapshot) -> Plan {
    let request = Request {
        pods: &snapshot.pending,
        without: &[],
        purpose: Purpose::Provisioning,
        effort: Effort::Iterations(20),
    };
    let plan = LeastCost.pack(&mut PreparedSnapshot::new(snapshot, &Rules::default()), &request);
    let found = validator::violations(snapshot, &request, &Rules::default(), &plan);
    assert!(found.is_empty(), "{found:?}");
    plan
}

#[rstest]
// 60 over 0.3 is 200: the type of the family m counts for less, and the burstable one is not named, since the launch would prefer it.
#[case::by_its_baseline(10, None, "m.large", 80, 90, &["m.large", "m.xlarge"])]
#[case::by_list_price(0, None, "t.large", 60, 60, &["t.large", "m.large", "m.xlarge"])]
#[case::named_by_the_pool(10, Some("t"), "t.large", 60, 70, &["t.large"])]
fn a_burstable_type_counts(
    #[case] overhead: i64,
    #[case] family: Option<&str>,
    #[case] chosen: &str,
    #[case] list: i64,
    #[case] effective: i64,
    #[case] named: &[&str],
) {
    let (_, plan) = planned(overhead, family, 1);
    let milli = |price: i64| Price::from_nanos(price * 1_000_000);
    let [new_claim] = plan.new_claims.as_slice() else { panic!("{plan:?}") };
    assert_eq!(&*new_claim.chosen.instance_type, chosen);
    assert_eq!((new_claim.chosen.price, new_claim.chosen.effective), (milli(list), milli(effective)));
    let names: Vec<&str> = new_claim.instance_types.iter().map(|known| &*known.name).collect();
    assert_eq!(names, named);
    assert_eq!((plan.cost.hourly, plan.cost.effective), (milli(list), milli(effective)));
    assert_eq!(plan.cost.lower_bound, milli(effective));
}

#[test]
fn equal_list_prices_go_to_fewer_nodes() {
    // Two large nodes cost what one of twice the size does.
    let (snapshot, plan) = planned(10, Some("m"), 2);
    assert_eq!(report(&snapshot, &plan), ["+default m.xlarge a on-demand: p-0 p-1"]);
}

#[rstest]
// Two small nodes save 0.25 %.
#[case::tied(7980, &["+default large a on-demand: p-0 p-1"])]
// They save 1.25 %.
#[case::cheaper(7900, &["+default small a on-demand: p-0", "+default small a on-demand: p-1"])]
fn near_ties_go_to_fewer_nodes(#[case] small: i64, #[case] expected: &[&str]) {
    let types = vec![
        instance_type("small", 2, 4).offer("a", ON_DEMAND, small).build(),
        instance_type("large", 4, 8).offer("a", ON_DEMAND, 16_000).build(),
    ];
    let builder = ClusterBuilder::new()
        .catalog(Arc::new(crate::model::Catalog::new(types)))
        .pool(pool("default"))
        .pending_many(2, &pod("p").cpu(1800).memory(1024));
    let snapshot = builder.build();
    let plan = pack(&snapshot);
    assert_eq!(report(&snapshot, &plan), expected);
}
