//! Scripted faults: what goes wrong, and at which call.

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
    /// Name the NodeClaim of an instance.
    Tag,
    /// Terminate.
    Terminate,
    /// Get.
    Get,
    /// List.
    List,
    /// Prices and announcements.
    Watch,
}

/// Which occasions a fault takes: after `skip` of them, the next `times`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occasion {
    /// How many pass unharmed.
    #[serde(default)]
    pub skip: u32,
    /// How many are taken.
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

    /// Whether this occasion is taken; counts it.
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

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Fault {
    /// A call fails: before it does anything, or after all of it is done.
    FailCall {
        /// The call.
        op: Op,
        /// Which of them.
        #[serde(flatten)]
        occasion: Occasion,
        /// Whether the call takes effect although it fails.
        #[serde(default)]
        after_effect: bool,
        /// What is answered.
        error: ApiError,
    },
    /// A call takes longer.
    SlowCall {
        /// The call.
        op: Op,
        /// Which of them.
        #[serde(flatten)]
        occasion: Occasion,
        /// How much longer, in milliseconds.
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
        /// For how long, in seconds; absent means for good.
        #[serde(default)]
        for_seconds: Option<i64>,
    },
    /// Instances have less memory than they were sold with.
    SmallerMemory {
        /// Which launched instances.
        #[serde(flatten)]
        occasion: Occasion,
        /// How much of it they have.
        percent: u32,
    },
    /// Instances run, but their nodes never join.
    NeverJoins {
        /// Which launched instances.
        #[serde(flatten)]
        occasion: Occasion,
    },
    /// A taint appears on nodes after they joined.
    LateTaint {
        /// Which launched instances.
        #[serde(flatten)]
        occasion: Occasion,
        /// The taint.
        taint: WireTaint,
        /// How long after joining, in milliseconds.
        after_ms: u64,
    },
}

/// The faults that are in force.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<(Fault, Option<Timestamp>)>);

/// What the script does to a call.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Fails before the effect.
    pub before: Option<ApiError>,
    /// Fails after the effect.
    pub after: Option<ApiError>,
    /// Takes so much longer, in milliseconds.
    pub slower_ms: u64,
}

/// How many faults a script may hold: beyond that the oldest are forgotten.
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

    pub(super) fn on_call(&mut self, called: Op) -> Verdict {
        let mut verdict = Verdict::default();
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

    /// Whether an offering is scripted to have nothing.
    pub(super) fn is_dry(&self, offering: &OfferingKey, now: Timestamp) -> bool {
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

    /// What is wrong with the instance that is being launched, and whether its node joins.
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
