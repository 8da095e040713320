//! Whether an instance type supports what an EC2NodeClass asks for. Types that do not remain listed, without offerings.

use fleetwright_aws_api::Family;
use fleetwright_aws_api::ec2nodeclass::Ec2NodeClassSpec;

use crate::calls::{InstanceTypeDescription, PlacementGroup};

/// Whether instances of the type can be launched with the EC2NodeClass.
#[must_use]
pub fn compatible(
    info: &InstanceTypeDescription,
    spec: &Ec2NodeClassSpec,
    group: Option<&PlacementGroup>,
) -> bool {
    // The first Gravitons lack instructions that AL2023 is built with.
    let image = spec.family() != Family::Al2023 || !info.name.starts_with("a1.");
    let nested = spec.cpu_options.as_ref().and_then(|options| options.nested_virtualization.as_deref());
    let has = |feature: &str| info.processor_features.iter().any(|known| known == feature);
    let nested = nested != Some("enabled") || has("nested-virtualization");
    let enclaves = spec.enclave_options.as_ref().is_none_or(|options| !options.enabled) || info.enclaves;
    let group = group.is_none_or(|group| info.placement_strategies.contains(&group.strategy));
    let tracking = spec.connection_tracking.is_none() || info.hypervisor == "nitro";
    image && nested && enclaves && group && tracking && interfaces_fit(info, spec)
}

fn interfaces_fit(info: &InstanceTypeDescription, spec: &Ec2NodeClassSpec) -> bool {
    let Some(interfaces) = spec.network_interfaces.as_deref().filter(|list| !list.is_empty()) else {
        return true;
    };
    let on_its_card = |card: i32, device: i32| {
        let found = info.network.cards.iter().find(|known| known.index == i64::from(card));
        found.is_some_and(|known| i64::from(device) < known.interfaces_max)
    };
    let efa_only = interfaces.iter().filter(|interface| interface.interface_type == "efa-only").count();
    let efa_only = i64::try_from(efa_only).unwrap_or(i64::MAX);
    info.network.ena
        && interfaces
            .iter()
            .all(|interface| on_its_card(interface.network_card_index, interface.device_index))
        && (efa_only == 0 || info.network.efa_max.is_some_and(|most| efa_only <= most))
}
