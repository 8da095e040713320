//! S5: no claim is created beyond the node limit of its pool.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Check, Findings, Observation, observation::*};

/// How long a lowered limit may be unknown to an operator.
const GRACE: Duration = Duration::from_secs(10);

/// S5.
#[derive(Default)]
pub(super) struct Limits {
    known: BTreeSet<String>,
}

impl Check for Limits {
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        let mut staying: BTreeMap<&str, usize> = BTreeMap::new();
        let mut grown = BTreeSet::new();
        for claim in &observation.claims {
            if self.known.insert(text(claim, "/metadata/uid").to_owned()) {
                grown.insert(pool(claim));
            }
            // Replacements do not count besides the nodes that they replace.
            if !is_deleting(claim) && !is(claim, "DisruptionReason") {
                *staying.entry(pool(claim)).or_default() += 1;
            }
        }
        if observation.since_user_change() < GRACE {
            return;
        }
        for object in observation.pools.iter().filter(|object| grown.contains(name(object))) {
            let limit = text(object, "/spec/limits/nodes").parse::<usize>().unwrap_or(usize::MAX);
            let count = staying.get(name(object)).copied().unwrap_or(0);
            if count > limit {
                let what = format!("{count} claims of pool {} exceed limits.nodes {limit}", name(object));
                found.add("S5", what, [&**object]);
            }
        }
    }
}
