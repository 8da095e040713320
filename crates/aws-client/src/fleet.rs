//! `CreateFleet`: converts requests to the SDK's input, and its output to answers.

use aws_sdk_ec2::operation::create_fleet::{CreateFleetOutput, builders::CreateFleetInputBuilder};
use aws_sdk_ec2::types as sdk;
use fleetwright_aws::calls::{
    FleetAnswer, FleetError, FleetInstance, FleetKind, FleetRequest, Override, Strategy,
};

use crate::convert::{tagged, text};

/// The input of an instant fleet, with one configuration per launch template.
pub(crate) fn input(request: &FleetRequest) -> CreateFleetInputBuilder {
    use sdk::DefaultTargetCapacityType as Kind;
    let kind = match request.kind {
        FleetKind::Spot => Kind::Spot,
        FleetKind::OnDemand => Kind::OnDemand,
        FleetKind::CapacityBlock => Kind::CapacityBlock,
        FleetKind::InterruptibleReservation => Kind::ReservedCapacity,
    };
    let target = sdk::TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(i32::try_from(request.count).unwrap_or(i32::MAX))
        .default_target_capacity_type(kind)
        .build();
    let kinds = [sdk::ResourceType::Fleet, sdk::ResourceType::Instance, sdk::ResourceType::Volume];
    let input = CreateFleetInputBuilder::default()
        .r#type(sdk::FleetType::Instant)
        .client_token(&request.token)
        .target_capacity_specification(target)
        .set_launch_template_configs(Some(configurations(&request.overrides)))
        .set_tag_specifications(tagged(&kinds, &request.tags))
        .set_context(request.context.clone());
    strategy(input, request)
}

fn strategy(input: CreateFleetInputBuilder, request: &FleetRequest) -> CreateFleetInputBuilder {
    let spot = |strategy| {
        input.clone().spot_options(sdk::SpotOptionsRequest::builder().allocation_strategy(strategy).build())
    };
    let on_demand = |strategy| {
        input
            .clone()
            .on_demand_options(sdk::OnDemandOptionsRequest::builder().allocation_strategy(strategy).build())
    };
    match request.strategy {
        Strategy::PriceCapacityOptimized => spot(sdk::SpotAllocationStrategy::PriceCapacityOptimized),
        Strategy::CapacityOptimizedPrioritized => {
            spot(sdk::SpotAllocationStrategy::CapacityOptimizedPrioritized)
        }
        Strategy::LowestPrice => on_demand(sdk::FleetOnDemandAllocationStrategy::LowestPrice),
        Strategy::Prioritized => on_demand(sdk::FleetOnDemandAllocationStrategy::Prioritized),
        Strategy::None if request.kind == FleetKind::InterruptibleReservation => {
            let interruptible = sdk::FleetReservationType::InterruptibleCapacityReservation;
            input.reserved_capacity_options(
                sdk::ReservedCapacityOptionsRequest::builder().reservation_types(interruptible).build(),
            )
        }
        Strategy::None => input,
    }
}

/// Overrides by launch template, in the order in which the templates first occur.
fn configurations(overrides: &[Override]) -> Vec<sdk::FleetLaunchTemplateConfigRequest> {
    let mut templates: Vec<&str> = Vec::new();
    for wanted in overrides {
        if !templates.contains(&wanted.template.as_str()) {
            templates.push(&wanted.template);
        }
    }
    let of = |template: &str| {
        let specification = sdk::FleetLaunchTemplateSpecificationRequest::builder()
            .launch_template_name(template)
            .version("$Latest")
            .build();
        let own = overrides.iter().filter(|wanted| wanted.template == template).map(one);
        sdk::FleetLaunchTemplateConfigRequest::builder()
            .launch_template_specification(specification)
            .set_overrides(Some(own.collect()))
            .build()
    };
    templates.into_iter().map(of).collect()
}

fn one(wanted: &Override) -> sdk::FleetLaunchTemplateOverridesRequest {
    sdk::FleetLaunchTemplateOverridesRequest::builder()
        .instance_type(sdk::InstanceType::from(wanted.instance_type.as_str()))
        .subnet_id(&wanted.subnet)
        .availability_zone(&wanted.zone)
        .image_id(&wanted.image)
        .priority(wanted.price.dollars())
        .build()
}

/// The answer of a call. EC2 returns the image and the subnet in the override that it chose.
pub(crate) fn answer(output: &CreateFleetOutput) -> FleetAnswer {
    let chosen = |found: Option<&sdk::LaunchTemplateAndOverridesResponse>| {
        found
            .and_then(|found| found.overrides().cloned())
            .unwrap_or_else(|| sdk::FleetLaunchTemplateOverrides::builder().build())
    };
    let instances = output.instances().iter().flat_map(|group| {
        let of = chosen(group.launch_template_and_overrides());
        let instance_type =
            group.instance_type().or_else(|| of.instance_type()).map(|it| it.as_str().to_owned());
        let zone = text(of.availability_zone().or_else(|| group.availability_zone()));
        let subnet = text(of.subnet_id().or_else(|| group.subnet_id()));
        let image = text(of.image_id());
        group.instance_ids().iter().map(move |id| FleetInstance {
            id: id.clone(),
            instance_type: instance_type.clone().unwrap_or_default(),
            zone: zone.clone(),
            subnet: subnet.clone(),
            image: image.clone(),
        })
    });
    let errors = output.errors().iter().map(|error| {
        let of = chosen(error.launch_template_and_overrides());
        FleetError {
            code: text(error.error_code()),
            message: text(error.error_message()),
            instance_type: of.instance_type().map(|it| it.as_str().to_owned()).unwrap_or_default(),
            zone: text(of.availability_zone()),
            subnet: text(of.subnet_id()),
        }
    });
    FleetAnswer { instances: instances.collect(), errors: errors.collect() }
}

#[cfg(test)]
mod tests;
