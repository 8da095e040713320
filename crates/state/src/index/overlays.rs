//! Instance types as the provider gives them, and NodeOverlays, which correct them.
//!
//! Without overlays, decisions see what the provider gave. With some, all of them are evaluated together when the next
//! snapshot is taken, if anything changed that they depend on.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_api as api;
use fleetwright_core::{
    model::{Catalog, PoolName, Str},
    overlay::{self, NodeOverlay, Verdict},
};

use super::{Index, put};
use crate::{kind::Key, lower, validate};

/// What has become of a NodeOverlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverlayState {
    /// It is in effect on so many instance types, over all pools.
    Applied(usize),
    /// It has no effect, because the named one of the same weight sets the same.
    Conflict(Str),
    /// It means nothing, with the reason.
    Invalid(String),
}

#[derive(Clone, Debug)]
struct Entry {
    raw: Arc<api::NodeOverlay>,
    model: Result<NodeOverlay, String>,
}

/// The tables of overlays and of what they apply to.
#[derive(Debug, Default)]
pub(super) struct Overlays {
    /// What the provider gave.
    given: BTreeMap<PoolName, Arc<Catalog>>,
    entries: BTreeMap<Str, Entry>,
    verdicts: BTreeMap<Str, Verdict>,
    stale: bool,
}

impl Overlays {
    /// Notes that a pool changed.
    pub(super) fn touch(&mut self) {
        self.stale |= !self.entries.is_empty();
    }
}

impl Index {
    /// Sets the instance types of a pool, as the provider gives them; `None` forgets them.
    pub fn set_catalog(&mut self, pool: &PoolName, catalog: Option<Arc<Catalog>>) {
        let given = &mut self.overlays.given;
        let unchanged = match (&catalog, given.get(pool)) {
            (Some(new), Some(old)) => {
                // Evaluating overlays is dearer than comparing.
                Arc::ptr_eq(new, old) || (!self.overlays.entries.is_empty() && new == old)
            }
            (None, None) => true,
            _ => false,
        };
        if unchanged {
            return;
        }
        match &catalog {
            Some(catalog) => given.insert(pool.clone(), catalog.clone()),
            None => given.remove(pool),
        };
        if self.overlays.entries.is_empty() || catalog.is_none() {
            self.put_catalog(pool, catalog);
        }
        self.overlays.touch();
    }

    pub(crate) fn put_overlay(&mut self, key: &Key, overlay: Option<Arc<api::NodeOverlay>>) -> put::Put {
        let entry = overlay.map(|raw| {
            let model = validate::overlay(&raw, &self.schema).map_err(|problems| problems.to_string());
            let lowered =
                || lower::overlay::overlay(&raw, &self.schema).map_err(|invalid| invalid.to_string());
            let model = model.and_then(|()| lowered());
            Entry { raw, model }
        });
        let after = entry.is_some();
        let meaning = |entry: Option<&Entry>| entry.and_then(|entry| entry.model.clone().ok());
        let before = self.overlays.entries.get(&key.name);
        let existed = before.is_some();
        // A status that we wrote ourselves changes nothing.
        self.overlays.stale |= meaning(before) != meaning(entry.as_ref());
        match entry {
            Some(entry) => self.overlays.entries.insert(key.name.clone(), entry),
            None => self.overlays.entries.remove(&key.name),
        };
        put::other(existed, after)
    }

    /// Applies the overlays where anything changed that they depend on.
    pub(super) fn settle_overlays(&mut self) {
        if !std::mem::take(&mut self.overlays.stale) {
            return;
        }
        let pools: Vec<_> = self.pools.values().filter_map(|entry| entry.model.clone()).collect();
        let valid: Vec<NodeOverlay> =
            self.overlays.entries.values().filter_map(|entry| entry.model.clone().ok()).collect();
        let evaluation = overlay::evaluate(&pools, &self.overlays.given, &valid);
        self.overlays.verdicts = evaluation.verdicts;
        for (pool, catalog) in evaluation.catalogs {
            self.put_catalog(&pool, Some(catalog));
        }
    }

    /// Whether there are NodeOverlays at all.
    #[must_use]
    pub fn has_overlays(&self) -> bool {
        !self.overlays.entries.is_empty()
    }

    /// A NodeOverlay as read.
    #[must_use]
    pub fn overlay(&self, name: &str) -> Option<&Arc<api::NodeOverlay>> {
        self.overlays.entries.get(name).map(|entry| &entry.raw)
    }

    /// What has become of every NodeOverlay, by name, as things stand.
    pub fn overlay_states(&mut self) -> BTreeMap<Str, OverlayState> {
        self.settle_overlays();
        let state = |(name, entry): (&Str, &Entry)| {
            let state = match (&entry.model, self.overlays.verdicts.get(name)) {
                (Err(why), _) => OverlayState::Invalid(why.clone()),
                (Ok(_), Some(Verdict::Conflict(with))) => OverlayState::Conflict(with.clone()),
                (Ok(_), Some(Verdict::Applied(types))) => OverlayState::Applied(*types),
                (Ok(_), None) => OverlayState::Applied(0),
            };
            (name.clone(), state)
        };
        self.overlays.entries.iter().map(state).collect()
    }
}
