//! The behavior of a fake cloud without scripted faults.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Latency;

/// The behavior of a fake cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CloudConfig {
    /// Seeds every draw.
    pub seed: u64,
    /// How long a call takes.
    pub call_latency: Latency,
    /// Time from launch until the instance runs.
    pub launch_latency: Latency,
    /// Time from then until its node joins.
    pub boot_latency: Latency,
    /// Time from the terminate call until the instance is terminated.
    pub terminate_latency: Latency,
    /// How long a new instance may stay invisible to get and list.
    pub consistency: Latency,
    /// Capacity of an on-demand pool, drawn per type and zone; absent means unlimited.
    pub on_demand_pool: Option<(u32, u32)>,
    /// Capacity of a spot pool, likewise.
    pub spot_pool: Option<(u32, u32)>,
    /// Spot interruptions per thousand instance-hours.
    pub interruptions_per_1000_hours: u32,
    /// Time between the notice and the interruption, in milliseconds.
    pub interruption_notice_ms: u64,
    /// The interval of changes of spot prices, in milliseconds; zero if prices never change.
    pub spot_price_interval_ms: u64,
    /// When spot prices began to change: clouds of one seed have the same prices after the same time.
    pub spot_prices_since: Timestamp,
    /// Rate limit of mutating calls; absent means unlimited.
    pub mutating_rate_limit: Option<Rate>,
    /// Rate limit of reading calls; absent means unlimited.
    pub read_rate_limit: Option<Rate>,
    /// The maximum number of instances on a page of a list.
    pub page_size: usize,
    /// The maximum number of instances.
    pub max_instances: usize,
    /// Whether an instance carries its NodeClaim from launch. Otherwise it carries batch and attempt, as an instance of an EC2 fleet, and
    /// a second call tags it.
    pub tags_node_claims: bool,
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rate {
    /// Calls per burst.
    pub burst: u32,
    /// Sustained calls per second.
    pub per_second: u32,
}

impl Default for CloudConfig {
    /// A cloud with realistic latencies, unlimited capacity and no interruptions.
    fn default() -> Self {
        Self {
            seed: 1,
            call_latency: Latency::between(60, 1500),
            launch_latency: Latency::between(2_000, 12_000),
            boot_latency: Latency::between(18_000, 60_000),
            terminate_latency: Latency::between(8_000, 60_000),
            consistency: Latency::between(0, 5_000),
            on_demand_pool: None,
            spot_pool: None,
            interruptions_per_1000_hours: 0,
            interruption_notice_ms: 120_000,
            spot_price_interval_ms: 300_000,
            spot_prices_since: Timestamp::UNIX_EPOCH,
            mutating_rate_limit: None,
            read_rate_limit: None,
            page_size: 1_000,
            max_instances: 20_000,
            tags_node_claims: true,
        }
    }
}

impl CloudConfig {
    /// A cloud without latencies, whose instances join at once: for tests of other things.
    #[must_use]
    pub fn instant(seed: u64) -> Self {
        let at_once = Latency::between(0, 0);
        Self {
            seed,
            call_latency: at_once,
            launch_latency: at_once,
            boot_latency: at_once,
            terminate_latency: at_once,
            consistency: at_once,
            spot_price_interval_ms: 0,
            ..Self::default()
        }
    }

    /// A cloud with limited pools, interruptions and throttling.
    #[must_use]
    pub fn stormy(seed: u64) -> Self {
        Self {
            seed,
            on_demand_pool: Some((20, 400)),
            spot_pool: Some((0, 40)),
            interruptions_per_1000_hours: 50,
            mutating_rate_limit: Some(Rate { burst: 20, per_second: 2 }),
            read_rate_limit: Some(Rate { burst: 50, per_second: 10 }),
            ..Self::default()
        }
    }
}
