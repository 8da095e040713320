//! Instance types and whole catalogues.

use std::{collections::BTreeSet, sync::Arc};

use super::{GIB, MIB};
use crate::model::{
    Baseline, Catalog, DeviceTemplates, InstanceType, Offering, Overhead, Price, Requirement, Requirements,
    Resources, Str,
    labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, OS, RESERVED, SPOT, ZONE},
};

/// An instance type under construction; see [`instance_type`].
#[derive(Clone, Debug)]
pub struct TypeBuilder {
    name: Str,
    capacity: Resources,
    overhead: Overhead,
    labels: Vec<Requirement>,
    offerings: Vec<Offering>,
    devices: DeviceTemplates,
    baseline: Option<Baseline>,
}

/// An amd64 Linux instance type with a number of CPUs and GiB, 110 pods, no overhead, without offerings.
#[must_use]
pub fn instance_type(name: &str, cpus: i64, gib: i64) -> TypeBuilder {
    TypeBuilder {
        name: name.into(),
        capacity: Resources::of(cpus * 1000, gib * GIB).with("pods", 110).with("ephemeral-storage", 20 * GIB),
        overhead: Overhead::default(),
        labels: vec![Requirement::is_in(ARCH, ["amd64"]), Requirement::is_in(OS, ["linux"])],
        offerings: Vec::new(),
        devices: DeviceTemplates::default(),
        baseline: None,
    }
}

impl TypeBuilder {
    /// Sets the devices that its nodes will have.
    #[must_use]
    pub fn devices(mut self, devices: DeviceTemplates) -> Self {
        self.devices = devices;
        self
    }

    /// Makes it burstable, with a baseline in thousandths of each CPU; the label `family` names its family.
    #[must_use]
    pub fn burstable(mut self, permille: u16) -> Self {
        self.baseline = Baseline::new(permille, &["family"]);
        self
    }

    /// Adds an available offering at a price in thousandths of a dollar per hour.
    #[must_use]
    pub fn offer(self, zone: &str, capacity_type: &str, milli_dollars: i64) -> Self {
        self.offer_with(zone, capacity_type, milli_dollars, |_| {})
    }

    /// Adds an offering after a change to it.
    #[must_use]
    pub fn offer_with(
        mut self,
        zone: &str,
        capacity_type: &str,
        milli_dollars: i64,
        change: impl FnOnce(&mut Offering),
    ) -> Self {
        let requirements =
            [Requirement::is_in(ZONE, [zone]), Requirement::is_in(CAPACITY_TYPE, [capacity_type])];
        let mut offering = Offering {
            requirements: requirements.into_iter().collect(),
            price: Price::from_nanos(milli_dollars * 1_000_000),
            available: true,
            reservation_capacity: None,
            shared_capacity: None,
            scheduled: None,
            allocatable: None,
            overlaid: false,
        };
        change(&mut offering);
        self.offerings.push(offering);
        self
    }

    /// Adds a reservation of `capacity` instances under `key`.
    #[must_use]
    pub fn reserve(self, zone: &str, key: &str, id: &str, capacity: u32) -> Self {
        self.offer_with(zone, RESERVED, 0, |offering| {
            offering.requirements.add(Requirement::is_in(key, [id]));
            offering.reservation_capacity = Some(capacity);
            offering.available = capacity > 0;
        })
    }

    /// Sets a label, replacing what stands under the key.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.retain(|label| &**label.key() != key);
        self.labels.push(Requirement::is_in(key, [value]));
        self
    }

    /// Sets the capacity of a resource.
    #[must_use]
    pub fn resource(mut self, name: &str, amount: i64) -> Self {
        self.capacity = self.capacity.with(name, amount);
        self
    }

    /// Sets what the node keeps for itself.
    #[must_use]
    pub fn overhead(mut self, cpu_milli: i64, memory_bytes: i64) -> Self {
        self.overhead.kube_reserved = Resources::of(cpu_milli, memory_bytes);
        self
    }

    /// The instance type.
    #[must_use]
    pub fn build(self) -> Arc<InstanceType> {
        let mut requirements: Requirements = self.labels.into_iter().collect();
        requirements.add(Requirement::is_in(INSTANCE_TYPE, [self.name.clone()]));
        let mut keys: BTreeSet<Str> = BTreeSet::from([ZONE.into(), CAPACITY_TYPE.into()]);
        keys.extend(
            self.offerings.iter().flat_map(|offering| offering.requirements.iter().map(|r| r.key().clone())),
        );
        for key in keys {
            let offered =
                self.offerings.iter().filter_map(|offering| offering.requirements.get(&key)?.single());
            requirements.replace(Requirement::is_in(key.clone(), offered.cloned()));
        }
        Arc::new(InstanceType {
            name: self.name,
            requirements,
            offerings: self.offerings,
            capacity: self.capacity,
            overhead: self.overhead,
            devices: self.devices.into(),
            prediction: None,
            advertised: None,
            baseline: self.baseline,
        })
    }
}

/// Six types in zones a, b and c, spot and on-demand: `small` 2 CPU/4 GiB, `medium` 4/8, `large` 8/16, `xlarge` 16/32,
/// `memory` 4/32, all amd64, and `arm` 4/8; $0.05 per CPU and $0.005 per GiB, `arm` a cent more; spot at 40 %.
#[must_use]
pub fn small_catalog() -> Arc<Catalog> {
    let sizes = [
        ("small", 2, 4),
        ("medium", 4, 8),
        ("large", 8, 16),
        ("xlarge", 16, 32),
        ("memory", 4, 32),
        ("arm", 4, 8),
    ];
    let build = |(name, cpus, gib): (&str, i64, i64)| {
        let mut builder = instance_type(name, cpus, gib);
        if name == "arm" {
            builder = builder.label(ARCH, "arm64");
        }
        let price = cpus * 50 + gib * 5 + i64::from(name == "arm") * 10;
        for zone in ["a", "b", "c"] {
            builder = builder.offer(zone, ON_DEMAND, price).offer(zone, SPOT, price * 2 / 5);
        }
        builder.build()
    };
    Arc::new(Catalog::new(sizes.into_iter().map(build).collect()))
}

/// The shape of the kwok provider's catalogue: 144 types (`c`, `s`, `m` with 2, 4, 8 GiB per CPU; 1 to 256 CPUs; two
/// architectures, two operating systems), each in `test-zone-a` to `-d`, spot and on-demand.
#[must_use]
pub fn kwok_catalog() -> Arc<Catalog> {
    let mut types = Vec::new();
    for cpus in [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256] {
        for (family, factor) in [("c", 2), ("s", 4), ("m", 8)] {
            for os in ["linux", "windows"] {
                for arch in ["amd64", "arm64"] {
                    types.push(kwok_type(family, cpus, cpus * factor, os, arch));
                }
            }
        }
    }
    Arc::new(Catalog::new(types))
}

fn kwok_type(family: &str, cpus: i64, gib: i64, os: &str, arch: &str) -> Arc<InstanceType> {
    let mut builder = instance_type(&format!("{family}-{cpus}x-{arch}-{os}"), cpus, gib)
        .label(ARCH, arch)
        .label(OS, os)
        .label("karpenter.kwok.sh/instance-cpu", &cpus.to_string())
        .label("karpenter.kwok.sh/instance-memory", &(gib * 1024).to_string())
        .label("karpenter.kwok.sh/instance-family", family)
        .resource("pods", (cpus * 16).clamp(0, 1024))
        .overhead(100, 10 * MIB);
    let price = cpus * 25 + gib;
    for zone in ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"] {
        builder = builder.offer(zone, ON_DEMAND, price).offer(zone, SPOT, price * 7 / 10);
    }
    builder.build()
}

/// The catalogue of Karpenter's micro-benchmark: type `i` of `1..=count` has `i` CPUs, 2·`i` GiB and 10·`i` pods, and
/// costs 0.1 per CPU and GB; spot in zones 1 and 2, on-demand in zones 1 to 3, all at one price.
#[must_use]
pub fn linear_catalog(count: i64) -> Arc<Catalog> {
    let build = |size: i64| {
        let price = size * 100 + size * 2 * GIB / 10_000_000;
        let mut builder = instance_type(&format!("fake-it-{}", size - 1), size, size * 2)
            .resource("pods", size * 10)
            .overhead(100, 10 * MIB);
        for (zone, capacity_type) in [
            ("test-zone-1", SPOT),
            ("test-zone-2", SPOT),
            ("test-zone-1", ON_DEMAND),
            ("test-zone-2", ON_DEMAND),
            ("test-zone-3", ON_DEMAND),
        ] {
            builder = builder.offer(zone, capacity_type, price);
        }
        builder.build()
    };
    Arc::new(Catalog::new((1..=count).map(build).collect()))
}
