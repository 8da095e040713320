//! A catalogue modeled on current EC2 families, generated from a table of families.
//!
//! Sizes, memory per vCPU, architecture, GPUs, local NVMe, pods by network interfaces and overhead are realistic. Prices are modeled
//! ([`super::families`]); spot discounts come from the seed.

use fleetwright_core::model::{
    InstanceType, Price, Requirements, Resources,
    labels::{ON_DEMAND, SPOT},
};
use rand_chacha::rand_core::Rng;

use super::{
    Catalogue, TypeSpec, Vocabulary,
    families::{ACCELERATED, BURSTABLE, BURSTABLE_SIZES, FAMILIES},
    offering, texts,
};
use crate::dice;

/// The region.
pub const REGION: &str = "us-fake-1";
/// The zones.
pub const ZONES: [&str; 3] = ["us-fake-1a", "us-fake-1b", "us-fake-1c"];

const GIB: i64 = 1 << 30;
const MIB: i64 = 1 << 20;

/// An instance type before it is priced per zone.
struct SizedType {
    name: String,
    arm: bool,
    cpus: i64,
    memory: i64,
    pods: i64,
    gpus: i64,
    nvme_gib: i64,
    nanos: i64,
    zones: usize,
}

/// The realistic catalogue: more than 300 types in three zones. The same seed gives the same spot prices.
#[must_use]
pub fn realistic(seed: u64) -> Catalogue {
    let types = sized_types().into_iter().filter_map(|shape| build(shape, seed)).collect();
    Catalogue::new(Vocabulary::Cloud, types)
}

fn sized_types() -> Vec<SizedType> {
    let mut sized_types = Vec::with_capacity(512);
    for family in FAMILIES {
        for (size, cpus) in family.sizes {
            sized_types.push(SizedType {
                name: format!("{}.{size}", family.name),
                arm: family.arm,
                cpus: *cpus,
                memory: cpus * family.gib_per_cpu * GIB,
                pods: pods_by_interfaces(*cpus),
                gpus: 0,
                nvme_gib: cpus * family.nvme_gib_per_cpu,
                nanos: cpus * family.nanos_per_cpu,
                zones: ZONES.len(),
            });
        }
    }
    for (family, arm, micros_per_gib) in BURSTABLE {
        for (size, cpus, mib, pods) in BURSTABLE_SIZES {
            sized_types.push(SizedType {
                name: format!("{family}.{size}"),
                arm: *arm,
                cpus: *cpus,
                memory: mib * MIB,
                pods: *pods,
                gpus: 0,
                nvme_gib: 0,
                nanos: micros_per_gib * 1000 * mib / 1024,
                zones: ZONES.len(),
            });
        }
    }
    for family in ACCELERATED {
        for (size, cpus, gpus) in family.sizes {
            sized_types.push(SizedType {
                name: format!("{}.{size}", family.name),
                arm: false,
                cpus: *cpus,
                memory: cpus * family.gib_per_cpu * GIB,
                pods: pods_by_interfaces(*cpus),
                gpus: *gpus,
                nvme_gib: cpus * family.nvme_gib_per_cpu,
                nanos: cpus * family.nanos_per_cpu + gpus * family.nanos_per_gpu,
                zones: family.zones,
            });
        }
    }
    sized_types
}

fn build(shape: SizedType, seed: u64) -> Option<InstanceType> {
    // Without local NVMe, a root volume of 80 GiB.
    let storage = if shape.nvme_gib > 0 { shape.nvme_gib } else { 80 };
    let resources = Resources::of(shape.cpus * 1000, shape.memory)
        .with("ephemeral-storage", storage * GIB)
        .with("pods", shape.pods)
        .with("nvidia.com/gpu", shape.gpus);
    let offerings = ZONES
        .into_iter()
        .take(shape.zones)
        .flat_map(|zone| {
            let kept = 1000 - spot_discount_per_mille(seed, &shape.name, zone);
            [
                offering(zone, SPOT, Price::from_nanos(shape.nanos / 1000 * kept)),
                offering(zone, ON_DEMAND, Price::from_nanos(shape.nanos)),
            ]
        })
        .collect();
    let spec = TypeSpec {
        architecture: if shape.arm { "arm64" } else { "amd64" }.to_owned(),
        operating_systems: vec!["linux".to_owned()],
        region: Some(REGION),
        texts: texts(&resources),
        overhead: overhead(shape.cpus, shape.memory, shape.pods),
        resources,
        offerings,
        extra: Requirements::new(),
        baseline: None,
        name: shape.name,
    };
    spec.build().ok()
}

/// The spot discount, 300 to 800 per mille: a level per type, and up to ±50 per zone.
fn spot_discount_per_mille(seed: u64, name: &str, zone: &str) -> i64 {
    let level = 350 + draw(seed, &["spot", name], 401);
    level - 50 + draw(seed, &["spot", name, zone], 101)
}

/// A number below `sides`, drawn from the seed.
fn draw(seed: u64, about: &[&str], sides: u64) -> i64 {
    i64::try_from(dice(seed, about).next_u64() % sides).unwrap_or(0)
}

/// Pods by network interfaces and addresses per interface: interfaces × (addresses − 1) + 2.
fn pods_by_interfaces(cpus: i64) -> i64 {
    let (interfaces, addresses) = match cpus {
        ..=1 => (2, 4),
        2 => (3, 10),
        3..=8 => (4, 15),
        9..=48 => (8, 30),
        _ => (15, 50),
    };
    interfaces * (addresses - 1) + 2
}

/// Overhead of the hypervisor (7.5 % of memory), the kubelet (by vCPUs and pods, as EKS reserves it) and the eviction threshold (100
/// MiB).
fn overhead(cpus: i64, memory: i64, pods: i64) -> Resources {
    // 6 % of the first vCPU, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest: in units of 10 µCPU.
    let micros = (1..=cpus).fold(0, |sum, nth| {
        sum + match nth {
            1 => 6000,
            2 => 1000,
            3 | 4 => 500,
            _ => 250,
        }
    });
    let reserved_mib = 255 + 11 * pods + 100;
    // At most half of the memory, which matters for the smallest instances.
    let taken = (memory * 75 / 1000 + reserved_mib * MIB).min(memory / 2);
    Resources::of((micros + 99) / 100, taken)
}
