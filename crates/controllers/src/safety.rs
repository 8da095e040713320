//! Applies the limits of `fleetwright_core::safety` to the writes of controllers: one lock, one metric, one event.

use std::sync::{Arc, MutexGuard};

use fleetwright_core::safety::{Act, Facts, Held, Limits};
use k8s_openapi::api::core::v1::ObjectReference;

use crate::{
    events::Event,
    metrics::{Family, Metrics},
    runtime::decisions::Decisions,
    runtime::{Clocks, Ctx, Recorder, Shared},
};

/// Acts held by a limit.
pub(crate) const HELD: Family = Family::counter(
    "fleetwright_held_total",
    &["act", "limit"],
    "Number of times that a safety limit held an act: a creation, deletion, eviction, termination or taint",
);
/// The reason of the event about a held act.
const EVENT_REASON: &str = "ActionHeld";
/// How long an equal event is suppressed.
const DEDUPE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(900);

/// Admits acts and reports held ones. Clones share the state of the limits.
#[derive(Clone)]
pub(crate) struct Safety {
    limits: Shared<Limits>,
    clocks: Clocks,
    recorder: Recorder,
    metrics: Arc<Metrics>,
    decisions: Decisions,
}

impl Safety {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self {
            limits: ctx.limits.clone(),
            clocks: ctx.clocks.clone(),
            recorder: ctx.recorder.clone(),
            metrics: ctx.metrics.clone(),
            decisions: ctx.decisions.clone(),
        }
    }

    /// The state of the limits, locked. Never hold the guard across an await.
    pub(crate) fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock()
    }

    /// Admits an act and counts it. Call it directly before the write. Adds the state of the clocks to `facts`.
    ///
    /// # Errors
    /// The limit that holds it, counted in [`HELD`].
    pub(crate) fn admit(&self, act: Act, facts: &Facts<'_>) -> Result<(), Held> {
        let facts = &Facts { clock_pause: self.clocks.wall_clock_cool_down(), ..facts.clone() };
        let admitted = self.limits().take(act, facts, self.clocks.steady());
        if let Err(held) = &admitted {
            self.count(act, held, 1);
            self.decisions.held(act, facts.subject, held);
        }
        admitted
    }

    /// Counts `count` held acts, and records them as one.
    pub(crate) fn count_held(&self, act: Act, held: &Held, count: usize) {
        self.count(act, held, count);
        self.decisions.held(act, "", held);
    }

    fn count(&self, act: Act, held: &Held, count: usize) {
        let count = u32::try_from(count).map_or(f64::MAX, f64::from);
        self.metrics.add(&HELD, &[act.as_str(), held.limit().as_str()], count);
    }

    /// Publishes that an act about an object is held.
    pub(crate) fn publish_held(&self, about: ObjectReference, held: &Held) {
        self.recorder.publish(
            Event::warning(about, EVENT_REASON, held.to_string()).with_dedupe_timeout(DEDUPE_TIMEOUT),
        );
    }
}

#[cfg(test)]
mod tests;
