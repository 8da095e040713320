//! The provider's periodic steps, one file each.

mod claims;
mod figures;
mod health;
mod interruptions;
mod nodeclass;
mod nodeclasses;
mod pricing;
mod reserved;
mod tagging;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fleetwright_core::cloud::{CloudError, Outlook, ProviderStep, Round};

use super::AwsProvider;
use interruptions::Interruptions;
use nodeclasses::NodeClasses;

/// How often instance types and prices are read.
const HALF_A_DAY: Duration = Duration::from_secs(12 * 3600);
/// When a call that IAM denied is repeated.
const DENIED_AGAIN: Duration = Duration::from_secs(1800);

/// All steps.
pub(super) fn all(provider: &AwsProvider) -> Vec<Arc<dyn ProviderStep>> {
    let p = || provider.clone();
    let mut all: Vec<Arc<dyn ProviderStep>> = vec![
        Arc::new(NodeClasses::new(p())),
        Arc::new(InstanceTypesStep(p())),
        Arc::new(pricing::Pricing::new(p())),
        Arc::new(tagging::Tagging(p())),
        Arc::new(tagging::Partitions(p())),
        Arc::new(health::Statuses::new(p())),
        Arc::new(upkeep::Templates::new(p())),
        Arc::new(upkeep::Foreigners(p())),
        Arc::new(figures::Figures::new(p())),
    ];
    if provider.settings.reserved_capacity {
        all.push(Arc::new(reserved::CapacityType(p())));
        all.push(Arc::new(reserved::Expiration(p())));
    }
    if !provider.settings.isolated_vpc {
        all.push(Arc::new(upkeep::Profiles::new(p())));
    }
    if provider.settings.zonal_shift {
        all.push(Arc::new(health::ZonalShift(p())));
    }
    if let Some(queue) = &provider.settings.interruption_queue {
        all.push(Arc::new(Interruptions { provider: p(), queue: queue.clone() }));
    }
    all
}

/// Reads the instance types of the region.
struct InstanceTypesStep(AwsProvider);

#[async_trait]
impl ProviderStep for InstanceTypesStep {
    fn name(&self) -> &'static str {
        "providers.instancetype"
    }

    async fn run(&self, _: &Outlook) -> Result<Round, CloudError> {
        self.0.refresh_instance_types().await?;
        Ok(Round::quiet(HALF_A_DAY))
    }
}
