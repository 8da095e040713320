//! S20: every change of a shared object has a precondition: deletions and patches have the UID or the resource version, lists the
//! resource version. S14: the number of calls is bounded.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use super::{Check, Findings, Observation, observation::text};

/// The maximum number of changes per operator within [`WINDOW`]: some dozens for each of at most thirty instances and pods. A larger cluster has
/// [`PER_INSTANCE`] for each instance.
const CHANGES_MAX: usize = 3000;
/// See [`CHANGES_MAX`].
const PER_INSTANCE: usize = 100;
/// See [`CHANGES_MAX`].
const WINDOW: Duration = Duration::from_secs(60);

/// S14 and S20.
#[derive(Default)]
pub(super) struct Changes {
    /// Changes by operator and window.
    counted: BTreeMap<(String, u64), usize>,
}

impl Check for Changes {
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        let most = CHANGES_MAX.max(observation.instances.len().saturating_mul(PER_INSTANCE));
        for request in observation.asked() {
            let window = observation.at.as_secs() / WINDOW.as_secs();
            let count = self.counted.entry((request.user_agent.clone(), window)).or_default();
            *count = count.saturating_add(1);
            if *count >= most {
                found.add(
                    "S14",
                    format!("{} exceeds the limit of changes", request.user_agent),
                    [&*request.body],
                );
            }
            if !matches!(request.resource.as_str(), "nodeclaims" | "nodes" | "nodepools") {
                continue;
            }
            let of = format!("{} {} {}", request.user_agent, request.resource, request.name);
            match request.verb.as_str() {
                "delete" if text(&request.body, "/preconditions/uid").is_empty() => {
                    found.add("S20", format!("{of} is deleted by its name alone"), [&*request.body]);
                }
                "patch" if has_list(&request.body) && is_blind(&request.body) => {
                    found.add(
                        "S20",
                        format!("{of}: a list is replaced without a resource version"),
                        [&*request.body],
                    );
                }
                "patch" if is_blind(&request.body) && text(&request.body, "/metadata/uid").is_empty() => {
                    found.add("S20", format!("{of} is patched by its name alone"), [&*request.body]);
                }
                _ => {}
            }
        }
    }
}

/// Whether a merge patch replaces a list that others write too.
fn has_list(patch: &Value) -> bool {
    let lists = ["/metadata/finalizers", "/metadata/ownerReferences", "/spec/taints", "/status/conditions"];
    lists.iter().any(|list| patch.pointer(list).is_some_and(Value::is_array))
}

fn is_blind(patch: &Value) -> bool {
    text(patch, "/metadata/resourceVersion").is_empty()
}
