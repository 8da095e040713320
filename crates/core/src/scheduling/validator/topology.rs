//! Whether pods are spread, together and apart as they demand.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Host, placement::alternatives};
use crate::{
    model::{
        LabelSelector, Pod, PodAffinityTerm, Requirement, Snapshot, Str, TopologySpread, labels, pod::Owner,
        taint::first_untolerated,
    },
    scheduling::Rules,
};

pub(super) fn check(
    snapshot: &Snapshot,
    rules: &Rules,
    host: &Host<'_>,
    hosts: &[Host<'_>],
    violations: &mut Vec<String>,
) {
    for pod in &host.placed {
        for term in &pod.spec.pod_affinity {
            if !is_near(snapshot, pod, term, host, hosts) {
                violations
                    .push(format!("{} on {} is not near what it wants by {}", pod.id, host.name, term.key));
            }
        }
        for spread in spreads(snapshot, rules, pod).iter().filter(|spread| spread.hard) {
            if let Some(skew) = excess(snapshot, pod, spread, host, hosts) {
                violations.push(format!("{} on {}: skew {skew} by {}", pod.id, host.name, spread.key));
            }
        }
    }
    for pod in host.pods().filter(|pod| pod.is_active()) {
        for term in &pod.spec.pod_anti_affinity {
            for (other, neighbour) in conflicts(snapshot, pod, term, host, hosts) {
                violations
                    .push(format!("{} on {} is not away from {neighbour} on {other}", pod.id, host.name));
            }
        }
    }
}

/// The constraints of a pod: its own or, where it has none, the default ones, which count the pods that every Service
/// that selects it and its controller select too.
fn spreads(snapshot: &Snapshot, rules: &Rules, pod: &Pod) -> Vec<TopologySpread> {
    if !pod.spec.topology_spread.is_empty() {
        return pod.spec.topology_spread.clone();
    }
    let mut selector = LabelSelector::default();
    for (id, wanted) in &snapshot.workloads.services {
        if id.namespace == pod.id.namespace
            && wanted.iter().all(|label| pod.labels.get(label.0) == Some(label.1))
        {
            selector.terms.extend(wanted.iter().flat_map(|(key, value)| LabelSelector::of(key, value).terms));
        }
    }
    for ((kind, id), of_controller) in &snapshot.workloads.controllers {
        let owns = |owner: &Owner| owner.kind == *kind && owner.name == id.name;
        if id.namespace == pod.id.namespace && pod.owner.as_ref().is_some_and(owns) {
            selector.terms.extend(of_controller.terms.clone());
        }
    }
    if selector.terms.is_empty() {
        return Vec::new();
    }
    let with_selector =
        |spread: &TopologySpread| TopologySpread { selector: Some(selector.clone()), ..spread.clone() };
    rules.default_spread.iter().map(with_selector).collect()
}

/// Whether a term of `owner` is about `pod`.
fn is_about(snapshot: &Snapshot, owner: &Pod, term: &PodAffinityTerm, pod: &Pod) -> bool {
    let own = term.namespaces.is_empty() && term.namespace_selector.is_none();
    let by_label = |selector: &LabelSelector| {
        selector.terms.is_empty()
            || snapshot.namespaces.get(&pod.id.namespace).is_some_and(|labels| selector.matches(labels))
    };
    let namespace = (own && pod.id.namespace == owner.id.namespace)
        || term.namespaces.contains(&pod.id.namespace)
        || term.namespace_selector.as_ref().is_some_and(by_label);
    let alike = |key: &Str| owner.labels.get(key).is_none_or(|value| pod.labels.get(key) == Some(value));
    let unlike = |key: &Str| owner.labels.get(key).is_none_or(|value| pod.labels.get(key) != Some(value));
    namespace
        && term.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
        && term.match_label_keys.iter().all(alike)
        && term.mismatch_label_keys.iter().all(unlike)
}

/// Whether a pod shares a domain with one that it wants to be near, or is the first of its own kind. Who was first
/// cannot be seen any more where pods that make no such demand came too: then alone is taken for first.
fn is_near(
    snapshot: &Snapshot,
    pod: &Pod,
    term: &PodAffinityTerm,
    host: &Host<'_>,
    hosts: &[Host<'_>],
) -> bool {
    let Some(own) = host.domains(&term.key) else { return false };
    let mut near: BTreeSet<Str> = BTreeSet::new();
    let (mut runs, mut demands, mut comes) = (false, false, false);
    for other in hosts {
        let is_partner = |partner: &&Arc<Pod>| {
            partner.uid != pod.uid && partner.is_active() && is_about(snapshot, pod, term, partner)
        };
        let placed: Vec<&Arc<Pod>> = other.placed.iter().filter(is_partner).collect();
        let running = other.running.iter().any(|partner| is_partner(&partner));
        if placed.is_empty() && !running {
            continue;
        }
        if other.name == host.name {
            return true;
        }
        runs |= running;
        demands |= placed.iter().any(|partner| partner.spec.pod_affinity.contains(term));
        comes |= placed.iter().any(|partner| !partner.spec.pod_affinity.contains(term));
        near.extend(other.domains(&term.key).unwrap_or_default());
    }
    let first = !runs && (!demands || comes) && is_about(snapshot, pod, term, pod);
    own.is_subset(&near) || first
}

/// Pods that may end up in the domain of `pod` although it wants none of them there; only pairs that the plan made.
fn conflicts(
    snapshot: &Snapshot,
    pod: &Arc<Pod>,
    term: &PodAffinityTerm,
    host: &Host<'_>,
    hosts: &[Host<'_>],
) -> Vec<(String, String)> {
    let Some(own) = host.domains(&term.key) else { return Vec::new() };
    let new = |other: &Host<'_>, pod: &Pod| other.placed.iter().any(|placed| placed.uid == pod.uid);
    let mut violations = Vec::new();
    for other in hosts {
        let shared = other.domains(&term.key).is_some_and(|domains| !domains.is_disjoint(&own));
        for neighbour in
            other.pods().filter(|neighbour| shared && neighbour.uid != pod.uid && neighbour.is_active())
        {
            let made_now = new(host, pod) || new(other, neighbour);
            if made_now && is_about(snapshot, pod, term, neighbour) {
                violations.push((other.name.clone(), neighbour.id.to_string()));
            }
        }
    }
    violations
}

/// By how much a spread is exceeded. Judged only where every pod that counts makes the same demand, and every one of
/// them has its domain: otherwise the order of placement matters.
fn excess(
    snapshot: &Snapshot,
    pod: &Pod,
    spread: &TopologySpread,
    host: &Host<'_>,
    hosts: &[Host<'_>],
) -> Option<i64> {
    let counted = |other: &Pod| {
        let alike = |key: &Str| pod.labels.get(key).is_none_or(|value| other.labels.get(key) == Some(value));
        other.id.namespace == pod.id.namespace
            && spread.selector.as_ref().is_some_and(|selector| selector.matches(&other.labels))
            && spread.match_label_keys.iter().all(alike)
            && !other.is_terminating()
    };
    let own = host.domains(&spread.key)?;
    if own.len() != 1 || !counted(pod) {
        return None;
    }
    let mut counts: BTreeMap<Str, i64> = BTreeMap::new();
    for other in hosts.iter().filter(|other| is_domain(snapshot, pod, spread, other)) {
        let domains = other.domains(&spread.key).unwrap_or_default();
        let pods: Vec<&Arc<Pod>> = other.pods().filter(|other| counted(other)).collect();
        if domains.len() != 1 {
            if !pods.is_empty() {
                return None;
            }
            continue;
        }
        if other.placed.iter().any(|p| counted(p) && p.spec != pod.spec) {
            return None;
        }
        let count = i64::try_from(pods.len()).unwrap_or(i64::MAX);
        *counts.entry(domains.into_iter().next()?).or_default() += count;
    }
    let few = spread
        .min_domains
        .is_some_and(|least| i64::try_from(counts.len()).unwrap_or(i64::MAX) < i64::from(least));
    let least = if few { 0 } else { counts.values().copied().min().unwrap_or(0) };
    let skew = counts.get(own.first()?).copied().unwrap_or(0) - least;
    (skew > i64::from(spread.max_skew)).then_some(skew)
}

/// Whether a host is a domain for a spread: a node that is still to come has the well-known labels that it needs, and
/// no others than it says.
fn is_domain(snapshot: &Snapshot, pod: &Pod, spread: &TopologySpread, host: &Host<'_>) -> bool {
    let mut offered = host.requirements.clone();
    for (key, value) in &host.labels {
        offered.replace(Requirement::is_in(key.clone(), [value.clone()]));
    }
    offered.replace(Requirement::is_in(labels::HOSTNAME, [host.name.as_str()]));
    let may_lack = |key: &str| host.new_claim.is_some() && snapshot.schema.is_well_known(key);
    let allowed = !spread.honor_node_affinity
        || alternatives(pod)
            .iter()
            .any(|all| all.iter().all(|wanted| offered.compatible(wanted, may_lack).is_ok()));
    let tolerated =
        !spread.honor_node_taints || first_untolerated(&host.taints, &pod.spec.tolerations).is_none();
    allowed && tolerated
}
