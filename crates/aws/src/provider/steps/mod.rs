//! The provider's own loops, one file for each that is more than a call.

mod figures;
mod health;
mod interruptions;
mod learning;
mod nodeclass;
mod reserved;
mod tagging;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fleetwright_core::cloud::{CloudError, Outlook, ProviderStep, Round};

use futures::lock::Mutex;

use super::AwsProvider;
use crate::nodeclass::profile;
use crate::prices::pricing_region;
use interruptions::Interruptions;
use nodeclass::NodeClasses;
pub(in crate::provider) use nodeclass::object;

/// How often types and prices are read.
const HALF_A_DAY: Duration = Duration::from_secs(12 * 3600);
/// When what IAM refuses is asked for again.
const DENIED_AGAIN: Duration = Duration::from_secs(1800);

/// Every loop.
pub(super) fn all(provider: &AwsProvider) -> Vec<Arc<dyn ProviderStep>> {
    let p = || provider.clone();
    let profiles: Arc<Mutex<profile::Memory>> = Arc::default();
    let mut all: Vec<Arc<dyn ProviderStep>> = vec![
        Arc::new(NodeClasses::new(p(), profiles.clone())),
        Arc::new(Machines(p())),
        Arc::new(Pricing(p())),
        Arc::new(learning::Capacity::new(p())),
        Arc::new(tagging::Tagging(p())),
        Arc::new(tagging::Partitions(p())),
        Arc::new(health::Statuses(p())),
        Arc::new(upkeep::Templates::new(p())),
        Arc::new(upkeep::Foreigners(p())),
        Arc::new(figures::Figures::new(p())),
    ];
    if provider.settings.reserved_capacity {
        all.push(Arc::new(reserved::CapacityType(p())));
        all.push(Arc::new(reserved::Expiration(p())));
    }
    if !provider.settings.isolated_vpc {
        all.push(Arc::new(upkeep::Profiles { provider: p(), profiles }));
    }
    if provider.settings.zonal_shift {
        all.push(Arc::new(health::ZonalShift(p())));
    }
    if let Some(queue) = &provider.settings.interruption_queue {
        all.push(Arc::new(Interruptions { provider: p(), queue: queue.clone() }));
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

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        let (settings, now) = (&self.0.settings, outlook.now);
        let mut round = Round::quiet(HALF_A_DAY);
        // One market's failure does not keep the other's prices back.
        let spot = self.0.api.spot_prices().await;
        let spot = self.0.permitted("ec2:DescribeSpotPriceHistory", spot, now);
        match &spot {
            Ok(Ok(told)) => {
                self.0.with_prices(|prices| prices.update_spot(told.iter().cloned()));
            }
            Ok(Err(notices)) => round.notices.extend(notices.iter().cloned()),
            Err(_) => {}
        }
        if pricing_region(&settings.region, settings.isolated_vpc).is_some() {
            let told = self.0.api.on_demand_prices(&settings.region).await;
            match self.0.permitted("pricing:GetProducts", told, now) {
                Ok(Ok(told)) => {
                    self.0.with_prices(|prices| prices.update_on_demand(told));
                }
                Ok(Err(notices)) => round.notices.extend(notices),
                // What is told of the other market's right is told again with the next try.
                Err(error) if round.notices.is_empty() => return Err(error),
                Err(_) => {}
            }
        }
        if round.notices.is_empty() {
            spot?.ok();
        }
        if !round.notices.is_empty() {
            round.again = DENIED_AGAIN;
        }
        Ok(round)
    }
}
