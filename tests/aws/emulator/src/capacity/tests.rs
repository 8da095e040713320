//! Limits hold as documented, and what is terminated comes back.
use super::*;
use crate::call::decode;

fn way(instance_type: &str, market: &str) -> Way {
    Way {
        instance_type: instance_type.to_owned(),
        zone: "a".to_owned(),
        subnet: "subnet-1".to_owned(),
        market: market.to_owned(),
        ..Way::default()
    }
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("i-{number}")).collect()
}

fn at(minutes: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
}

#[test]
fn a_pool_is_used_up_and_refilled() {
    let own = way("m5.large", "on-demand");
    let mut supply = Supply { pools: [(own.pool(), 3)].into(), ..Supply::default() };
    assert_eq!(supply.room(&way("m5.large", "spot"), at(0)).0, u32::MAX, "another market is another pool");
    supply.launch(&own, &ids(2), at(0));
    let (left, (code, message)) = supply.room(&own, at(0));
    assert_eq!((left, code), (1, "InsufficientInstanceCapacity"));
    assert!(message.starts_with(
        "We currently do not have sufficient m5.large capacity in the Availability Zone you requested (a)."
    ));
    supply.terminate("i-0");
    supply.terminate("i-0");
    assert_eq!(supply.room(&own, at(0)).0, 2, "an instance is terminated once");
}

#[test]
fn quotas_count_vcpus() {
    let mut supply =
        Supply { vcpus: [("on-demand".to_owned(), 20), ("spot".to_owned(), 1)].into(), ..Supply::default() };
    let big = way("m5.2xlarge", "on-demand");
    assert_eq!((supply.room(&big, at(0)).0, supply.room(&big, at(0)).1.0), (2, "VcpuLimitExceeded"));
    supply.launch(&big, &ids(1), at(0));
    assert_eq!(supply.room(&way("m5.xlarge", "on-demand"), at(0)).0, 3);
    assert_eq!(supply.room(&way("m5.large", "spot"), at(0)).1.0, "MaxSpotInstanceCountExceeded");
}

#[test]
fn a_reservation_serves_its_type_in_its_zone() {
    let reservation = Reservation::new("cr-1", "m5.large", "a", 2);
    let mut supply = Supply { reservations: vec![reservation], ..Supply::default() };
    let into =
        |instance_type: &str| Way { reservation: Some("cr-1".to_owned()), ..way(instance_type, "on-demand") };
    assert_eq!(supply.room(&into("m5.large"), at(0)).0, 2);
    assert_eq!(supply.room(&into("m5.xlarge"), at(0)).1.0, "ReservationCapacityExceeded");
    supply.launch(&into("m5.large"), &ids(2), at(0));
    assert_eq!(supply.room(&into("m5.large"), at(0)).0, 0);
    let text = supply.reservations_for(&Call::default(), at(0))[0].document();
    assert!(text.contains("<availableInstanceCount>0</availableInstanceCount>"), "{text}");
    supply.terminate("i-1");
    assert_eq!(supply.room(&into("m5.large"), at(0)).0, 1);
}

/// "A Capacity Block starts […] and ends at 11:30 AM UTC; the instances are terminated beginning at 11:00."
#[test]
fn a_block_starts_and_ends() {
    let block = Reservation::new("cr-1", "p5.48xlarge", "a", 1).block(at(60), at(180));
    let mut supply = Supply { reservations: vec![block], ..Supply::default() };
    let into = Way { reservation: Some("cr-1".to_owned()), ..way("p5.48xlarge", "capacity-block") };
    let room: Vec<u32> = [59, 60, 149, 150].map(|minute| supply.room(&into, at(minute)).0).to_vec();
    assert_eq!(room, [0, 1, 1, 0]);
    let states: Vec<&str> = [0, 60, 179, 180].map(|minute| supply.reservations[0].state(at(minute))).to_vec();
    assert_eq!(states, ["scheduled", "active", "active", "expired"]);
    supply.launch(&into, &ids(1), at(61));
    assert_eq!(supply.reclaimed(at(149)), Vec::<String>::new());
    assert_eq!(supply.reclaimed(at(150)), ["i-0"]);
}

#[test]
fn reservations_are_found_by_id_and_filters() {
    let mut tagged = Reservation::new("cr-2", "m5.large", "a", 1).block(at(60), at(180));
    tagged.tags.insert("team".to_owned(), "a".to_owned());
    let reservations = vec![Reservation::new("cr-1", "m5.large", "a", 1), tagged];
    let supply = Supply { reservations, ..Supply::default() };
    for (form, expected) in [
        ("", 2),
        ("CapacityReservationId.1=cr-2", 1),
        ("Filter.1.Name=state&Filter.1.Value.1=active", 1),
        ("Filter.1.Name=state&Filter.1.Value.1=active&Filter.1.Value.2=scheduled", 2),
        ("Filter.1.Name=tag:team&Filter.1.Value.1=*", 1),
        ("Filter.1.Name=tag:team&Filter.1.Value.1=b", 0),
        ("Filter.1.Name=owner-id&Filter.1.Value.1=123456789012", 2),
    ] {
        let call = Call { params: decode(form), ..Call::default() };
        assert_eq!(supply.reservations_for(&call, at(0)).len(), expected, "{form}");
    }
}

#[test]
fn placement_groups_have_limits() {
    let group = |id: &str, strategy| PlacementGroup {
        id: id.to_owned(),
        name: id.to_owned(),
        strategy,
        partitions: 3,
    };
    let groups = vec![group("s", "spread"), group("c", "cluster"), group("p", "partition")];
    let mut supply = Supply { groups, ..Supply::default() };
    let of = |id: &str, zone: &str| Way {
        group: Some((id.to_owned(), None)),
        zone: zone.to_owned(),
        ..way("m5.large", "on-demand")
    };
    supply.launch(&of("s", "a"), &ids(7), at(0));
    let (left, (_, message)) = supply.room(&of("s", "a"), at(0));
    assert_eq!(left, 0);
    assert!(message.contains("limit of instances in this spread placement group"));
    assert_eq!(supply.room(&of("s", "b"), at(0)).0, 7);
    supply.launch(&of("c", "a"), &["i-c".to_owned()], at(0));
    assert_eq!((supply.room(&of("c", "a"), at(0)).0, supply.room(&of("c", "b"), at(0)).0), (u32::MAX, 0));
    supply.launch(&of("p", "a"), &["i-p1".to_owned(), "i-p2".to_owned()], at(0));
    let partitions = ["i-p1", "i-p2"].map(|id| supply.launched[id].partition);
    assert_eq!(partitions, [Some(1), Some(2)]);
    assert_eq!(supply.room(&of("x", "a"), at(0)).1.0, "InvalidPlacementGroup.Unknown");
}
