//! The resources of an instance that pods cannot use.

use std::collections::BTreeMap;

use fleetwright_core::model::{Overhead, Quantity, ResourceName, Resources};

use super::capacity::MIB;

/// Shares of each CPU reserved for the kubelet, in hundred-thousandths: 6 % of the first core, 1 % of the second, 0.5 % of the third and
/// fourth, 0.25 % of each further one. The table is Bottlerocket's; EKS' bootstrap script has the same.
const CPU_BANDS: [(i64, i64, i64); 4] =
    [(0, 1000, 6000), (1000, 2000, 1000), (2000, 4000, 500), (4000, i64::MAX, 250)];

/// The inputs of the overhead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Basis<'a> {
    /// CPU in millicores.
    pub cpu: i64,
    /// Memory in bytes, as the node reports it.
    pub memory: i64,
    /// Bytes for pods' files.
    pub storage: i64,
    /// Pods from which kube-reserved memory is computed.
    pub pods: i64,
    /// The class's kubeReserved, evaluated.
    pub kube_reserved: Option<&'a BTreeMap<String, String>>,
    /// The class's systemReserved, evaluated.
    pub system_reserved: Option<&'a BTreeMap<String, String>>,
    /// The class's evictionHard.
    pub eviction_hard: Option<&'a BTreeMap<String, String>>,
}

/// The overhead of a node.
#[must_use]
pub(super) fn overhead(basis: &Basis<'_>) -> Overhead {
    let mut kube_reserved =
        Resources::of(kube_cpu(basis.cpu), kube_memory(basis.pods)).with("ephemeral-storage", 1024 * MIB);
    set_all(&mut kube_reserved, basis.kube_reserved);
    let mut system_reserved = Resources::new();
    set_all(&mut system_reserved, basis.system_reserved);
    let threshold = |signal: &str, capacity: i64, default: i64| {
        let set = basis.eviction_hard.and_then(|map| map.get(signal));
        set.and_then(|text| eviction(text, capacity)).unwrap_or(default)
    };
    let eviction_threshold = Resources::of(0, threshold("memory.available", basis.memory, 100 * MIB)).with(
        "ephemeral-storage",
        threshold("nodefs.available", basis.storage, share_up(basis.storage, 10_000)),
    );
    Overhead::new(kube_reserved)
        .with_system_reserved(system_reserved)
        .with_eviction_threshold(eviction_threshold)
}

/// Each band is rounded down to whole millicores.
fn kube_cpu(cpu: i64) -> i64 {
    let band =
        |(from, to, share): &(i64, i64, i64)| (cpu.min(*to) - from).max(0).saturating_mul(*share) / 100_000;
    CPU_BANDS.iter().map(band).sum()
}

fn kube_memory(pods: i64) -> i64 {
    pods.saturating_mul(11).saturating_add(255).saturating_mul(MIB)
}

/// A share of a capacity in hundred-thousandths, rounded up.
fn share_up(capacity: i64, share: i128) -> i64 {
    let product = i128::from(capacity) * share;
    i64::try_from((product + 99_999) / 100_000).unwrap_or(i64::MAX)
}

/// A threshold in the resource's unit: a quantity, or a percentage of the capacity, of which 100 % disables it.
fn eviction(text: &str, capacity: i64) -> Option<i64> {
    let Some(percent) = text.strip_suffix('%') else {
        return text.parse::<Quantity>().ok().map(Quantity::units_ceil);
    };
    let percent: Quantity = percent.parse().ok()?;
    let nanos = percent.nanos();
    if !(0..=100_000_000_000).contains(&nanos) {
        return None;
    }
    // By the kubelet's convention, 100 % disables the threshold.
    Some(if nanos == 100_000_000_000 { 0 } else { share_up(capacity, nanos / 1_000_000) })
}

fn set_all(resources: &mut Resources, values: Option<&BTreeMap<String, String>>) {
    for (name, value) in values.into_iter().flatten() {
        let name = ResourceName::from(name.as_str());
        if let Ok(quantity) = value.parse::<Quantity>() {
            resources.set(&name, name.demand(quantity));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Karpenter's figures.
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(1000, 60)]
    #[case(2000, 70)]
    #[case(4000, 80)]
    #[case(8000, 90)]
    #[case(96_000, 310)]
    #[case(500, 30)]
    fn cpu_bands(#[case] cpu: i64, #[case] expected: i64) {
        assert_eq!(kube_cpu(cpu), expected);
    }

    #[rstest]
    #[case("500Mi", 500 * MIB)]
    #[case("10%", 100)]
    #[case("0%", 0)]
    #[case("100%", 0)]
    #[case("0.05%", 1)]
    fn thresholds(#[case] text: &str, #[case] expected: i64) {
        assert_eq!(eviction(text, 1000), Some(expected));
    }

    #[test]
    fn users_values_win() {
        let map = |entries: &[(&str, &str)]| -> BTreeMap<String, String> {
            entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let kube = map(&[("cpu", "1"), ("pid", "100")]);
        let system = map(&[("memory", "1Gi")]);
        let hard = map(&[("memory.available", "5%"), ("pid.available", "10%")]);
        let found = overhead(&Basis {
            cpu: 2000,
            memory: 1000,
            storage: 1005,
            pods: 29,
            kube_reserved: Some(&kube),
            system_reserved: Some(&system),
            eviction_hard: Some(&hard),
        });
        assert_eq!(found.kube_reserved.cpu(), 1000);
        assert_eq!(found.kube_reserved.memory(), (11 * 29 + 255) * MIB);
        assert_eq!(found.kube_reserved.get(&"pid".into()), 100);
        assert_eq!(found.system_reserved, Resources::of(0, 1024 * MIB));
        assert_eq!(found.eviction_threshold, Resources::of(0, 50).with("ephemeral-storage", 101));
    }
}
