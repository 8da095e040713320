//! Requests and answers of fleets.

use fleetwright_aws::calls::{Price, TagSet};

use super::*;

fn wanted(template: &str, instance_type: &str) -> Override {
    Override {
        template: template.to_owned(),
        instance_type: instance_type.to_owned(),
        subnet: "subnet-1".to_owned(),
        zone: "us-west-2a".to_owned(),
        image: "ami-1".to_owned(),
        price: Price::from_nanos(96_000_000),
    }
}

fn request(kind: FleetKind, strategy: Strategy) -> FleetRequest {
    FleetRequest {
        token: "token".to_owned(),
        count: 3,
        kind,
        strategy,
        overrides: vec![wanted("b", "m5.large"), wanted("a", "m5.xlarge"), wanted("b", "m9z.large")],
        tags: TagSet::from([("k".to_owned(), "v".to_owned())]),
        context: None,
    }
}

#[test]
fn overrides_are_grouped_by_template() {
    let input = input(&request(FleetKind::Spot, Strategy::PriceCapacityOptimized)).build().unwrap();
    assert_eq!((input.client_token(), input.r#type()), (Some("token"), Some(&sdk::FleetType::Instant)));
    let configured: Vec<(&str, usize)> = input
        .launch_template_configs()
        .iter()
        .map(|config| {
            let template = config.launch_template_specification().unwrap();
            assert_eq!(template.version(), Some("$Latest"));
            (template.launch_template_name().unwrap(), config.overrides().len())
        })
        .collect();
    assert_eq!(configured, [("b", 2), ("a", 1)]);
    let first = &input.launch_template_configs()[0].overrides()[0];
    assert_eq!((first.priority(), first.image_id()), (Some(0.096), Some("ami-1")));
    let tagged: Vec<_> = input.tag_specifications().iter().filter_map(|tags| tags.resource_type()).collect();
    assert_eq!(tagged, [&sdk::ResourceType::Fleet, &sdk::ResourceType::Instance, &sdk::ResourceType::Volume]);
}

#[test]
fn each_kind_requests_its_capacity_type() {
    for (kind, strategy, capacity, options) in [
        (FleetKind::Spot, Strategy::PriceCapacityOptimized, "spot", [true, false, false]),
        (FleetKind::Spot, Strategy::CapacityOptimizedPrioritized, "spot", [true, false, false]),
        (FleetKind::OnDemand, Strategy::LowestPrice, "on-demand", [false, true, false]),
        (FleetKind::OnDemand, Strategy::Prioritized, "on-demand", [false, true, false]),
        (FleetKind::CapacityBlock, Strategy::None, "capacity-block", [false, false, false]),
        (FleetKind::InterruptibleReservation, Strategy::None, "reserved-capacity", [false, false, true]),
    ] {
        let input = input(&request(kind, strategy)).build().unwrap();
        let target = input.target_capacity_specification().unwrap();
        assert_eq!(target.default_target_capacity_type().map(|it| it.as_str()), Some(capacity), "{kind:?}");
        assert_eq!(target.total_target_capacity(), Some(3));
        let there = [
            input.spot_options().is_some(),
            input.on_demand_options().is_some(),
            input.reserved_capacity_options().is_some(),
        ];
        assert_eq!(there, options, "{kind:?} {strategy:?}");
    }
}

#[test]
fn every_instance_carries_its_group_s_override() {
    let chosen = sdk::LaunchTemplateAndOverridesResponse::builder()
        .overrides(
            sdk::FleetLaunchTemplateOverrides::builder()
                .availability_zone("us-west-2a")
                .subnet_id("subnet-1")
                .image_id("ami-1")
                .instance_type(sdk::InstanceType::M5Large)
                .build(),
        )
        .build();
    let output = CreateFleetOutput::builder()
        .instances(
            sdk::CreateFleetInstance::builder()
                .launch_template_and_overrides(chosen.clone())
                .instance_ids("i-1")
                .instance_ids("i-2")
                .build(),
        )
        .errors(
            sdk::CreateFleetError::builder()
                .error_code("InsufficientInstanceCapacity")
                .launch_template_and_overrides(chosen)
                .build(),
        )
        .errors(sdk::CreateFleetError::builder().error_code("FleetQuotaExceeded").build())
        .build();
    let answer = answer(&output);
    let ids: Vec<&str> = answer.instances.iter().map(|instance| instance.id.as_str()).collect();
    assert_eq!(ids, ["i-1", "i-2"]);
    assert!(answer.instances.iter().all(|it| it.instance_type == "m5.large" && it.image == "ami-1"));
    assert_eq!((answer.errors[0].zone.as_str(), answer.errors[1].instance_type.as_str()), ("us-west-2a", ""));
}
