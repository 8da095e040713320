//! A catalogue in the shape of EC2's c, m and r families for amd64, and pods in the shapes that fill it.
//!
//! Sizes, memory per vCPU, pods per node and what a node keeps for itself are true to life; prices are modelled, linear
//! in vCPUs at rates like those of such families, and spot discounts come from a seed.

use std::sync::Arc;

use super::{GIB, MIB, Numbers, instance_type, pod};
use crate::model::{
    Catalog, Pod,
    labels::{ON_DEMAND, SPOT},
};

/// Size names, vCPUs, and pods by network interfaces.
const SIZES: [(&str, i64, i64); 12] = [
    ("large", 2, 29),
    ("xlarge", 4, 58),
    ("2xlarge", 8, 58),
    ("4xlarge", 16, 234),
    ("8xlarge", 32, 234),
    ("12xlarge", 48, 234),
    ("16xlarge", 64, 737),
    ("24xlarge", 96, 737),
    ("32xlarge", 128, 737),
    ("48xlarge", 192, 737),
    ("metal-48xl", 192, 737),
    ("96xlarge", 384, 737),
];

/// Family, the largest vCPU count, and micro-dollars per vCPU and hour of the c, m and r member.
const FAMILIES: [(&str, i64, [i64; 3]); 20] = [
    ("5", 96, [42_500, 48_000, 63_000]),
    ("5a", 96, [38_500, 43_000, 56_500]),
    ("5ad", 96, [43_000, 51_500, 65_500]),
    ("5d", 96, [48_000, 56_500, 72_000]),
    ("5n", 96, [54_000, 59_500, 74_500]),
    ("5dn", 96, [57_000, 68_000, 83_500]),
    ("6a", 192, [38_250, 43_200, 56_700]),
    ("6i", 128, [42_500, 48_000, 63_000]),
    ("6id", 128, [50_400, 59_325, 75_600]),
    ("6in", 128, [56_700, 69_615, 87_165]),
    ("6idn", 128, [65_000, 79_560, 97_695]),
    ("7a", 192, [51_320, 57_960, 76_070]),
    ("7ad", 192, [56_000, 66_000, 85_000]),
    ("7i", 192, [44_625, 50_400, 66_150]),
    ("7i-flex", 32, [42_390, 47_880, 62_840]),
    ("7id", 192, [53_000, 62_000, 79_000]),
    ("8a", 192, [53_890, 60_860, 79_870]),
    ("8i", 384, [46_860, 52_920, 69_460]),
    ("8i-flex", 64, [44_510, 50_270, 65_990]),
    ("8id", 384, [55_000, 64_500, 82_000]),
];

/// What a node keeps of its CPUs: 6 % of the first, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest.
fn reserved_cpu(cpus: i64) -> i64 {
    let rest = (cpus - 4).max(0) * 1000 / 400;
    60 + 10 + 10 + rest
}

/// Some 600 types in three zones, on-demand and spot, up to a number of vCPUs.
#[must_use]
pub fn ec2_catalog(max_cpus: i64, seed: u64) -> Arc<Catalog> {
    let mut numbers = Numbers::new(seed);
    let mut types = Vec::new();
    for (generation, largest, prices) in FAMILIES {
        for ((letter, gib_per_cpu), micros) in [("c", 2), ("m", 4), ("r", 8)].into_iter().zip(prices) {
            // Firmware and drivers differ in what they take.
            // Spot follows the family more than the size.
            let family = 400 + i64::try_from(numbers.below(250)).unwrap_or(0);
            let kept_per_mille = 70 + i64::try_from(numbers.below(10)).unwrap_or(0);
            for (size, cpus, pods) in SIZES.into_iter().filter(|(_, cpus, _)| *cpus <= largest) {
                let discount = family - 40 + i64::try_from(numbers.below(80)).unwrap_or(0);
                let zones: Vec<i64> =
                    (0..3).map(|_| discount - 30 + i64::try_from(numbers.below(60)).unwrap_or(0)).collect();
                if cpus > max_cpus {
                    continue;
                }
                let memory = cpus * gib_per_cpu * GIB;
                let kept = memory / 1000 * kept_per_mille + (255 + 11 * pods + 100) * MIB;
                let nanos = cpus * micros * 1000;
                let mut builder =
                    instance_type(&format!("{letter}{generation}.{size}"), cpus, cpus * gib_per_cpu)
                        .resource("pods", pods)
                        .overhead(reserved_cpu(cpus), kept);
                for (zone, discount) in ["zone-a", "zone-b", "zone-c"].into_iter().zip(zones) {
                    let price = |nanos: i64| {
                        move |o: &mut crate::model::Offering| {
                            o.price = crate::model::Price::from_nanos(nanos);
                        }
                    };
                    builder = builder.offer_with(zone, ON_DEMAND, 0, price(nanos)).offer_with(
                        zone,
                        SPOT,
                        0,
                        price(nanos / 1000 * (1000 - discount)),
                    );
                }
                types.push(builder.build());
            }
        }
    }
    Arc::new(Catalog::new(types))
}

/// Pods of thirty shapes without constraints: `wide` ones ask for much memory, the others for what services ask for.
#[must_use]
pub fn shaped_pods(count: usize, wide: bool, seed: u64) -> Vec<Arc<Pod>> {
    let mut numbers = Numbers::new(seed);
    let cpus: &[i64] = if wide { &[250, 500, 1000, 2000, 4000] } else { &[100, 200, 250, 500, 1000, 2000] };
    let mib_per_cpu: &[i64] =
        if wide { &[2048, 6144, 8192, 12_288, 16_384] } else { &[512, 1024, 2048, 4096, 6144] };
    let shapes: Vec<(i64, i64)> = (0..30)
        .map(|_| {
            let cpu = numbers.pick(cpus).copied().unwrap_or(250);
            (cpu, cpu * numbers.pick(mib_per_cpu).copied().unwrap_or(2048) / 1000)
        })
        .collect();
    let templates: Vec<_> = shapes
        .iter()
        .enumerate()
        .map(|(at, (cpu, mib))| pod(&format!("s{at:02}")).cpu(*cpu).memory(*mib))
        .collect();
    let mut counts = vec![0; templates.len()];
    for _ in 0..count {
        counts[numbers.below(templates.len())] += 1;
    }
    templates.iter().zip(counts).flat_map(|(template, count)| template.replicas(count)).collect()
}
