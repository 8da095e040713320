//! The clusters of CI have the size and the features that they are meant to have, and planted faults change them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::feature::{FEATURES, Feature};
use super::super::plant::PLANTS;
use super::{Cluster, cluster, is_pending};

/// The clusters of CI.
fn sample() -> impl Iterator<Item = Cluster> {
    (0..150).map(cluster)
}

#[test]
fn a_seed_names_its_cluster() {
    assert_eq!(cluster(7).objects, cluster(7).objects);
    assert_ne!(cluster(7).objects, cluster(8).objects);
}

#[test]
fn the_sample_covers_every_pair_of_features() {
    let mut pairs: BTreeMap<(Feature, Feature), usize> = BTreeMap::new();
    for cluster in sample() {
        assert!(cluster.features.len() >= 4, "{}: {:?}", cluster.name, cluster.features);
        for one in &cluster.features {
            for other in cluster.features.iter().filter(|other| *other > one) {
                *pairs.entry((*one, *other)).or_default() += 1;
            }
        }
    }
    assert_eq!(pairs.len(), FEATURES.len() * (FEATURES.len() - 1) / 2);
    let rarest = pairs.values().min().copied().unwrap_or_default();
    assert!(rarest >= 10, "a pair of features occurs {rarest} times only");
}

#[test]
fn clusters_have_their_size_and_unique_names() {
    for cluster in sample() {
        let pending = cluster.objects.iter().filter(|object| is_pending(object)).count();
        assert!((20..=150).contains(&pending), "{}: {pending} pending pods", cluster.name);
        let mut names = BTreeSet::new();
        for object in &cluster.objects {
            let key = (object["kind"].to_string(), object["metadata"]["name"].to_string());
            assert!(names.insert(key.clone()), "{}: {key:?} twice", cluster.name);
        }
    }
}

/// Whether an object shows a feature: independent of how the generator draws.
fn shows(feature: Feature, object: &Value) -> bool {
    let spec = &object["spec"];
    let affinity = &spec["affinity"];
    let required = |kind: &str| !affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"].is_null();
    let spreads = |is: &dyn Fn(&Value) -> bool| {
        spec["topologySpreadConstraints"].as_array().into_iter().flatten().any(is)
    };
    let is_pod = object["kind"] == "Pod" && object["metadata"]["ownerReferences"].is_null();
    match feature {
        Feature::ZoneSpread => spreads(&|spread| spread["topologyKey"] == "topology.kubernetes.io/zone"),
        Feature::HostSpread => spreads(&|spread| spread["topologyKey"] == "kubernetes.io/hostname"),
        Feature::SpreadPolicies => spreads(&|spread| !spread["nodeAffinityPolicy"].is_null()),
        Feature::Affinity => is_pod && required("podAffinity"),
        Feature::AntiAffinity => is_pod && required("podAntiAffinity"),
        Feature::Preferences => object["metadata"]["name"] == "soft",
        Feature::Taints => object["kind"] == "NodePool" && object["metadata"]["name"] == "batch",
        Feature::NodeSelectors => is_pod && required("nodeAffinity"),
        Feature::Volumes => object["kind"] == "PersistentVolumeClaim",
        Feature::HostPorts => is_pod && !spec["containers"][0]["ports"].is_null(),
        Feature::DaemonSets => object["kind"] == "DaemonSet",
        Feature::Priorities => object["kind"] == "PriorityClass",
        Feature::HalfFullNodes => object["kind"] == "Node",
        Feature::Rollouts => is_pod && object["metadata"]["labels"]["pod-template-hash"] == "old",
        Feature::Pools => object["metadata"]["name"] == "arm",
    }
}

#[test]
fn features_are_shown_where_they_are_drawn() {
    // Spread policies give way to another spread over the same key, affinity to anti-affinity and the other way round.
    let mut missing: BTreeMap<Feature, (usize, usize)> = BTreeMap::new();
    for cluster in sample() {
        for &feature in &cluster.features {
            let (lacks, all) = missing.entry(feature).or_default();
            *all += 1;
            *lacks += usize::from(!cluster.objects.iter().any(|object| shows(feature, object)));
        }
    }
    for (feature, (lacks, all)) in missing {
        assert!(lacks * 4 <= all, "{feature:?} is not shown by {lacks} of {all} clusters that have it");
    }
}

#[test]
fn each_planted_fault_changes_what_the_planner_sees() {
    for plant in PLANTS {
        let with: Vec<Cluster> =
            sample().filter(|cluster| cluster.features.contains(&plant.feature)).collect();
        let changed = |cluster: &&Cluster| {
            let mut objects = cluster.objects.clone();
            plant.alter(&mut objects);
            objects != cluster.objects
        };
        let count = with.iter().filter(changed).take(10).count();
        assert!(count >= 10, "{}: {count} of {} clusters", plant.name, with.len());
    }
}
