//! Scripted faults: what fails, and at which call.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    api::{ApiError, Defects, WireTaint},
    catalogue::OfferingKey,
};

/// A call of the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Op {
    /// Launch.
    Launch,
    /// Tag an instance with its NodeClaim.
    Tag,
    /// Terminate.
    Terminate,
    /// Get.
    Get,
    /// List.
    List,
    /// Prices and interruption notices.
    Watch,
}

/// The occasions that a fault applies to: after `skip` of them, the next `times`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occasion {
    /// How many are skipped.
    #[serde(default)]
    pub skip: u32,
    /// How many are affected.
    #[serde(default = "once")]
    pub times: u32,
}

fn once() -> u32 {
    1
}

impl Occasion {
    /// The next `times` occasions.
    #[must_use]
    pub const fn next(times: u32) -> Self {
        Self { skip: 0, times }
    }

    /// Whether the fault applies to this occasion, which is counted.
    fn applies(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        let applies = self.times > 0;
        self.times = self.times.saturating_sub(1);
        applies
    }
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Fault {
    /// A call fails, before or after it takes effect.
    FailCall {
        /// The call.
        op: Op,
        /// The affected calls.
        #[serde(flatten)]
        occasion: Occasion,
        /// Whether the call takes effect although it fails.
        #[serde(default)]
        after_effect: bool,
        /// The error that is returned.
        error: ApiError,
    },
    /// A call is slower.
    SlowCall {
        /// The call.
        op: Op,
        /// The affected calls.
        #[serde(flatten)]
        occasion: Occasion,
        /// The additional time, in milliseconds.
        by_ms: u64,
    },
    /// Offerings have no capacity.
    InsufficientCapacity {
        /// The instance type; absent means any.
        #[serde(default)]
        instance_type: Option<String>,
        /// The zone; absent means any.
        #[serde(default)]
        zone: Option<String>,
        /// The capacity type; absent means any.
        #[serde(default)]
        capacity_type: Option<String>,
        /// For how many seconds; absent means forever.
        #[serde(default)]
        for_seconds: Option<i64>,
    },
    /// Instances have less memory than advertised.
    SmallerMemory {
        /// The affected launches.
        #[serde(flatten)]
        occasion: Occasion,
        /// Actual memory in percent.
        percent: u32,
    },
    /// Instances run, but their nodes never join.
    NeverJoins {
        /// The affected launches.
        #[serde(flatten)]
        occasion: Occasion,
    },
    /// A taint appears on nodes after they joined.
    LateTaint {
        /// The affected launches.
        #[serde(flatten)]
        occasion: Occasion,
        /// The taint.
        taint: WireTaint,
        /// The delay after joining, in milliseconds.
        after_ms: u64,
    },
}

/// The active faults, each with its end.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<(Fault, Option<Timestamp>)>);

/// The effect of the script on a call.
#[derive(Debug, Default)]
pub(super) struct CallFaults {
    /// Fails before the effect.
    pub before: Option<ApiError>,
    /// Fails after the effect.
    pub after: Option<ApiError>,
    /// The additional time, in milliseconds.
    pub slower_ms: u64,
}

/// Most faults of a script: beyond that, the oldest are dropped.
const MAX_FAULTS: usize = 1000;

impl Faults {
    pub(super) fn add(&mut self, fault: Fault, now: Timestamp) {
        let until = match &fault {
            Fault::InsufficientCapacity { for_seconds: Some(seconds), .. } => {
                now.checked_add(jiff::SignedDuration::from_secs(*seconds)).ok()
            }
            _ => None,
        };
        if self.0.len() >= MAX_FAULTS {
            self.0.remove(0);
        }
        self.0.push((fault, until));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn on_call(&mut self, called: Op) -> CallFaults {
        let mut verdict = CallFaults::default();
        for (fault, _) in &mut self.0 {
            match fault {
                Fault::FailCall { op, occasion, after_effect, error } if *op == called => {
                    let place = if *after_effect { &mut verdict.after } else { &mut verdict.before };
                    if occasion.applies() {
                        place.get_or_insert_with(|| error.clone());
                    }
                }
                Fault::SlowCall { op, occasion, by_ms } if *op == called => {
                    let slower = if occasion.applies() { *by_ms } else { 0 };
                    verdict.slower_ms = verdict.slower_ms.saturating_add(slower);
                }
                _ => {}
            }
        }
        verdict
    }

    /// Whether the script denies capacity of an offering.
    pub(super) fn is_exhausted(&self, offering: &OfferingKey, now: Timestamp) -> bool {
        let is =
            |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        self.0.iter().any(|(fault, until)| match fault {
            Fault::InsufficientCapacity { instance_type, zone, capacity_type, .. } => {
                until.is_none_or(|until| now < until)
                    && is(instance_type, &offering.instance_type)
                    && is(zone, &offering.zone)
                    && is(capacity_type, &offering.capacity_type)
            }
            _ => false,
        })
    }

    /// The defects of the instance that is being launched, and whether its node joins.
    pub(super) fn on_instance(&mut self) -> (Defects, bool) {
        let (mut defects, mut joins) = (Defects::default(), true);
        for (fault, _) in &mut self.0 {
            match fault {
                Fault::SmallerMemory { occasion, percent } => {
                    let struck = occasion.applies().then_some(*percent);
                    defects.memory_percent = struck.or(defects.memory_percent);
                }
                Fault::NeverJoins { occasion } => joins &= !occasion.applies(),
                Fault::LateTaint { occasion, taint, after_ms } => {
                    let struck = occasion.applies().then(|| (taint.clone(), *after_ms));
                    defects.late_taint = struck.or_else(|| defects.late_taint.take());
                }
                _ => {}
            }
        }
        (defects, joins)
    }
}
