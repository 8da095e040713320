//! S12: nothing drifts while the template of its pool is what it was made from.

use std::{collections::BTreeMap, time::Duration};

use super::{Check, Findings, Look, look::*};

/// How long a mark may outlast what it was set for.
const GRACE: Duration = Duration::from_secs(60);

/// S12.
#[derive(Default)]
pub(super) struct Drift {
    /// Since when a claim of the present generation has been called drifted.
    since: BTreeMap<String, Duration>,
}

impl Check for Drift {
    fn step(&mut self, look: &Look<'_>, found: &mut Findings) {
        let mut since = BTreeMap::new();
        for claim in look.claims.iter().filter(|claim| is(claim, "Drifted") && !is_deleting(claim)) {
            let of_pool = look.pools.iter().find(|object| name(object) == pool(claim));
            let Some(object) = of_pool else { continue };
            if text(object, "/spec/template/metadata/labels/generation") != label(claim, "generation") {
                continue;
            }
            let first = self.since.get(name(claim)).copied().unwrap_or(look.at);
            if look.at.saturating_sub(first) > GRACE {
                let what = format!("claim {} drifts from a pool that did not change", name(claim));
                found.add("S12", what, [&**claim, &**object]);
            }
            since.insert(name(claim).to_owned(), first);
        }
        self.since = since;
    }
}
