//! How many pods an instance type can run.

use fleetwright_aws_api::Family;
use fleetwright_aws_api::ec2nodeclass::NetworkInterface;

use crate::calls::InstanceTypeDescription;
use crate::families::traits;

/// Pods of a node if neither the EC2NodeClass nor its network limits them.
const DEFAULT_PODS: i64 = 110;

/// Pods for which the network interfaces have an address: interfaces of the card that pods use, minus reserved ones and those for EFA
/// only, times the addresses beyond an interface's own, plus two pods on the host's network.
///
/// The formula of EKS' `max-pods` calculator; it does not consider prefix delegation.
#[must_use]
pub fn eni_limited(
    info: &InstanceTypeDescription,
    reserved_enis: i64,
    interfaces: Option<&[NetworkInterface]>,
) -> i64 {
    let efa_only = interfaces.unwrap_or_default().iter();
    let efa_only = efa_only.filter(|i| i.network_card_index == 0 && i.interface_type == "efa-only").count();
    let efa_only = i64::try_from(efa_only).unwrap_or(i64::MAX);
    let usable =
        info.network.default_interfaces().saturating_sub(reserved_enis.max(0)).saturating_sub(efa_only);
    if usable <= 0 {
        return 0;
    }
    // EC2 describes no addresses for some types: not even the interface's own is known then.
    let for_pods = info.network.ipv4_per_interface.saturating_sub(1).max(0);
    usable.saturating_mul(for_pods).saturating_add(2)
}

/// The fields of the kubelet block that limit pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PodLimits {
    /// maxPods, evaluated.
    pub max_pods: Option<i64>,
    /// podsPerCore.
    pub pods_per_core: Option<i64>,
}

/// The number of pods of a node.
#[must_use]
pub(super) fn pods(
    info: &InstanceTypeDescription,
    family: Family,
    limits: PodLimits,
    reserved_enis: i64,
    interfaces: Option<&[NetworkInterface]>,
) -> i64 {
    let traits = traits(family);
    let count = match limits.max_pods {
        Some(max_pods) => max_pods,
        None if traits.eni_limited_pods => eni_limited(info, reserved_enis, interfaces),
        None => DEFAULT_PODS,
    };
    match limits.pods_per_core {
        Some(per_core) if per_core > 0 && traits.pods_per_core => {
            count.min(per_core.saturating_mul(info.vcpus))
        }
        _ => count,
    }
}
