//! The built-in table, its form, and the catalogue of a class.

use std::collections::BTreeSet;

use fleetwright_aws_api::Ec2NodeClass;
use fleetwright_core::model::{Offering, ResourceName};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::calls::{ReservationInfo, SoldIn};
use crate::instancetype::ClassCatalog;
use crate::prices::Prices;
use crate::settings::Settings;

fn built_in() -> Table {
    Table::parse(include_str!("../../data/instance-types.txt")).unwrap()
}

fn zones(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn of_class(spec: Value, region: &str, prices: &Prices) -> ClassCatalog {
    of_object((spec, Value::Null), None, region, prices)
}

fn of_object(
    (spec, status): (Value, Value),
    reservations: Option<&FoundReservations>,
    region: &str,
    prices: &Prices,
) -> ClassCatalog {
    let class: Ec2NodeClass = serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"}, "spec": spec,
        "status": status,
    }))
    .unwrap();
    let settings = Settings::new("a", region);
    let zones = zones(&[&format!("{region}a")]);
    let class = class.into();
    let offline = OfflineClass { class: &class, settings: &settings, prices, reservations, zones: &zones };
    catalog(&built_in(), &offline)
}

#[test]
fn the_built_in_table_is_whole() {
    let table = built_in();
    assert!(table.len() > 1300, "{}", table.len());
    assert!(table.source().contains("moto") && table.date().starts_with("202"), "{table:?}");
    assert_eq!(table.zones("us-west-1"), zones(&["us-west-1a", "us-west-1b"]));
    assert_eq!(Table::built_in(), &table);
    let (here, there) = (zones(&["us-east-1a"]), zones(&["me-south-1a"]));
    let all = table.in_region("us-east-1", &here, |_| false);
    let p5 = &all.types["p5.48xlarge"];
    assert_eq!((p5.vcpus, p5.memory_mib, p5.gpus[0].count, &*p5.gpus[0].name), (192, 2_097_152, 8, "H100"));
    assert_eq!((p5.network.cards.len(), p5.network.efa_max), (32, Some(32)));
    assert_eq!(all.types["g7e.2xlarge"].gpus[0].name, "RTX PRO Server 6000");
    assert_eq!(all.sold_in["m5.large"], here);
    let few = table.in_region("me-south-1", &there, |_| true);
    assert!(few.types.len() < all.types.len() / 2, "not every region offers every type");
    assert!(table.in_region("xx-new-1", &there, |name| name == "m5.large").types.keys().eq(["m5.large"]));
}

#[test]
fn what_is_written_is_read_back() {
    let table = built_in();
    let prices = "[us-east-1]\nm5.large 0.096\n";
    let read = Table::parse(&table.write("us-east-1", prices)).unwrap();
    assert_eq!((read.source(), read.date(), read.prices()), (table.source(), table.date(), prices));
    let here = zones(&["us-east-1a", "us-east-1b"]);
    let of = |table: &Table| table.in_region("us-east-1", &here, |_| false);
    assert_eq!(of(&read), of(&table));
    assert!(read.zones("us-west-2").is_empty());
}

#[test]
fn a_table_of_answers_knows_zones() {
    let types = built_in().in_region("us-east-1", &zones(&["us-east-1a"]), |_| false).types;
    let info = |name: &str| types[name].clone();
    let sold = |name: &str, zone: &str| SoldIn { instance_type: name.to_owned(), zone: zone.to_owned() };
    let sold = vec![sold("m5.large", "r-1a"), sold("c5.large", "r-1b"), sold("mac1.metal", "r-1b")];
    let stamp = ("EC2".to_owned(), "2026-01-01".to_owned());
    let table = Table::of_region(stamp, "r-1", vec![info("m5.large"), info("c5.large")], sold);
    let read = Table::parse(&table.write("r-1", "")).unwrap();
    assert_eq!(read, table);
    assert!(read.in_region("r-1", &zones(&["r-1a"]), |_| true).types.keys().eq(["m5.large"]));
}

#[rstest]
#[case("[us-east-1]\n", TableError::Header)]
#[case("# fleetwright instance types 1\n", TableError::Empty)]
#[case("# fleetwright instance types 1\nm5.large x86_64 two 8192 in=1", TableError::Line { number: 2, text: "m5.large x86_64 two 8192 in=1".to_owned() })]
#[case("# fleetwright instance types 1\nm5.large x86_64 2 8192 wheels=4 in=1", TableError::Line { number: 2, text: "m5.large x86_64 2 8192 wheels=4 in=1".to_owned() })]
#[case("# fleetwright instance types 1\nm5.large x86_64 2 8192", TableError::Line { number: 2, text: "m5.large x86_64 2 8192".to_owned() })]
fn invalid_tables_are_refused(#[case] text: &str, #[case] expected: TableError) {
    assert_eq!(Table::parse(text), Err(expected));
}

#[rstest]
#[case("us-west-2a", Some("us-west-2"))]
#[case("us-west-2-lax-1a", Some("us-west-2"))]
#[case("us-gov-west-1b", Some("us-gov-west-1"))]
#[case("test-zone-a", None)]
#[case("zone1a", None)]
fn zones_name_their_region(#[case] zone: &str, #[case] expected: Option<&str>) {
    assert_eq!(region_of_zone(zone), expected);
}

#[test]
fn the_class_decides_pods_and_overhead() {
    let prices = Prices::built_in("us-east-1").unwrap();
    let pods = |spec: Value| {
        let made = of_class(spec, "us-east-1", &prices);
        let m5 = made.catalog.get("m5.large").unwrap().clone();
        (m5.capacity.pods(), m5.allocatable().get(&ResourceName::Memory))
    };
    let al2023 = pods(json!({"amiSelectorTerms": [{"alias": "al2023@latest"}]}));
    let class = json!({
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "kubelet": {"maxPods": 110, "kubeReserved": {"memory": "1Gi"}},
    });
    let limited = pods(class);
    let windows = pods(json!({"amiSelectorTerms": [{"alias": "windows2022@latest"}]}));
    assert_eq!((al2023.0, limited.0, windows.0), (29, 110, 110));
    let reserved = (11 * 29 + 255) << 20;
    assert_eq!(al2023.1 - limited.1, (1 << 30) - reserved, "kubeReserved replaces the default");
}

#[test]
fn no_price_is_made_up() {
    let none =
        of_class(json!({"amiSelectorTerms": [{"alias": "al2023@latest"}]}), "eu-north-1", &Prices::default());
    assert!(
        none.catalog.instance_types.is_empty() && none.catalog.unpriced.len() > 500,
        "{}",
        none.catalog.unpriced.len()
    );
    let gov = Prices::built_in("us-gov-west-1").unwrap();
    let some = of_class(json!({"amiSelectorTerms": [{"alias": "al2023@latest"}]}), "us-gov-west-1", &gov);
    assert!(some.catalog.get("m5.large").is_some() && some.catalog.unpriced.is_empty());
    assert!(
        some.catalog.get("r9g.large").is_none(),
        "a region without offerings offers what it has a price for"
    );
}

#[test]
fn reservations_offer_what_ec2_says_is_left_of_them() {
    let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let starts = at + SignedDuration::from_hours(3);
    let info = |id: &str, available, starts: Option<Timestamp>| ReservationInfo {
        id: id.to_owned(),
        zone: "us-east-1a".to_owned(),
        instance_type: "m5.large".to_owned(),
        owner: "123456789012".to_owned(),
        match_criteria: "targeted".to_owned(),
        kind: if starts.is_none() { "default" } else { "capacity-block" }.to_owned(),
        interruptible: false,
        starts,
        ends: Some(at + SignedDuration::from_hours(27)),
        available,
    };
    let found = vec![info("cr-1", 2, None), info("cr-2", 0, None), info("cr-3", 4, Some(starts))];
    let stale = json!({
        "id": "cr-4", "availabilityZone": "us-east-1a", "instanceType": "m5.large", "ownerID": "123456789012",
        "instanceMatchCriteria": "targeted", "reservationType": "default", "state": "active", "interruptible": false,
    });
    let offered = |found: Option<&FoundReservations>| {
        let spec = json!({"amiSelectorTerms": [{"alias": "al2023@latest"}]});
        let status = json!({"capacityReservations": [stale]});
        let made = of_object((spec, status), found, "us-east-1", &Prices::built_in("us-east-1").unwrap());
        let offerings = made.catalog.get("m5.large").unwrap().offerings.clone();
        let reserved = offerings.iter().filter(|own| own.is_reserved());
        let told = |own: &Offering| {
            let scheduled = own.scheduled.as_ref().map(|own| (own.name.to_string(), own.starts));
            (own.reservation_capacity, own.available, scheduled)
        };
        reserved.map(told).collect::<Vec<_>>()
    };
    // A status does not say how much is left.
    assert_eq!(offered(None), [(Some(0), false, None)]);
    let block = Some(("capacity block cr-3".to_owned(), starts));
    assert_eq!(
        offered(Some(&FoundReservations { found, at })),
        [(Some(2), true, None), (Some(0), false, None), (Some(0), false, block)]
    );
}
