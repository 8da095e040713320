//! S20: every change of a shared object says which one it means: deletions and patches by UID or by the version that was read,
//! lists by that version. S14: calls are bounded.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use super::{Check, Findings, Look, look::text};

/// Changes that one operator may ask for within [`WINDOW`]: each of at most thirty instances and pods some dozen times.
const CHANGES_MAX: usize = 3000;
/// See [`CHANGES_MAX`].
const WINDOW: Duration = Duration::from_secs(60);

/// S14 and S20.
#[derive(Default)]
pub(super) struct Changes {
    /// Changes by operator and window.
    counted: BTreeMap<(String, u64), usize>,
}

impl Check for Changes {
    fn step(&mut self, look: &Look<'_>, found: &mut Findings) {
        for request in look.asked() {
            let window = look.at.as_secs() / WINDOW.as_secs();
            let count = self.counted.entry((request.user_agent.clone(), window)).or_default();
            *count = count.saturating_add(1);
            if *count == CHANGES_MAX {
                found.add(
                    "S14",
                    format!("{} changes things without end", request.user_agent),
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
                    found.add("S20", format!("{of}: a list is replaced blindly"), [&*request.body]);
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
