//! Device templates: what NVIDIA's DRA driver will publish on the nodes of an instance type, so that pods with resource claims are planned before
//! a node exists.
//!
//! Names, attributes and capacities are those of the driver's `GpuInfo.GetDevice`
//! (<https://github.com/NVIDIA/k8s-dra-driver-gpu/blob/main/cmd/gpu-kubelet-plugin/deviceinfo.go>). Attributes that nobody knows before the node runs
//! (UUID, versions of the driver, PCIe addresses) are left out: a claim that selects by one of them is not planned on a new node.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleetwright_core::model::device::{Attribute, Device, DeviceCapacity, DeviceTemplates, SliceTemplate};
use fleetwright_core::model::{Quantity, Str};

use crate::calls::{Gpu, InstanceTypeDescription};

/// The driver.
const DRIVER: &str = "gpu.nvidia.com";

/// What is known of a GPU beside EC2's description.
struct Model {
    /// EC2's name and memory in MiB.
    ec2: (&'static str, i64),
    /// As `nvidia-smi` names it; empty if not known.
    product: &'static str,
    /// As NVML names it.
    architecture: &'static str,
    /// <https://developer.nvidia.com/cuda-gpus>
    compute_capability: &'static str,
}

const fn model(
    ec2: (&'static str, i64),
    product: &'static str,
    architecture: &'static str,
    compute_capability: &'static str,
) -> Model {
    Model { ec2, product, architecture, compute_capability }
}

const MODELS: [Model; 13] = [
    model(("V100", 32_768), "Tesla V100-SXM2-32GB", "Volta", "7.0.0"),
    model(("T4", 16_384), "Tesla T4", "Turing", "7.5.0"),
    model(("T4g", 16_384), "", "Turing", "7.5.0"),
    model(("A100", 40_960), "NVIDIA A100-SXM4-40GB", "Ampere", "8.0.0"),
    model(("A100", 81_920), "NVIDIA A100-SXM4-80GB", "Ampere", "8.0.0"),
    model(("A10G", 22_888), "NVIDIA A10G", "Ampere", "8.6.0"),
    model(("L4", 22_888), "NVIDIA L4", "Ada Lovelace", "8.9.0"),
    model(("L40S", 45_776), "NVIDIA L40S", "Ada Lovelace", "8.9.0"),
    model(("H100", 81_920), "NVIDIA H100 80GB HBM3", "Hopper", "9.0.0"),
    model(("H200", 144_384), "NVIDIA H200", "Hopper", "9.0.0"),
    model(("B200", 183_359), "NVIDIA B200", "Blackwell", "10.0.0"),
    model(("B300", 275_040), "", "Blackwell", "10.3.0"),
    model(("RTX_PRO_Server_6000", 98_304), "", "Blackwell", "12.0.0"),
];

/// GPUs whose memory the driver reports as EC2 describes it. Others report up to a sixteenth less, which ECC and the driver take (a T4 of 16,384
/// MiB reports 15,360).
const WHOLE_MEMORY: [&str; 1] = ["A100"];

/// The devices of an instance type: one for each whole NVIDIA GPU.
#[must_use]
pub(super) fn devices(info: &InstanceTypeDescription) -> Arc<DeviceTemplates> {
    let nvidia = info.gpus.iter().filter(|gpu| gpu.manufacturer == "NVIDIA" && gpu.count > 0);
    let mut devices = Vec::new();
    for gpu in nvidia {
        let (attributes, capacity) = (attributes(gpu), memory(gpu));
        for _ in 0..gpu.count {
            let mut device = Device::new(format!("gpu-{}", devices.len()));
            device.attributes.clone_from(&attributes);
            device.capacity.insert("memory".into(), capacity.clone());
            devices.push(Arc::new(device));
        }
    }
    if devices.is_empty() {
        return Arc::default();
    }
    Arc::new(DeviceTemplates::new(vec![SliceTemplate::new(DRIVER, "gpus", devices)]))
}

fn attributes(gpu: &Gpu) -> BTreeMap<Str, Attribute> {
    let mut found = BTreeMap::from([("type".into(), Attribute::String("gpu".into()))]);
    let known = MODELS.iter().find(|model| model.ec2 == (gpu.name.as_str(), gpu.memory_mib));
    if let Some(Model { product, architecture, compute_capability, .. }) = known {
        found.insert("architecture".into(), Attribute::String((*architecture).into()));
        found.insert("cudaComputeCapability".into(), Attribute::Version((*compute_capability).into()));
        if !product.is_empty() {
            found.insert("productName".into(), Attribute::String((*product).into()));
        }
    }
    found
}

/// Memory, rounded down: a pod that is planned on too much of it would wait on its new node.
fn memory(gpu: &Gpu) -> DeviceCapacity {
    let whole = WHOLE_MEMORY.contains(&gpu.name.as_str());
    let mib = if whole { gpu.memory_mib } else { gpu.memory_mib / 16 * 15 };
    DeviceCapacity { value: mebibytes(mib), policy: None }
}

fn mebibytes(count: i64) -> Quantity {
    format!("{count}Mi").parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, count: i64, memory_mib: i64) -> InstanceTypeDescription {
        let gpu = Gpu { name: name.to_owned(), manufacturer: "NVIDIA".to_owned(), count, memory_mib };
        InstanceTypeDescription { gpus: vec![gpu], ..InstanceTypeDescription::default() }
    }

    #[test]
    fn each_whole_gpu_is_a_device() {
        let found = devices(&with("T4", 4, 16_384));
        let slice = &found.slices[0];
        assert_eq!((&*slice.driver, slice.devices.len()), ("gpu.nvidia.com", 4));
        let last = &slice.devices[3];
        assert_eq!(&*last.name, "gpu-3");
        assert_eq!(last.attribute(DRIVER, "type"), Some(&Attribute::String("gpu".into())));
        assert_eq!(
            last.attribute(DRIVER, "gpu.nvidia.com/architecture"),
            Some(&Attribute::String("Turing".into()))
        );
        assert_eq!(last.attribute(DRIVER, "productName"), Some(&Attribute::String("Tesla T4".into())));
        assert_eq!(last.attribute(DRIVER, "uuid"), None, "unknown before the node runs");
        assert_eq!(last.capacity["memory"].value.units_floor(), 15_360 << 20);
    }

    #[test]
    fn memory_is_never_overstated() {
        let of = |name: &str, mib: i64| {
            devices(&with(name, 1, mib)).slices[0].devices[0].capacity["memory"].value.units_floor()
        };
        assert_eq!(of("A100", 40_960), 40 << 30, "a selector of 40Gi finds it");
        assert!(of("H100", 81_920) <= 81_559 << 20);
    }

    #[test]
    fn fractions_and_other_makers_have_none() {
        assert!(devices(&with("L4", 0, 5_722)).is_empty(), "a part of a GPU");
        assert!(devices(&InstanceTypeDescription::default()).is_empty());
        let mut amd = with("V520", 1, 8_192);
        amd.gpus[0].manufacturer = "AMD".to_owned();
        assert!(devices(&amd).is_empty());
        let unknown = devices(&with("X1", 1, 8_192));
        assert_eq!(unknown.slices[0].devices[0].attributes.len(), 1, "only its type is known");
    }

    /// The built-in table knows GPUs by these names, and each model is one of them.
    #[test]
    fn models_are_those_of_the_built_in_table() {
        let table = include_str!("../../data/instance-types.txt");
        for model in &MODELS {
            let (name, memory) = model.ec2;
            let of = |line: &str| {
                line.split_whitespace().any(|field| {
                    field.strip_prefix("gpus=").is_some_and(|gpus| {
                        let parts: Vec<&str> = gpus.split('/').collect();
                        parts.first() == Some(&name) && parts.last() == Some(&memory.to_string().as_str())
                    })
                })
            };
            assert!(table.lines().any(of), "{name} {memory}");
        }
    }
}
