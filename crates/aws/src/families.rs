//! How the image families differ: pod density, overhead, volumes, kubelet configuration.

use fleetwright_aws_api::Family;
use fleetwright_aws_api::ec2nodeclass::{BlockDevice, BlockDeviceMapping};

/// The properties of a family's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Whether kube-reserved memory is computed from the pods that the interfaces could carry, even if maxPods is set.
    pub eni_limited_memory_overhead: bool,
    /// Whether podsPerCore is supported.
    pub pods_per_core: bool,
    /// Whether the number of pods follows from the network interfaces by default.
    pub eni_limited_pods: bool,
    /// Whether any field of the kubelet's configuration can be set.
    pub any_kubelet_field: bool,
}

/// The properties of a family.
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
        // With a custom image, user data decides how the kubelet block is used.
        Family::Custom => Traits { any_kubelet_field: true, ..linux },
        Family::Bottlerocket => Traits { eni_limited_memory_overhead: false, pods_per_core: false, ..linux },
        Family::Windows2019 | Family::Windows2022 | Family::Windows2025 => {
            Traits { eni_limited_memory_overhead: false, eni_limited_pods: false, ..linux }
        }
    }
}

/// The default size of a volume.
pub const DEFAULT_VOLUME_SIZE: &str = "20Gi";

/// The device that holds pods' files; `None` if only the image knows.
#[must_use]
pub fn ephemeral_device(family: Family) -> Option<&'static str> {
    match family {
        Family::Al2 | Family::Al2023 => Some("/dev/xvda"),
        Family::Bottlerocket => Some("/dev/xvdb"),
        Family::Windows2019 | Family::Windows2022 | Family::Windows2025 => Some("/dev/sda1"),
        Family::Custom => None,
    }
}

/// The default volumes of a family. An empty list leaves them to the image.
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
