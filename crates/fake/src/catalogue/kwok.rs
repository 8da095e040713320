//! The generic instance types of Karpenter's kwok provider: 1 to 256 CPUs at 2, 4 or 8 GiB each, for both architectures and both
//! operating systems, in four zones.

use fleetwright_core::model::{
    InstanceType, Price, Requirements, Resources,
    labels::{ON_DEMAND, SPOT},
};

use super::{Catalogue, TypeSpec, Vocabulary, default_overhead, offering, texts};

/// The zones of the generic types.
pub const ZONES: [&str; 4] = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"];

const CPUS: [i64; 12] = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256];
/// Family and GiB of memory per CPU.
const FAMILIES: [(&str, i64); 3] = [("c", 2), ("s", 4), ("m", 8)];
const GIB: i64 = 1 << 30;

/// The catalogue of 144 generic types.
#[must_use]
pub fn kwok() -> Catalogue {
    let mut types = Vec::with_capacity(144);
    for cpus in CPUS {
        for (family, ratio) in FAMILIES {
            for os in ["linux", "windows"] {
                types.extend(
                    ["amd64", "arm64"].into_iter().filter_map(|arch| generic(family, cpus, ratio, arch, os)),
                );
            }
        }
    }
    Catalogue::new(Vocabulary::Kwok, types)
}

fn generic(family: &str, cpus: i64, ratio: i64, arch: &str, os: &str) -> Option<InstanceType> {
    let memory = cpus * ratio * GIB;
    let resources = Resources::of(cpus * 1000, memory)
        .with("ephemeral-storage", 20 * GIB)
        .with("pods", (cpus * 16).min(1024));
    // $0.025 per CPU and $0.001 per 10^9 bytes: one nano-dollar per thousand bytes.
    let nanos = cpus * 25_000_000 + (memory + 500) / 1000;
    // Spot costs 70 % of it, rounded to the nearest nano-dollar.
    let spot = (nanos * 7 + 5) / 10;
    let offerings = ZONES
        .into_iter()
        .flat_map(|zone| {
            [
                offering(zone, SPOT, Price::from_nanos(spot)),
                offering(zone, ON_DEMAND, Price::from_nanos(nanos)),
            ]
        })
        .collect();
    let spec = TypeSpec {
        name: format!("{family}-{cpus}x-{arch}-{os}"),
        architecture: arch.to_owned(),
        operating_systems: vec![os.to_owned()],
        region: None,
        texts: texts(&resources),
        resources,
        overhead: default_overhead(),
        offerings,
        extra: Requirements::new(),
        baseline: None,
    };
    spec.build().ok()
}
