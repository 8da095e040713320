//! Filters that consider other pods: topology spread, affinity and anti-affinity.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PodSpec, TopologySpreadConstraint};

use super::{
    filter::{self, Rejections},
    node::{ClusterView, NodeInfo},
    pod::PodInfo,
};
use crate::actors::selector;

/// Matching pods of a constraint, by domain.
#[derive(Debug)]
struct Counts<'a> {
    constraint: &'a TopologySpreadConstraint,
    by_domain: BTreeMap<&'a str, i32>,
    least: i32,
    own: i32,
}

/// The cluster state that these filters need for one pod, computed once for all nodes.
#[derive(Debug)]
pub(super) struct Topology<'a> {
    pod: &'a PodInfo,
    hard: Vec<Counts<'a>>,
    soft: Vec<Counts<'a>>,
    /// Domains with a pod that the term selects, by term.
    near: Vec<(&'a str, BTreeSet<&'a str>)>,
    /// Whether the pod may be the first of its affinity: it selects itself, and no other pod matches.
    first: bool,
    apart: Vec<(&'a str, BTreeSet<&'a str>)>,
    /// Domains of pods whose anti-affinity selects this pod.
    excluded: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Topology<'a> {
    /// Counts the pods.
    pub(super) fn new(pod: &'a PodInfo, cluster: &'a ClusterView) -> Self {
        let counts = |hard: bool| {
            pod.spread
                .iter()
                .filter(|constraint| (constraint.when_unsatisfiable == "DoNotSchedule") == hard)
                .map(|constraint| Counts::new(constraint, hard, pod, cluster))
                .collect::<Vec<_>>()
        };
        let spaces = &cluster.namespaces;
        let near: Vec<(&str, BTreeSet<&str>)> = if pod.affinity.is_empty() {
            Vec::new()
        } else {
            // A pod counts for affinity if all terms select it.
            let selects = |other: &PodInfo| pod.affinity.iter().all(|term| term.selects(&other.pod, spaces));
            let domains = |topology: &'a str| cluster.domains(topology, selects);
            pod.affinity.iter().map(|term| (term.topology.as_str(), domains(&term.topology))).collect()
        };
        let apart = pod
            .anti_affinity
            .iter()
            .map(|term| {
                let domains = cluster.domains(&term.topology, |other| term.selects(&other.pod, spaces));
                (term.topology.as_str(), domains)
            })
            .collect();
        let first = near.iter().all(|(_, domains)| domains.is_empty())
            && pod.affinity.iter().all(|term| term.selects(&pod.pod, spaces));
        Self {
            pod,
            hard: counts(true),
            soft: counts(false),
            near,
            first,
            apart,
            excluded: excluded(pod, cluster),
        }
    }

    /// Whether other pods allow this one on a node.
    ///
    /// # Errors
    /// The reason, in kube-scheduler's words.
    pub(super) fn check(&self, node: &NodeInfo) -> Result<(), Rejections> {
        let one = |reason: &str| Err(vec![reason.to_owned()]);
        for counts in &self.hard {
            let Some(domain) = node.labels.get(&counts.constraint.topology_key) else {
                return one("node(s) didn't match pod topology spread constraints (missing required label)");
            };
            // A domain that is not counted (the policy excludes its nodes) is empty.
            let present = counts.by_domain.get(domain.as_str()).copied().unwrap_or(0);
            if present.saturating_add(counts.own).saturating_sub(counts.least) > counts.constraint.max_skew {
                return one("node(s) didn't match pod topology spread constraints");
            }
        }
        let within = |topology: &str, domains: &BTreeSet<&str>| {
            node.labels.get(topology).is_some_and(|domain| domains.contains(domain.as_str()))
        };
        let labelled = self.near.iter().all(|(topology, _)| node.labels.contains_key(*topology));
        let near = self.near.iter().all(|(topology, domains)| within(topology, domains));
        let opens = self.first && labelled;
        if !(near || opens) {
            return one("node(s) didn't match pod affinity rules");
        }
        if self.apart.iter().any(|(topology, domains)| within(topology, domains)) {
            return one("node(s) didn't match pod anti-affinity rules");
        }
        let excluded = self
            .excluded
            .iter()
            .any(|(topology, domain)| node.labels.get(*topology).map(String::as_str) == Some(*domain));
        if excluded { one("node(s) didn't satisfy existing pods anti-affinity rules") } else { Ok(()) }
    }

    /// The number of matching pods by soft constraints on a node: lower is better.
    pub(super) fn crowding(&self, node: &NodeInfo) -> i64 {
        let present = |counts: &Counts<'_>| {
            let domain = node.labels.get(&counts.constraint.topology_key)?;
            counts.by_domain.get(domain.as_str()).copied().map(i64::from)
        };
        // Hard constraints count too, so that pods are spread evenly and not just within the limit.
        let spread: i64 = self.soft.iter().chain(&self.hard).filter_map(present).sum();
        if self.soft.is_empty() && self.hard.is_empty() { self.siblings(node) } else { spread }
    }

    /// Pods of the same controller on the node.
    fn siblings(&self, node: &NodeInfo) -> i64 {
        let Some(own) = owner_uid(self.pod) else { return 0 };
        let count = node.pods.iter().filter(|pod| owner_uid(pod) == Some(own)).count();
        i64::try_from(count).unwrap_or(i64::MAX)
    }
}

fn owner_uid(pod: &PodInfo) -> Option<&str> {
    crate::actors::cache::controller_of(&pod.pod.metadata).map(|owner| owner.uid.as_str())
}

impl<'a> Counts<'a> {
    fn new(
        constraint: &'a TopologySpreadConstraint,
        hard: bool,
        pod: &PodInfo,
        cluster: &'a ClusterView,
    ) -> Self {
        let matches = |other: &PodInfo| {
            let empty = selector::Labels::new();
            other.key.namespace == pod.key.namespace
                && other.pod.metadata.deletion_timestamp.is_none()
                && selector::matches(
                    constraint.label_selector.as_ref(),
                    other.pod.metadata.labels.as_ref().unwrap_or(&empty),
                )
        };
        // A node counts if it has the keys of all constraints of this kind.
        let keys: Vec<&String> = pod
            .spread
            .iter()
            .filter(|other| (other.when_unsatisfiable == "DoNotSchedule") == hard)
            .map(|other| &other.topology_key)
            .collect();
        let mut by_domain: BTreeMap<&str, i32> = BTreeMap::new();
        for node in cluster.nodes.iter().filter(|node| keys.iter().all(|key| node.labels.contains_key(*key)))
        {
            let Some(domain) = node.labels.get(&constraint.topology_key) else { continue };
            if !counted(constraint, pod, node) {
                continue;
            }
            let here = node.pods.iter().filter(|other| matches(other)).count();
            let count = by_domain.entry(domain).or_default();
            *count = count.saturating_add(i32::try_from(here).unwrap_or(i32::MAX));
        }
        let enough =
            usize::try_from(constraint.min_domains.unwrap_or(1)).is_ok_and(|least| by_domain.len() >= least);
        let least = if enough { by_domain.values().min().copied().unwrap_or(0) } else { 0 };
        Self { constraint, by_domain, least, own: i32::from(matches(pod)) }
    }
}

/// Whether the policies of a constraint include a node.
fn counted(constraint: &TopologySpreadConstraint, pod: &PodInfo, node: &NodeInfo) -> bool {
    let empty = PodSpec::default();
    let spec = pod.spec().unwrap_or(&empty);
    let affinity = constraint.node_affinity_policy.as_deref().unwrap_or("Honor") != "Honor"
        || filter::allowed(spec, &node.name, &node.labels);
    let taints = constraint.node_taints_policy.as_deref().unwrap_or("Ignore") != "Honor"
        || filter::untolerated(
            &node.taints,
            spec.tolerations.as_deref().unwrap_or_default(),
            &["NoSchedule", "NoExecute"],
        )
        .is_none();
    affinity && taints
}

/// The domains in which anti-affinity of existing pods excludes this one.
fn excluded<'a>(pod: &PodInfo, cluster: &'a ClusterView) -> BTreeSet<(&'a str, &'a str)> {
    let mut excluded = BTreeSet::new();
    if !cluster.anti_affinity {
        return excluded;
    }
    for node in &cluster.nodes {
        for term in node.pods.iter().flat_map(|other| &other.anti_affinity) {
            if let Some(domain) = node.labels.get(&term.topology)
                && !excluded.contains(&(term.topology.as_str(), domain.as_str()))
                && term.selects(&pod.pod, &cluster.namespaces)
            {
                excluded.insert((term.topology.as_str(), domain.as_str()));
            }
        }
    }
    excluded
}
