//! Scores of nodes: preferences first, then spread, then free resources.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodSpec;

use super::{
    filter,
    node::{ClusterView, NodeInfo},
    pod::PodInfo,
    topology::Topology,
};
use crate::actors::selector::term_selects;

/// A node's score for a pod; the highest wins, ties by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Score {
    preferences: i64,
    uncrowded: i64,
    /// Free share of CPU and memory, in 1/200.
    free: i64,
}

/// Scores a node.
pub(super) fn score(
    pod: &PodInfo,
    node: &NodeInfo,
    topology: &Topology<'_>,
    preferred: &PreferredAffinity<'_>,
) -> Score {
    let empty = PodSpec::default();
    let spec = pod.spec().unwrap_or(&empty);
    let soft = filter::untolerated(
        &node.taints,
        spec.tolerations.as_deref().unwrap_or_default(),
        &["PreferNoSchedule"],
    );
    // A PreferNoSchedule taint weighs as much as the heaviest preference.
    let taint = if soft.is_some() { -100 } else { 0 };
    Score {
        preferences: preferred.of_node(spec, node).saturating_add(taint),
        uncrowded: topology.crowding(node).saturating_neg(),
        free: free(pod, node),
    }
}

/// Free share of CPU and of memory, each in percent.
fn free(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let left = node.allocatable.minus(&node.requested).minus(&pod.requests);
    let percent = |left: i64, all: i64| {
        if all <= 0 { 0 } else { i64::try_from(i128::from(left.max(0)) * 100 / i128::from(all)).unwrap_or(0) }
    };
    percent(left.cpu(), node.allocatable.cpu()) + percent(left.memory(), node.allocatable.memory())
}

/// A pod's preferred pod affinity: the domains that satisfy each preference, with its weight.
#[derive(Debug, Default)]
pub(super) struct PreferredAffinity<'a> {
    near: Vec<(String, BTreeSet<&'a str>, i64)>,
}

impl<'a> PreferredAffinity<'a> {
    /// Evaluates preferred affinity and anti-affinity of a pod.
    pub(super) fn new(pod: &PodInfo, cluster: &'a ClusterView) -> Self {
        let affinity = pod.spec().and_then(|spec| spec.affinity.as_ref());
        let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
        let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let near = near.and_then(|near| near.preferred_during_scheduling_ignored_during_execution.as_deref());
        let apart =
            apart.and_then(|apart| apart.preferred_during_scheduling_ignored_during_execution.as_deref());
        let signed = near
            .unwrap_or_default()
            .iter()
            .map(|wish| (wish, i64::from(wish.weight)))
            .chain(apart.unwrap_or_default().iter().map(|wish| (wish, -i64::from(wish.weight))));
        let evaluated = signed.map(|(wish, weight)| {
            let term = super::pod::Term::new(&wish.pod_affinity_term, &pod.pod);
            let domains =
                cluster.domains(&term.topology, |other| term.selects(&other.pod, &cluster.namespaces));
            (term.topology, domains, weight)
        });
        Self { near: evaluated.collect() }
    }

    fn of_node(&self, spec: &PodSpec, node: &NodeInfo) -> i64 {
        let company: i64 = self
            .near
            .iter()
            .filter(|(topology, domains, _)| {
                node.labels.get(topology).is_some_and(|domain| domains.contains(domain.as_str()))
            })
            .map(|(_, _, weight)| *weight)
            .sum();
        let preferred =
            spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref()).and_then(
                |affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_deref(),
            );
        let place: i64 = preferred
            .unwrap_or_default()
            .iter()
            .filter(|wish| term_selects(&wish.preference, &node.name, &node.labels))
            .map(|wish| i64::from(wish.weight))
            .sum();
        company.saturating_add(place)
    }
}
