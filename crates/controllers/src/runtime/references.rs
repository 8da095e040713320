//! Which kinds that objects refer to may not be watched: what [`super::reference_watch`] found out, for controllers.

use std::collections::BTreeMap;

use fleetwright_state::Refusal;
use kube::core::ApiResource;

use super::shared::Shared;

/// The kinds that the API server does not let the controllers watch. Clones share them.
#[derive(Clone, Default)]
pub struct References {
    refused: Shared<BTreeMap<(String, String), Refusal>>,
}

impl References {
    /// Returns why changes of a kind are not watched; `None` while they are.
    pub(crate) fn refusal(&self, kind: &ApiResource) -> Option<Refusal> {
        self.refused.lock().get(&id(kind)).cloned()
    }

    /// Records that a kind is refused, or is not any more. Returns whether that is new.
    pub(super) fn set(&self, kind: &ApiResource, refusal: Option<Refusal>) -> bool {
        let mut refused = self.refused.lock();
        let before = match refusal.clone() {
            Some(refusal) => refused.insert(id(kind), refusal),
            None => refused.remove(&id(kind)),
        };
        before != refusal
    }
}

fn id(kind: &ApiResource) -> (String, String) {
    (kind.group.clone(), kind.kind.clone())
}
