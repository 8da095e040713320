//! The EC2 look-ups of an EC2NodeClass, one function per part. An answer is complete or an error: a part of the queries cannot show what
//! is absent.

use fleetwright_aws_api::ec2nodeclass::{Ec2NodeClassSpec, PlacementGroupSelector};

use super::{reservations, security_group_queries, subnet_queries};
use crate::calls::{AwsApi, AwsError, GroupInfo, PlacementGroup, ReservationInfo, SubnetInfo};

/// Returns the subnets of an EC2NodeClass.
///
/// # Errors
/// If any query fails.
pub async fn subnets(api: &dyn AwsApi, spec: &Ec2NodeClassSpec) -> Result<Vec<SubnetInfo>, AwsError> {
    let mut all = Vec::new();
    for query in subnet_queries(&spec.subnet_selector_terms) {
        match api.subnets(&query).await {
            Ok(found) => all.extend(found),
            // Filters ignore ids that do not exist; some regions refuse the whole query.
            Err(error) if error.code == "InvalidSubnetID.NotFound" => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Returns the security groups of an EC2NodeClass.
///
/// # Errors
/// If any query fails.
pub async fn security_groups(api: &dyn AwsApi, spec: &Ec2NodeClassSpec) -> Result<Vec<GroupInfo>, AwsError> {
    let mut all = Vec::new();
    for query in security_group_queries(&spec.security_group_selector_terms) {
        match api.security_groups(&query).await {
            Ok(found) => all.extend(found),
            Err(error) if error.code == "InvalidGroup.NotFound" => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Returns the reservations of an EC2NodeClass, each once.
///
/// # Errors
/// If any query fails.
pub async fn reservations(
    api: &dyn AwsApi,
    spec: &Ec2NodeClassSpec,
) -> Result<Vec<ReservationInfo>, AwsError> {
    let mut all: Vec<ReservationInfo> = Vec::new();
    for query in reservations::queries(&spec.capacity_reservation_selector_terms) {
        match api.reservations(query.id.as_deref(), &query.filters).await {
            Ok(found) => all.extend(found),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all.dedup_by(|a, b| a.id == b.id);
    Ok(all)
}

/// Returns the placement group that a selector names; `None` if it does not exist.
///
/// # Errors
/// If the query fails.
pub async fn placement_group(
    api: &dyn AwsApi,
    selector: &PlacementGroupSelector,
) -> Result<Option<PlacementGroup>, AwsError> {
    match api.placement_groups(selector.id.as_deref(), selector.name.as_deref()).await {
        Ok(found) => Ok(found.into_iter().min_by(|a, b| a.id.cmp(&b.id))),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
