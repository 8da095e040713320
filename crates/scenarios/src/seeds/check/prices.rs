//! S17: outdated prices cause no consolidation.

use std::{collections::BTreeSet, time::Duration};

use super::{Check, Findings, Observation, observation::*, replacements::reason};

/// The maximum delay between a decision and its execution.
const DECIDED: Duration = Duration::from_secs(40);

/// S17.
#[derive(Default)]
pub(super) struct Prices {
    /// Claims that were consolidated at the last step.
    taken: BTreeSet<String>,
}

impl Check for Prices {
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        let taken = observation.claims.iter().filter(|claim| reason(claim) == "Underutilized");
        let taken: BTreeSet<String> = taken.map(|claim| text(claim, "/metadata/uid").to_owned()).collect();
        let old = observation
            .interventions
            .old_prices
            .filter(|since| observation.at.saturating_sub(*since) > DECIDED);
        if let Some(since) = old {
            for claim in observation.claims.iter() {
                let uid = text(claim, "/metadata/uid");
                if taken.contains(uid) && !self.taken.contains(uid) {
                    let what = format!(
                        "claim {} is consolidated with prices that are outdated since {since:?}",
                        name(claim)
                    );
                    found.add("S17", what, [&**claim]);
                }
            }
        }
        self.taken = taken;
    }
}
