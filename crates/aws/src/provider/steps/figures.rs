//! Exposes the metrics that the provider and its calls have recorded.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use fleetwright_core::cloud::{CloudError, Figure, FigureFamily, Identity, Outlook, ProviderStep, Round};
use futures::lock::Mutex;

use super::super::AwsProvider;
use crate::figures;

/// The interval, slightly below the usual one of scrapes.
const EVERY: Duration = Duration::from_secs(10);

/// Exposes metrics.
pub(super) struct Figures {
    provider: AwsProvider,
    /// Actions that were exposed as off.
    off: Mutex<BTreeSet<&'static str>>,
}

impl Figures {
    pub(super) fn new(provider: AwsProvider) -> Self {
        Self { provider, off: Mutex::default() }
    }
}

fn gauge(family: &'static FigureFamily, labels: &[&'static str], value: Option<f64>) -> Figure {
    Figure::new(family, labels.iter().map(|label| (*label).into()).collect(), value)
}

#[async_trait]
impl ProviderStep for Figures {
    fn name(&self) -> &'static str {
        "cloudprovider.metrics"
    }

    async fn run(&self, _: &Outlook) -> Result<Round, CloudError> {
        let provider = &self.provider;
        let mut all = provider.ledger.take();
        all.extend(provider.api.figures());
        let proven = provider.cluster.identity() == Some(Identity::Proven);
        all.push(gauge(&figures::IDENTITY, &[], Some(if proven { 1.0 } else { 0.0 })));
        let off: BTreeSet<&'static str> = provider.features_off().into_keys().collect();
        let mut shown = self.off.lock().await;
        all.extend(shown.difference(&off).map(|action| gauge(&figures::FEATURES_OFF, &[action], None)));
        all.extend(off.iter().map(|action| gauge(&figures::FEATURES_OFF, &[action], Some(1.0))));
        *shown = off;
        Ok(Round::quiet(EVERY).with_figures(all))
    }
}
