//! Version `v5`, of Karpenter 1.14: the kubelet block is a field of the spec, of a Go type with the fields of 1.14.

use std::collections::BTreeMap;

use fleetwright_api::{
    duration,
    hash::{StructHash, boolean, int32, int64, map, set, text},
};

use super::{Ec2NodeClassSpec, spec};
use crate::kubelet::{KubeletConfig, MaxPods};

/// The hash; `None` if Karpenter 1.14 cannot read the kubelet block.
pub(super) fn drift_hash(class: &Ec2NodeClassSpec, ca_bundle: &str) -> Option<u64> {
    let kubelet = match &class.kubelet {
        Some(block) => Some(kubelet(block)?),
        None => None,
    };
    // 1.14 does not have this field, and takes no notice of it.
    let known = Ec2NodeClassSpec { enclave_options: None, ..class.clone() };
    Some(set([spec(&known, kubelet), text(class.family().as_str()), text(ca_bundle)]))
}

fn kubelet(block: &KubeletConfig) -> Option<u64> {
    let block = block.parse().ok()?;
    let max_pods = match block.max_pods {
        Some(MaxPods::Expression(_)) => return None,
        Some(MaxPods::Count(count)) => Some(int32(count)),
        None => None,
    };
    let grace_periods = match &block.eviction_soft_grace_period {
        Some(periods) => Some(durations(periods)?),
        None => None,
    };
    let texts = |texts: &Option<BTreeMap<String, String>>| {
        texts.as_ref().map(|texts| map(texts.iter().map(|(key, value)| (text(key), text(value)))))
    };
    let addresses = block.cluster_dns.as_ref().map(|all| set(all.iter().map(|address| text(address))));
    let hash = StructHash::new("KubeletConfiguration")
        .field("ClusterDNS", addresses)
        .field("MaxPods", max_pods)
        .field("PodsPerCore", block.pods_per_core.map(int32))
        .field("SystemReserved", texts(&block.system_reserved))
        .field("KubeReserved", texts(&block.kube_reserved))
        .field("EvictionHard", texts(&block.eviction_hard))
        .field("EvictionSoft", texts(&block.eviction_soft))
        .field("EvictionSoftGracePeriod", grace_periods)
        .field("EvictionMaxPodGracePeriod", block.eviction_max_pod_grace_period.map(int32))
        .field("ImageGCHighThresholdPercent", block.image_gc_high_threshold_percent.map(int32))
        .field("ImageGCLowThresholdPercent", block.image_gc_low_threshold_percent.map(int32))
        .field("CPUCFSQuota", block.cpu_cfs_quota.map(boolean));
    Some(hash.finish())
}

/// Durations by name, each a Go struct with nanoseconds.
fn durations(periods: &BTreeMap<String, String>) -> Option<u64> {
    let mut entries = Vec::new();
    for (name, period) in periods {
        let nanoseconds = i64::try_from(duration::parse(period).ok()?.as_nanos()).ok()?;
        let value = (nanoseconds != 0).then(|| int64(nanoseconds));
        entries.push((text(name), StructHash::new("Duration").field("Duration", value).finish()));
    }
    Some(map(entries))
}
