//! The provider's steps: spot prices and interruption notices.

use std::{collections::BTreeSet, sync::Mutex, sync::PoisonError, time::Duration};

use async_trait::async_trait;
use fleetwright_core::cloud::{CloudError, Interruption, InterruptionKind, Outlook, ProviderStep, Round};

use crate::shared::{Shared, cloud_error};

/// The poll interval if prices never change.
const STILL: Duration = Duration::from_secs(3600);
/// The poll interval of interruption notices: short enough for a notice of two minutes.
const NOTICES: Duration = Duration::from_secs(10);

/// Keeps the spot prices of the catalogue current.
pub(crate) struct Pricing(pub(crate) Shared);

#[async_trait]
impl ProviderStep for Pricing {
    fn name(&self) -> &'static str {
        "providers.pricing"
    }

    async fn run(&self, _: &Outlook) -> Result<Round, CloudError> {
        let market = self.0.api.spot_prices().await.map_err(cloud_error)?;
        let again = market.valid_for_ms.map_or(STILL, Duration::from_millis);
        self.0.set_prices(market.prices);
        Ok(Round::quiet(again))
    }
}

/// Reports interruption notices.
pub(crate) struct Notices {
    pub(crate) shared: Shared,
    /// Instances whose notice was seen before: their offering is already unavailable.
    pub(crate) seen: Mutex<BTreeSet<String>>,
}

#[async_trait]
impl ProviderStep for Notices {
    fn name(&self) -> &'static str {
        "interruption"
    }

    async fn run(&self, _: &Outlook) -> Result<Round, CloudError> {
        let notices = self.shared.api.notices(&self.shared.uid()?).await.map_err(cloud_error)?;
        let ids: BTreeSet<String> = notices.iter().map(|notice| notice.id.clone()).collect();
        let before = std::mem::replace(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner), ids);
        let new = notices.iter().filter(|notice| !before.contains(&notice.id));
        self.shared.mark_unavailable(new.filter_map(|notice| notice.offering.clone()).collect());
        let interruptions = notices
            .iter()
            .map(|notice| Interruption::new(notice.id.as_str(), InterruptionKind::Spot))
            .collect();
        Ok(Round::quiet(NOTICES).with_interruptions(interruptions))
    }
}
