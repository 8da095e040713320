//! The file that `fleetwright prices export` writes: all prices of a region, for networks without access to the pricing API.

use fleetwright_aws::calls::{AwsApi, AwsError};
use fleetwright_aws::prices::{Prices, pricing_region, write};

/// A file of prices, and what is missing from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceFile {
    /// The content of the file.
    pub text: String,
    /// Prices that AWS did not return; the built-in tables replace them.
    pub missing: Vec<String>,
}

/// Reads all prices of a region. If one market fails, the prices of the other are still exported.
///
/// # Errors
/// If both markets fail.
pub async fn export(api: &dyn AwsApi, region: &str) -> Result<PriceFile, AwsError> {
    let mut prices = Prices::of_region(region);
    let mut missing = Vec::new();
    let has_price_list = pricing_region(region, false).is_some();
    let on_demand = if has_price_list { Some(api.on_demand_prices(region).await) } else { None };
    let spot = api.spot_prices().await;
    match on_demand {
        Some(Err(error)) if spot.is_err() => return Err(error),
        Some(Err(error)) => missing.push(format!("on-demand prices: {error}")),
        Some(Ok(reported)) if reported.is_empty() => {
            missing.push("on-demand prices: AWS returned none".to_owned())
        }
        Some(Ok(reported)) => {
            prices.update_on_demand(reported);
        }
        None => missing.push(format!("on-demand prices: no price list covers {region}")),
    }
    match spot {
        Err(error) => missing.push(format!("spot prices: {error}")),
        Ok(reported) if reported.is_empty() => missing.push("spot prices: AWS returned none".to_owned()),
        Ok(reported) => {
            prices.update_spot(reported);
        }
    }
    Ok(PriceFile { text: write(&prices, region), missing })
}

#[cfg(test)]
mod tests {
    //! The provider reads the exported file.
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::time::Duration;

    use fleetwright_core::clock::Clock;
    use fleetwright_core::model::Price;
    use jiff::Timestamp;

    use super::*;
    use fleetwright_aws::prices::parse;
    use fleetwright_aws::testing::{Call, FakeAws};

    struct FixedClock;

    impl Clock for FixedClock {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }
        fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn a_market_without_prices_is_reported() {
        let cloud = FakeAws::new(Arc::new(FixedClock));
        let price = Price::from_nanos(123_456_789);
        let spot = (("m5.large".to_owned(), "us-west-2a".to_owned()), price);
        cloud.set_prices(vec![("m5.large".to_owned(), price)], vec![spot]);
        let whole = export(&cloud, "us-west-2").await.unwrap();
        let read = parse(&whole.text, "us-west-2").unwrap();
        assert_eq!(
            (read.on_demand("m5.large"), read.spot("m5.large", "us-west-2a")),
            (Some(price), Some(price))
        );
        assert_eq!((read.on_demand("c5.large").is_some(), whole.missing.len()), (true, 0));
        cloud.deny(Call::OnDemandPrices);
        assert_eq!(export(&cloud, "us-west-2").await.unwrap().missing.len(), 1);
        assert_eq!(
            export(&cloud, "us-gov-west-1").await.unwrap().missing.len(),
            1,
            "no price list covers the region"
        );
        cloud.deny(Call::SpotPrices);
        assert!(export(&cloud, "us-west-2").await.is_err());
    }
}
