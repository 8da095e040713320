//! The instance types and prices of a region, read from the account.

use std::collections::BTreeMap;

use anyhow::ensure;
use fleetwright_aws::{
    calls::{AwsApi as _, ReservationInfo},
    offline::Table,
    prices::{Prices, pricing_region, write},
};

use super::{block_on, clock, connect, note};
use crate::settings::Values;

/// How many more instances each reservation can hold; `None` where AWS does not say.
type Reservations = Option<BTreeMap<String, u32>>;

/// Reads instance types, where they are offered, and prices of a region, and returns them with its name: `DescribeInstanceTypes`, `DescribeInstanceTypeOfferings`,
/// `pricing:GetProducts` and `DescribeSpotPriceHistory`; and what `DescribeCapacityReservations` says, if IAM allows it.
///
/// # Errors
/// If AWS refuses one of the others or returns nothing.
pub(crate) fn live_catalogue(values: &Values) -> anyhow::Result<(Table, String, Reservations)> {
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
        let reservations = match sdk.reservations(None, &[]).await {
            Ok(found) => Some(found.into_iter().map(left).collect()),
            Err(error) => {
                note(&format!("capacity reservations are not read: {error}"))?;
                None
            }
        };
        Ok((table, region, reservations))
    })
}

/// A reservation's id, and how many more instances it can hold now.
fn left(info: ReservationInfo) -> (String, u32) {
    let left = if info.starts.is_none() { info.available } else { 0 };
    (info.id, left)
}
