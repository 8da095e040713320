//! The provider's own loops, one file for each that is more than a call.

mod interruptions;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fleetwright_core::cloud::{CloudError, Outlook, ProviderStep, Round};

use super::{AwsProvider, cloud_error};
use crate::prices::pricing_region;
use interruptions::Interruptions;

/// How often types and prices are read.
const HALF_A_DAY: Duration = Duration::from_secs(12 * 3600);

/// Every loop.
pub(super) fn all(provider: &AwsProvider) -> Vec<Arc<dyn ProviderStep>> {
    let mut all: Vec<Arc<dyn ProviderStep>> =
        vec![Arc::new(Machines(provider.clone())), Arc::new(Pricing(provider.clone()))];
    if let Some(queue) = &provider.settings.interruption_queue {
        all.push(Arc::new(Interruptions { provider: provider.clone(), queue: queue.clone() }));
    }
    all
}

/// What the region sells.
struct Machines(AwsProvider);

#[async_trait]
impl ProviderStep for Machines {
    fn name(&self) -> &'static str {
        "providers.instancetype"
    }

    async fn run(&self, _: &Outlook) -> Result<Round, CloudError> {
        self.0.refresh_machines().await?;
        Ok(Round::quiet(HALF_A_DAY))
    }
}

/// What it costs.
struct Pricing(AwsProvider);

#[async_trait]
impl ProviderStep for Pricing {
    fn name(&self) -> &'static str {
        "providers.pricing"
    }

    async fn run(&self, _: &Outlook) -> Result<Round, CloudError> {
        let settings = &self.0.settings;
        // One market's failure does not keep the other's prices back.
        let spot = self.0.api.spot_prices().await;
        let spot = spot.map(|told| self.0.with_prices(|prices| prices.update_spot(told)));
        if pricing_region(&settings.region, settings.isolated_vpc).is_some() {
            let told = self.0.api.on_demand_prices(&settings.region).await;
            let told = told.map_err(|error| cloud_error(&error, "pricing:GetProducts"))?;
            self.0.with_prices(|prices| prices.update_on_demand(told));
        }
        spot.map_err(|error| cloud_error(&error, "ec2:DescribeSpotPriceHistory"))?;
        Ok(Round::quiet(HALF_A_DAY))
    }
}
