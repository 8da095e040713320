//! Instance types per NodePool, in three layers: as the provider gives them, with NodeOverlays applied, and corrected by
//! what was observed on nodes.
//!
//! NodeOverlays are evaluated together when the next snapshot is taken, if anything changed that they depend on.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_api as api;
use fleetwright_core::{
    model::{Catalog, LabelSchema, PoolName, Str},
    overlay::{self, NodeOverlay, Verdict},
};

use crate::{
    change::{Put, by_key},
    kind::Key,
    lower,
    objects::Objects,
    validate,
};

/// The outcome of a NodeOverlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverlayOutcome {
    /// It applies to this many instance types, over all NodePools.
    Applied(usize),
    /// It has no effect: the NodeOverlay of this name has the same weight and sets the same.
    Conflict(Str),
    /// It is invalid, for this reason.
    Invalid(String),
}

#[derive(Clone, Debug)]
struct Entry {
    raw: Arc<api::NodeOverlay>,
    model: Result<NodeOverlay, String>,
}

/// The instance types of all NodePools.
#[derive(Debug, Default)]
pub(crate) struct Catalogs {
    /// As the provider gives them.
    provided: BTreeMap<PoolName, Arc<Catalog>>,
    /// With NodeOverlays applied.
    overlaid: BTreeMap<PoolName, Arc<Catalog>>,
    /// Corrected by observations: what decisions see.
    effective: BTreeMap<PoolName, Arc<Catalog>>,
    overlays: BTreeMap<Str, Entry>,
    verdicts: BTreeMap<Str, Verdict>,
    /// Whether NodeOverlays are to be evaluated again.
    outdated: bool,
    /// Whether anything changed that decisions see since [`Self::take_changed`].
    changed: bool,
}

impl Catalogs {
    /// Sets the instance types of a NodePool as the provider gives them; `None` forgets them.
    pub(crate) fn set(&mut self, pool: &PoolName, catalog: Option<Arc<Catalog>>, objects: &mut Objects) {
        let unchanged = match (&catalog, self.provided.get(pool)) {
            (Some(new), Some(old)) => {
                // Evaluating NodeOverlays costs more than comparing.
                Arc::ptr_eq(new, old) || (!self.overlays.is_empty() && new == old)
            }
            (None, None) => true,
            _ => false,
        };
        if unchanged {
            return;
        }
        match &catalog {
            Some(catalog) => self.provided.insert(pool.clone(), catalog.clone()),
            None => self.provided.remove(pool),
        };
        if self.overlays.is_empty() || catalog.is_none() {
            self.set_overlaid(pool, catalog, objects);
        }
        self.pool_changed();
    }

    /// Records that a NodePool changed, which NodeOverlays may select.
    pub(crate) fn pool_changed(&mut self) {
        self.outdated |= !self.overlays.is_empty();
    }

    fn set_overlaid(&mut self, pool: &PoolName, catalog: Option<Arc<Catalog>>, objects: &mut Objects) {
        let same = match (&catalog, self.overlaid.get(pool)) {
            (Some(new), Some(old)) => Arc::ptr_eq(new, old),
            (None, None) => true,
            _ => false,
        };
        if same {
            return;
        }
        match catalog {
            Some(catalog) => self.overlaid.insert(pool.clone(), catalog),
            None => self.overlaid.remove(pool),
        };
        self.apply_observed(pool, objects);
    }

    /// Corrects the instance types of a NodePool by what was observed on its nodes.
    pub(crate) fn apply_observed(&mut self, pool: &PoolName, objects: &mut Objects) {
        let observed = objects.pool_model(pool).map(|model| &model.observed);
        let after = self
            .overlaid
            .get(pool)
            .map(|catalog| observed.map_or_else(|| catalog.clone(), |observed| observed.applied(catalog)));
        let before = match after.clone() {
            Some(catalog) => self.effective.insert(pool.clone(), catalog),
            None => self.effective.remove(pool),
        };
        let overlaid = [before, after].into_iter().flatten().flat_map(|catalog| catalog.overlaid.clone());
        objects.nodes.mark_pool(pool, &overlaid.collect());
        self.changed = true;
    }

    pub(crate) fn put_overlay(
        &mut self,
        key: &Key,
        overlay: Option<Arc<api::NodeOverlay>>,
        schema: &LabelSchema,
    ) -> Put {
        let entry = overlay.map(|raw| {
            let model = validate::overlay(&raw, schema).map_err(|problems| problems.to_string());
            let lowered = || lower::overlay::overlay(&raw, schema).map_err(|invalid| invalid.to_string());
            let model = model.and_then(|()| lowered());
            Entry { raw, model }
        });
        let exists = entry.is_some();
        let meaning = |entry: Option<&Entry>| entry.and_then(|entry| entry.model.clone().ok());
        let before = self.overlays.get(&key.name);
        let existed = before.is_some();
        // A status that we wrote ourselves changes nothing.
        self.outdated |= meaning(before) != meaning(entry.as_ref());
        match entry {
            Some(entry) => self.overlays.insert(key.name.clone(), entry),
            None => self.overlays.remove(&key.name),
        };
        by_key(existed, exists)
    }

    /// Applies the NodeOverlays where anything changed that they depend on.
    pub(crate) fn refresh(&mut self, objects: &mut Objects) {
        if !std::mem::take(&mut self.outdated) {
            return;
        }
        let pools: Vec<_> = objects.pools.all().filter_map(|entry| entry.model.clone()).collect();
        let valid: Vec<NodeOverlay> =
            self.overlays.values().filter_map(|entry| entry.model.clone().ok()).collect();
        let evaluation = overlay::evaluate(&pools, &self.provided, &valid);
        self.verdicts = evaluation.verdicts;
        for (pool, catalog) in evaluation.catalogs {
            self.set_overlaid(&pool, Some(catalog), objects);
        }
    }

    /// Whether anything changed that decisions see since this was last called.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The instance types of every NodePool, as decisions see them.
    pub(crate) fn effective(&self) -> &BTreeMap<PoolName, Arc<Catalog>> {
        &self.effective
    }

    /// Whether there are NodeOverlays.
    pub(crate) fn has_overlays(&self) -> bool {
        !self.overlays.is_empty()
    }

    /// A NodeOverlay as read.
    pub(crate) fn overlay(&self, name: &str) -> Option<&Arc<api::NodeOverlay>> {
        self.overlays.get(name).map(|entry| &entry.raw)
    }

    /// The outcome of every NodeOverlay, by name, as of the last [`Self::refresh`].
    pub(crate) fn overlay_outcomes(&self) -> BTreeMap<Str, OverlayOutcome> {
        let status = |(name, entry): (&Str, &Entry)| {
            let status = match (&entry.model, self.verdicts.get(name)) {
                (Err(why), _) => OverlayOutcome::Invalid(why.clone()),
                (Ok(_), Some(Verdict::Conflict(with))) => OverlayOutcome::Conflict(with.clone()),
                (Ok(_), Some(Verdict::Applied(types))) => OverlayOutcome::Applied(*types),
                (Ok(_), None) => OverlayOutcome::Applied(0),
            };
            (name.clone(), status)
        };
        self.overlays.iter().map(status).collect()
    }
}
