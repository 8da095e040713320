//! S9: an operator changes nothing before it has listed everything. S20: an operator that does not lead changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::{Check, Findings, Observation};
use crate::seeds::log::Entry;

/// Resources that must have been listed.
const LISTED: [&str; 8] = [
    "nodeclaims",
    "nodepools",
    "nodes",
    "pods",
    "poddisruptionbudgets",
    "daemonsets",
    "persistentvolumeclaims",
    "volumeattachments",
];

/// S9 and S20.
#[derive(Default)]
pub(super) struct Freshness {
    listed: BTreeMap<String, BTreeSet<String>>,
    /// The leader at the last step.
    leader: Option<String>,
}

impl Check for Freshness {
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        for entry in observation.log {
            match entry {
                Entry::Listed { agent, resource } => {
                    self.listed.entry(agent.clone()).or_default().insert(resource.clone());
                }
                Entry::Asked(request) if matters(&request.resource) => {
                    let listed = self.listed.entry(request.user_agent.clone()).or_default();
                    let missing = LISTED.iter().find(|kind| !listed.contains(**kind));
                    let what = format!("{} {} {}", request.verb, request.resource, request.name);
                    if let Some(missing) = missing {
                        let agent = &request.user_agent;
                        let what = format!("{agent} did {what} before it had listed {missing}");
                        found.add("S9", what, [&*request.body]);
                    }
                    let other = |leader: &Option<String>| {
                        leader
                            .as_ref()
                            .is_some_and(|leader| !leader.is_empty() && *leader != request.user_agent)
                    };
                    if other(&self.leader) && other(&observation.leader) {
                        let what =
                            format!("{} did {what} while {:?} led", request.user_agent, observation.leader);
                        found.add("S20", what, [&*request.body]);
                    }
                }
                Entry::Asked(_) | Entry::Refused(..) => {}
            }
        }
        self.leader.clone_from(&observation.leader);
    }
}

/// Whether a resource counts: not leases, which decide the election, and not events.
fn matters(resource: &str) -> bool {
    !matches!(resource, "leases" | "events")
}
