//! `RunInstances` as a dry run.

use aws_sdk_ec2::operation::run_instances::builders::RunInstancesInputBuilder;
use aws_sdk_ec2::types::{self as sdk, ResourceType};
use fleetwright_aws::calls::{InstanceTrial, TemplateInterface};

use crate::convert::tagged;

/// The input of a trial, as Karpenter sends it: the interfaces and their tags are sent although the template has them, because an
/// interface with a subnet replaces the template's.
pub(crate) fn input(trial: &InstanceTrial<'_>) -> RunInstancesInputBuilder {
    let template = sdk::LaunchTemplateSpecification::builder()
        .launch_template_name(trial.template)
        .version("$Latest")
        .build();
    let kinds = [ResourceType::Instance, ResourceType::Volume, ResourceType::NetworkInterface];
    let interfaces = trial.data.interfaces.iter().map(|own| interface(own, trial.subnet)).collect();
    RunInstancesInputBuilder::default()
        .dry_run(true)
        .min_count(1)
        .max_count(1)
        .launch_template(template)
        .instance_type(sdk::InstanceType::from(trial.instance_type))
        .metadata_options(metadata(&trial.data.metadata))
        .set_tag_specifications(tagged(&kinds, trial.tags))
        .set_network_interfaces(Some(interfaces))
}

fn interface(own: &TemplateInterface, subnet: &str) -> sdk::InstanceNetworkInterfaceSpecification {
    sdk::InstanceNetworkInterfaceSpecification::builder()
        .network_card_index(own.card)
        .device_index(own.device)
        .interface_type(&own.kind)
        .subnet_id(subnet)
        .set_groups(Some(own.security_groups.clone()))
        .build()
}

/// A policy of the organization may demand `ec2:MetadataHttpTokens`.
fn metadata([endpoint, ipv6, hops, tokens]: &[Option<String>; 4]) -> sdk::InstanceMetadataOptionsRequest {
    sdk::InstanceMetadataOptionsRequest::builder()
        .set_http_endpoint(endpoint.as_deref().map(Into::into))
        .set_http_protocol_ipv6(ipv6.as_deref().map(Into::into))
        .set_http_put_response_hop_limit(hops.as_deref().and_then(|hops| hops.parse().ok()))
        .set_http_tokens(tokens.as_deref().map(Into::into))
        .build()
}

#[cfg(test)]
mod tests {
    //! What a trial sends beside the name of the template.
    use fleetwright_aws::calls::{TagSet, TemplateData};

    use super::*;

    #[test]
    fn a_trial_has_all_interfaces_their_tags_and_the_metadata_options() {
        let card = |card, device, kind: &str| TemplateInterface {
            card,
            device,
            kind: kind.to_owned(),
            security_groups: vec!["sg-1".to_owned()],
            ..TemplateInterface::default()
        };
        let data = TemplateData {
            interfaces: vec![card(0, 0, "interface"), card(1, 1, "efa-only")],
            metadata: [None, None, None, Some("required".to_owned())],
            ..TemplateData::default()
        };
        let tags = TagSet::from([("team".to_owned(), "a".to_owned())]);
        let trial = InstanceTrial {
            template: "t",
            data: &data,
            instance_type: "m5.large",
            subnet: "subnet-1",
            tags: &tags,
        };
        let input = input(&trial);
        let interfaces = input.get_network_interfaces().as_deref().unwrap();
        let sent: Vec<_> = interfaces
            .iter()
            .map(|it| (it.network_card_index(), it.device_index(), it.interface_type(), it.subnet_id()))
            .collect();
        let subnet = Some("subnet-1");
        assert_eq!(
            sent,
            [(Some(0), Some(0), Some("interface"), subnet), (Some(1), Some(1), Some("efa-only"), subnet)]
        );
        let tagged = input.get_tag_specifications().as_deref().unwrap();
        assert!(tagged.iter().any(|it| it.resource_type() == Some(&ResourceType::NetworkInterface)));
        let tokens = input.get_metadata_options().as_ref().and_then(|options| options.http_tokens());
        assert_eq!(tokens, Some(&sdk::HttpTokensState::Required));
    }
}
