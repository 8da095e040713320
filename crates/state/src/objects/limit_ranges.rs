//! LimitRanges, by namespace.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_core::model::Str;
use k8s_openapi::api::core::v1::LimitRange;

use crate::{kind::Key, lower::limit_range::ContainerDefaults};

/// The LimitRanges of all namespaces, in the order of their names.
#[derive(Debug, Default)]
pub(crate) struct LimitRangeTable {
    namespaces: BTreeMap<Str, BTreeMap<Str, Arc<LimitRange>>>,
}

impl LimitRangeTable {
    /// Puts a LimitRange in, or takes it out. Returns whether it was there.
    pub(crate) fn put(&mut self, key: &Key, range: Option<Arc<LimitRange>>) -> bool {
        let ranges = self.namespaces.entry(key.namespace.clone()).or_default();
        let before = match range {
            Some(range) => ranges.insert(key.name.clone(), range),
            None => ranges.remove(&key.name),
        };
        if ranges.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
        before.is_some()
    }

    /// What the LimitRanges of `namespace` add to new pods.
    pub(crate) fn defaults(&self, namespace: &str) -> ContainerDefaults {
        let ranges = self.namespaces.get(namespace).into_iter().flat_map(BTreeMap::values);
        ContainerDefaults::of(ranges.map(|range| &**range))
    }
}
