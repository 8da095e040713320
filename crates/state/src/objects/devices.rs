//! Devices and claims of them (DRA), lowered once each.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_core::model::{Devices, LabelSchema, NamespacedName, Str, device::Nodes};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};

use super::invalid::InvalidObjects;
use crate::{
    change::{Put, by_key},
    kind::{Key, WatchedKind},
    lower::{self, device::Selectors},
};

/// The table of devices.
#[derive(Debug, Default)]
pub(crate) struct DeviceTable {
    devices: Arc<Devices>,
    selectors: Selectors,
    /// Whether a device or a claim changed since the last snapshot.
    pub(super) changed: bool,
}

impl DeviceTable {
    /// All devices and claims of them.
    pub(crate) fn all(&self) -> &Arc<Devices> {
        &self.devices
    }

    /// Sets why the API server refuses some of the kinds. Returns whether that is new.
    pub(crate) fn set_refused(&mut self, refused: Option<Str>) -> bool {
        let changed = self.devices.refused != refused;
        if changed {
            Arc::make_mut(&mut self.devices).refused = refused;
        }
        changed
    }

    pub(super) fn put_class(
        &mut self,
        key: &Key,
        class: Option<Arc<DeviceClass>>,
        invalid: &mut InvalidObjects,
    ) -> Put {
        let exists = class.is_some();
        let lowered = class.as_deref().map(|class| Ok(lower::device::class(class, &mut self.selectors)));
        let class = invalid.accept(WatchedKind::DeviceClass, key, lowered);
        self.put(exists, |devices| set(&mut devices.classes, key.name.clone(), class))
    }

    pub(super) fn put_slice(
        &mut self,
        key: &Key,
        slice: Option<Arc<ResourceSlice>>,
        schema: &LabelSchema,
        invalid: &mut InvalidObjects,
    ) -> Put {
        let exists = slice.is_some();
        let lowered = slice.as_deref().map(|slice| lower::device::slice(slice, schema));
        let slice = invalid.accept(WatchedKind::ResourceSlice, key, lowered);
        self.put(exists, |devices| set(&mut devices.slices, key.name.clone(), slice))
    }

    pub(super) fn put_template(
        &mut self,
        key: &Key,
        template: Option<Arc<ResourceClaimTemplate>>,
        invalid: &mut InvalidObjects,
    ) -> Put {
        let exists = template.is_some();
        let selectors = &mut self.selectors;
        let lowered = template
            .as_deref()
            .map(|template| lower::device::claim_spec(&template.spec.spec.devices, selectors));
        let template = invalid.accept(WatchedKind::ResourceClaimTemplate, key, lowered);
        self.put(exists, |devices| set(&mut devices.templates, key.into(), template))
    }

    pub(super) fn put_claim(
        &mut self,
        key: &Key,
        claim: Option<Arc<ResourceClaim>>,
        schema: &LabelSchema,
        invalid: &mut InvalidObjects,
    ) -> Put {
        let exists = claim.is_some();
        let selectors = &mut self.selectors;
        let lowered = claim.as_deref().map(|claim| lower::device::claim(claim, schema, selectors));
        let claim = invalid.accept(WatchedKind::ResourceClaim, key, lowered);
        self.put(exists, |devices| set(&mut devices.claims, NamespacedName::from(key), claim))
    }

    fn put(&mut self, exists: bool, put: impl FnOnce(&mut Devices) -> (bool, bool)) -> Put {
        let (existed, changed) = put(Arc::make_mut(&mut self.devices));
        self.changed |= changed;
        by_key(existed, exists)
    }

    /// Drivers that published every ResourceSlice of a pool that belongs to this node alone, by its name or by its owner.
    pub(crate) fn published_drivers(&self, node: &str) -> Vec<Str> {
        let own = |nodes: &Nodes| matches!(nodes, Nodes::Named(name) if **name == *node);
        let mut pools: BTreeMap<(&Str, &Str), (i64, i64, i64)> = BTreeMap::new();
        for slice in self
            .devices
            .slices
            .values()
            .filter(|slice| own(&slice.nodes) || slice.owner.as_deref() == Some(node))
        {
            let pool =
                pools.entry((&slice.driver, &slice.pool)).or_insert((slice.generation, slice.slices, 0));
            if slice.generation > pool.0 {
                *pool = (slice.generation, slice.slices, 0);
            }
            pool.2 += i64::from(slice.generation == pool.0);
        }
        let complete = pools.into_iter().filter(|(_, (_, slices, seen))| slices == seen);
        let mut drivers: Vec<Str> = complete.map(|((driver, _), _)| driver.clone()).collect();
        drivers.dedup();
        drivers
    }
}

/// Sets or removes an entry; returns whether there was one, and whether the value changed.
fn set<K: Ord, T: PartialEq>(map: &mut BTreeMap<K, Arc<T>>, key: K, value: Option<T>) -> (bool, bool) {
    let known = map.get(&key);
    let before = known.is_some();
    if known.map(|known| &**known) == value.as_ref() {
        return (before, false);
    }
    match value {
        Some(value) => map.insert(key, Arc::new(value)),
        None => map.remove(&key),
    };
    (before, true)
}

#[cfg(test)]
mod tests {
    //! Which slices are those of a node.
    use fleetwright_core::{
        model,
        testing::devices::{DRIVER, slice},
    };

    use super::*;

    #[test]
    fn a_slice_that_the_node_owns_is_published_for_it() {
        let mut table = DeviceTable::default();
        let mut put = |name: &str, nodes: Nodes, owner: Option<&str>| {
            let slice = model::ResourceSlice { owner: owner.map(Into::into), ..slice(name, nodes, &[]) };
            Arc::make_mut(&mut table.devices).slices.insert(name.into(), Arc::new(slice));
        };
        put("of-all", Nodes::All, None);
        put("owned", Nodes::All, Some("a"));
        put("named", Nodes::Named("b".into()), None);
        for (node, published) in [("a", &[DRIVER][..]), ("b", &[DRIVER]), ("c", &[])] {
            let found = table.published_drivers(node);
            assert_eq!(found.iter().map(|driver| &**driver).collect::<Vec<_>>(), published, "{node}");
        }
    }
}
