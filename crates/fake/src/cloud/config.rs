//! How a fake cloud behaves while nobody scripts its faults.

use serde::{Deserialize, Serialize};

use crate::Latency;

/// The temper of a fake cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CloudConfig {
    /// Seeds every draw.
    pub seed: u64,
    /// How long a call takes.
    pub call_latency: Latency,
    /// From the launch until the instance runs.
    pub launch_latency: Latency,
    /// From then until its node joins.
    pub boot_latency: Latency,
    /// From the order to end an instance until it is gone.
    pub terminate_latency: Latency,
    /// How long a new instance may stay invisible to get and list.
    pub consistency: Latency,
    /// How many instances an on-demand pool holds, drawn per type and zone; absent means any number.
    pub on_demand_pool: Option<(u32, u32)>,
    /// The same for spot.
    pub spot_pool: Option<(u32, u32)>,
    /// Spot instances taken back per thousand instance-hours.
    pub interruptions_per_1000_hours: u32,
    /// How long before an instance is taken back the cloud says so, in milliseconds.
    pub interruption_notice_ms: u64,
    /// How long a spot price stands, in milliseconds; zero where prices never move.
    pub spot_step_ms: u64,
    /// Calls that change something; absent means unlimited.
    pub mutating_calls: Option<Rate>,
    /// Calls that read; absent means unlimited.
    pub reading_calls: Option<Rate>,
    /// How many instances may exist at once.
    pub max_instances: usize,
    /// Whether an instance names its NodeClaim from birth. Otherwise it carries batch and attempt, as an instance of an EC2
    /// fleet does, and is named by a second call.
    pub names_claims: bool,
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rate {
    /// How many calls in a burst.
    pub burst: u32,
    /// How many calls per second for long.
    pub per_second: u32,
}

impl Default for CloudConfig {
    /// A cloud on a good day: real latencies, capacity for everybody, no interruptions.
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
            spot_step_ms: 300_000,
            mutating_calls: None,
            reading_calls: None,
            max_instances: 20_000,
            names_claims: true,
        }
    }
}

impl CloudConfig {
    /// A cloud that answers at once and whose instances join at once: for tests of something else.
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
            spot_step_ms: 0,
            ..Self::default()
        }
    }

    /// A cloud on a bad day: pools run dry, spot instances are taken back, calls are throttled.
    #[must_use]
    pub fn stormy(seed: u64) -> Self {
        Self {
            seed,
            on_demand_pool: Some((20, 400)),
            spot_pool: Some((0, 40)),
            interruptions_per_1000_hours: 50,
            mutating_calls: Some(Rate { burst: 20, per_second: 2 }),
            reading_calls: Some(Rate { burst: 50, per_second: 10 }),
            ..Self::default()
        }
    }
}
