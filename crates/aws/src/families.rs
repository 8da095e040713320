//! What the families of images differ in: pod density, overhead, volumes, kubelet configuration.

use fleetwright_aws_api::Family;
use fleetwright_aws_api::ec2nodeclass::{BlockDevice, BlockDeviceMapping};

/// How a family's nodes behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Whether kube-reserved memory is computed from what the interfaces could carry, whatever maxPods says.
    pub eni_limited_memory_overhead: bool,
    /// Whether podsPerCore is understood.
    pub pods_per_core: bool,
    /// Whether the number of pods follows from the network interfaces by default.
    pub eni_limited_pods: bool,
    /// Whether any field of the kubelet's configuration can be set.
    pub any_kubelet_field: bool,
}

/// The traits of a family.
#[must_use]
pub fn traits(family: Family) -> Traits {
    let linux = Traits {
        eni_limited_memory_overhead: true,
        pods_per_core: true,
        eni_limited_pods: true,
        any_kubelet_field: false,
    };
    match family {
        Family::Al2 => linux,
        Family::Al2023 => Traits { any_kubelet_field: true, ..linux },
        // What a custom image does with the block is its user data's business.
        Family::Custom => Traits { any_kubelet_field: true, ..linux },
        Family::Bottlerocket => Traits { eni_limited_memory_overhead: false, pods_per_core: false, ..linux },
        Family::Windows2019 | Family::Windows2022 | Family::Windows2025 => {
            Traits { eni_limited_memory_overhead: false, eni_limited_pods: false, ..linux }
        }
    }
}

/// Size of a volume where nothing says otherwise.
pub const DEFAULT_VOLUME_SIZE: &str = "20Gi";

/// The device that pods' files are on; `None` where only the image knows.
#[must_use]
pub fn ephemeral_device(family: Family) -> Option<&'static str> {
    match family {
        Family::Al2 | Family::Al2023 => Some("/dev/xvda"),
        Family::Bottlerocket => Some("/dev/xvdb"),
        Family::Windows2019 | Family::Windows2022 | Family::Windows2025 => Some("/dev/sda1"),
        Family::Custom => None,
    }
}

/// The volumes of a family's nodes where the class names none. Empty leaves them to the image.
#[must_use]
pub fn default_volumes(family: Family) -> Vec<BlockDeviceMapping> {
    let volumes: &[(&str, &str)] = match family {
        Family::Al2 | Family::Al2023 => &[("/dev/xvda", DEFAULT_VOLUME_SIZE)],
        Family::Bottlerocket => &[("/dev/xvda", "4Gi"), ("/dev/xvdb", DEFAULT_VOLUME_SIZE)],
        Family::Windows2019 | Family::Windows2022 | Family::Windows2025 => &[("/dev/sda1", "50Gi")],
        Family::Custom => &[],
    };
    let mapping = |(device, size): &(&str, &str)| BlockDeviceMapping {
        device_name: Some((*device).to_owned()),
        root_volume: false,
        ebs: Some(BlockDevice {
            encrypted: Some(true),
            volume_type: Some("gp3".to_owned()),
            volume_size: Some((*size).to_owned()),
            ..BlockDevice::default()
        }),
    };
    volumes.iter().map(mapping).collect()
}

/// The Windows build of a family.
#[must_use]
pub fn windows_build(family: Family) -> Option<&'static str> {
    match family {
        Family::Windows2019 => Some("10.0.17763"),
        Family::Windows2022 => Some("10.0.20348"),
        Family::Windows2025 => Some("10.0.26100"),
        _ => None,
    }
}
