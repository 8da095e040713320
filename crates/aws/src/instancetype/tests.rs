//! Types of a region with an EC2NodeClass: labels, capacity, overhead, offerings, and observed figures.

use fleetwright_aws_api::{Ec2NodeClassSpec, Ec2NodeClassStatus, KubeletConfig, labels};
use fleetwright_core::model::labels::{CAPACITY_TYPE, ON_DEMAND, SPOT, ZONE};
use fleetwright_core::model::{ObservedNode, Price, Resources};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::calls::{Card, Gpu, Network, NeuronDevice, Storage};
use crate::prices::Prices;
use crate::unavailable::{Shortage, Unavailable};

const MIB: i64 = 1 << 20;
const GI: i64 = 1 << 30;

fn m5_large() -> InstanceTypeDescription {
    InstanceTypeDescription {
        name: "m5.large".to_owned(),
        usage_classes: vec!["on-demand".to_owned(), "spot".to_owned()],
        architectures: vec!["x86_64".to_owned()],
        cpu_manufacturer: Some("Intel".to_owned()),
        clock_mhz: Some(3100),
        vcpus: 2,
        memory_mib: 8192,
        hypervisor: "nitro".to_owned(),
        ebs_mbps: Some(4750),
        network: Network {
            cards: vec![Card { index: 0, interfaces_max: 3 }],
            ipv4_per_interface: 10,
            ena: true,
            ..Network::default()
        },
        ..InstanceTypeDescription::default()
    }
}

struct ClassFixture {
    settings: Settings,
    spec: Ec2NodeClassSpec,
    status: Ec2NodeClassStatus,
    kubelet: ParsedKubelet,
    group: Option<PlacementGroup>,
    observed: ObservedCapacity,
    prices: Prices,
    unavailable: Unavailable,
    instance_types: InstanceTypeCatalogue,
}

impl ClassFixture {
    /// A class with edits of its spec, and one zone of two that both sell the instance.
    fn new(edits: &[(&str, Value)]) -> Self {
        let mut spec = json!({"amiSelectorTerms": [{"alias": "al2023@latest"}]});
        for (field, value) in edits {
            spec[*field] = value.clone();
        }
        let kubelet: KubeletConfig =
            serde_json::from_value(spec.get("kubelet").cloned().unwrap_or_else(|| json!({}))).unwrap();
        let status = json!({
            "subnets": [
                {"id": "subnet-a", "zone": "us-west-2a", "zoneID": "usw2-az1"},
                {"id": "subnet-b", "zone": "us-west-2b", "zoneID": "usw2-az2"},
            ],
            "amis": [
                {"id": "ami-plain", "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": labels::INSTANCE_GPU_COUNT, "operator": "DoesNotExist"},
                ]},
                {"id": "ami-gpu", "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": labels::INSTANCE_GPU_COUNT, "operator": "Exists"},
                ]},
            ],
        });
        let mut world = Self {
            settings: Settings { node_class_cel: true, ..Settings::new("test", "us-west-2") },
            spec: serde_json::from_value(spec).unwrap(),
            status: serde_json::from_value(status).unwrap(),
            kubelet: kubelet.parse().unwrap(),
            group: None,
            observed: ObservedCapacity::default(),
            prices: Prices::of_region("us-east-1"),
            unavailable: Unavailable::default(),
            instance_types: InstanceTypeCatalogue::default(),
        };
        world.sell(m5_large());
        world
    }

    fn sell(&mut self, info: InstanceTypeDescription) {
        let zones = ["us-west-2a", "us-west-2b", "us-west-2c"].map(str::to_owned);
        self.instance_types.sold_in.insert(info.name.clone(), zones.into());
        self.instance_types.types.insert(info.name.clone(), info);
    }

    fn view(&self) -> ClassView<'_> {
        ClassView {
            settings: &self.settings,
            spec: &self.spec,
            status: &self.status,
            kubelet: &self.kubelet,
            group: self.group.as_ref(),
        }
    }

    fn catalog(&self) -> ClassCatalog {
        let market = OfferingInputs {
            prices: &self.prices,
            unavailable: &self.unavailable,
            shifted_zones: &|id| id == "usw2-az9",
            reservation_capacity: &|id| u32::from(id != "cr-empty"),
            scheduled: &|_| None,
        };
        catalog(&self.instance_types, &self.view(), &self.observed, &market)
    }

    fn only(&self) -> Arc<InstanceType> {
        let catalog = self.catalog();
        assert_eq!(catalog.catalog.instance_types.len(), 1, "{:?}", catalog.problems);
        catalog.catalog.instance_types[0].clone()
    }
}

fn label(found: &InstanceType, key: &str) -> String {
    found.requirements.get(key).and_then(|r| r.single().map(ToString::to_string)).unwrap_or_default()
}

#[test]
fn labels_of_a_plain_instance_type() {
    let found = ClassFixture::new(&[]).only();
    for (key, value) in [
        (labels::INSTANCE_CATEGORY, "m"),
        (labels::INSTANCE_GENERATION, "5"),
        (labels::INSTANCE_FAMILY, "m5"),
        (labels::INSTANCE_SIZE, "large"),
        (labels::INSTANCE_CPU, "2"),
        (labels::INSTANCE_MEMORY, "8192"),
        (labels::INSTANCE_CPU_MANUFACTURER, "intel"),
        (labels::INSTANCE_CPU_CLOCK, "3100"),
        (labels::INSTANCE_HYPERVISOR, "nitro"),
        (labels::INSTANCE_EBS_BANDWIDTH, "4750"),
        (labels::INSTANCE_NETWORK_BANDWIDTH, "750"),
        (labels::INSTANCE_CAPABILITY_FLEX, "false"),
        (labels::INSTANCE_ENCRYPTION_IN_TRANSIT, "false"),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("topology.kubernetes.io/region", "us-west-2"),
        (labels::INSTANCE_GPU_COUNT, ""),
        (labels::WINDOWS_BUILD, ""),
        (labels::CAPACITY_RESERVATION_ID, ""),
    ] {
        assert_eq!(label(&found, key), value, "{key}");
    }
    let zones =
        found.requirements.get(ZONE).unwrap().values().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(zones, ["us-west-2a", "us-west-2b"], "the class has no subnet in the third zone");
    for key in [labels::INSTANCE_GPU_NAME, labels::INSTANCE_LOCAL_NVME] {
        assert!(found.requirements.get(key).is_some_and(|r| r.allows_missing()), "{key}");
    }
}

/// Figures of Karpenter for an m5.large with AL2023: 7.5 % of memory to the hypervisor, 29 pods by its interfaces.
#[test]
fn capacity_and_overhead() {
    let found = ClassFixture::new(&[]).only();
    let expected = Resources::of(2000, (8192 - 615) * MIB)
        .with("ephemeral-storage", 20 * GI)
        .with("pods", 29)
        .with(labels::RESOURCE_POD_ENI, 9);
    assert_eq!(found.capacity, expected);
    assert_eq!(
        found.overhead.kube_reserved,
        Resources::of(70, (11 * 29 + 255) * MIB).with("ephemeral-storage", GI)
    );
    assert_eq!(
        found.overhead.eviction_threshold,
        Resources::of(0, 100 * MIB).with("ephemeral-storage", 2 * GI)
    );
    assert!(found.overhead.system_reserved.is_zero());
}

#[rstest]
#[case::max_pods(json!({"maxPods": 10}), 10)]
#[case::per_core(json!({"podsPerCore": 4}), 8)]
#[case::both(json!({"podsPerCore": 4, "maxPods": 5}), 5)]
#[case::expression(json!({"maxPods": "min(max_pods, 20) + vcpus"}), 22)]
fn pods_by_the_kubelet_block(#[case] kubelet: Value, #[case] expected: i64) {
    let found = ClassFixture::new(&[("kubelet", kubelet)]).only();
    assert_eq!(found.capacity.pods(), expected);
    assert_eq!(
        found.overhead.kube_reserved.memory(),
        (11 * 29 + 255) * MIB,
        "by interfaces, whatever maxPods says"
    );
}

#[test]
fn families_differ_in_pods() {
    let mut world = ClassFixture::new(&[
        ("amiSelectorTerms", json!([{"alias": "bottlerocket@latest"}])),
        ("kubelet", json!({"maxPods": 10, "podsPerCore": 1})),
    ]);
    let found = world.only();
    assert_eq!((found.capacity.pods(), found.overhead.kube_reserved.memory()), (10, (11 * 10 + 255) * MIB));
    world = ClassFixture::new(&[("amiSelectorTerms", json!([{"alias": "windows2022@latest"}]))]);
    let found = world.only();
    assert_eq!(found.capacity.pods(), 110);
    assert_eq!(found.capacity.get(&labels::RESOURCE_PRIVATE_IPV4.into()), 9);
    assert_eq!(label(&found, labels::WINDOWS_BUILD), "10.0.20348");
    world = ClassFixture::new(&[]);
    world.settings.reserved_enis = 1;
    assert_eq!(world.only().capacity.pods(), 2 * 9 + 2);
}

#[rstest]
#[case(json!({"kubelet": {"kubeReserved": {"cpu": "vcpus * 15", "memory": "100Mi"}}}), 30, 100)]
#[case(json!({"kubelet": {"kubeReserved": {"cpu": "no expression"}}}), 70, 11 * 29 + 255)]
fn reserved_by_expression(#[case] edit: Value, #[case] cpu: i64, #[case] memory: i64) {
    let world = ClassFixture::new(&[("kubelet", edit["kubelet"].clone())]);
    assert_eq!(world.only().overhead.kube_reserved.base()[..2], [cpu, memory * MIB]);
}

#[test]
fn a_broken_expression_takes_one_type_and_is_named() {
    let mut world = ClassFixture::new(&[("kubelet", json!({"maxPods": "vcpus > 2 ? 10 : -1"}))]);
    world.sell(InstanceTypeDescription { name: "m5.xlarge".to_owned(), vcpus: 4, ..m5_large() });
    let catalog = world.catalog();
    let names: Vec<&str> = catalog.catalog.instance_types.iter().map(|t| &*t.name).collect();
    assert_eq!(names, ["m5.xlarge"]);
    assert!(
        catalog.problems[0].contains("m5.large: spec.kubelet.maxPods: -1 is out of range"),
        "{:?}",
        catalog.problems
    );
    world.settings.node_class_cel = false;
    assert_eq!(
        world.catalog().catalog.instance_types.len(),
        2,
        "switched off, expressions count for nothing"
    );
}

#[rstest]
#[case::default(json!([]), 20 * GI)]
#[case::by_device(json!([["blockDeviceMappings", [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi"}}]]]), 100 * GI)]
#[case::other_device(json!([["blockDeviceMappings", [{"deviceName": "/dev/xvdz", "ebs": {"volumeSize": "100Gi"}}]]]), 20 * GI)]
#[case::root(json!([["blockDeviceMappings", [{"deviceName": "/dev/xvdz", "rootVolume": true, "ebs": {"volumeSize": "1T"}}]]]), 1_000_000_000_000)]
#[case::raid(json!([["instanceStorePolicy", "RAID0"]]), 75_000_000_000)]
#[case::custom(json!([["amiFamily", "Custom"], ["blockDeviceMappings", [{"ebs": {"volumeSize": "5Gi"}}, {"ebs": {"volumeSize": "7Gi"}}]]]), 7 * GI)]
fn storage(#[case] edits: Value, #[case] expected: i64) {
    let edits: Vec<(String, Value)> = serde_json::from_value(edits).unwrap();
    let edits: Vec<(&str, Value)> =
        edits.iter().map(|(field, value)| (field.as_str(), value.clone())).collect();
    let mut world = ClassFixture::new(&edits);
    world.sell(InstanceTypeDescription {
        storage: Some(Storage { total_gb: Some(75), nvme: true }),
        ..m5_large()
    });
    let found = world.only();
    assert_eq!(found.capacity.base()[2], expected);
    assert_eq!(label(&found, labels::INSTANCE_LOCAL_NVME), "75");
}

/// EC2 may describe an instance without any network figure, and an EC2NodeClass may list no interface.
#[test]
fn missing_figures_are_zero_and_never_negative() {
    let mut world = ClassFixture::new(&[("networkInterfaces", json!([]))]);
    let network = Network { ipv4_per_interface: 0, efa_max: Some(1), ..m5_large().network };
    world.sell(InstanceTypeDescription { network, ..m5_large() });
    let found = world.only();
    assert_eq!(found.capacity.get(&"pods".into()), 2, "the pods on the host's network");
    assert_eq!(found.capacity.get(&labels::RESOURCE_EFA.into()), 1, "an empty list lists nothing");
}

#[test]
fn devices() {
    let mut world = ClassFixture::new(&[]);
    world.instance_types = InstanceTypeCatalogue::default();
    world.sell(InstanceTypeDescription {
        name: "p3.8xlarge".to_owned(),
        gpus: vec![Gpu {
            name: "V100".to_owned(),
            manufacturer: "NVIDIA".to_owned(),
            count: 4,
            memory_mib: 16_384,
        }],
        network: Network { efa_max: Some(2), ..m5_large().network },
        ..m5_large()
    });
    world.sell(InstanceTypeDescription {
        name: "inf2.48xlarge".to_owned(),
        neuron: Some(vec![NeuronDevice { name: "Inferentia2".to_owned(), count: 12, cores: 2 }]),
        ..m5_large()
    });
    let catalog = world.catalog();
    let gpu = catalog.catalog.get("p3.8xlarge").unwrap();
    assert_eq!(gpu.capacity.get(&labels::RESOURCE_NVIDIA_GPU.into()), 4);
    assert_eq!(gpu.capacity.get(&labels::RESOURCE_EFA.into()), 2);
    assert_eq!(
        (label(gpu, labels::INSTANCE_GPU_NAME).as_str(), label(gpu, labels::INSTANCE_GPU_COUNT).as_str()),
        ("v100", "4")
    );
    assert_eq!(catalog.resolved["p3.8xlarge"].image.as_deref(), Some("ami-gpu"));
    let neuron = catalog.catalog.get("inf2.48xlarge").unwrap();
    assert_eq!(neuron.capacity.get(&labels::RESOURCE_NEURON.into()), 12);
    assert_eq!(neuron.capacity.get(&labels::RESOURCE_NEURON_CORE.into()), 24);
    assert_eq!(label(neuron, labels::INSTANCE_ACCELERATOR_MANUFACTURER), "aws");
    assert_eq!(
        catalog.resolved["inf2.48xlarge"].image.as_deref(),
        Some("ami-plain"),
        "no image is for it alone"
    );
}

fn born(name: &str) -> ObservedNode<'_> {
    ObservedNode { name, born: Timestamp::UNIX_EPOCH }
}

/// Storage and pods are taken from observations with the same prediction, and eviction thresholds follow them.
#[test]
fn storage_and_pods_are_observed_per_prediction() {
    let hard = json!({"evictionHard": {"nodefs.available": "10%"}});
    let mut world = ClassFixture::new(&[("kubelet", hard.clone())]);
    let predicted = world.catalog().resolved["m5.large"].predicted.clone();
    assert_eq!(world.only().capacity, predicted);
    let prediction = Prediction::clone(world.only().prediction.as_ref().unwrap());
    assert_eq!(prediction.capacity, predicted);
    let reported = predicted.clone().with("ephemeral-storage", 19 * GI).with("pods", 20);
    world.observed.observe("m5.large", "ami-plain", born("node-1"), &reported, Some(&prediction));
    let after = world.only();
    assert_eq!(after.capacity, reported);
    assert_eq!(after.overhead.eviction_threshold.get(&ResourceName::EphemeralStorage), (19 * GI + 9) / 10);
    assert_eq!(
        world.catalog().resolved["m5.large"].predicted,
        predicted,
        "observations do not change the prediction"
    );
    assert_eq!(
        world.catalog().resolved["m5.large"].kubelet.pods,
        29,
        "the kubelet gets the EC2NodeClass's value"
    );
    let volumes = json!([{"deviceName": "/dev/xvda", "rootVolume": true, "ebs": {"volumeSize": "100Gi"}}]);
    let mut other = ClassFixture::new(&[("kubelet", hard), ("blockDeviceMappings", volumes)]);
    other.observed = world.observed.clone();
    assert_eq!(other.only().capacity, predicted.with("ephemeral-storage", 100 * GI).with("pods", 20));
}

/// Figures observed on nodes of the type and image are used, with everything that follows from them; another image's are not.
#[test]
fn capacity_is_observed_per_image() {
    let mut world = ClassFixture::new(&[("kubelet", json!({"evictionHard": {"memory.available": "10%"}}))]);
    let before = world.only();
    world.observed.observe("m5.large", "ami-gpu", born("node-1"), &Resources::of(2000, 5 * GI), None);
    assert_eq!(world.only(), before);
    world.observed.observe("m5.large", "ami-plain", born("node-2"), &Resources::of(1930, 7 * GI), None);
    let after = world.only();
    assert_eq!((after.capacity.cpu(), after.capacity.memory()), (1930, 7 * GI));
    assert_eq!(after.overhead.eviction_threshold.memory(), (7 * GI + 9) / 10);
    world.observed.retain_images(|image| image != "ami-plain");
    assert_eq!(world.only(), before);
}

#[test]
fn offerings_are_the_zones_times_the_ways_to_buy() {
    let mut world = ClassFixture::new(&[]);
    let found = world.only();
    assert_eq!(found.offerings.len(), 4);
    assert!(found.offerings.iter().all(|offering| offering.available));
    assert_eq!(found.offerings[0].price, Price::from_dollars(0.096).unwrap());
    let place = ("m5.large".to_owned(), "us-west-2a".to_owned());
    world.prices.update_spot([(place, Price::from_dollars(0.03).unwrap())]);
    let spot: Vec<String> = world
        .only()
        .offerings
        .iter()
        .filter(|o| o.capacity_type().is_some_and(|t| &**t == SPOT))
        .map(|o| o.zone().unwrap().to_string())
        .collect();
    assert_eq!(spot, ["us-west-2a"], "an offering without a price is not available");
    world.unavailable.mark(
        Shortage::Offering {
            instance_type: "m5.large".to_owned(),
            zone: "us-west-2b".to_owned(),
            capacity_type: ON_DEMAND.to_owned(),
            group: None,
        },
        Timestamp::UNIX_EPOCH,
    );
    let found = world.only();
    let available: Vec<bool> = found.offerings.iter().map(|offering| offering.available).collect();
    assert_eq!(available, [true, true, false], "listed, and not available");
}

#[test]
fn reservations_are_counted() {
    let mut world = ClassFixture::new(&[]);
    let reservation = |id: &str, zone: &str| CapacityReservation {
        id: id.to_owned(),
        availability_zone: zone.to_owned(),
        instance_type: "m5.large".to_owned(),
        reservation_type: "default".to_owned(),
        state: "active".to_owned(),
        ..CapacityReservation::default()
    };
    world.status.capacity_reservations = vec![
        reservation("cr-1", "us-west-2a"),
        reservation("cr-empty", "us-west-2a"),
        CapacityReservation { state: "expiring".to_owned(), ..reservation("cr-3", "us-west-2b") },
    ];
    let found = world.only();
    assert!(found.requirements.allows(CAPACITY_TYPE, "reserved"));
    let reserved: Vec<(Option<u32>, bool, i64)> = found
        .offerings
        .iter()
        .filter(|offering| offering.is_reserved())
        .map(|offering| (offering.reservation_capacity, offering.available, offering.price.nanos()))
        .collect();
    assert_eq!(reserved, [(Some(1), true, 9), (Some(0), false, 9), (Some(1), false, 9)]);
    // A spread placement group that is full in a zone takes no more instances, reserved ones neither.
    let (id, strategy) = ("pg-1".to_owned(), "spread".to_owned());
    world.sell(InstanceTypeDescription { placement_strategies: vec![strategy.clone()], ..m5_large() });
    world.group = Some(PlacementGroup { id, strategy, ..PlacementGroup::default() });
    let is_available = |world: &ClassFixture| {
        world.only().offerings.iter().any(|offering| offering.is_reserved() && offering.available)
    };
    assert!(is_available(&world));
    let full = Shortage::Group { id: "pg-1".to_owned(), zone: "us-west-2a".to_owned() };
    world.unavailable.mark(full, Timestamp::UNIX_EPOCH);
    assert!(!is_available(&world));
    world.settings.reserved_capacity = false;
    assert!(world.only().offerings.iter().all(|offering| !offering.is_reserved()));
}

#[test]
fn partitions_multiply_offerings() {
    let mut world = ClassFixture::new(&[]);
    let group = PlacementGroup {
        id: "pg-1".to_owned(),
        strategy: "partition".to_owned(),
        partitions: 3,
        ..PlacementGroup::default()
    };
    world.group = Some(group);
    assert!(
        world.only().offerings.iter().all(|offering| !offering.available),
        "the type does not support partitions"
    );
    world.sell(InstanceTypeDescription { placement_strategies: vec!["partition".to_owned()], ..m5_large() });
    let found = world.only();
    assert_eq!(found.offerings.iter().filter(|offering| offering.available).count(), 12);
    assert_eq!(label(&found, labels::PLACEMENT_GROUP_ID), "pg-1");
}

#[rstest]
#[case("connectionTracking", json!({"udpTimeout": 60}), true)]
#[case("cpuOptions", json!({"nestedVirtualization": "enabled"}), false)]
#[case("cpuOptions", json!({"nestedVirtualization": "disabled"}), true)]
#[case("enclaveOptions", json!({"enabled": true}), false)]
#[case("networkInterfaces", json!([{"networkCardIndex": 0, "deviceIndex": 2, "interfaceType": "interface"}]), true)]
#[case("networkInterfaces", json!([{"networkCardIndex": 0, "deviceIndex": 3, "interfaceType": "interface"}]), false)]
#[case("networkInterfaces", json!([{"networkCardIndex": 1, "deviceIndex": 0, "interfaceType": "interface"}]), false)]
#[case("networkInterfaces", json!([{"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"}]), false)]
fn what_a_class_asks_for(#[case] field: &str, #[case] value: Value, #[case] expected: bool) {
    let found = ClassFixture::new(&[(field, value)]).only();
    assert!(found.offerings.iter().all(|offering| offering.available == expected));
}

/// An EC2NodeClass with images for one architecture cannot use instances of another, however cheap.
#[test]
fn types_without_an_image_are_unavailable() {
    let mut world = ClassFixture::new(&[]);
    let available = |world: &ClassFixture| world.only().offerings.iter().filter(|own| own.available).count();
    assert_eq!(available(&world), 4);
    let amis = std::mem::take(&mut world.status.amis);
    assert_eq!(available(&world), 4, "the images are not known yet");
    world.status.amis = amis;
    for ami in &mut world.status.amis {
        ami.requirements = serde_json::from_value(json!([
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]},
        ]))
        .unwrap();
    }
    assert_eq!((available(&world), world.only().offerings.len()), (0, 4), "listed, and not available");
}
