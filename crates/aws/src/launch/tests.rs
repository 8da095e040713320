//! Filters, templates and fleets.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleetwright_aws_api::{Ec2NodeClassSpec, Ec2NodeClassStatus, labels};
use fleetwright_core::model::{
    Catalog, InstanceType, NodeClaim, NodeClassRef, Offering, Price, Requirement, Requirements, Resources,
    labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE},
};
use fleetwright_core::scheduling::MinValuesPolicy;
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::calls::{Market, TagSet, TemplateData, TemplateReservation, TemplateVolume};
use crate::instancetype::ResolvedKubelet;

fn claim(requirements: Requirements) -> NodeClaim {
    let class = NodeClassRef { group: "g".into(), kind: "k".into(), name: "n".into() };
    NodeClaim {
        requirements,
        requests: Resources::of(1000, 0),
        batch: "b".into(),
        attempt: 1,
        ..NodeClaim::new("a", class, Timestamp::UNIX_EPOCH)
    }
}

/// `type capacity-type price [reservation-type interruptible room]`, in zone `a`.
fn catalog(lines: &[&str]) -> Catalog {
    let mut types: BTreeMap<&str, Vec<Offering>> = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let mut requirements: Requirements =
            [Requirement::is_in(CAPACITY_TYPE, [words[1]]), Requirement::is_in(ZONE, ["a"])]
                .into_iter()
                .collect();
        if let [kind, interruptible, _] = words[3..] {
            requirements.add(Requirement::is_in(labels::CAPACITY_RESERVATION_ID, [format!("cr-{at}")]));
            requirements.add(Requirement::is_in(labels::CAPACITY_RESERVATION_TYPE, [kind]));
            requirements.add(Requirement::is_in(labels::CAPACITY_RESERVATION_INTERRUPTIBLE, [interruptible]));
        }
        let price = Price::from_dollars(words[2].parse().unwrap()).unwrap();
        let mut offering = Offering::of(requirements, price);
        offering.reservation_capacity = words.get(5).map(|room| room.parse().unwrap());
        types.entry(words[0]).or_default().push(offering);
    }
    let made = types.into_iter().map(|(name, offerings)| {
        let size = name.split('.').nth(1).unwrap_or_default();
        let gpus = i64::from(name.starts_with('p'));
        let capacity = Resources::of(4000, 1 << 34).with("pods", 10).with(labels::RESOURCE_NVIDIA_GPU, gpus);
        let mut made = InstanceType::new(name, capacity)
            .with_requirement(Requirement::is_in(labels::INSTANCE_SIZE, [size]));
        made.offerings = offerings;
        Arc::new(made)
    });
    Catalog::new(made.collect())
}

fn chosen(lines: &[&str], claim: &NodeClaim) -> Option<String> {
    let found = candidates(claim, &catalog(lines), MinValuesPolicy::Strict)?;
    let one = |candidate: &Candidate| {
        let prices: Vec<String> =
            candidate.offerings.iter().map(|offering| offering.price.to_string()).collect();
        format!("{}={}", candidate.instance_type.name, prices.join("+"))
    };
    let all: Vec<String> = found.candidates.iter().map(one).collect();
    Some(format!("{}: {}", found.capacity_type, all.join(" ")))
}

#[rstest]
#[case::cheapest_first(&["b.l on-demand 2", "a.l on-demand 3"], Some("on-demand: b.l=2 a.l=3"))]
#[case::spot_before_on_demand(&["a.l on-demand 3", "a.l spot 1", "b.l spot 2"], Some("spot: a.l=1 b.l=2"))]
#[case::dear_spot_is_dropped(&["a.l on-demand 3", "a.l spot 1", "b.l spot 4"], Some("spot: a.l=1"))]
#[case::only_dear_spot(&["a.l on-demand 3", "b.l spot 4"], Some("on-demand: a.l=3"))]
#[case::exotic_last(&["p.l on-demand 1", "a.metal on-demand 1", "a.l on-demand 3"], Some("on-demand: a.l=3"))]
#[case::exotic_alone(&["p.l on-demand 1", "a.metal on-demand 2"], Some("on-demand: p.l=1 a.metal=2"))]
#[case::reserved_first(&["a.l on-demand 3", "b.l reserved 1 default false 2"], Some("reserved: b.l=1"))]
#[case::roomiest(&["a.l reserved 1 default false 2", "a.l reserved 2 default false 5"], Some("reserved: a.l=2"))]
#[case::one_kind(&["a.l reserved 2 default false 2", "b.l reserved 1 default true 5"], Some("reserved: b.l=1"))]
#[case::kinds_of_one_price(&["a.l reserved 1 capacity-block false 2", "b.l reserved 1 default false 5"], Some("reserved: b.l=1"))]
#[case::one_block(&["a.l reserved 1 capacity-block false 2", "b.l reserved 2 capacity-block false 5"], Some("reserved: a.l=1"))]
#[case::nothing(&[], None)]
fn filters(#[case] lines: &[&str], #[case] expected: Option<&str>) {
    assert_eq!(chosen(lines, &claim(Requirements::new())).as_deref(), expected);
}

#[test]
fn candidates_meet_the_claim() {
    let lines = ["a.l on-demand 3", "b.l on-demand 4"];
    let only =
        |key: &str, value: &str| -> Requirements { [Requirement::is_in(key, [value])].into_iter().collect() };
    assert_eq!(chosen(&lines, &claim(only(INSTANCE_TYPE, "b.l"))).as_deref(), Some("on-demand: b.l=4"));
    assert_eq!(chosen(&lines, &claim(only(ZONE, "b"))), None);
    let large = NodeClaim { requests: Resources::of(5000, 0), ..claim(Requirements::new()) };
    assert_eq!(chosen(&lines, &large), None, "no type is large enough");
    let two: Requirements =
        [Requirement::exists(INSTANCE_TYPE).with_min_values(Some(2))].into_iter().collect();
    assert!(chosen(&lines, &claim(two.clone())).is_some());
    assert_eq!(chosen(&lines[..1], &claim(two)), None, "too little to choose from");
}

/// minValues counts the types that the NodeClaim allows, as in the planner; the capacity type is chosen afterwards.
#[test]
fn variety_counts_types_of_every_capacity_type() {
    let two: Requirements =
        [Requirement::exists(INSTANCE_TYPE).with_min_values(Some(2))].into_iter().collect();
    let lines = ["a.l on-demand 3", "b.l on-demand 4", "b.l spot 1"];
    assert_eq!(chosen(&lines, &claim(two)).as_deref(), Some("spot: b.l=1"));
}

#[test]
fn sixty_types_at_most() {
    let lines: Vec<String> = (0..80).map(|n| format!("t{n:02}.l on-demand {}", 100 - n)).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let found = candidates(&claim(Requirements::new()), &catalog(&lines), MinValuesPolicy::Strict).unwrap();
    assert_eq!((found.candidates.len(), &*found.candidates[0].instance_type.name), (60, "t79.l"));
    let varied = |least: u32| -> NodeClaim {
        claim([Requirement::exists(INSTANCE_TYPE).with_min_values(Some(least))].into_iter().collect())
    };
    let found = |least: u32, policy: MinValuesPolicy| candidates(&varied(least), &catalog(&lines), policy);
    assert!(found(60, MinValuesPolicy::Strict).is_some());
    assert_eq!(found(61, MinValuesPolicy::Strict), None, "the first 60 types have too little variety");
    let best = found(61, MinValuesPolicy::BestEffort).unwrap();
    assert_eq!(best.candidates.len(), 60, "the first 60 types");
}

fn template(spec: Value, efas: i64, reservation: Option<(&str, bool)>, ipv6: bool) -> TemplateData {
    let spec: Ec2NodeClassSpec = serde_json::from_value(spec).unwrap();
    let status: Ec2NodeClassStatus =
        serde_json::from_value(json!({"instanceProfile": "profile", "securityGroups": [{"id": "sg-1"}]}))
            .unwrap();
    let kubelet = ResolvedKubelet { pods: 29, kube_reserved: None, system_reserved: None };
    let reservation =
        reservation.map(|(kind, interruptible)| ("cr-1".to_owned(), kind.to_owned(), interruptible));
    let group = TemplateGroup { image: "ami-1".to_owned(), efas, kubelet, reservation, spot: false };
    let input = TemplateInput {
        spec: &spec,
        status: &status,
        user_data: "data",
        tags: &TagSet::new(),
        tenancy: "default",
        placement: None,
        ipv6,
        reserved_capacity: true,
        sandboxed: false,
        metadata_ipv6: true,
    };
    template_data(&group, &input)
}

#[test]
fn a_template_by_default() {
    let data = template(json!({"amiFamily": "Bottlerocket"}), 0, None, false);
    let sizes: Vec<Option<i64>> = data.volumes.iter().map(|volume| volume.size_gib).collect();
    assert_eq!(sizes, [Some(4), Some(20)]);
    assert_eq!(data.reservation, Some(TemplateReservation::Never));
    assert_eq!(
        (data.interfaces.len(), data.interfaces[0].security_groups.as_slice()),
        (1, ["sg-1".to_owned()].as_slice())
    );
    assert_eq!(data.metadata[0].as_deref(), Some("disabled"), "the CRD's defaults are stricter");
    assert_eq!((data.market, data.enclaves, data.instance_profile.as_str()), (None, false, "profile"));
    let name = template_name(&data);
    assert!(name.starts_with(TEMPLATE_PREFIX));
    assert_eq!(name, template_name(&data));
    assert_ne!(name, template_name(&TemplateData { user_data: "other".to_owned(), ..data }));
}

/// The device alone is what the client sends without a block for EBS.
#[test]
fn a_mapping_without_ebs_names_its_device_alone() {
    let spec = json!({"blockDeviceMappings": [{"deviceName": "/dev/xvdb"}]});
    let bare = TemplateVolume { device: "/dev/xvdb".to_owned(), ..TemplateVolume::default() };
    assert_eq!(template(spec, 0, None, false).volumes, [bare]);
}

/// An empty list, as a Helm chart without volumes renders it, is no list: otherwise the image would decide size, type and encryption.
#[test]
fn an_empty_list_of_volumes_leaves_the_defaults() {
    let of = |spec: Value| template(spec, 0, None, false).volumes;
    let default = of(json!({"amiFamily": "AL2023"}));
    assert_eq!((default[0].size_gib, default[0].encrypted), (Some(20), Some(true)));
    assert_eq!(of(json!({"amiFamily": "AL2023", "blockDeviceMappings": []})), default);
}

#[test]
fn a_template_in_full() {
    let spec = json!({
        "amiFamily": "AL2023", "associatePublicIPAddress": true, "ipPrefixCount": 2, "detailedMonitoring": true,
        "connectionTracking": {"udpTimeout": 60}, "cpuOptions": {"nestedVirtualization": "disabled"},
        "enclaveOptions": {"enabled": true},
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "1G", "iops": 0, "volumeType": "io1"}}],
        "metadataOptions": {"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 2, "httpTokens": "required"},
        "networkInterfaces": [
            {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
            {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
        ],
    });
    let data = template(spec, 4, Some(("capacity-block", false)), true);
    assert_eq!(
        (data.volumes[0].size_gib, data.volumes[0].iops),
        (Some(1), None),
        "rounded up, and zero is left out"
    );
    assert_eq!(data.reservation, Some(TemplateReservation::Only("cr-1".to_owned())));
    assert_eq!(
        (data.market, data.enclaves, data.nested_virtualization),
        (Some(Market::CapacityBlock), true, Some(false))
    );
    let [first, second] = data.interfaces.as_slice() else { panic!("{:?}", data.interfaces) };
    assert_eq!(
        (first.public_address, first.ipv6_prefixes, first.ipv4_prefixes, first.ipv6),
        (Some(true), Some(2), None, true)
    );
    assert_eq!(first.connection_tracking, Some([None, None, Some(60)]));
    assert_eq!(
        (second.kind.as_str(), second.public_address, second.ipv6, second.connection_tracking),
        ("efa-only", None, false, None)
    );
    assert_eq!(data.metadata[2].as_deref(), Some("2"));
}

#[test]
fn efas_and_interruptible_reservations() {
    let data = template(json!({"amiFamily": "AL2023"}), 3, Some(("default", true)), false);
    let places: Vec<(i32, i32)> =
        data.interfaces.iter().map(|interface| (interface.card, interface.device)).collect();
    assert_eq!(places, [(0, 0), (1, 1), (2, 1)]);
    assert_eq!(data.market, Some(Market::InterruptibleReservation));
}

#[rstest]
#[case("us-west-2", true)]
#[case("us-iso-east-1", false)]
#[case("us-isob-west-1", false)]
#[case("us-isof-south-1", false)]
#[case("eu-isoe-west-1", false)]
fn where_the_metadata_service_has_ipv6(#[case] region: &str, #[case] expected: bool) {
    assert_eq!(has_metadata_ipv6(region), expected);
}
