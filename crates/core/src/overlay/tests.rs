//! What overlays do to instance types, and which of them lose.

use rstest::rstest;

use super::*;
use crate::{
    model::{Operator, Price, labels::*},
    testing::{instance_type, pool},
};

fn overlay(name: &str, weight: i32, requirements: &[(&str, Operator, &[&str])]) -> NodeOverlay {
    let requirements = requirements
        .iter()
        .map(|(key, operator, values)| Requirement::new(*key, *operator, values.iter().copied()).unwrap());
    NodeOverlay {
        name: name.into(),
        weight,
        requirements: requirements.collect(),
        price: None,
        capacity: Resources::new(),
    }
}

fn priced(overlay: NodeOverlay, text: &str) -> NodeOverlay {
    let change = if text.starts_with(['+', '-']) {
        PriceChange::parse_adjustment(text)
    } else {
        PriceChange::parse_price(text)
    };
    NodeOverlay { price: Some(change.unwrap()), ..overlay }
}

fn with(overlay: NodeOverlay, resource: &str, amount: i64) -> NodeOverlay {
    NodeOverlay { capacity: overlay.capacity.clone().with(resource, amount), ..overlay }
}

/// Pools `red` (label team=red) and `blue`, both with `small` at $1 and `large` at $2, on-demand and spot in zone a.
fn world() -> (Vec<Arc<NodePool>>, BTreeMap<PoolName, Arc<Catalog>>) {
    let of = |name: &str, cpus, price| {
        instance_type(name, cpus, 8).offer("a", ON_DEMAND, price).offer("a", SPOT, price / 2).build()
    };
    let catalog = Arc::new(Catalog::new(vec![of("small", 2, 1000), of("large", 8, 2000)]));
    let pools = vec![pool("red").label("team", "red").build(), pool("blue").build()];
    let catalogs = pools.iter().map(|pool| (pool.name.clone(), Arc::clone(&catalog))).collect();
    (pools, catalogs)
}

/// `pool/type@capacity-type price` of every offering that an overlay priced, and `pool/type+resource amount`.
fn report(overlays: &[NodeOverlay]) -> (Vec<String>, Vec<String>) {
    let (pools, catalogs) = world();
    let evaluation = evaluate(&pools, &catalogs, overlays);
    let mut lines = Vec::new();
    for (pool, catalog) in &evaluation.catalogs {
        for instance_type in &catalog.instance_types {
            let place = format!("{pool}/{}", instance_type.name);
            for offering in instance_type.offerings.iter().filter(|offering| offering.overlaid) {
                lines.push(format!("{place}@{} {}", offering.capacity_type().unwrap(), offering.price));
            }
            for (name, amount) in instance_type.capacity.extended() {
                assert!(catalog.overlaid.contains(&instance_type.name));
                lines.push(format!("{place}+{name} {amount}"));
            }
        }
    }
    let losers = evaluation.verdicts.iter().filter_map(|(name, verdict)| match verdict {
        Verdict::Conflict(with) => Some(format!("{name} lost to {with}")),
        Verdict::Applied(_) => None,
    });
    (lines, losers.collect())
}

#[rstest]
#[case("0.25", 1_000, 250_000_000)]
#[case("+0.5", 1_000, 1_500_000_000)]
#[case("-0.25", 1_000, 750_000_000)]
#[case("-2", 1_000, 0)]
#[case("+10%", 1_000, 1_100_000_000)]
#[case("-12.5%", 1_000, 875_000_000)]
#[case("-100%", 1_000, 0)]
#[case("+.5%", 200, 201_000_000)]
fn prices_change(#[case] text: &str, #[case] milli: i64, #[case] nanos: i64) {
    let change = priced(overlay("o", 0, &[]), text).price.unwrap();
    assert_eq!(change.apply(Price::from_nanos(milli * 1_000_000)), Price::from_nanos(nanos));
}

#[rstest]
#[case("")]
#[case("1")]
#[case("+")]
#[case("+1e3")]
#[case("-101%")]
#[case("+%")]
#[case("+99999999999")]
#[case("+1.2.3")]
fn nonsense_is_no_adjustment(#[case] text: &str) {
    assert!(PriceChange::parse_adjustment(text).is_err());
    assert!(PriceChange::parse_price("-1").is_err() && PriceChange::parse_price(".").is_err());
}

#[test]
fn requirements_select_types_offerings_and_pools() {
    let spot = priced(
        overlay("o", 0, &[(CAPACITY_TYPE, Operator::In, &[SPOT]), ("team", Operator::In, &["red"])]),
        "0.1",
    );
    let small = NodeOverlay {
        requirements: spot
            .requirements
            .iter()
            .cloned()
            .chain([Requirement::is_in(INSTANCE_TYPE, ["small"])])
            .collect(),
        ..spot
    };
    assert_eq!(report(&[small]).0, ["red/small@spot 0.1"]);
    let of_pool = priced(
        overlay("o", 0, &[(NODEPOOL, Operator::In, &["blue"]), (INSTANCE_TYPE, Operator::NotIn, &["large"])]),
        "-50%",
    );
    assert_eq!(report(&[of_pool]).0, ["blue/small@on-demand 0.5", "blue/small@spot 0.25"]);
    // A key that neither type nor pool defines selects nothing.
    assert!(report(&[priced(overlay("o", 0, &[("rack", Operator::Exists, &[])]), "9")]).0.is_empty());
}

#[test]
fn the_heavier_wins_resource_by_resource() {
    let large: &[(&str, Operator, &[&str])] =
        &[(INSTANCE_TYPE, Operator::In, &["large"]), (NODEPOOL, Operator::In, &["red"])];
    let heavy = with(priced(overlay("heavy", 10, large), "7"), "example.com/gpu", 1);
    let light =
        with(with(priced(overlay("light", 1, large), "3"), "example.com/gpu", 9), "example.com/nic", 2);
    let (lines, losers) = report(&[light, heavy]);
    assert_eq!(
        lines,
        [
            "red/large@on-demand 7",
            "red/large@spot 7",
            "red/large+example.com/gpu 1",
            "red/large+example.com/nic 2"
        ]
    );
    assert!(losers.is_empty());
}

#[test]
fn of_equals_the_later_has_no_effect_at_all() {
    let all = priced(overlay("b", 5, &[]), "+1");
    let some = with(
        priced(overlay("a", 5, &[(INSTANCE_TYPE, Operator::In, &["large"])]), "3"),
        "example.com/gpu",
        9,
    );
    let (lines, losers) = report(&[some.clone(), all.clone()]);
    assert_eq!(losers, ["a lost to b"]);
    assert!(lines.iter().all(|line| !line.contains("gpu")) && lines.len() == 8, "{lines:?}");
    // Capacity alone does not conflict with prices.
    assert!(report(&[NodeOverlay { price: None, ..some.clone() }, all.clone()]).1.is_empty());
    let other = with(overlay("c", 5, &[]), "example.com/gpu", 1);
    assert_eq!(report(&[NodeOverlay { price: None, ..some.clone() }, other]).1, ["a lost to c"]);
    // Another weight, or other types, and there is none.
    assert!(report(&[NodeOverlay { weight: 4, ..some }, all.clone()]).1.is_empty());
    let (_, losers) = report(&[NodeOverlay { requirements: Requirements::new(), ..all }]);
    assert!(losers.is_empty());
}

/// A heavier overlay that wins does not hide that two lighter ones of one weight name the same.
#[test]
fn of_equals_below_a_heavier_one_the_later_has_no_effect() {
    let large: &[(&str, Operator, &[&str])] = &[(INSTANCE_TYPE, Operator::In, &["large"])];
    let heavy = with(priced(overlay("heavy", 10, large), "7"), "example.com/gpu", 1);
    let prices = [priced(overlay("b", 5, &[]), "3"), priced(overlay("a", 5, &[]), "4")];
    let (lines, losers) = report(&[heavy.clone(), prices[0].clone(), prices[1].clone()]);
    assert_eq!(losers, ["a lost to b"]);
    assert!(lines.contains(&"red/large@on-demand 7".to_owned()), "{lines:?}");
    assert!(lines.contains(&"red/small@on-demand 3".to_owned()), "{lines:?}");
    let of_large = |name: &str, resource: &str| with(overlay(name, 5, large), resource, 2);
    assert_eq!(
        report(&[heavy.clone(), of_large("b", "example.com/gpu"), of_large("a", "example.com/gpu")]).1,
        ["a lost to b"]
    );
    assert!(
        report(&[heavy, of_large("b", "example.com/nic"), of_large("a", "example.com/gpu")]).1.is_empty()
    );
}

/// Hugepages are part of the memory, of the type as of an offering with figures of its own.
#[test]
fn hugepages_come_out_of_the_memory() {
    let (pools, mut catalogs) = world();
    for catalog in catalogs.values_mut() {
        let mut types: Vec<InstanceType> =
            catalog.instance_types.iter().map(|known| (**known).clone()).collect();
        for known in &mut types {
            known.offerings[0].allocatable = Some(Resources::of(1000, 6 << 30));
        }
        *catalog = Arc::new(Catalog::new(types.into_iter().map(Arc::new).collect()));
    }
    let pages = with(overlay("o", 0, &[]), "hugepages-2Mi", 2 << 30);
    let evaluation = evaluate(&pools, &catalogs, &[pages]);
    let small = evaluation.catalogs["red"].get("small").unwrap();
    let memory = |offering: usize| small.allocatable_of(&small.offerings[offering]).memory() >> 30;
    assert_eq!((memory(0), memory(1)), (4, 6));
}

/// A type without any price, and one of which spot has none: an absolute price puts them up for sale, a change of a price does not.
#[test]
fn a_price_puts_up_for_sale_what_has_none() {
    let (pools, mut catalogs) = world();
    let dark = instance_type("dark", 4, 8).offer("a", ON_DEMAND, 0).offer("b", ON_DEMAND, 0).build();
    let spot_of_b = instance_type("small", 2, 8).offer("b", SPOT, 0).build();
    for catalog in catalogs.values_mut() {
        *catalog = Arc::new((**catalog).clone().with_unpriced(vec![spot_of_b.clone(), dark.clone()]));
    }
    let offered = |overlays: &[NodeOverlay], pool: &str| -> Vec<String> {
        let evaluation = evaluate(&pools, &catalogs, overlays);
        let types = evaluation.catalogs[pool].instance_types.iter();
        let of = |known: &Arc<InstanceType>| {
            let of_type = |offering: &Offering| {
                let place = [offering.zone().unwrap(), offering.capacity_type().unwrap()].map(|own| &**own);
                format!("{}/{} {} {}", known.name, place.join("/"), offering.price, offering.overlaid)
            };
            known.offerings.iter().map(of_type).collect::<Vec<_>>()
        };
        types.flat_map(of).collect()
    };
    let plain = offered(&[], "red");
    assert_eq!(plain.len(), 4);
    let on =
        |name: &str, weight: i32, of: &str| overlay(name, weight, &[(INSTANCE_TYPE, Operator::In, &[of])]);
    assert_eq!(offered(&[priced(on("o", 0, "dark"), "-50%")], "red"), plain);
    let sold = offered(&[priced(on("o", 0, "dark"), "3")], "red");
    assert_eq!(sold[..2], ["dark/a/on-demand 3 true", "dark/b/on-demand 3 true"]);
    assert_eq!(sold[2..], plain);
    // What is changed on top of it begins with that price.
    let both = [priced(on("o", 0, "dark"), "3"), priced(on("p", 1, "dark"), "+1")];
    assert_eq!(offered(&both, "red")[0], "dark/a/on-demand 4 true");
    let spot =
        overlay("s", 0, &[(CAPACITY_TYPE, Operator::In, &["spot"]), (NODEPOOL, Operator::In, &["red"])]);
    let spot = priced(spot, "0.1");
    assert!(offered(std::slice::from_ref(&spot), "red").contains(&"small/b/spot 0.1 true".to_owned()));
    assert_eq!(offered(&[spot], "blue"), plain);
    // An overlay that is in conflict over anything sells nothing.
    let all = priced(overlay("b", 5, &[(INSTANCE_TYPE, Operator::In, &["small"])]), "1");
    let loser = priced(overlay("a", 5, &[(INSTANCE_TYPE, Operator::In, &["small", "dark"])]), "1");
    assert!(offered(&[all, loser], "red").iter().all(|line| !line.starts_with("dark")));
}

#[test]
fn what_no_overlay_touches_is_shared() {
    let (pools, catalogs) = world();
    let red = priced(
        overlay("o", 0, &[(NODEPOOL, Operator::In, &["red"]), (INSTANCE_TYPE, Operator::In, &["small"])]),
        "1",
    );
    let evaluation = evaluate(&pools, &catalogs, &[red]);
    let same = |pool: &str| Arc::ptr_eq(&evaluation.catalogs[pool], &catalogs[pool]);
    assert_eq!((same("blue"), same("red")), (true, false));
    let large = |all: &BTreeMap<PoolName, Arc<Catalog>>| Arc::clone(all["red"].get("large").unwrap());
    assert!(Arc::ptr_eq(&large(&evaluation.catalogs), &large(&catalogs)));
    assert_eq!(evaluation.verdicts.get("o"), Some(&Verdict::Applied(1)));
}
