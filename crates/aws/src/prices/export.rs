//! What `fleetwright prices export` writes: everything that AWS tells of a region's prices, for networks that cannot ask.

use super::{Prices, pricing_region, write};
use crate::calls::{AwsApi, AwsError};

/// A file of prices, and what is missing from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The file.
    pub text: String,
    /// What AWS did not tell, for people; the tables that come with the program stand for it.
    pub missing: Vec<String>,
}

/// Asks for all prices of a region. One market's failure does not keep the other's prices back.
///
/// # Errors
/// Where AWS tells neither.
pub async fn export(api: &dyn AwsApi, region: &str) -> Result<Exported, AwsError> {
    let mut prices = Prices::of_region(region);
    let mut missing = Vec::new();
    let asked = pricing_region(region, false).is_some();
    let on_demand = if asked { Some(api.on_demand_prices(region).await) } else { None };
    let spot = api.spot_prices().await;
    match on_demand {
        Some(Err(error)) if spot.is_err() => return Err(error),
        Some(Err(error)) => missing.push(format!("on-demand prices: {error}")),
        Some(Ok(told)) if told.is_empty() => missing.push("on-demand prices: AWS tells none".to_owned()),
        Some(Ok(told)) => {
            prices.update_on_demand(told);
        }
        None => missing.push(format!("on-demand prices: no price list answers for {region}")),
    }
    match spot {
        Err(error) => missing.push(format!("spot prices: {error}")),
        Ok(told) if told.is_empty() => missing.push("spot prices: AWS tells none".to_owned()),
        Ok(told) => {
            prices.update_spot(told);
        }
    }
    Ok(Exported { text: write(&prices, region), missing })
}

#[cfg(test)]
mod tests {
    //! What is exported is what the provider reads.
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::time::Duration;

    use fleetwright_core::clock::Clock;
    use fleetwright_core::model::Price;
    use jiff::Timestamp;

    use super::*;
    use crate::prices::parse;
    use crate::testing::{Call, FakeAws};

    struct Still;

    impl Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }
        fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn a_market_that_is_silent_is_named() {
        let cloud = FakeAws::new(Arc::new(Still));
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
        assert_eq!(export(&cloud, "us-gov-west-1").await.unwrap().missing.len(), 1, "nobody is asked");
        cloud.deny(Call::SpotPrices);
        assert!(export(&cloud, "us-west-2").await.is_err());
    }
}
