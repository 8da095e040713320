//! The labels of an instance type's nodes.

use std::collections::BTreeSet;

use fleetwright_aws_api::ec2nodeclass::{CapacityReservation, Subnet};
use fleetwright_aws_api::{Family, labels};
use fleetwright_core::model::{
    Requirement, Requirements,
    labels::{
        ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, OS, REGION, RESERVED, SPOT, WINDOWS_BUILD, ZONE,
    },
};

use super::tables;
use crate::calls::InstanceTypeDescription;
use crate::families::windows_build;

/// The architecture by Kubernetes' name: that of the first which both know, else as EC2 names it.
#[must_use]
pub fn architecture(info: &InstanceTypeDescription) -> &str {
    let known = info.architectures.iter().find_map(|name| match name.as_str() {
        "x86_64" => Some("amd64"),
        "arm64" => Some("arm64"),
        _ => None,
    });
    known.or_else(|| info.architectures.first().map(String::as_str)).unwrap_or("unknown")
}

/// The zones that offer the type and in which the EC2NodeClass has a subnet.
#[must_use]
pub(super) fn zones<'a>(sold_in: &'a BTreeSet<String>, subnets: &[Subnet]) -> BTreeSet<&'a str> {
    let of_class = |zone: &&'a String| subnets.iter().any(|subnet| subnet.zone == **zone);
    sold_in.iter().filter(of_class).map(String::as_str).collect()
}

/// The labels of a node of the type, launched with the EC2NodeClass.
#[must_use]
pub(super) fn requirements(
    info: &InstanceTypeDescription,
    region: &str,
    zones: &BTreeSet<&str>,
    subnets: &[Subnet],
    family: Family,
    reservations: &[&CapacityReservation],
) -> Requirements {
    let mut all = Requirements::new();
    let mut put = |requirement: Requirement| all.replace(requirement);
    let bought =
        info.usage_classes.iter().map(String::as_str).filter(|class| [ON_DEMAND, SPOT].contains(class));
    put(Requirement::is_in(CAPACITY_TYPE, bought.chain((!reservations.is_empty()).then_some(RESERVED))));
    put(Requirement::is_in(INSTANCE_TYPE, [info.name.as_str()]));
    put(Requirement::is_in(ARCH, [architecture(info)]));
    put(Requirement::is_in(OS, operating_system(info, family)));
    put(Requirement::is_in(ZONE, zones.iter().copied()));
    put(Requirement::is_in(REGION, [region]));
    put(Requirement::is_in(WINDOWS_BUILD, windows_build(family)));
    let in_zones = subnets.iter().filter(|subnet| zones.contains(subnet.zone.as_str()));
    let ids: BTreeSet<&str> =
        in_zones.map(|subnet| subnet.zone_id.as_str()).filter(|id| !id.is_empty()).collect();
    if !ids.is_empty() {
        put(Requirement::is_in(labels::ZONE_ID, ids));
    }
    for requirement in instance_type(info).into_iter().chain(reserved(reservations)) {
        put(requirement);
    }
    all
}

fn operating_system(info: &InstanceTypeDescription, family: Family) -> Option<&'static str> {
    match (family.is_windows(), architecture(info)) {
        (false, _) => Some("linux"),
        (true, "amd64") => Some("windows"),
        (true, _) => None,
    }
}

/// `key In [value]`, or `key DoesNotExist` without a value.
fn maybe(key: &str, value: Option<impl ToString>) -> Requirement {
    Requirement::is_in(key, value.map(|value| value.to_string()))
}

/// Requirements that follow from the instance type alone.
fn instance_type(info: &InstanceTypeDescription) -> Vec<Requirement> {
    let (family, size) = match info.name.split_once('.') {
        Some((family, size)) if !size.contains('.') => (Some(family), Some(size)),
        _ => (None, None),
    };
    let (category, generation) = scheme(&info.name).unzip();
    let flex = info.name.split('.').next().is_some_and(|family| family.contains("-flex"));
    let nvme = info.storage.as_ref().filter(|storage| storage.nvme).and_then(|storage| storage.total_gb);
    let gpu = match info.gpus.as_slice() {
        [only] => Some(only),
        _ => None,
    };
    let accelerator = accelerator(info);
    let [accelerator_name, accelerator_maker, accelerator_count] = match accelerator {
        Some((name, maker, count)) => [Some(name), Some(maker), Some(count)],
        None => [None, None, None],
    };
    vec![
        maybe(labels::INSTANCE_CPU, Some(info.vcpus)),
        maybe(labels::INSTANCE_CPU_MANUFACTURER, info.cpu_manufacturer.as_deref().map(kebab)),
        maybe(labels::INSTANCE_CPU_CLOCK, info.clock_mhz),
        maybe(labels::INSTANCE_MEMORY, Some(info.memory_mib)),
        maybe(labels::INSTANCE_EBS_BANDWIDTH, info.ebs_mbps),
        maybe(labels::INSTANCE_NETWORK_BANDWIDTH, tables::network(&info.name).bandwidth_mbps),
        maybe(labels::INSTANCE_CATEGORY, category),
        maybe(labels::INSTANCE_GENERATION, generation),
        maybe(labels::INSTANCE_FAMILY, family),
        maybe(labels::INSTANCE_SIZE, size),
        maybe(labels::INSTANCE_CAPABILITY_FLEX, Some(flex)),
        maybe(labels::INSTANCE_LOCAL_NVME, nvme),
        maybe(labels::INSTANCE_GPU_NAME, gpu.map(|gpu| kebab(&gpu.name))),
        maybe(labels::INSTANCE_GPU_MANUFACTURER, gpu.map(|gpu| kebab(&gpu.manufacturer))),
        maybe(labels::INSTANCE_GPU_COUNT, gpu.map(|gpu| gpu.count)),
        maybe(labels::INSTANCE_GPU_MEMORY, gpu.map(|gpu| gpu.memory_mib)),
        maybe(labels::INSTANCE_ACCELERATOR_NAME, accelerator_name),
        maybe(labels::INSTANCE_ACCELERATOR_MANUFACTURER, accelerator_maker),
        maybe(labels::INSTANCE_ACCELERATOR_COUNT, accelerator_count),
        Requirement::is_in(labels::INSTANCE_HYPERVISOR, [info.hypervisor.as_str()]),
        maybe(labels::INSTANCE_ENCRYPTION_IN_TRANSIT, Some(info.network.encrypts_in_transit)),
        Requirement::is_in(labels::INSTANCE_TENANCY, ["default", "dedicated"]),
    ]
}

/// Name, manufacturer and number of the only kind of accelerator; Neuron devices are preferred.
fn accelerator(info: &InstanceTypeDescription) -> Option<(String, String, String)> {
    match (info.neuron.as_deref(), info.accelerators.as_slice()) {
        (Some([only]), _) => Some((kebab(&only.name), "aws".to_owned(), only.count.to_string())),
        (None, [only]) => Some((kebab(&only.name), kebab(&only.manufacturer), only.count.to_string())),
        _ => None,
    }
}

fn reserved(reservations: &[&CapacityReservation]) -> [Requirement; 3] {
    let values = |of: fn(&CapacityReservation) -> String| -> BTreeSet<String> {
        reservations.iter().map(|reservation| of(reservation)).collect()
    };
    [
        Requirement::is_in(labels::CAPACITY_RESERVATION_ID, values(|reservation| reservation.id.clone())),
        Requirement::is_in(
            labels::CAPACITY_RESERVATION_TYPE,
            values(|reservation| reservation.reservation_type.clone()),
        ),
        Requirement::is_in(
            labels::CAPACITY_RESERVATION_INTERRUPTIBLE,
            values(|reservation| reservation.interruptible.to_string()),
        ),
    ]
}

fn kebab(text: &str) -> String {
    text.replace(' ', "-").to_lowercase()
}

/// Category and generation in a type's name: letters, optionally `-<n>tb`, then digits before a dot.
fn scheme(name: &str) -> Option<(&str, &str)> {
    let (before, _) = name.split_once('.')?;
    let letters = before.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(before.len());
    let (category, rest) = before.split_at(letters);
    if category.is_empty() {
        return None;
    }
    let rest = high_memory(rest).unwrap_or(rest);
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    (digits > 0).then(|| (category, &rest[..digits]))
}

/// The text after `-<n>tb`.
fn high_memory(text: &str) -> Option<&str> {
    let digits = text.strip_prefix('-')?;
    let end = digits.find(|c: char| !c.is_ascii_digit())?;
    if end == 0 {
        return None;
    }
    digits[end..].strip_prefix("tb")
}

#[cfg(test)]
mod tests {
    //! Names of instance types.
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("m5.large", Some(("m", "5")))]
    #[case("u-6tb1.metal", Some(("u", "1")))]
    #[case("u7i-12tb.224xlarge", Some(("u", "7")))]
    #[case("inf2.xlarge", Some(("inf", "2")))]
    #[case("c7i-flex.large", Some(("c", "7")))]
    #[case("hpc7g.4xlarge", Some(("hpc", "7")))]
    #[case("mac2-m2.metal", Some(("mac", "2")))]
    #[case("strange", None)]
    #[case("5m.large", None)]
    fn categories(#[case] name: &str, #[case] expected: Option<(&str, &str)>) {
        assert_eq!(scheme(name), expected);
    }
}
