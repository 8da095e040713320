//! S17: prices that are too old move nothing.

use std::{collections::BTreeSet, time::Duration};

use super::{Check, Findings, Look, chains::reason, look::*};

/// What was decided before prices grew old is carried out so much later at most.
const DECIDED: Duration = Duration::from_secs(40);

/// S17.
#[derive(Default)]
pub(super) struct Prices {
    /// Claims that were consolidated at the last look.
    taken: BTreeSet<String>,
}

impl Check for Prices {
    fn step(&mut self, look: &Look<'_>, found: &mut Findings) {
        let taken = look.claims.iter().filter(|claim| reason(claim) == "Underutilized");
        let taken: BTreeSet<String> = taken.map(|claim| text(claim, "/metadata/uid").to_owned()).collect();
        let old = look.ledger.old_prices.filter(|since| look.at.saturating_sub(*since) > DECIDED);
        if let Some(since) = old {
            for claim in look.claims.iter() {
                let uid = text(claim, "/metadata/uid");
                if taken.contains(uid) && !self.taken.contains(uid) {
                    let what = format!(
                        "claim {} is consolidated by prices that are old since {since:?}",
                        name(claim)
                    );
                    found.add("S17", what, [&**claim]);
                }
            }
        }
        self.taken = taken;
    }
}
