//! L108: images among which nothing decides for the instance types of a NodeClass's NodePools, and those that none of the types runs.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_core::model::{InstanceType, NodeClassRef, Snapshot, Str};

use super::LintReport;
use crate::{catalogue::Catalogues, input::Item};

/// Adds the findings on NodeClasses whose status says which images were selected: those of a dump or a cluster.
pub(super) fn check(items: &[Item], snapshot: &Snapshot, catalogues: &Catalogues, report: &mut LintReport) {
    let mut types: BTreeMap<&NodeClassRef, BTreeMap<Str, Arc<InstanceType>>> = BTreeMap::new();
    for pool in &snapshot.pools {
        let Some(catalog) = snapshot.catalog(&pool.name) else { continue };
        let of_class = types.entry(&pool.template.class).or_default();
        let allowed = catalog.instance_types.iter();
        let allowed = allowed.filter(|known| pool.template.requirements.overlaps(&known.requirements));
        of_class.extend(allowed.map(|known| (known.name.clone(), known.clone())));
    }
    for (class, types) in types {
        let is_class = |item: &&Item| {
            let group = item.value["apiVersion"].as_str().and_then(|text| text.split_once('/'));
            item.value["kind"] == *class.kind
                && item.value["metadata"]["name"] == *class.name
                && group.is_some_and(|(group, _)| *group == *class.group)
        };
        let Some(item) = items.iter().rev().find(is_class) else { continue };
        let types: Vec<_> = types.into_values().collect();
        for image in catalogues.unclear_images(&item.value, &types) {
            report.add("L108", item, &image.field, image.message, image.fix);
        }
    }
}
