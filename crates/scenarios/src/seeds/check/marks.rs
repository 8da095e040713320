//! L6: the taint of a command does not outlast the command.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use super::{Check, Findings, Look, look::*};

/// How long a taint may be there without a command: longer than operators are away, and calls fail in a row.
const GRACE: Duration = Duration::from_secs(60);
/// What a command writes on the NodeClaims that it takes.
const COMMAND: &str = "fleetwright.dev/disruption-command";

/// L6.
#[derive(Default)]
pub(super) struct Marks {
    /// Since when a node has had the taint without a command.
    since: BTreeMap<String, Duration>,
}

impl Check for Marks {
    fn step(&mut self, look: &Look<'_>, found: &mut Findings) {
        let mut since = BTreeMap::new();
        for node in look.nodes.iter().filter(|node| is_tainted(node) && !is_deleting(node)) {
            let claim = look.claims.iter().find(|claim| text(claim, "/status/nodeName") == name(node));
            let Some(claim) = claim else { continue };
            let taken = is(claim, "DisruptionReason") || !annotation(claim, COMMAND).is_empty();
            if taken || is_deleting(claim) {
                continue;
            }
            let first = self.since.get(name(node)).copied().unwrap_or(look.at);
            if look.at.saturating_sub(first) > GRACE {
                let what = format!("node {} keeps the taint of a command that is over", name(node));
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
