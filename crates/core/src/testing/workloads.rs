//! Workloads of benchmarks, generated from seeds.

use std::sync::Arc;

use super::{GIB, MIB, affinity_to, now, pod, spread_over};
use crate::model::{
    LabelSelector, Operator, Pod, Resources,
    labels::{HOSTNAME, ZONE},
};

/// A small deterministic generator (SplitMix64): the same numbers everywhere, for ever.
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// Numbers that follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; zero where there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next_u64() % bound).unwrap_or(0)
    }

    /// One of `items`; `None` of none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}

/// The diverse mix of Karpenter's benchmark, in five equal parts: generic, spread over zones, spread over hosts,
/// together in a zone, apart by host. Labels and selectors are drawn independently from seven values.
#[must_use]
pub fn diverse_pods(count: usize, seed: u64) -> Vec<Arc<Pod>> {
    const VALUES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
    let mut numbers = Numbers::new(seed);
    let mut pods = Vec::with_capacity(count);
    for at in 0..count {
        let mut value = || numbers.pick(&VALUES).copied().unwrap_or("a");
        let (label, selector) = (value(), value());
        let cpu = numbers.pick(&[100, 250, 500, 1000, 1500]).copied().unwrap_or(100);
        let memory = numbers.pick(&[100, 256, 512, 1024, 2048, 4096]).copied().unwrap_or(100);
        let base = pod(&format!("p-{at:05}")).cpu(cpu).memory(memory);
        let select = |name: &str, value: &str| Some(LabelSelector::of(name, value));
        let built = match at * 5 / count.max(1) {
            0 => base,
            1 => {
                let mut spread = spread_over(ZONE, 1, "");
                spread.selector = select("my-label", selector);
                base.label("my-label", label).spread(spread)
            }
            2 => {
                let mut spread = spread_over(HOSTNAME, 1, "");
                spread.selector = select("my-label", selector);
                base.label("my-label", label).spread(spread)
            }
            3 => {
                let mut term = affinity_to(ZONE, "");
                term.selector = select("my-affinity", label);
                base.label("my-affinity", label).affinity(term)
            }
            _ => base.app("nginx").anti_affinity(affinity_to(HOSTNAME, "nginx")),
        };
        pods.push(built.build());
    }
    pods
}

/// The preference pods of Karpenter's benchmark: alike, each preferring a zone that exists, a zone without its like
/// (which cannot be had for long), and a host without its like.
#[must_use]
pub fn preference_pods(count: usize) -> Vec<Arc<Pod>> {
    pod("preference")
        .app("preference")
        .prefer(1, ZONE, Operator::In, &["test-zone-1"])
        .with_spec(|spec| {
            spec.requests = Resources::of(1000, GIB.min(1024 * MIB)).with("pods", 1);
            spec.preferred_pod_anti_affinity =
                vec![(10, affinity_to(ZONE, "preference")), (1, affinity_to(HOSTNAME, "preference"))];
        })
        .created(now())
        .replicas(count)
}
