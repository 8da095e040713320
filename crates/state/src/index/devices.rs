//! Devices and claims of them (DRA), lowered once each.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_core::model::{Devices, NamespacedName, Str, device::Nodes};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};

use super::{
    Index,
    put::{Put, other},
};
use crate::{
    kind::{Key, Kind},
    lower,
};

impl Index {
    pub(crate) fn put_device_class(&mut self, key: &Key, class: Option<Arc<DeviceClass>>) -> Put {
        let existed = class.is_some();
        let lowered = class.as_deref().map(|class| Ok(lower::device::class(class, &mut self.selectors)));
        let class = self.accept(Kind::DeviceClass, key, lowered);
        self.put_device(existed, |devices| set(&mut devices.classes, key.name.clone(), class))
    }

    pub(crate) fn put_resource_slice(&mut self, key: &Key, slice: Option<Arc<ResourceSlice>>) -> Put {
        let existed = slice.is_some();
        let lowered = slice.as_deref().map(|slice| lower::device::slice(slice, &self.schema));
        let slice = self.accept(Kind::ResourceSlice, key, lowered);
        self.put_device(existed, |devices| set(&mut devices.slices, key.name.clone(), slice))
    }

    pub(crate) fn put_claim_template(&mut self, key: &Key, made: Option<Arc<ResourceClaimTemplate>>) -> Put {
        let existed = made.is_some();
        let selectors = &mut self.selectors;
        let lowered =
            made.as_deref().map(|made| lower::device::claim_spec(&made.spec.spec.devices, selectors));
        let template = self.accept(Kind::ResourceClaimTemplate, key, lowered);
        self.put_device(existed, |devices| set(&mut devices.templates, key.into(), template))
    }

    pub(crate) fn put_resource_claim(&mut self, key: &Key, claim: Option<Arc<ResourceClaim>>) -> Put {
        let existed = claim.is_some();
        let selectors = &mut self.selectors;
        let lowered = claim.as_deref().map(|claim| lower::device::claim(claim, &self.schema, selectors));
        let claim = self.accept(Kind::ResourceClaim, key, lowered);
        self.put_device(existed, |devices| set(&mut devices.claims, NamespacedName::from(key), claim))
    }

    /// Puts something in its place; where it is what was there, nothing becomes stale.
    fn put_device(&mut self, existed: bool, put: impl FnOnce(&mut Devices) -> (bool, bool)) -> Put {
        let (before, changed) = put(Arc::make_mut(&mut self.devices));
        self.stale |= changed;
        other(before, existed)
    }

    /// Drivers that have published a whole pool of devices for a node alone.
    #[must_use]
    pub fn published_drivers(&self, node: &str) -> Vec<Str> {
        let own = |nodes: &Nodes| matches!(nodes, Nodes::Named(name) if &**name == node);
        let mut pools: BTreeMap<(&Str, &Str), (i64, i64, i64)> = BTreeMap::new();
        for slice in self.devices.slices.values().filter(|slice| own(&slice.nodes)) {
            let pool =
                pools.entry((&slice.driver, &slice.pool)).or_insert((slice.generation, slice.slices, 0));
            if slice.generation > pool.0 {
                *pool = (slice.generation, slice.slices, 0);
            }
            pool.2 += i64::from(slice.generation == pool.0);
        }
        let whole = pools.into_iter().filter(|(_, (_, slices, seen))| slices == seen);
        let mut drivers: Vec<Str> = whole.map(|((driver, _), _)| driver.clone()).collect();
        drivers.dedup();
        drivers
    }
}

/// Sets or removes an entry; returns whether there was one, and whether it is another now.
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
