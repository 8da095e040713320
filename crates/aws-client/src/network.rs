//! Subnets, security groups, placement groups, images, reservations and instance statuses in our own types.

use aws_sdk_ec2::types as sdk;
use fleetwright_aws::calls::{GroupInfo, Image, InstanceStatus, PlacementGroup, ReservationInfo, SubnetInfo};

use crate::convert::{count, tags, text, time};

pub(crate) fn subnet(subnet: &sdk::Subnet) -> Option<SubnetInfo> {
    Some(SubnetInfo {
        id: subnet.subnet_id()?.to_owned(),
        zone: text(subnet.availability_zone()),
        zone_id: text(subnet.availability_zone_id()),
        free_addresses: count(subnet.available_ip_address_count()),
        tags: tags(subnet.tags()),
    })
}

pub(crate) fn group(group: &sdk::SecurityGroup) -> Option<GroupInfo> {
    Some(GroupInfo {
        id: group.group_id()?.to_owned(),
        name: text(group.group_name()),
        tags: tags(group.tags()),
    })
}

pub(crate) fn placement_group(group: &sdk::PlacementGroup) -> Option<PlacementGroup> {
    Some(PlacementGroup {
        id: group.group_id()?.to_owned(),
        name: text(group.group_name()),
        strategy: group.strategy().map(|it| it.as_str().to_owned()).unwrap_or_default(),
        partitions: group.partition_count().and_then(|count| u32::try_from(count).ok()).unwrap_or_default(),
    })
}

pub(crate) fn image(image: &sdk::Image) -> Option<Image> {
    Some(Image {
        id: image.image_id()?.to_owned(),
        name: text(image.name()),
        architecture: image.architecture().map(|it| it.as_str().to_owned()).unwrap_or_default(),
        created: image.creation_date().and_then(|at| at.parse().ok()),
        deprecated_at: image.deprecation_time().and_then(|at| at.parse().ok()),
    })
}

/// A reservation. One that is scheduled without a date is none yet.
pub(crate) fn reservation(reservation: &sdk::CapacityReservation) -> Option<ReservationInfo> {
    let is_ahead = reservation.state() == Some(&sdk::CapacityReservationState::Scheduled);
    let starts = if is_ahead { Some(reservation.start_date().and_then(time)?) } else { None };
    Some(ReservationInfo {
        id: reservation.capacity_reservation_id()?.to_owned(),
        zone: text(reservation.availability_zone()),
        instance_type: text(reservation.instance_type()),
        owner: text(reservation.owner_id()),
        match_criteria: reservation
            .instance_match_criteria()
            .map(|it| it.as_str().to_owned())
            .unwrap_or_default(),
        kind: reservation.reservation_type().map_or("default", |it| it.as_str()).to_owned(),
        interruptible: reservation.interruptible().unwrap_or_default(),
        starts,
        ends: reservation.end_date().and_then(time),
        available: reservation
            .available_instance_count()
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or_default(),
    })
}

/// The problems of an instance. Completed events stay listed for a while, marked in their description.
pub(crate) fn status(status: &sdk::InstanceStatus) -> Option<InstanceStatus> {
    let impaired_since = |summary: Option<&sdk::InstanceStatusSummary>| {
        let failed =
            summary?.details().iter().filter(|detail| detail.status() == Some(&sdk::StatusType::Failed));
        failed.filter_map(|detail| detail.impaired_since().and_then(time)).min()
    };
    let is_over = |event: &&sdk::InstanceStatusEvent| {
        ["[Completed]", "[Canceled]"]
            .iter()
            .any(|mark| event.description().unwrap_or_default().starts_with(mark))
    };
    let ahead = status.events().iter().filter(|event| !is_over(event));
    Some(InstanceStatus {
        id: status.instance_id()?.to_owned(),
        instance_impaired_since: impaired_since(status.instance_status()),
        system_impaired_since: impaired_since(status.system_status()),
        events: ahead.filter_map(|event| Some(event.code()?.as_str().to_owned())).collect(),
    })
}

#[cfg(test)]
mod tests {
    //! Items without an id are left out, and completed events are ignored.
    use aws_sdk_ec2::primitives::DateTime;

    use super::*;

    #[test]
    fn nameless_resources_are_left_out() {
        assert_eq!(subnet(&sdk::Subnet::builder().build()), None);
        assert_eq!(group(&sdk::SecurityGroup::builder().build()), None);
        assert_eq!(placement_group(&sdk::PlacementGroup::builder().build()), None);
        assert_eq!(image(&sdk::Image::builder().build()), None);
        assert_eq!(reservation(&sdk::CapacityReservation::builder().build()), None);
        assert_eq!(status(&sdk::InstanceStatus::builder().build()), None);
    }

    #[test]
    fn a_negative_count_is_zero() {
        let overdrawn =
            sdk::CapacityReservation::builder().capacity_reservation_id("cr-1").available_instance_count(-1);
        assert_eq!(reservation(&overdrawn.build()).unwrap().available, 0);
        let subnet =
            subnet(&sdk::Subnet::builder().subnet_id("s").available_ip_address_count(-5).build()).unwrap();
        assert_eq!(subnet.free_addresses, 0);
    }

    #[test]
    fn images_have_their_creation_time() {
        let made = sdk::Image::builder().image_id("ami-1").creation_date("2026-01-02T03:04:05.000Z").build();
        assert_eq!(image(&made).unwrap().created.unwrap().to_string(), "2026-01-02T03:04:05Z");
        let garbled = sdk::Image::builder().image_id("ami-1").creation_date("yesterday").build();
        assert_eq!(image(&garbled).unwrap().created, None);
    }

    #[test]
    fn completed_events_are_ignored() {
        let event =
            |code, text: &str| sdk::InstanceStatusEvent::builder().code(code).description(text).build();
        let failed = sdk::InstanceStatusDetails::builder()
            .status(sdk::StatusType::Failed)
            .impaired_since(DateTime::from_secs(60))
            .build();
        let impaired = sdk::InstanceStatus::builder()
            .instance_id("i-1")
            .events(event(sdk::EventCode::InstanceStop, "[Completed] moved"))
            .events(event(sdk::EventCode::InstanceRetirement, "hardware is old"))
            .system_status(sdk::InstanceStatusSummary::builder().details(failed).build())
            .build();
        let found = status(&impaired).unwrap();
        assert_eq!(found.events, ["instance-retirement"]);
        assert_eq!(
            (found.instance_impaired_since, found.system_impaired_since.map(|at| at.as_second())),
            (None, Some(60))
        );
    }
}
