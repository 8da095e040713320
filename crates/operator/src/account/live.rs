//! The instance types, prices and reservations of a region, and instances of the cluster's name, read from the account.

use anyhow::ensure;
use fleetwright_aws::{
    calls::{AwsApi as _, Filter},
    nodeclass::lookups,
    offline::{FoundReservations, Table},
    prices::{Prices, pricing_region, write},
};
use fleetwright_aws_api::{ec2nodeclass::Ec2NodeClassSpec, labels};
use fleetwright_aws_tools::audit;
use serde_json::Value;

use super::{block_on, clock, connect, note};
use crate::settings::Values;

/// Reads instance types, where they are offered, and prices of a region, and returns them with its name: `DescribeInstanceTypes`, `DescribeInstanceTypeOfferings`,
/// `pricing:GetProducts` and `DescribeSpotPriceHistory`.
///
/// # Errors
/// If AWS refuses one of them or returns nothing.
pub(crate) fn live_catalogue(values: &Values) -> anyhow::Result<(Table, String)> {
    block_on(async {
        let sdk = connect(values).await?;
        let region = sdk.region().to_owned();
        let (types, sold_in) = (sdk.instance_types().await?, sdk.sold_in().await?);
        ensure!(!types.is_empty() && !sold_in.is_empty(), "EC2 returned no instance types of {region}");
        let mut prices = Prices::default();
        if pricing_region(&region, values.bool("ISOLATED_VPC")).is_some() {
            prices.update_on_demand(sdk.on_demand_prices(&region).await?);
        } else {
            note(&format!("no price list covers {region}: the built-in one is used"))?;
            prices = Prices::built_in(&region).unwrap_or_default();
        }
        prices.update_spot(sdk.spot_prices().await?);
        let date = clock().now().strftime("%Y-%m-%d").to_string();
        let mut table = Table::of_region((format!("EC2 in {region}"), date), &region, types, sold_in);
        table.set_prices(write(&prices, &region));
        Ok((table, region))
    })
}

/// Reads the reservations that an EC2NodeClass selects (`DescribeCapacityReservations`); `None` with a note if AWS does not say.
///
/// # Errors
/// If there is no region, or there are no credentials.
pub(crate) fn live_reservations(
    values: &Values,
    spec: &Ec2NodeClassSpec,
) -> anyhow::Result<Option<FoundReservations>> {
    block_on(async {
        match lookups::reservations(&connect(values).await?, spec).await {
            Ok(found) => Ok(Some(FoundReservations { found, at: clock().now() })),
            Err(error) => {
                note(&format!("capacity reservations are not read: {error}"))?;
                Ok(None)
            }
        }
    })
}

/// The instances of the account that carry the cluster's name and are of none of the NodeClaims (`DescribeInstances`).
///
/// # Errors
/// If EC2 does not list them.
pub(crate) fn unclaimed(claims: &[&Value], values: &Values) -> anyhow::Result<Vec<String>> {
    let cluster = values.text("CLUSTER_NAME");
    if cluster.is_empty() {
        note("L107 is not checked: --cluster-name is not set")?;
        return Ok(Vec::new());
    }
    let name = Filter::new(format!("tag:{}", labels::TAG_CLUSTER_NAME), [cluster]);
    let instances = block_on(async { Ok(connect(values).await?.instances(&[], &[name]).await?) })?;
    Ok(audit::unclaimed(&instances, claims))
}
