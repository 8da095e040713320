//! Pods that are large against nodes, and the nodes for them: a synthetic trace in the shape of a GPU cluster.
//!
//! A few pods fill a node, and there are many shapes, so that most of the price of a plan is how well pods fit together. With limits, half of
//! the shapes have a maximum number of pods per node, by pod anti-affinity or by topology spread over hostnames.

use std::sync::Arc;

use super::{GIB, Numbers, affinity_to, instance_type, pod, spread_over};
use crate::model::{
    Catalog, Pod,
    labels::{HOSTNAME, ON_DEMAND},
};

const GPU: &str = "nvidia.com/gpu";
const RDMA: &str = "rdma/hca";
/// Pods and shapes of the trace.
const PODS: usize = 7_280;
const SHAPES: usize = 134;

/// GPUs, CPUs, GiB and RDMA devices of the sizes of a family.
const SIZES: [(i64, i64, i64, i64); 12] = [
    (1, 8, 32, 0),
    (1, 16, 64, 0),
    (1, 32, 128, 1),
    (2, 16, 96, 0),
    (2, 32, 192, 1),
    (2, 48, 256, 2),
    (4, 48, 192, 0),
    (4, 64, 512, 4),
    (4, 96, 768, 4),
    (8, 96, 1152, 4),
    (8, 128, 1024, 8),
    (8, 192, 2048, 8),
];

/// The price of a GPU by family, in thousandths of a dollar per hour.
const FAMILIES: [(&str, i64); 4] = [("g1", 600), ("g2", 640), ("g3", 800), ("g4", 1_100)];

/// 48 types with 1 to 8 GPUs in four families, on demand in two zones.
#[must_use]
pub fn gpu_catalog() -> Arc<Catalog> {
    let mut types = Vec::new();
    for (family, gpu_price) in FAMILIES {
        for (at, (gpus, cpus, gib, rdma)) in SIZES.into_iter().enumerate() {
            let price = gpus * gpu_price + cpus * 30 + gib * 4 + rdma * 60;
            let mut builder = instance_type(&format!("{family}.{at}x"), cpus, gib)
                .resource(GPU, gpus)
                .resource(RDMA, rdma)
                .overhead(100 + cpus * 3, GIB / 2 + gib * GIB / 50);
            for zone in ["zone-a", "zone-b"] {
                builder = builder.offer(zone, ON_DEMAND, price);
            }
            types.push(builder.build());
        }
    }
    Arc::new(Catalog::new(types))
}

/// 7,280 pods of 134 shapes: 1, 2, 4 or 8 GPUs, 4 to 96 CPUs, 16 to 768 GiB, a third of the shapes with RDMA devices. With
/// `limited`, every other shape may have one to four pods on a node.
#[must_use]
pub fn large_pods(limited: bool, seed: u64) -> Vec<Arc<Pod>> {
    let mut numbers = Numbers::new(seed);
    let mut pick = |items: &[i64]| numbers.pick(items).copied().unwrap_or(1);
    let mut templates = Vec::new();
    for shape in 0..SHAPES {
        let gpus = pick(&[1, 1, 1, 1, 2, 2, 4, 8]);
        let cpus = (gpus * pick(&[4, 5, 6, 7, 8, 10, 11, 12, 14, 16, 20])).min(96);
        let gib = (gpus * pick(&[16, 20, 24, 30, 36, 40, 48, 60, 64, 80, 100, 120])).min(768);
        let rdma = if pick(&[0, 0, 1]) > 0 { pick(&[1, gpus]) } else { 0 };
        let most = pick(&[1, 2, 3, 4]);
        let app = format!("large-{shape:03}");
        let mut template =
            pod(&app).app(&app).cpu(cpus * 1000).memory(gib * 1024).request(GPU, gpus).request(RDMA, rdma);
        if limited && shape % 2 == 0 {
            template = if most == 1 {
                template.anti_affinity(affinity_to(HOSTNAME, &app))
            } else {
                template.spread(spread_over(HOSTNAME, i32::try_from(most).unwrap_or(1), &app))
            };
        }
        templates.push(template);
    }
    // Some shapes have ten times as many pods as others.
    let shares: Vec<usize> = templates.iter().map(|_| 1 + numbers.below(4) * numbers.below(4)).collect();
    let drawn: Vec<usize> = shares.iter().enumerate().flat_map(|(at, share)| vec![at; *share]).collect();
    let mut counts = vec![0; templates.len()];
    (0..PODS).for_each(|_| counts[numbers.pick(&drawn).copied().unwrap_or(0)] += 1);
    templates.iter().zip(counts).flat_map(|(template, count)| template.replicas(count)).collect()
}
