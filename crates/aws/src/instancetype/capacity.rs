//! The capacity of an instance type.

use fleetwright_aws_api::ec2nodeclass::{BlockDeviceMapping, Ec2NodeClassSpec};
use fleetwright_aws_api::{Family, labels};
use fleetwright_core::model::{Quantity, ResourceName, Resources};

use super::tables;
use crate::calls::InstanceTypeDescription;
use crate::families::{DEFAULT_VOLUME_SIZE, default_volumes, ephemeral_device};

/// Bytes in a MiB.
pub(super) const MIB: i64 = 1 << 20;
/// MiB that Graviton instances reserve for contiguous allocation.
const ARM_CMA_MIB: i64 = 64;

/// The estimated memory that the kubelet reports: EC2's figure minus the hypervisor's overhead, which is rounded up to a whole MiB.
#[must_use]
pub(super) fn estimated_memory(info: &InstanceTypeDescription, overhead_ppm: i64) -> i64 {
    let arm = info.architectures.first().is_some_and(|name| name == "arm64");
    let advertised = info.memory_mib.saturating_sub(if arm { ARM_CMA_MIB } else { 0 });
    let share = i128::from(advertised) * i128::from(overhead_ppm.max(0));
    let overhead = i64::try_from((share + 999_999) / 1_000_000).unwrap_or(i64::MAX);
    advertised.saturating_sub(overhead).max(0).saturating_mul(MIB)
}

/// The bytes available to pods' files.
#[must_use]
pub(super) fn ephemeral_storage(info: &InstanceTypeDescription, spec: &Ec2NodeClassSpec) -> i64 {
    let family = spec.family();
    if spec.instance_store_policy.as_deref() == Some("RAID0")
        && let Some(total) = info.storage.as_ref().and_then(|storage| storage.total_gb)
    {
        return total.saturating_mul(1_000_000_000);
    }
    let mappings = spec.block_device_mappings.as_deref().unwrap_or_default();
    let named = mappings.iter().find(|mapping| mapping.root_volume).and_then(size_of).or_else(|| {
        match (family, mappings.last()) {
            // The device that a custom image mounts is unknown; the last volume is assumed.
            (Family::Custom, Some(last)) => size_of(last).or_else(|| bytes(DEFAULT_VOLUME_SIZE)),
            _ => on_device(mappings, family),
        }
    });
    let default = || on_device(&default_volumes(family), family).or_else(|| bytes(DEFAULT_VOLUME_SIZE));
    named.or_else(default).unwrap_or(0)
}

fn on_device(mappings: &[BlockDeviceMapping], family: Family) -> Option<i64> {
    let device = ephemeral_device(family)?;
    size_of(mappings.iter().find(|mapping| mapping.device_name.as_deref() == Some(device))?)
}

fn size_of(mapping: &BlockDeviceMapping) -> Option<i64> {
    bytes(mapping.ebs.as_ref()?.volume_size.as_deref()?)
}

fn bytes(size: &str) -> Option<i64> {
    size.parse::<Quantity>().ok().map(Quantity::units_floor)
}

/// The capacity of an instance type, devices included.
#[must_use]
pub(super) fn capacity(
    info: &InstanceTypeDescription,
    spec: &Ec2NodeClassSpec,
    memory: i64,
    pods: i64,
) -> Resources {
    let gpus = |maker: &str| -> i64 {
        info.gpus.iter().filter(|gpu| gpu.manufacturer == maker).map(|gpu| gpu.count).sum()
    };
    let neuron = info.neuron.as_deref().unwrap_or_default();
    let cores = neuron.first().map_or(0, |device| device.count.saturating_mul(device.cores));
    let figures = tables::network(&info.name);
    let mut all = Resources::of(info.vcpus.saturating_mul(1000), memory)
        .with("ephemeral-storage", ephemeral_storage(info, spec))
        .with("pods", pods)
        .with(labels::RESOURCE_POD_ENI, figures.branch_interfaces.unwrap_or(0))
        .with(labels::RESOURCE_NVIDIA_GPU, gpus("NVIDIA"))
        .with(labels::RESOURCE_AMD_GPU, gpus("AMD"))
        .with(labels::RESOURCE_GAUDI, gpus("Habana"))
        .with(labels::RESOURCE_NEURON, neuron.iter().map(|device| device.count).sum())
        .with(labels::RESOURCE_NEURON_CORE, cores)
        .with(labels::RESOURCE_EFA, efas(info, spec));
    if spec.family().is_windows() && super::requirements::architecture(info) == "amd64" {
        let addresses = figures.ipv4_per_interface.map_or(0, |addresses| addresses - 1);
        all.set(&ResourceName::from(labels::RESOURCE_PRIVATE_IPV4), addresses);
    }
    all
}

/// EFA interfaces: those that the EC2NodeClass lists, else the maximum of the type. An empty list counts as absent.
fn efas(info: &InstanceTypeDescription, spec: &Ec2NodeClassSpec) -> i64 {
    listed_efas(spec).unwrap_or_else(|| info.network.efa_max.unwrap_or(0))
}

/// How many EFA interfaces the EC2NodeClass lists; `None` if it lists no interfaces.
pub(crate) fn listed_efas(spec: &Ec2NodeClassSpec) -> Option<i64> {
    let interfaces = spec.network_interfaces.as_deref().filter(|interfaces| !interfaces.is_empty())?;
    let count = interfaces.iter().filter(|interface| interface.interface_type == "efa-only").count();
    Some(i64::try_from(count).unwrap_or(i64::MAX))
}
