//! Accounts for a fleet from one look to the next: when it was bound, when it came to rest, at which price.

use std::{collections::BTreeSet, time::Duration};

use fleetwright_core::model::Price;

use super::{FleetLoad, RealizedFigures};

/// Time after which a run ends, whether it is at rest or not.
const END: Duration = Duration::from_secs(1200);
/// A fleet that has not changed for this time is at rest.
const REST: Duration = Duration::from_secs(120);

/// What was seen at one moment.
#[derive(Debug, Default)]
pub struct FleetLook {
    /// Time since the first arrival could be.
    pub elapsed: Duration,
    /// Price per hour of all instances that are not being terminated.
    pub hourly: Price,
    /// Names of the nodes.
    pub nodes: BTreeSet<String>,
    /// NodeClaims created since the start.
    pub claims: u64,
    /// Evictions since the start.
    pub moved: usize,
    /// Names of the pods that were bound since the last look.
    pub bound: Vec<String>,
}

/// The figures of a run, look by look.
#[derive(Debug)]
pub struct RealizedMeter {
    figures: RealizedFigures,
    last: FleetLook,
    since: Duration,
    is_bound: bool,
}

impl RealizedMeter {
    /// Before the first look at a fleet with this load.
    #[must_use]
    pub fn new(load: &FleetLoad) -> Self {
        let figures = RealizedFigures { pods: load.pods(), ..RealizedFigures::default() };
        Self { figures, last: FleetLook::default(), since: Duration::ZERO, is_bound: false }
    }

    /// Takes a look into account. Looks follow each other within about a second.
    pub fn look(&mut self, load: &mut FleetLoad, look: FleetLook) {
        let (found, elapsed) = (&mut self.figures, look.elapsed);
        found.waits.extend(look.bound.iter().filter_map(|name| load.wait(name, elapsed)));
        found.moved = look.moved;
        if found.planned == Price::ZERO && !found.waits.is_empty() {
            // Launches of a plan are one call: all of its nodes exist before the first of them is ready.
            found.planned = look.hourly;
        }
        if !self.is_bound && found.waits.len() == found.pods {
            found.bound = (look.hourly, elapsed);
            self.is_bound = true;
        }
        if !self.is_bound || look.hourly != self.last.hourly || look.nodes != self.last.nodes {
            self.since = elapsed;
        }
        found.rest = (look.hourly, self.since.saturating_sub(load.last()));
        (found.nodes, found.claims) = (look.nodes.len(), look.claims);
        found.rested = self.is_bound && elapsed.saturating_sub(self.since) >= REST;
        self.last = look;
    }

    /// Whether all pods were bound once.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.is_bound
    }

    /// Whether the fleet is at rest, or the run takes too long.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.figures.rested || self.last.elapsed >= END
    }

    /// The figures. The price planned at once is that of the nodes when the first pod was bound, which is right only where one plan answered all pods.
    #[must_use]
    pub fn figures(mut self) -> RealizedFigures {
        self.figures.waits.sort_unstable();
        self.figures
    }
}
