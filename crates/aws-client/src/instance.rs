//! Instances and launch templates in our own types.

use aws_sdk_ec2::types as sdk;
use fleetwright_aws::calls::{InstanceInfo, LaunchTemplate};

use crate::convert::{tags, text, time};

/// An instance; `None` if it has no id.
pub(crate) fn instance(instance: &sdk::Instance) -> Option<InstanceInfo> {
    let place = instance.placement();
    let group = |place: &sdk::Placement| {
        let partition = place.partition_number().and_then(|number| u32::try_from(number).ok());
        Some((place.group_id().filter(|id| !id.is_empty())?.to_owned(), partition))
    };
    let is_efa = |interface: &&sdk::InstanceNetworkInterface| {
        interface.interface_type().is_some_and(|kind| kind.starts_with("efa"))
    };
    let efa_interfaces = instance.network_interfaces().iter().filter(is_efa).count();
    Some(InstanceInfo {
        id: instance.instance_id()?.to_owned(),
        state: instance
            .state()
            .and_then(|state| state.name())
            .map(|name| name.as_str().to_owned())
            .unwrap_or_default(),
        instance_type: instance.instance_type().map(|it| it.as_str().to_owned()).unwrap_or_default(),
        zone: text(place.and_then(|place| place.availability_zone())),
        zone_id: text(place.and_then(|place| place.availability_zone_id())),
        image: text(instance.image_id()),
        subnet: text(instance.subnet_id()),
        security_groups: instance
            .security_groups()
            .iter()
            .filter_map(|group| Some(group.group_id()?.to_owned()))
            .collect(),
        spot: instance.instance_lifecycle() == Some(&sdk::InstanceLifecycleType::Spot),
        reservation: instance
            .capacity_reservation_id()
            .filter(|_| targets_reservations(instance))
            .map(str::to_owned),
        tenancy: place
            .and_then(|place| place.tenancy())
            .map_or("default", |tenancy| tenancy.as_str())
            .to_owned(),
        placement: place.and_then(group),
        profile: instance
            .iam_instance_profile()
            .and_then(|profile| Some(profile_name(profile.arn()?).to_owned())),
        efa_interfaces: i64::try_from(efa_interfaces).unwrap_or(i64::MAX),
        launched: instance.launch_time().and_then(time),
        tags: tags(instance.tags()),
    })
}

/// Whether an instance was launched for a reservation. One that EC2 placed into an open reservation, as a controller without the feature
/// gate launches them, is on-demand: as a reserved one it would have drifted.
fn targets_reservations(instance: &sdk::Instance) -> bool {
    let preference =
        instance.capacity_reservation_specification().and_then(|of| of.capacity_reservation_preference());
    preference == Some(&sdk::CapacityReservationPreference::CapacityReservationsOnly)
}

/// The last part of an instance profile's ARN: the name follows the path.
fn profile_name(arn: &str) -> &str {
    arn.rsplit('/').next().unwrap_or_default()
}

/// A launch template; `None` if it has no name.
pub(crate) fn launch_template(template: &sdk::LaunchTemplate) -> Option<LaunchTemplate> {
    Some(LaunchTemplate {
        name: template.launch_template_name()?.to_owned(),
        tags: tags(template.tags()),
        created: template.create_time().and_then(time),
    })
}

#[cfg(test)]
mod tests {
    //! An instance as EC2 describes it.
    use super::*;

    #[test]
    fn an_instance_is_converted_completely() {
        let interface = |kind: &str| sdk::InstanceNetworkInterface::builder().interface_type(kind).build();
        let described = sdk::Instance::builder()
            .instance_id("i-1")
            .state(sdk::InstanceState::builder().name(sdk::InstanceStateName::Running).build())
            .instance_type(sdk::InstanceType::from("p9.48xlarge"))
            .instance_lifecycle(sdk::InstanceLifecycleType::Spot)
            .placement(
                sdk::Placement::builder()
                    .availability_zone("us-west-2a")
                    .availability_zone_id("usw2-az1")
                    .group_id("pg-1")
                    .partition_number(3)
                    .build(),
            )
            .set_network_interfaces(Some(["interface", "efa", "efa-only"].map(interface).to_vec()))
            .build();
        let found = instance(&described).unwrap();
        assert_eq!((found.state.as_str(), found.instance_type.as_str()), ("running", "p9.48xlarge"));
        assert!(found.spot);
        assert_eq!(found.efa_interfaces, 2);
        assert_eq!(found.placement, Some(("pg-1".to_owned(), Some(3))));
        assert_eq!((found.zone_id.as_str(), found.tenancy.as_str()), ("usw2-az1", "default"));
    }

    #[test]
    fn an_open_reservation_is_not_the_instances() {
        use sdk::CapacityReservationPreference as Preference;
        let with = |preference: Option<Preference>| {
            let specification = sdk::CapacityReservationSpecificationResponse::builder()
                .set_capacity_reservation_preference(preference)
                .build();
            let described = sdk::Instance::builder()
                .instance_id("i-1")
                .capacity_reservation_id("cr-1")
                .capacity_reservation_specification(specification)
                .build();
            instance(&described).unwrap().reservation
        };
        assert_eq!(with(Some(Preference::CapacityReservationsOnly)).as_deref(), Some("cr-1"));
        assert_eq!([Some(Preference::Open), Some(Preference::None), None].map(with), [None, None, None]);
    }

    #[test]
    fn a_profile_arn_is_reduced_to_its_name() {
        assert_eq!(
            profile_name("arn:aws:iam::1:instance-profile/karpenter/eu-west-1/prod/uid/prod_7"),
            "prod_7"
        );
        assert_eq!(profile_name("arn:aws:iam::1:instance-profile/plain"), "plain");
    }

    #[test]
    fn an_instance_outside_any_group_has_none() {
        let place = sdk::Placement::builder().group_id("").build();
        let described = sdk::Instance::builder().instance_id("i-1").placement(place).build();
        assert_eq!(instance(&described).unwrap().placement, None);
        assert_eq!(instance(&sdk::Instance::builder().build()), None);
    }
}
