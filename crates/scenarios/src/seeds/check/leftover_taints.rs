//! L6: the taint of a command is removed with the command.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use super::{Check, Findings, Observation, observation::*};

/// How long a taint may exist without a command: longer than operators are away, and calls fail in a row.
const GRACE: Duration = Duration::from_secs(60);
/// The annotation of a command on its NodeClaims.
const COMMAND: &str = "fleetwright.dev/disruption-command";

/// L6.
#[derive(Default)]
pub(super) struct LeftoverTaints {
    /// Since when a node has had the taint without a command.
    since: BTreeMap<String, Duration>,
}

impl Check for LeftoverTaints {
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        let mut since = BTreeMap::new();
        for node in observation.nodes.iter().filter(|node| is_tainted(node) && !is_deleting(node)) {
            let claim = observation.claims.iter().find(|claim| text(claim, "/status/nodeName") == name(node));
            let Some(claim) = claim else { continue };
            let taken = is(claim, "DisruptionReason") || !annotation(claim, COMMAND).is_empty();
            if taken || is_deleting(claim) {
                continue;
            }
            let first = self.since.get(name(node)).copied().unwrap_or(observation.at);
            if observation.at.saturating_sub(first) > GRACE {
                let what = format!("node {} keeps the taint of a finished command", name(node));
                found.add("L6", what, [&**node, &**claim]);
            }
            since.insert(name(node).to_owned(), first);
        }
        self.since = since;
    }
}

fn is_tainted(node: &Value) -> bool {
    let taints = field(node, "/spec/taints").and_then(Value::as_array);
    taints.into_iter().flatten().any(|taint| taint["key"] == "karpenter.sh/disrupted")
}
