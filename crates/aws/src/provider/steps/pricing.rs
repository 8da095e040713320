//! Reads prices twice a day and stores them on an EC2NodeClass, for a process that starts while AWS does not answer.

use std::collections::BTreeSet;

use async_trait::async_trait;
use fleetwright_aws_api::labels;
use fleetwright_core::cloud::{CloudError, Notice, Outlook, ProviderStep, Round, Write};
use futures::lock::Mutex;
use jiff::Timestamp;

use super::super::AwsProvider;
use super::super::classes::object;
use super::{DENIED_AGAIN, HALF_A_DAY};
use crate::figures;
use crate::prices::{Doubt, MarketPrices, currency, doubts_message, keep, pricing_region};

/// Longest annotation in bytes; all annotations of an object may have 256 KiB. The prices of a region with six zones have about 70 KiB.
const TEXT_MAX: usize = 128 * 1024;

/// Reads prices.
pub(super) struct Pricing {
    provider: AwsProvider,
    /// Classes by UID whose annotation was read.
    restored: Mutex<BTreeSet<String>>,
}

impl Pricing {
    pub(super) fn new(provider: AwsProvider) -> Self {
        Self { provider, restored: Mutex::default() }
    }

    /// Restores the prices of an earlier process.
    async fn restore(&self, now: Timestamp) {
        let mut restored = self.restored.lock().await;
        let region = &self.provider.settings.region;
        for known in self.provider.classes.all().unwrap_or_default().values() {
            let uid = known.class.metadata.uid.clone().unwrap_or_default();
            let annotations = known.class.metadata.annotations.as_ref();
            if let (true, Some(text)) =
                (restored.insert(uid), annotations.and_then(|all| all.get(labels::PRICES)))
            {
                self.provider.with_prices(|prices| prices.restore(text, region, now));
            }
        }
    }

    /// The first EC2NodeClass stores the prices; it is removed from all others.
    fn writes(&self) -> Vec<Write> {
        let region = &self.provider.settings.region;
        let Some(text) = self.provider.with_prices(|prices| keep(prices, region, TEXT_MAX)) else {
            return Vec::new();
        };
        let classes = self.provider.classes.all().unwrap_or_default();
        let lasting = classes.values().filter(|known| known.class.metadata.deletion_timestamp.is_none());
        let mut wanted = Some(text);
        let mut writes = Vec::new();
        for known in lasting {
            let value = wanted.take();
            let annotations = known.class.metadata.annotations.as_ref();
            if annotations.and_then(|all| all.get(labels::PRICES)) == value.as_ref() {
                continue;
            }
            let mut write = Write::to(object(&known.class));
            write.annotations.insert(labels::PRICES.into(), value.map(|text| text.as_str().into()));
            writes.push(write);
        }
        writes
    }

    /// Publishes events about doubtful prices.
    fn doubt(&self, market: &'static str, doubts: &[Doubt], now: Timestamp) -> Vec<Notice> {
        const REASON: &str = "PricesDoubtful";
        if doubts.is_empty() {
            return Vec::new();
        }
        let count = u32::try_from(doubts.len()).map_or(f64::MAX, f64::from);
        self.provider.ledger.note(&figures::PRICES_DOUBTED, &[], count);
        let message = doubts_message(doubts, currency(&self.provider.settings.region));
        self.provider.problems.report(market, REASON, message, now)
    }
}

#[async_trait]
impl ProviderStep for Pricing {
    fn name(&self) -> &'static str {
        "providers.pricing"
    }

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        let (provider, now) = (&self.provider, outlook.now);
        let settings = &provider.settings;
        self.restore(now).await;
        let mut round = Round::quiet(HALF_A_DAY);
        let (mut refused, mut failed) = (Vec::new(), None);
        let spot = provider.api.spot_prices().await.map(MarketPrices::Spot);
        let mut markets = vec![("spot prices", "ec2:DescribeSpotPriceHistory", spot)];
        if pricing_region(&settings.region, settings.isolated_vpc).is_some() {
            let on_demand = provider.api.on_demand_prices(&settings.region).await.map(MarketPrices::OnDemand);
            markets.push(("on-demand prices", "pricing:GetProducts", on_demand));
        }
        // The failure of one market does not affect the other.
        for (market, action, answer) in markets {
            match provider.problems.permitted(action, answer, now) {
                Ok(Ok(prices_of_market)) => {
                    let doubts = provider.with_prices(|prices| prices.apply(prices_of_market, now));
                    round.notices.extend(self.doubt(market, &doubts, now));
                }
                Ok(Err(notices)) => refused.extend(notices),
                Err(error) => failed = Some(error),
            }
        }
        // Both markets are read again in the next round.
        match (failed, refused.is_empty() && round.notices.is_empty()) {
            (Some(error), true) => return Err(error),
            (failed, _) if failed.is_some() || !refused.is_empty() => round.again = DENIED_AGAIN,
            _ => {}
        }
        round.notices.extend(refused);
        round.writes = self.writes();
        Ok(round)
    }
}
