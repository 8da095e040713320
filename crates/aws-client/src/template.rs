//! `CreateLaunchTemplate`: converts our data to the SDK's.

use aws_sdk_ec2::types as sdk;
use fleetwright_aws::calls::{Market, TemplateData, TemplateInterface, TemplateReservation, TemplateVolume};

use crate::convert::ec2_tags;

/// The content of the template. Instance metadata never exposes tags: label values are not always valid there.
pub(crate) fn data(data: &TemplateData) -> sdk::RequestLaunchTemplateData {
    let profile =
        sdk::LaunchTemplateIamInstanceProfileSpecificationRequest::builder().name(&data.instance_profile);
    let switch = |on: bool| match on {
        true => sdk::NestedVirtualizationSpecification::Enabled,
        false => sdk::NestedVirtualizationSpecification::Disabled,
    };
    let nested = data
        .nested_virtualization
        .map(|on| sdk::LaunchTemplateCpuOptionsRequest::builder().nested_virtualization(switch(on)).build());
    let monitoring = data
        .detailed_monitoring
        .map(|on| sdk::LaunchTemplatesMonitoringRequest::builder().enabled(on).build());
    let enclaves =
        data.enclaves.then(|| sdk::LaunchTemplateEnclaveOptionsRequest::builder().enabled(true).build());
    sdk::RequestLaunchTemplateData::builder()
        .set_block_device_mappings(some(data.volumes.iter().map(volume).collect()))
        .set_cpu_options(nested)
        .set_iam_instance_profile((!data.instance_profile.is_empty()).then(|| profile.build()))
        .set_monitoring(monitoring)
        .user_data(&data.user_data)
        .image_id(&data.image)
        .metadata_options(metadata(&data.metadata))
        .set_enclave_options(enclaves)
        .set_placement(placement(data))
        .set_network_interfaces(some(data.interfaces.iter().map(interface).collect()))
        .set_capacity_reservation_specification(data.reservation.as_ref().map(reservation))
        .set_instance_market_options(data.market.map(market))
        .set_tag_specifications(tags(data))
        .build()
}

/// `None` for an empty list, which EC2 rejects.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

fn volume(volume: &TemplateVolume) -> sdk::LaunchTemplateBlockDeviceMappingRequest {
    let mapping = sdk::LaunchTemplateBlockDeviceMappingRequest::builder().device_name(&volume.device);
    // A mapping without EBS settings has no block for them, which EC2 refuses when it is empty.
    if *volume == (TemplateVolume { device: volume.device.clone(), ..TemplateVolume::default() }) {
        return mapping.build();
    }
    let whole = |number: i64| i32::try_from(number).unwrap_or(i32::MAX);
    let ebs = sdk::LaunchTemplateEbsBlockDeviceRequest::builder()
        .set_delete_on_termination(volume.delete_on_termination)
        .set_encrypted(volume.encrypted)
        .set_iops(volume.iops.map(whole))
        .set_kms_key_id(volume.kms_key.clone())
        .set_snapshot_id(volume.snapshot.clone())
        .set_throughput(volume.throughput.map(whole))
        .set_volume_initialization_rate(volume.initialization_rate)
        .set_volume_size(volume.size_gib.map(whole))
        .set_volume_type(volume.volume_type.as_deref().map(sdk::VolumeType::from))
        .build();
    mapping.ebs(ebs).build()
}

fn metadata(
    [endpoint, ipv6, hops, tokens]: &[Option<String>; 4],
) -> sdk::LaunchTemplateInstanceMetadataOptionsRequest {
    sdk::LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .set_http_endpoint(endpoint.as_deref().map(Into::into))
        .set_http_protocol_ipv6(ipv6.as_deref().map(Into::into))
        .set_http_put_response_hop_limit(hops.as_deref().and_then(|hops| hops.parse().ok()))
        .set_http_tokens(tokens.as_deref().map(Into::into))
        .instance_metadata_tags(sdk::LaunchTemplateInstanceMetadataTagsState::Disabled)
        .build()
}

fn placement(data: &TemplateData) -> Option<sdk::LaunchTemplatePlacementRequest> {
    let (group, partition) = match &data.placement {
        Some((group, partition)) => (Some(group.clone()), *partition),
        None => (None, None),
    };
    (group.is_some() || data.tenancy.is_some()).then(|| {
        sdk::LaunchTemplatePlacementRequest::builder()
            .set_tenancy(data.tenancy.as_deref().map(sdk::Tenancy::from))
            .set_group_id(group)
            .set_partition_number(partition.and_then(|number| i32::try_from(number).ok()))
            .build()
    })
}

fn interface(
    interface: &TemplateInterface,
) -> sdk::LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
    let tracking = interface.connection_tracking.map(|[tcp, stream, udp]| {
        sdk::ConnectionTrackingSpecificationRequest::builder()
            .set_tcp_established_timeout(tcp)
            .set_udp_stream_timeout(stream)
            .set_udp_timeout(udp)
            .build()
    });
    sdk::LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
        .network_card_index(interface.card)
        .device_index(interface.device)
        .interface_type(&interface.kind)
        .delete_on_termination(true)
        .set_groups(some(interface.security_groups.clone()))
        .set_associate_public_ip_address(interface.public_address)
        .set_ipv4_prefix_count(interface.ipv4_prefixes)
        .set_ipv6_prefix_count(interface.ipv6_prefixes)
        .set_primary_ipv6(interface.ipv6.then_some(true))
        .set_ipv6_address_count(interface.ipv6.then_some(1))
        .set_connection_tracking_specification(tracking)
        .build()
}

fn reservation(wanted: &TemplateReservation) -> sdk::LaunchTemplateCapacityReservationSpecificationRequest {
    let builder = sdk::LaunchTemplateCapacityReservationSpecificationRequest::builder();
    match wanted {
        TemplateReservation::Never => {
            builder.capacity_reservation_preference(sdk::CapacityReservationPreference::None).build()
        }
        TemplateReservation::Only(id) => builder
            .capacity_reservation_preference(sdk::CapacityReservationPreference::CapacityReservationsOnly)
            .capacity_reservation_target(
                sdk::CapacityReservationTarget::builder().capacity_reservation_id(id).build(),
            )
            .build(),
    }
}

fn market(market: Market) -> sdk::LaunchTemplateInstanceMarketOptionsRequest {
    let kind = match market {
        Market::CapacityBlock => sdk::MarketType::CapacityBlock,
        Market::InterruptibleReservation => sdk::MarketType::InterruptibleCapacityReservation,
    };
    sdk::LaunchTemplateInstanceMarketOptionsRequest::builder().market_type(kind).build()
}

/// Tags of resources that a fleet's own tags do not cover.
fn tags(data: &TemplateData) -> Option<Vec<sdk::LaunchTemplateTagSpecificationRequest>> {
    let one = |kind: sdk::ResourceType| {
        sdk::LaunchTemplateTagSpecificationRequest::builder()
            .resource_type(kind)
            .set_tags(Some(ec2_tags(&data.tags)))
            .build()
    };
    let spot = data.spot.then_some(sdk::ResourceType::SpotInstancesRequest);
    let kinds = std::iter::once(sdk::ResourceType::NetworkInterface).chain(spot);
    (!data.tags.is_empty()).then(|| kinds.map(one).collect())
}

#[cfg(test)]
mod tests {
    //! The content of templates.
    use fleetwright_aws::calls::TagSet;

    use super::*;

    #[test]
    fn unset_fields_are_not_sent() {
        let sent = data(&TemplateData::default());
        assert!(sent.iam_instance_profile().is_none() && sent.monitoring().is_none());
        assert!(sent.cpu_options().is_none() && sent.enclave_options().is_none());
        assert!(sent.placement().is_none() && sent.instance_market_options().is_none());
        assert!(sent.capacity_reservation_specification().is_none());
        assert!(sent.block_device_mappings.is_none() && sent.network_interfaces.is_none());
        assert!(sent.tag_specifications.is_none());
        let tags = sent.metadata_options().and_then(|options| options.instance_metadata_tags());
        assert_eq!(tags.map(|it| it.as_str()), Some("disabled"));
    }

    #[test]
    fn a_reservation_is_targeted_or_excluded() {
        let of = |wanted| {
            let sent = data(&TemplateData { reservation: Some(wanted), ..TemplateData::default() });
            let specification = sent.capacity_reservation_specification.unwrap();
            let target = specification.capacity_reservation_target().cloned();
            let preference = specification.capacity_reservation_preference().map(|it| it.as_str().to_owned());
            (preference.unwrap(), target.and_then(|target| target.capacity_reservation_id))
        };
        assert_eq!(of(TemplateReservation::Never), ("none".to_owned(), None));
        let only = of(TemplateReservation::Only("cr-1".to_owned()));
        assert_eq!(only, ("capacity-reservations-only".to_owned(), Some("cr-1".to_owned())));
    }

    /// `blockDeviceMappings` without `ebs`, which the CRD allows, beside one that sets no more than deletion.
    #[test]
    fn a_mapping_without_ebs_sends_no_block_for_it() {
        let volume = |device: &str| TemplateVolume { device: device.to_owned(), ..TemplateVolume::default() };
        let kept = TemplateVolume { delete_on_termination: Some(false), ..volume("/dev/xvdb") };
        let sent =
            data(&TemplateData { volumes: vec![volume("/dev/xvda"), kept], ..TemplateData::default() });
        let [bare, kept] = sent.block_device_mappings() else { panic!("{sent:?}") };
        assert_eq!((bare.device_name(), bare.ebs()), (Some("/dev/xvda"), None));
        assert_eq!(kept.ebs().and_then(|ebs| ebs.delete_on_termination()), Some(false));
    }

    #[test]
    fn volumes_interfaces_and_tags_are_sent() {
        let sent = data(&TemplateData {
            volumes: vec![TemplateVolume {
                device: "/dev/xvda".to_owned(),
                size_gib: Some(20),
                volume_type: Some("gp3".to_owned()),
                encrypted: Some(true),
                ..TemplateVolume::default()
            }],
            interfaces: vec![TemplateInterface {
                kind: "interface".to_owned(),
                security_groups: vec!["sg-1".to_owned()],
                ipv6: true,
                connection_tracking: Some([Some(60), None, None]),
                ..TemplateInterface::default()
            }],
            placement: Some(("pg-1".to_owned(), Some(2))),
            metadata: [Some("enabled".into()), None, Some("1".into()), Some("required".into())],
            tags: TagSet::from([("k".to_owned(), "v".to_owned())]),
            ..TemplateData::default()
        });
        let ebs = sent.block_device_mappings()[0].ebs().unwrap();
        assert_eq!((ebs.volume_size(), ebs.iops(), ebs.encrypted()), (Some(20), None, Some(true)));
        let interface = &sent.network_interfaces()[0];
        assert_eq!((interface.primary_ipv6(), interface.ipv6_address_count()), (Some(true), Some(1)));
        let tracking = interface.connection_tracking_specification().unwrap();
        assert_eq!((tracking.tcp_established_timeout(), tracking.udp_timeout()), (Some(60), None));
        let place = sent.placement().unwrap();
        assert_eq!((place.group_id(), place.partition_number()), (Some("pg-1"), Some(2)));
        let options = sent.metadata_options().unwrap();
        assert_eq!(
            (options.http_put_response_hop_limit(), options.http_tokens().map(|it| it.as_str())),
            (Some(1), Some("required"))
        );
    }

    #[test]
    fn spot_requests_are_tagged_if_there_are_tags() {
        let kinds = |spot: bool| {
            let tags = TagSet::from([("k".to_owned(), "v".to_owned())]);
            let sent = data(&TemplateData { tags, spot, ..TemplateData::default() });
            let specifications = sent.tag_specifications.unwrap_or_default();
            specifications.into_iter().filter_map(|of| of.resource_type).collect::<Vec<_>>()
        };
        assert_eq!(kinds(false), [sdk::ResourceType::NetworkInterface]);
        assert_eq!(
            kinds(true),
            [sdk::ResourceType::NetworkInterface, sdk::ResourceType::SpotInstancesRequest]
        );
    }
}
