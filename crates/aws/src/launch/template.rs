//! Launch templates: the common content of a group's instances.

use fleetwright_aws_api::ec2nodeclass::{
    BlockDeviceMapping, Ec2NodeClassSpec, Ec2NodeClassStatus, NetworkInterface,
};
use fleetwright_aws_api::labels;
use fleetwright_core::model::{NodeClaim, Offering, Quantity, labels::SPOT};

use crate::calls::{Market, TagSet, TemplateData, TemplateInterface, TemplateReservation, TemplateVolume};
use crate::digest::digest_of;
use crate::families::default_volumes;
use crate::instancetype::{ResolvedInstanceType, ResolvedKubelet};

/// Prefix of the names of launch templates.
pub const TEMPLATE_PREFIX: &str = "karpenter.k8s.aws/";

/// What the instances of one launch template have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateGroup {
    /// The image.
    pub image: String,
    /// How many EFA interfaces they have.
    pub efas: i64,
    /// The kubelet's configuration.
    pub kubelet: ResolvedKubelet,
    /// The reservation, its type, and whether its owner may reclaim it.
    pub reservation: Option<(String, String, bool)>,
    /// Whether they are spot instances.
    pub spot: bool,
}

/// Whether a region's EC2 supports the IPv6 setting of the metadata service: not in isolated partitions.
#[must_use]
pub fn has_metadata_ipv6(region: &str) -> bool {
    !region.contains("-iso")
}

/// The group of a type and one of its offerings; `None` for a type without an image.
#[must_use]
pub fn group_of(
    resolved: &ResolvedInstanceType,
    offering: &Offering,
    claim: &NodeClaim,
) -> Option<TemplateGroup> {
    let wants_efa = claim.requests.get(&labels::RESOURCE_EFA.into()) > 0;
    let efas = resolved.instance_type.capacity.get(&labels::RESOURCE_EFA.into());
    let value = |key: &str| offering.requirements.get(key).and_then(|r| r.single()).map(ToString::to_string);
    let reservation = value(labels::CAPACITY_RESERVATION_ID).map(|id| {
        let kind = value(labels::CAPACITY_RESERVATION_TYPE).unwrap_or_default();
        (id, kind, value(labels::CAPACITY_RESERVATION_INTERRUPTIBLE).as_deref() == Some("true"))
    });
    Some(TemplateGroup {
        image: resolved.image.clone()?,
        efas: if wants_efa { efas } else { 0 },
        kubelet: resolved.kubelet.clone(),
        reservation,
        spot: offering.capacity_type().is_some_and(|own| &**own == SPOT),
    })
}

/// The inputs of a template besides its group.
#[derive(Clone, Copy, Debug)]
pub struct TemplateInput<'a> {
    /// The class's spec.
    pub spec: &'a Ec2NodeClassSpec,
    /// The EC2NodeClass's status.
    pub status: &'a Ec2NodeClassStatus,
    /// User data, base64.
    pub user_data: &'a str,
    /// Tags of network interfaces and spot requests.
    pub tags: &'a TagSet,
    /// `default` or `dedicated`.
    pub tenancy: &'a str,
    /// Placement group and partition.
    pub placement: Option<(&'a str, Option<u32>)>,
    /// Whether the cluster's addresses are IPv6.
    pub ipv6: bool,
    /// Whether reservations are managed; else the account's preference applies.
    pub reserved_capacity: bool,
    /// Whether the NodeClaim requests a Nitro sandbox, which is an enclave.
    pub sandboxed: bool,
    /// Whether the region's metadata service supports the IPv6 setting.
    pub metadata_ipv6: bool,
}

/// The template of a group.
#[must_use]
pub fn template_data(group: &TemplateGroup, input: &TemplateInput<'_>) -> TemplateData {
    let spec = input.spec;
    // An empty list counts as absent.
    let own = spec.block_device_mappings.clone().filter(|mappings| !mappings.is_empty());
    let mappings = own.unwrap_or_else(|| default_volumes(spec.family()));
    let nested = spec.cpu_options.as_ref().and_then(|options| options.nested_virtualization.as_deref());
    let reservation = match &group.reservation {
        _ if !input.reserved_capacity => None,
        Some((id, ..)) => Some(TemplateReservation::Only(id.clone())),
        None => Some(TemplateReservation::Never),
    };
    let market = group.reservation.as_ref().and_then(|(_, kind, interruptible)| match kind.as_str() {
        _ if *interruptible => Some(Market::InterruptibleReservation),
        "capacity-block" => Some(Market::CapacityBlock),
        _ => None,
    });
    TemplateData {
        volumes: mappings.iter().map(volume).collect(),
        nested_virtualization: nested.map(|value| value == "enabled"),
        instance_profile: input.status.instance_profile.clone(),
        detailed_monitoring: spec.detailed_monitoring,
        user_data: input.user_data.to_owned(),
        image: group.image.clone(),
        metadata: metadata(input),
        enclaves: spec.enclave_options.as_ref().map_or(input.sandboxed, |options| options.enabled),
        tenancy: Some(input.tenancy.to_owned()),
        placement: input.placement.map(|(id, part)| (id.to_owned(), part)),
        interfaces: interfaces(group, input),
        reservation,
        market,
        spot: group.spot,
        tags: input.tags.clone(),
    }
}

/// A name derived from the template's content: a template is never changed, and two processes create the same one.
#[must_use]
pub fn template_name(data: &TemplateData) -> String {
    format!("{TEMPLATE_PREFIX}{}", digest_of(data))
}

/// The EC2NodeClass's options; without options (which the CRD's default rules out) the service is disabled.
fn metadata(input: &TemplateInput<'_>) -> [Option<String>; 4] {
    let ipv6 = |value: Option<String>| value.filter(|_| input.metadata_ipv6);
    match &input.spec.metadata_options {
        Some(options) => [
            options.http_endpoint.clone(),
            ipv6(options.http_protocol_ipv6.clone()),
            options.http_put_response_hop_limit.map(|limit| limit.to_string()),
            options.http_tokens.clone(),
        ],
        None => {
            let protocol = if input.ipv6 { "enabled" } else { "disabled" };
            let text = |value: &str| Some(value.to_owned());
            [text("disabled"), ipv6(text(protocol)), text("2"), text("required")]
        }
    }
}

fn volume(mapping: &BlockDeviceMapping) -> TemplateVolume {
    let device = mapping.device_name.clone().unwrap_or_default();
    let Some(ebs) = &mapping.ebs else {
        return TemplateVolume { device, ..TemplateVolume::default() };
    };
    let gib = |text: &String| {
        let bytes = text.parse::<Quantity>().ok().map(Quantity::units_ceil)?;
        Some(bytes.saturating_add((1 << 30) - 1) >> 30)
    };
    TemplateVolume {
        device,
        delete_on_termination: ebs.delete_on_termination,
        encrypted: ebs.encrypted,
        iops: ebs.iops.filter(|iops| *iops != 0),
        kms_key: ebs.kms_key_id.clone(),
        snapshot: ebs.snapshot_id.clone(),
        throughput: ebs.throughput.filter(|throughput| *throughput != 0),
        initialization_rate: ebs.volume_initialization_rate,
        size_gib: ebs.volume_size.as_ref().and_then(gib),
        volume_type: ebs.volume_type.clone(),
    }
}

/// The EC2NodeClass's interfaces, else one for each EFA of the type, else a single one.
fn interfaces(group: &TemplateGroup, input: &TemplateInput<'_>) -> Vec<TemplateInterface> {
    let own = input.spec.network_interfaces.as_deref().unwrap_or_default();
    if !own.is_empty() {
        let from = |own: &NetworkInterface| {
            interface(own.network_card_index, own.device_index, &own.interface_type, input)
        };
        return own.iter().map(from).collect();
    }
    let efas = i32::try_from(group.efas).unwrap_or(i32::MAX).clamp(0, 64);
    if efas == 0 {
        return vec![interface(0, 0, "interface", input)];
    }
    (0..efas).map(|card| interface(card, i32::from(card != 0), "efa", input)).collect()
}

/// An interface for EFA only has no addresses and tracks no connections.
fn interface(card: i32, device: i32, kind: &str, input: &TemplateInput<'_>) -> TemplateInterface {
    let security_groups = input.status.security_groups.iter().map(|group| group.id.clone()).collect();
    let bare = TemplateInterface {
        card,
        device,
        kind: kind.to_owned(),
        security_groups,
        ..TemplateInterface::default()
    };
    if kind == "efa-only" {
        return bare;
    }
    let spec = input.spec;
    let prefixes = spec.ip_prefix_count;
    let tracking = spec.connection_tracking.as_ref();
    TemplateInterface {
        public_address: spec.associate_public_ip_address,
        ipv4_prefixes: prefixes.filter(|_| !input.ipv6),
        ipv6_prefixes: prefixes.filter(|_| input.ipv6),
        ipv6: input.ipv6,
        connection_tracking: tracking
            .map(|t| [t.tcp_established_timeout, t.udp_stream_timeout, t.udp_timeout]),
        ..bare
    }
}
