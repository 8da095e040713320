//! S5: no claim is created beyond the limit of nodes of its pool.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Check, Findings, Look, look::*};

/// A limit that was lowered so recently may not have been heard of.
const GRACE: Duration = Duration::from_secs(10);

/// S5.
#[derive(Default)]
pub(super) struct Limits {
    known: BTreeSet<String>,
}

impl Check for Limits {
    fn step(&mut self, look: &Look<'_>, found: &mut Findings) {
        let mut staying: BTreeMap<&str, usize> = BTreeMap::new();
        let mut grown = BTreeSet::new();
        for claim in &look.claims {
            if self.known.insert(text(claim, "/metadata/uid").to_owned()) {
                grown.insert(pool(claim));
            }
            // Instances that go make room for what replaces them.
            if !is_deleting(claim) && !is(claim, "DisruptionReason") {
                *staying.entry(pool(claim)).or_default() += 1;
            }
        }
        if look.since_hands() < GRACE {
            return;
        }
        for object in look.pools.iter().filter(|object| grown.contains(name(object))) {
            let limit = text(object, "/spec/limits/nodes").parse::<usize>().unwrap_or(usize::MAX);
            let count = staying.get(name(object)).copied().unwrap_or(0);
            if count > limit {
                let what = format!("{count} claims of pool {} where limits.nodes is {limit}", name(object));
                found.add("S5", what, [&**object]);
            }
        }
    }
}
