//! S12: a node does not drift while it matches the template of its pool, and for the provider its NodeClass.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::Value;

use super::{Check, Findings, Observation, observation::*};

/// How long a condition may outlast its cause, and a NodeClass be read as it was before a change.
const GRACE: Duration = Duration::from_secs(60);
/// Reasons that follow from the NodePool and its instance types; all others are the provider's.
const OF_POOL: [&str; 3] = ["NodePoolDrifted", "RequirementsDrifted", "InstanceTypeNotFound"];

/// S12.
#[derive(Default)]
pub(super) struct Drift {
    /// Since when a claim of the current generation has been Drifted.
    since: BTreeMap<String, Duration>,
    /// When each claim was first seen.
    born: BTreeMap<String, Duration>,
}

impl Drift {
    /// Whether the provider may find that an instance differs from its NodeClass, which was changed since it was launched.
    fn may_be_of_class(&self, claim: &Value, observation: &Observation<'_>) -> bool {
        let conditions = field(claim, "/status/conditions").and_then(Value::as_array);
        let mut drifted = conditions.into_iter().flatten().filter(|condition| condition["type"] == "Drifted");
        let is_of_pool = drifted.any(|condition| OF_POOL.iter().any(|reason| condition["reason"] == *reason));
        let changed = observation.interventions.class_changed.map(|at| at.saturating_add(GRACE));
        !is_of_pool && self.born.get(name(claim)).copied() <= changed
    }
}

impl Check for Drift {
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        let mut since = BTreeMap::new();
        let mut before = std::mem::take(&mut self.born);
        let born = |claim: &Arc<Value>| {
            let first = before.remove(name(claim)).unwrap_or(observation.at);
            (name(claim).to_owned(), first)
        };
        self.born = observation.claims.iter().map(born).collect();
        for claim in observation.claims.iter().filter(|claim| is(claim, "Drifted") && !is_deleting(claim)) {
            let of_pool = observation.pools.iter().find(|object| name(object) == pool(claim));
            let Some(object) = of_pool else { continue };
            if text(object, "/spec/template/metadata/labels/generation") != label(claim, "generation") {
                continue;
            }
            if self.may_be_of_class(claim, observation) {
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
