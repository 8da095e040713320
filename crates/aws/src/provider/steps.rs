//! The provider's own loops: what the region sells, what it costs, and what the interruption queue announces.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fleetwright_core::cloud::{CloudError, Interruption, InterruptionKind, ProviderStep, Round};
use jiff::Timestamp;

use super::{AwsProvider, cloud_error, is_ending, provider_id};
use crate::calls::{Class, InstanceInfo, Message};
use crate::interruption::{self, Kind, Offering};
use crate::prices::pricing_region;
use crate::tags::{Ownership, ownership};
use crate::unavailable::Scarce;

/// How often types and prices are read.
const HALF_A_DAY: Duration = Duration::from_secs(12 * 3600);
/// When the queue is asked again; receiving itself waits for messages.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Every loop.
pub(super) fn all(provider: &AwsProvider) -> Vec<Arc<dyn ProviderStep>> {
    let mut all: Vec<Arc<dyn ProviderStep>> =
        vec![Arc::new(Machines(provider.clone())), Arc::new(Pricing(provider.clone()))];
    if let Some(queue) = &provider.settings.interruption_queue {
        all.push(Arc::new(Interruptions { provider: provider.clone(), queue: queue.clone() }));
    }
    all
}

fn quiet(again: Duration) -> Round {
    Round { again, interruptions: Vec::new() }
}

/// What the region sells.
struct Machines(AwsProvider);

#[async_trait]
impl ProviderStep for Machines {
    fn name(&self) -> &'static str {
        "providers.instancetype"
    }

    async fn run(&self, _: Timestamp) -> Result<Round, CloudError> {
        self.0.refresh_machines().await?;
        Ok(quiet(HALF_A_DAY))
    }
}

/// What it costs.
struct Pricing(AwsProvider);

#[async_trait]
impl ProviderStep for Pricing {
    fn name(&self) -> &'static str {
        "providers.pricing"
    }

    async fn run(&self, now: Timestamp) -> Result<Round, CloudError> {
        let settings = &self.0.settings;
        // One market's failure does not keep the other's prices back.
        let spot = self.0.api.spot_prices(now).await;
        let spot = spot.map(|told| self.0.with_prices(|prices| prices.update_spot(told)));
        if pricing_region(&settings.region, settings.isolated_vpc).is_some() {
            let told = self.0.api.on_demand_prices(&settings.region).await;
            let told = told.map_err(|error| cloud_error(&error, "pricing:GetProducts"))?;
            self.0.with_prices(|prices| prices.update_on_demand(told));
        }
        spot.map_err(|error| cloud_error(&error, "ec2:DescribeSpotPriceHistory"))?;
        Ok(quiet(HALF_A_DAY))
    }
}

/// What is about to happen to instances.
struct Interruptions {
    provider: AwsProvider,
    queue: String,
}

/// What becomes of a message.
enum Fate {
    /// It is done with, or none of ours, or none at all.
    Delete,
    /// It is for an instance of another cluster that shares the queue.
    Leave,
    /// It is reported, and comes again until its instances are ending.
    Report(Vec<Interruption>),
}

fn announced(kind: Kind) -> Option<InterruptionKind> {
    match kind {
        Kind::SpotInterrupted => Some(InterruptionKind::Spot),
        Kind::ScheduledChange => Some(InterruptionKind::ScheduledChange),
        Kind::InstanceStopped => Some(InterruptionKind::Stopped),
        Kind::InstanceTerminated => Some(InterruptionKind::Terminated),
        Kind::CapacityReservationInterrupted => Some(InterruptionKind::CapacityReservation),
        Kind::RebalanceRecommendation | Kind::NoOp => None,
    }
}

impl Interruptions {
    async fn fate(&self, message: &Message, now: Timestamp) -> Result<Fate, CloudError> {
        // What cannot be read would come again for ever.
        let Ok(notice) = interruption::parse(&message.body) else { return Ok(Fate::Delete) };
        let Some(kind) = announced(notice.kind) else { return Ok(Fate::Delete) };
        let uid = self.provider.uid()?;
        let mut reported = Vec::new();
        let mut others = false;
        for id in &notice.instances {
            let Some(info) = self.find(id).await? else { continue };
            match ownership(&info.tags, &self.provider.settings.cluster_name, &uid) {
                Ownership::Foreign => others = true,
                Ownership::Ours | Ownership::Unstamped if is_ending(&info) => {}
                Ownership::Ours | Ownership::Unstamped => {
                    self.remember(&info, notice.kind, now);
                    reported.push(Interruption { id: provider_id(&info.zone, &info.id), kind });
                }
            }
        }
        Ok(match (reported.is_empty(), others) {
            (false, _) => Fate::Report(reported),
            (true, true) => Fate::Leave,
            (true, false) => Fate::Delete,
        })
    }

    async fn find(&self, id: &str) -> Result<Option<InstanceInfo>, CloudError> {
        match self.provider.api.instances(&[id.to_owned()], &[]).await {
            Ok(found) => Ok(found.into_iter().find(|info| info.state != "terminated")),
            Err(error) if error.class() == Class::NotFound => Ok(None),
            Err(error) => Err(cloud_error(&error, "ec2:DescribeInstances")),
        }
    }

    /// Capacity that is taken back is not there for others.
    fn remember(&self, info: &InstanceInfo, kind: Kind, now: Timestamp) {
        let mut state = self.provider.state();
        match kind.action().offering {
            Offering::AsIs => {}
            Offering::SpotUnavailable => state.unavailable.mark(
                Scarce::Offering {
                    instance_type: info.instance_type.clone(),
                    zone: info.zone.clone(),
                    capacity_type: "spot".to_owned(),
                    group: None,
                },
                now,
            ),
            Offering::ReservationFull => {
                if let Some(id) = &info.reservation {
                    state.reservations.insert(id.clone(), 0);
                    state.machines_version += 1;
                }
            }
        }
    }
}

#[async_trait]
impl ProviderStep for Interruptions {
    fn name(&self) -> &'static str {
        "interruption"
    }

    async fn run(&self, now: Timestamp) -> Result<Round, CloudError> {
        let messages = self.provider.api.receive(&self.queue).await;
        let messages = messages.map_err(|error| cloud_error(&error, "sqs:ReceiveMessage"))?;
        let mut round = quiet(AT_ONCE);
        for message in &messages {
            match self.fate(message, now).await? {
                Fate::Leave => {}
                Fate::Report(interruptions) => round.interruptions.extend(interruptions),
                Fate::Delete => {
                    let deleted = self.provider.api.delete_message(&self.queue, &message.receipt).await;
                    deleted.map_err(|error| cloud_error(&error, "sqs:DeleteMessage"))?;
                }
            }
        }
        Ok(round)
    }
}
