//! Every call of the API, with all its pages.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::types::{self as sdk, LocationType, ResourceType};
use aws_sdk_sqs::types::MessageSystemAttributeName;
use fleetwright_aws::calls::{
    AwsApi, AwsError, ClusterInfo, Figure, Filter, FleetAnswer, FleetRequest, GroupInfo, Image, InstanceInfo,
    InstanceStatus, InstanceTrial, InstanceTypeDescription, LaunchTemplate, Message, PlacementGroup, Price,
    ProfileInfo, ReservationInfo, SoldIn, SubnetInfo, TagSet, TemplateData, ZonalShift,
};
use fleetwright_aws::prices::product;

use crate::convert::{filters, iam_tags, tagged, text, time};
use crate::{
    SdkClient, error, fleet, instance, instance_trial, instance_types, network, prices, queues, template,
};

/// The states of instances that exist.
const ALIVE: [&str; 5] = ["pending", "running", "stopping", "stopped", "shutting-down"];
/// Scheduled events that terminate or interrupt an instance.
const EVENTS: [&str; 5] =
    ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"];

/// Longest wait for a message, in seconds.
const WAIT_MAX: i32 = 20;

/// Collects the items of all pages, each converted by `convert`.
fn gather<T, U, E>(
    items: Result<Vec<T>, SdkError<E>>,
    convert: impl Fn(&T) -> Option<U>,
) -> Result<Vec<U>, AwsError>
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    Ok(items.map_err(error::of)?.iter().filter_map(convert).collect())
}

/// The result of a dry run: AWS returns a special error code if the call is permitted.
fn allowed<T, E>(answer: Result<T, SdkError<E>>) -> Result<(), AwsError>
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match answer.map_err(error::of) {
        Ok(_) => Ok(()),
        Err(refusal) if refusal.code == "DryRunOperation" => Ok(()),
        Err(refusal) => Err(refusal),
    }
}

/// The more severe of two reports about an instance: each query returns a part.
fn merge(into: &mut BTreeMap<String, InstanceStatus>, status: InstanceStatus) {
    let known = into.entry(status.id.clone()).or_insert_with(|| status.clone());
    known.instance_impaired_since = known.instance_impaired_since.or(status.instance_impaired_since);
    known.system_impaired_since = known.system_impaired_since.or(status.system_impaired_since);
    for event in status.events {
        if !known.events.contains(&event) {
            known.events.push(event);
        }
    }
}

fn profile(found: &aws_sdk_iam::types::InstanceProfile) -> ProfileInfo {
    ProfileInfo {
        name: found.instance_profile_name().to_owned(),
        path: found.path().to_owned(),
        roles: found.roles().iter().map(|role| role.role_name().to_owned()).collect(),
        tags: iam_tags(found.tags()),
        created: time(found.create_date()),
    }
}

#[async_trait]
impl AwsApi for SdkClient {
    fn figures(&self) -> Vec<Figure> {
        self.requests.take()
    }

    async fn instance_types(&self) -> Result<Vec<InstanceTypeDescription>, AwsError> {
        let wanted = filters(&[
            Filter::new("supported-virtualization-type", ["hvm"]),
            Filter::new("processor-info.supported-architecture", ["x86_64", "arm64"]),
        ]);
        let pages = self.ec2.describe_instance_types().set_filters(wanted).into_paginator().page_size(100);
        gather(pages.items().send().try_collect().await, instance_types::instance_type)
    }

    async fn sold_in(&self) -> Result<Vec<SoldIn>, AwsError> {
        let asked = self.ec2.describe_instance_type_offerings().location_type(LocationType::AvailabilityZone);
        let pages = asked.into_paginator().page_size(1000);
        gather(pages.items().send().try_collect().await, |offering: &sdk::InstanceTypeOffering| {
            let instance_type = offering.instance_type()?.as_str().to_owned();
            Some(SoldIn { instance_type, zone: offering.location()?.to_owned() })
        })
    }

    async fn subnets(&self, wanted: &[Filter]) -> Result<Vec<SubnetInfo>, AwsError> {
        let pages = self.ec2.describe_subnets().set_filters(filters(wanted)).into_paginator().page_size(500);
        gather(pages.items().send().try_collect().await, network::subnet)
    }

    async fn security_groups(&self, wanted: &[Filter]) -> Result<Vec<GroupInfo>, AwsError> {
        let asked = self.ec2.describe_security_groups().set_filters(filters(wanted));
        gather(asked.into_paginator().page_size(500).items().send().try_collect().await, network::group)
    }

    async fn placement_groups(
        &self,
        id: Option<&str>,
        name: Option<&str>,
    ) -> Result<Vec<PlacementGroup>, AwsError> {
        let available = filters(&[Filter::new("state", ["available"])]);
        let one = |wanted: Option<&str>| wanted.map(|wanted| vec![wanted.to_owned()]);
        let asked = self.ec2.describe_placement_groups().set_filters(available);
        let with_causes =
            asked.set_group_ids(one(id)).set_group_names(one(name)).send().await.map_err(error::of)?;
        Ok(with_causes.placement_groups().iter().filter_map(network::placement_group).collect())
    }

    async fn images(&self, owners: &[String], wanted: &[Filter]) -> Result<Vec<Image>, AwsError> {
        let mut wanted = wanted.to_vec();
        wanted.push(Filter::new("state", ["available"]));
        let owners = (!owners.is_empty()).then(|| owners.to_vec());
        let asked = self.ec2.describe_images().set_owners(owners).set_filters(filters(&wanted));
        let pages = asked.include_deprecated(true).into_paginator().page_size(1000);
        gather(pages.items().send().try_collect().await, network::image)
    }

    async fn reservations(
        &self,
        id: Option<&str>,
        wanted: &[Filter],
    ) -> Result<Vec<ReservationInfo>, AwsError> {
        let mut wanted = wanted.to_vec();
        wanted.push(Filter::new("state", ["active", "scheduled"]));
        let asked = self.ec2.describe_capacity_reservations().set_filters(filters(&wanted));
        let found = match id {
            // EC2 rejects a page size beside ids.
            Some(id) => {
                asked.capacity_reservation_ids(id).into_paginator().items().send().try_collect().await
            }
            None => asked.into_paginator().page_size(1000).items().send().try_collect().await,
        };
        gather(found, network::reservation)
    }

    async fn parameter(&self, name: &str) -> Result<String, AwsError> {
        let with_causes = self.ssm.get_parameter().name(name).send().await.map_err(error::of)?;
        let value = with_causes.parameter.and_then(|parameter| parameter.value);
        value.ok_or_else(|| AwsError::new("ParameterNotFound", &format!("{name} has no value")))
    }

    async fn create_fleet(&self, request: &FleetRequest) -> Result<FleetAnswer, AwsError> {
        let with_causes = fleet::input(request).send_with(&self.fleets).await.map_err(error::of)?;
        Ok(fleet::answer(&with_causes))
    }

    async fn try_fleet(&self, request: &FleetRequest) -> Result<(), AwsError> {
        allowed(fleet::input(request).dry_run(true).send_with(&self.ec2).await)
    }

    async fn try_instance(&self, trial: &InstanceTrial<'_>) -> Result<(), AwsError> {
        allowed(instance_trial::input(trial).send_with(&self.ec2).await)
    }

    async fn instances(&self, ids: &[String], wanted: &[Filter]) -> Result<Vec<InstanceInfo>, AwsError> {
        let mut wanted = wanted.to_vec();
        wanted.push(Filter::new("instance-state-name", ALIVE));
        let asked = self.ec2.describe_instances().set_filters(filters(&wanted));
        let found = if ids.is_empty() {
            asked.into_paginator().page_size(1000).items().send().try_collect().await
        } else {
            asked.set_instance_ids(Some(ids.to_vec())).into_paginator().items().send().try_collect().await
        };
        let groups = gather(found, |group: &sdk::Reservation| Some(group.instances().to_vec()))?;
        Ok(groups.iter().flatten().filter_map(instance::instance).collect())
    }

    async fn instance_statuses(&self) -> Result<Vec<InstanceStatus>, AwsError> {
        let mut found = BTreeMap::new();
        for filter in [
            Filter::new("instance-status.status", ["impaired"]),
            Filter::new("system-status.status", ["impaired"]),
            Filter::new("event.code", EVENTS),
        ] {
            let asked = self.ec2.describe_instance_status().set_filters(filters(&[filter]));
            let pages = asked.into_paginator().page_size(1000);
            for status in gather(pages.items().send().try_collect().await, network::status)? {
                merge(&mut found, status);
            }
        }
        Ok(found.into_values().collect())
    }

    async fn terminate(&self, ids: &[String]) -> Result<(), AwsError> {
        let asked = self.ec2.terminate_instances().set_instance_ids(Some(ids.to_vec()));
        asked.send().await.map(drop).map_err(error::of)
    }

    async fn create_tags(&self, id: &str, tags: &TagSet) -> Result<(), AwsError> {
        let asked = self.ec2.create_tags().resources(id).set_tags(Some(crate::convert::ec2_tags(tags)));
        asked.send().await.map(drop).map_err(error::of)
    }

    async fn launch_templates(&self, wanted: &[Filter]) -> Result<Vec<LaunchTemplate>, AwsError> {
        let asked = self.ec2.describe_launch_templates().set_filters(filters(wanted));
        gather(
            asked.into_paginator().page_size(200).items().send().try_collect().await,
            instance::launch_template,
        )
    }

    async fn create_launch_template(
        &self,
        name: &str,
        data: &TemplateData,
        tags: &TagSet,
    ) -> Result<(), AwsError> {
        let asked = self.ec2.create_launch_template().launch_template_name(name);
        let asked = asked.launch_template_data(template::data(data));
        let asked = asked.set_tag_specifications(tagged(&[ResourceType::LaunchTemplate], tags));
        asked.send().await.map(drop).map_err(error::of)
    }

    async fn delete_launch_template(&self, name: &str) -> Result<(), AwsError> {
        let asked = self.ec2.delete_launch_template().launch_template_name(name);
        asked.send().await.map(drop).map_err(error::of)
    }

    async fn on_demand_prices(&self, region: &str) -> Result<Vec<(String, Price)>, AwsError> {
        use aws_sdk_pricing::types::{Filter as Field, FilterType};
        let Some(client) = &self.prices else {
            return Err(AwsError::new("EndpointNotFound", "no endpoint has the prices of this region"));
        };
        let mut found = Vec::new();
        for kind in prices::KINDS {
            let mut asked = client.get_products().service_code("AmazonEC2");
            for (field, value) in prices::filters(region, kind) {
                let field = Field::builder().r#type(FilterType::TermMatch).field(field).value(value).build();
                asked = asked
                    .filters(field.map_err(|error| AwsError::new("InvalidRequest", &error.to_string()))?);
            }
            let pages = asked.into_paginator().page_size(100);
            let documents = pages.items().send().try_collect().await;
            found.extend(gather(documents, |document: &String| product(document))?);
        }
        Ok(found)
    }

    async fn spot_prices(&self) -> Result<Vec<((String, String), Price)>, AwsError> {
        let now = aws_sdk_ec2::primitives::DateTime::from_secs(self.clock.now().as_second());
        let asked = self.ec2.describe_spot_price_history().start_time(now);
        let asked = asked.product_descriptions("Linux/UNIX").product_descriptions("Linux/UNIX (Amazon VPC)");
        gather(
            asked.into_paginator().page_size(1000).items().send().try_collect().await,
            |spot: &sdk::SpotPrice| {
                let price = Price::from_dollars(spot.spot_price()?.parse().ok()?).ok()?;
                Some((
                    (spot.instance_type()?.as_str().to_owned(), spot.availability_zone()?.to_owned()),
                    price,
                ))
            },
        )
    }

    async fn cluster(&self, name: &str) -> Result<ClusterInfo, AwsError> {
        let with_causes = self.eks.describe_cluster().name(name).send().await.map_err(error::of)?;
        let missing =
            || AwsError::new("ResourceNotFoundException", &format!("EKS returned no cluster {name}"));
        let cluster = with_causes.cluster.ok_or_else(missing)?;
        let network = cluster.kubernetes_network_config();
        Ok(ClusterInfo {
            arn: text(cluster.arn()),
            endpoint: text(cluster.endpoint()),
            ca_bundle: text(cluster.certificate_authority().and_then(|authority| authority.data())),
            version: text(cluster.version()),
            service_cidr_v4: network.and_then(|network| network.service_ipv4_cidr()).map(str::to_owned),
            service_cidr_v6: network.and_then(|network| network.service_ipv6_cidr()).map(str::to_owned),
        })
    }

    async fn zonal_shifts(&self, cluster_arn: &str) -> Result<Vec<ZonalShift>, AwsError> {
        let asked = self.shifts.get_managed_resource().resource_identifier(cluster_arn);
        let with_causes = asked.send().await.map_err(error::of)?;
        let shift = |shift: &aws_sdk_arczonalshift::types::ZonalShiftInResource| ZonalShift {
            zone_id: shift.away_from().to_owned(),
            status: shift.applied_status().as_str().to_owned(),
            expires: time(shift.expiry_time()),
        };
        // AWS begins and ends these itself: they have no expiry.
        let autoshift = |shift: &aws_sdk_arczonalshift::types::AutoshiftInResource| ZonalShift {
            zone_id: shift.away_from().to_owned(),
            status: shift.applied_status().as_str().to_owned(),
            expires: None,
        };
        let shifts = with_causes.zonal_shifts().iter().map(shift);
        Ok(shifts.chain(with_causes.autoshifts().iter().map(autoshift)).collect())
    }

    async fn receive(&self, queue: &str, wait: Duration) -> Result<Vec<Message>, AwsError> {
        const DELIVERIES: MessageSystemAttributeName = MessageSystemAttributeName::ApproximateReceiveCount;
        let url = self.queues.url(&self.sqs, queue).await?;
        let seconds = i32::try_from(wait.as_secs()).map_or(WAIT_MAX, |seconds| seconds.min(WAIT_MAX));
        let asked = self.sqs.receive_message().queue_url(url).max_number_of_messages(10);
        let asked = asked.message_system_attribute_names(DELIVERIES);
        let with_causes =
            asked.visibility_timeout(20).wait_time_seconds(seconds).send().await.map_err(|refused| {
                let error = error::of(refused);
                if error.is_not_found() {
                    self.queues.forget(queue);
                }
                error
            })?;
        let message = |message: &aws_sdk_sqs::types::Message| {
            let received = message.attributes().and_then(|all| all.get(&DELIVERIES)?.parse().ok());
            Some(Message {
                receipt: message.receipt_handle()?.to_owned(),
                body: text(message.body()),
                received: received.unwrap_or_default(),
            })
        };
        Ok(with_causes.messages().iter().filter_map(message).collect())
    }

    async fn delete_messages(
        &self,
        queue: &str,
        receipts: &[String],
    ) -> Result<Vec<Result<(), AwsError>>, AwsError> {
        let url = self.queues.url(&self.sqs, queue).await?;
        let entries = queues::entries(receipts)?;
        let asked = self.sqs.delete_message_batch().queue_url(url).set_entries(Some(entries));
        let with_causes = asked.send().await.map_err(error::of)?;
        Ok(queues::outcomes(receipts.len(), with_causes.successful(), with_causes.failed()))
    }

    async fn profile(&self, name: &str) -> Result<ProfileInfo, AwsError> {
        let asked = self.iam.get_instance_profile().instance_profile_name(name);
        let with_causes = asked.send().await.map_err(error::of)?;
        let missing = || AwsError::new("NoSuchEntity", &format!("IAM returned no instance profile {name}"));
        with_causes.instance_profile().map(profile).ok_or_else(missing)
    }

    async fn profiles(&self, path: &str) -> Result<Vec<ProfileInfo>, AwsError> {
        let pages = self.iam.list_instance_profiles().path_prefix(path).into_paginator().page_size(1000);
        gather(pages.items().send().try_collect().await, |found| Some(profile(found)))
    }

    async fn create_profile(&self, name: &str, path: &str, tags: &TagSet) -> Result<(), AwsError> {
        let mut asked = self.iam.create_instance_profile().instance_profile_name(name).path(path);
        for (key, value) in tags {
            let tag = aws_sdk_iam::types::Tag::builder().key(key).value(value).build();
            asked = asked.tags(tag.map_err(|error| AwsError::new("InvalidRequest", &error.to_string()))?);
        }
        asked.send().await.map(drop).map_err(error::of)
    }

    async fn add_role(&self, profile: &str, role: &str) -> Result<(), AwsError> {
        let asked = self.iam.add_role_to_instance_profile().instance_profile_name(profile).role_name(role);
        asked.send().await.map(drop).map_err(error::of)
    }

    async fn remove_role(&self, profile: &str, role: &str) -> Result<(), AwsError> {
        let asked =
            self.iam.remove_role_from_instance_profile().instance_profile_name(profile).role_name(role);
        asked.send().await.map(drop).map_err(error::of)
    }

    async fn delete_profile(&self, name: &str) -> Result<(), AwsError> {
        let asked = self.iam.delete_instance_profile().instance_profile_name(name);
        asked.send().await.map(drop).map_err(error::of)
    }
}

#[cfg(test)]
mod tests {
    //! An instance that several queries report.
    use super::*;

    #[test]
    fn reports_of_queries_are_merged() {
        let status = |events: &[&str], instance: Option<i64>| InstanceStatus {
            id: "i-1".to_owned(),
            instance_impaired_since: instance.and_then(|second| jiff::Timestamp::from_second(second).ok()),
            system_impaired_since: None,
            events: events.iter().map(|event| (*event).to_owned()).collect(),
        };
        let mut found = BTreeMap::new();
        for part in
            [status(&["instance-stop"], None), status(&[], Some(60)), status(&["instance-stop"], Some(90))]
        {
            merge(&mut found, part);
        }
        assert_eq!(found["i-1"], status(&["instance-stop"], Some(60)));
    }
}
