//! S12: a node does not drift while it matches the template of its pool.

use std::{collections::BTreeMap, time::Duration};

use super::{Check, Findings, Observation, observation::*};

/// How long a condition may outlast its cause.
const GRACE: Duration = Duration::from_secs(60);

/// S12.
#[derive(Default)]
pub(super) struct Drift {
    /// Since when a claim of the current generation has been Drifted.
    since: BTreeMap<String, Duration>,
}

impl Check for Drift {
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        let mut since = BTreeMap::new();
        for claim in observation.claims.iter().filter(|claim| is(claim, "Drifted") && !is_deleting(claim)) {
            let of_pool = observation.pools.iter().find(|object| name(object) == pool(claim));
            let Some(object) = of_pool else { continue };
            if text(object, "/spec/template/metadata/labels/generation") != label(claim, "generation") {
                continue;
            }
            let first = self.since.get(name(claim)).copied().unwrap_or(observation.at);
            if observation.at.saturating_sub(first) > GRACE {
                let what = format!("claim {} is Drifted although its pool did not change", name(claim));
                found.add("S12", what, [&**claim, &**object]);
            }
            since.insert(name(claim).to_owned(), first);
        }
        self.since = since;
    }
}
