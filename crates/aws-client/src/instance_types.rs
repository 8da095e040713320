//! `DescribeInstanceTypes` in our own type. Values that the SDK does not know pass through as text.

use aws_sdk_ec2::types::{
    EbsOptimizedSupport, EphemeralNvmeSupport, InstanceTypeInfo, NetworkInfo, NeuronInfo,
    NitroEnclavesSupport,
};
use fleetwright_aws::calls::{
    Accelerator, Card, Gpu, InstanceTypeDescription, Network, NeuronDevice, Storage,
};

use crate::convert::{count, text};

/// The description of an instance type; `None` if it has no name.
pub(crate) fn instance_type(info: &InstanceTypeInfo) -> Option<InstanceTypeDescription> {
    let processor = info.processor_info();
    let strategies = info.placement_group_info().map(|groups| groups.supported_strategies());
    Some(InstanceTypeDescription {
        name: info.instance_type()?.as_str().to_owned(),
        usage_classes: info.supported_usage_classes().iter().map(|class| class.as_str().to_owned()).collect(),
        architectures: processor
            .map(|processor| {
                processor.supported_architectures().iter().map(|it| it.as_str().to_owned()).collect()
            })
            .unwrap_or_default(),
        cpu_manufacturer: processor.and_then(|processor| processor.manufacturer()).map(str::to_owned),
        clock_mhz: processor
            .and_then(|processor| processor.sustained_clock_speed_in_ghz())
            .and_then(megahertz),
        processor_features: processor
            .map(|processor| processor.supported_features().iter().map(|it| it.as_str().to_owned()).collect())
            .unwrap_or_default(),
        vcpus: count(info.v_cpu_info().and_then(|cpus| cpus.default_v_cpus())),
        memory_mib: info.memory_info().and_then(|memory| memory.size_in_mib()).unwrap_or_default(),
        hypervisor: info.hypervisor().map(|it| it.as_str().to_owned()).unwrap_or_default(),
        enclaves: info.nitro_enclaves_support() == Some(&NitroEnclavesSupport::Supported),
        storage: info.instance_storage_info().map(|storage| Storage {
            total_gb: storage.total_size_in_gb(),
            nvme: storage.nvme_support().is_some_and(|support| *support != EphemeralNvmeSupport::Unsupported),
        }),
        ebs_mbps: info
            .ebs_info()
            .filter(|ebs| ebs.ebs_optimized_support() == Some(&EbsOptimizedSupport::Default))
            .and_then(|ebs| ebs.ebs_optimized_info())
            .and_then(|ebs| ebs.maximum_bandwidth_in_mbps())
            .map(i64::from),
        network: info.network_info().map(network).unwrap_or_default(),
        gpus: gpus(info),
        neuron: info.neuron_info().map(neuron),
        accelerators: accelerators(info),
        placement_strategies: strategies
            .unwrap_or_default()
            .iter()
            .map(|it| it.as_str().to_owned())
            .collect(),
    })
}

/// Megahertz of a clock speed in gigahertz.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked first")]
fn megahertz(gigahertz: f64) -> Option<i64> {
    (gigahertz.is_finite() && (0.0..1e6).contains(&gigahertz)).then(|| (gigahertz * 1000.0).round() as i64)
}

fn network(info: &NetworkInfo) -> Network {
    let card = |card: &aws_sdk_ec2::types::NetworkCardInfo| Card {
        index: count(card.network_card_index()),
        interfaces_max: count(card.maximum_network_interfaces()),
    };
    Network {
        cards: info.network_cards().iter().map(card).collect(),
        default_card: count(info.default_network_card_index()),
        ipv4_per_interface: count(info.ipv4_addresses_per_interface()),
        encrypts_in_transit: info.encryption_in_transit_supported().unwrap_or_default(),
        ena: info.ena_support().is_some_and(|support| support.as_str() != "unsupported"),
        efa_max: info.efa_info().and_then(|efa| efa.maximum_efa_interfaces()).map(i64::from),
    }
}

fn gpus(info: &InstanceTypeInfo) -> Vec<Gpu> {
    let gpu = |gpu: &aws_sdk_ec2::types::GpuDeviceInfo| Gpu {
        name: text(gpu.name()),
        manufacturer: text(gpu.manufacturer()),
        count: count(gpu.count()),
        memory_mib: count(gpu.memory_info().and_then(|memory| memory.size_in_mib())),
    };
    info.gpu_info().map(|info| info.gpus().iter().map(gpu).collect()).unwrap_or_default()
}

fn neuron(info: &NeuronInfo) -> Vec<NeuronDevice> {
    let device = |device: &aws_sdk_ec2::types::NeuronDeviceInfo| NeuronDevice {
        name: text(device.name()),
        count: count(device.count()),
        cores: count(device.core_info().and_then(|cores| cores.count())),
    };
    info.neuron_devices().iter().map(device).collect()
}

fn accelerators(info: &InstanceTypeInfo) -> Vec<Accelerator> {
    let accelerator = |device: &aws_sdk_ec2::types::InferenceDeviceInfo| Accelerator {
        name: text(device.name()),
        manufacturer: text(device.manufacturer()),
        count: count(device.count()),
    };
    info.inference_accelerator_info()
        .map(|info| info.accelerators().iter().map(accelerator).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    //! A complete instance type, an empty one, and values that the SDK does not know.
    use aws_sdk_ec2::types::{
        EbsInfo, EbsOptimizedInfo, InstanceType, MemoryInfo, NetworkCardInfo, ProcessorInfo, UsageClassType,
        VCpuInfo,
    };

    use super::*;

    #[test]
    fn a_description_is_converted_completely() {
        let optimized = EbsOptimizedInfo::builder().maximum_bandwidth_in_mbps(4750).build();
        let cards = [(0, 3), (1, 4)].map(|(index, most)| {
            NetworkCardInfo::builder().network_card_index(index).maximum_network_interfaces(most).build()
        });
        let described = InstanceTypeInfo::builder()
            .instance_type(InstanceType::from("m9z.large"))
            .supported_usage_classes(UsageClassType::OnDemand)
            .supported_usage_classes(UsageClassType::from("of-tomorrow"))
            .processor_info(
                ProcessorInfo::builder().sustained_clock_speed_in_ghz(3.1).manufacturer("Intel").build(),
            )
            .v_cpu_info(VCpuInfo::builder().default_v_cpus(2).build())
            .memory_info(MemoryInfo::builder().size_in_mib(8192).build())
            .ebs_info(
                EbsInfo::builder()
                    .ebs_optimized_support(EbsOptimizedSupport::Default)
                    .ebs_optimized_info(optimized)
                    .build(),
            )
            .network_info(
                NetworkInfo::builder()
                    .set_network_cards(Some(cards.to_vec()))
                    .default_network_card_index(1)
                    .ipv4_addresses_per_interface(10)
                    .build(),
            )
            .build();
        let instance_type = instance_type(&described).unwrap();
        assert_eq!(instance_type.name, "m9z.large");
        assert_eq!(instance_type.usage_classes, ["on-demand", "of-tomorrow"]);
        assert_eq!(
            (instance_type.vcpus, instance_type.memory_mib, instance_type.clock_mhz),
            (2, 8192, Some(3100))
        );
        assert_eq!((instance_type.ebs_mbps, instance_type.network.default_interfaces()), (Some(4750), 4));
    }

    #[test]
    fn an_empty_description_is_no_instance_type() {
        assert_eq!(instance_type(&InstanceTypeInfo::builder().build()), None);
        let bare =
            instance_type(&InstanceTypeInfo::builder().instance_type(InstanceType::M5Large).build()).unwrap();
        assert_eq!(
            bare,
            InstanceTypeDescription { name: "m5.large".to_owned(), ..InstanceTypeDescription::default() }
        );
        assert_eq!(megahertz(f64::NAN), None);
    }
}
