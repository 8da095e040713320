//! The zones in which pods can run, for the gauge that shows the impact of a zone outage.
//!
//! Counts node selector, required node affinity and the zones of volumes. Topology spread
//! constraints do not count: the plan decides them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetwright_core::model::{
    NamespacedName, Pod, Requirement, Snapshot, Str, labels::ZONE, volume::VolumeRef,
};

/// Several zones are possible.
const FLEXIBLE: &str = "flexible";
/// No zone is possible.
const NONE: &str = "none";

/// The series of the gauge for `pods`.
pub(super) fn series(snapshot: &Snapshot, pods: &[Arc<Pod>], controller: &str) -> Vec<(Vec<String>, f64)> {
    let offered_zones = offered_zones(snapshot);
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for pod in pods {
        *counts.entry(effective(snapshot, &offered_zones, pod)).or_default() += 1;
    }
    counts.into_iter().map(|(zone, count)| (vec![controller.to_owned(), zone], f64::from(count))).collect()
}

/// The zones with an offering for any NodePool.
fn offered_zones(snapshot: &Snapshot) -> BTreeSet<Str> {
    let types = snapshot.catalogs.values().flat_map(|catalog| &catalog.instance_types);
    types.flat_map(|kind| &kind.offerings).filter_map(|offering| offering.zone().cloned()).collect()
}

fn effective(snapshot: &Snapshot, offered_zones: &BTreeSet<Str>, pod: &Pod) -> String {
    let mut possible = offered_zones.iter().filter(|zone| allowed(snapshot, pod, zone));
    match (possible.next(), possible.next()) {
        (None, _) => NONE.to_owned(),
        (Some(only), None) => only.to_string(),
        (Some(_), Some(_)) => FLEXIBLE.to_owned(),
    }
}

fn allowed(snapshot: &Snapshot, pod: &Pod, zone: &str) -> bool {
    let holds = |term: &Vec<Requirement>| {
        term.iter().filter(|wanted| &**wanted.key() == ZONE).all(|wanted| wanted.has(zone))
    };
    let one_of = |terms: &[Vec<Requirement>]| terms.is_empty() || terms.iter().any(holds);
    let spec = &pod.spec;
    let volumes = spec.volumes.iter().filter_map(|volume| {
        let claim: Str = match volume {
            VolumeRef::Claim(name) => name.clone(),
            VolumeRef::Ephemeral { volume, .. } => format!("{}-{volume}", pod.id.name).into(),
        };
        snapshot.volumes.get(&NamespacedName::new(pod.id.namespace.clone(), claim))
    });
    spec.node_selector.iter().all(|(key, value)| &**key != ZONE || &**value == zone)
        && one_of(&spec.required_node_terms)
        && volumes.into_iter().all(|volume| one_of(&volume.topology))
}

#[cfg(test)]
mod tests {
    //! One zone, several, none.
    use fleetwright_core::testing::{ClusterBuilder, pod};

    use super::*;

    #[test]
    fn pods_are_counted_by_the_zone_that_they_are_bound_to() {
        let bound = |name: &str, zone: &str| pod(name).selector(ZONE, zone).build();
        let builder = ClusterBuilder::with_default_pool().build();
        let zone = offered_zones(&builder).into_iter().next().unwrap();
        let pods = [bound("a", &zone), bound("b", &zone), bound("c", "nowhere"), pod("d").build()];
        let series = series(&builder, &pods, "x");
        let shown: Vec<String> =
            series.iter().map(|(labels, count)| format!("{} {count}", labels.join(" "))).collect();
        assert_eq!(shown, [format!("x {zone} 2"), "x flexible 1".to_owned(), "x none 1".to_owned()].to_vec());
    }
}
