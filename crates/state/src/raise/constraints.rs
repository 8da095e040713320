//! A summary of the constraints of a NodeClaim's pods at the time of the decision, for users. No code reads it.

use std::{
    collections::BTreeMap,
    fmt::{Display, Write as _},
    sync::Arc,
};

use fleetwright_core::model::{
    Pod, Requirement,
    pod::{PodAffinityTerm, PodSpec, TopologySpread},
    volume::VolumeRef,
};

/// The maximum number of groups of pods that are listed; the others are counted.
const SHAPES: usize = 8;
/// Maximum bytes per group: the total is below 4.5 KiB.
const SHAPE_BYTES: usize = 512;
/// Names within one list.
const NAMED: usize = 5;

/// Constraints of `pods`, those that ask for the same together: how many, then what, as in
/// `2 pods (cpu: 1, memory: 1Gi, pods: 1; selector disk=ssd)`; shapes of most pods come first. Nothing for no pods, or where all stand for a
/// buffer.
#[must_use]
pub fn constraints(pods: &[Arc<Pod>]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.is_virtual) {
        *counts.entry(shortened(shape(&pod.spec))).or_default() += 1;
    }
    let mut shapes: Vec<(String, usize)> = counts.into_iter().collect();
    shapes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut groups: Vec<String> =
        shapes.iter().take(SHAPES).map(|(text, count)| format!("{count} pods ({text})")).collect();
    if shapes.len() > SHAPES {
        let rest = &shapes[SHAPES..];
        let pods: usize = rest.iter().map(|(_, count)| count).sum();
        groups.push(format!("{pods} pods of {} other shapes", rest.len()));
    }
    groups.join("; ")
}

/// The constraints that decide a pod's placement, without its identity. Preferences are included: they may have been relaxed.
fn shape(spec: &PodSpec) -> String {
    let mut text = spec.requests.to_string();
    let selector = spec.node_selector.iter().map(|(key, value)| format!("{key}={value}"));
    part(&mut text, "selector", selector, ", ");
    let terms = spec.required_node_terms.iter().map(|term| joined(term.iter().map(requirement), " and "));
    part(&mut text, "affinity", terms, " or ");
    part(&mut text, "spread", spec.topology_spread.iter().filter(|spread| spread.hard).map(spread_of), ", ");
    part(&mut text, "with pods by", spec.pod_affinity.iter().map(domain), ", ");
    part(&mut text, "apart from pods by", spec.pod_anti_affinity.iter().map(domain), ", ");
    let soft = spec.topology_spread.iter().filter(|spread| !spread.hard).count()
        + spec.preferred_node_terms.len()
        + spec.preferred_pod_affinity.len()
        + spec.preferred_pod_anti_affinity.len();
    part(&mut text, "preferences", (soft > 0).then_some(soft).into_iter(), "");
    let tolerated = spec.tolerations.iter().map(|toleration| match &toleration.key {
        key if key.is_empty() => "all".to_owned(),
        key => key.to_string(),
    });
    part(&mut text, "tolerates", tolerated, ", ");
    part(&mut text, "ports", spec.host_ports.iter().map(|port| port.port), ", ");
    let volumes = spec.volumes.iter().map(|volume| match volume {
        VolumeRef::Claim(name) => name.clone(),
        VolumeRef::Ephemeral { volume, .. } => volume.clone(),
    });
    part(&mut text, "volumes", volumes, ", ");
    part(&mut text, "resource claims", spec.resource_claims.iter().map(|claim| &claim.name), ", ");
    text
}

/// Appends `; name entries` with a few entries, if there are any.
fn part<T: Display>(text: &mut String, name: &str, entries: impl Iterator<Item = T>, between: &str) {
    let list = joined(entries, between);
    if !list.is_empty() {
        // Writing to a string does not fail.
        let _ = write!(text, "; {name} {list}");
    }
}

fn joined<T: Display>(entries: impl Iterator<Item = T>, between: &str) -> String {
    let all: Vec<T> = entries.collect();
    let shown: Vec<String> = all.iter().take(NAMED).map(ToString::to_string).collect();
    let mut list = shown.join(between);
    if all.len() > NAMED {
        let _ = write!(list, " and {} more", all.len() - NAMED);
    }
    list
}

fn requirement(wanted: &Requirement) -> String {
    wanted.to_string()
}

fn spread_of(spread: &TopologySpread) -> String {
    format!("{} by at most {}", spread.key, spread.max_skew)
}

fn domain(term: &PodAffinityTerm) -> String {
    term.key.to_string()
}

fn shortened(text: String) -> String {
    if text.len() <= SHAPE_BYTES {
        return text;
    }
    let end = (0..=SHAPE_BYTES - 3).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    //! The summary and its maximum size.
    use fleetwright_core::testing::pod;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_pods_are_listed_together() {
        let web = |name: &str| pod(name).cpu(500).selector("disk", "ssd").build();
        let port = pod("p").cpu(250).host_port(80).build();
        let spread = pod("q")
            .cpu(100)
            .with_spec(|spec| {
                spec.topology_spread.push(TopologySpread {
                    max_skew: 1,
                    key: "topology.kubernetes.io/zone".into(),
                    hard: true,
                    selector: None,
                    min_domains: None,
                    honor_node_affinity: true,
                    honor_node_taints: false,
                    match_label_keys: Vec::new(),
                });
                spec.volumes.push(VolumeRef::Claim("data".into()));
                let zones = Requirement::is_in("topology.kubernetes.io/zone", ["a", "b"]);
                spec.required_node_terms.push(vec![zones, Requirement::exists("gpu")]);
            })
            .build();
        let summary = constraints(&[port, web("b"), spread, web("a")]);
        assert!(summary.starts_with("2 pods (cpu: 500m"), "{summary}");
        assert!(summary.contains("; selector disk=ssd)"), "{summary}");
        assert!(summary.contains("; ports 80)"), "{summary}");
        let affinity = "; affinity topology.kubernetes.io/zone In [a b] and gpu Exists; \
                        spread topology.kubernetes.io/zone by at most 1; volumes data)";
        assert!(summary.contains(affinity), "{summary}");
        assert_eq!(constraints(&[]), "");
        let buffer = pod("v").with(|pod| pod.is_virtual = true).build();
        assert_eq!(constraints(&[buffer]), "", "virtual pods of a buffer are left out");
    }

    proptest! {
        #[test]
        fn a_record_is_bounded(shapes in 0_usize..40, selectors in 0_usize..40, value in "[a-zäö]{0,63}") {
            let of = |n: usize| {
                let entry = |at: usize| (format!("example.com/key-{at}").into(), value.as_str().into());
            let selector = (0..selectors).map(entry);
                let cpu = i64::try_from(n).unwrap();
                pod(&n.to_string()).cpu(cpu).with_spec(|spec| spec.node_selector = selector.collect()).build()
            };
            let pods: Vec<_> = (0..shapes).map(of).collect();
            let summary = constraints(&pods);
            prop_assert!(summary.len() < 4608, "{} bytes", summary.len());
            prop_assert_eq!(summary.contains("other shapes"), shapes > SHAPES);
        }
    }

    #[test]
    fn pods_that_keep_together_or_apart_say_so() {
        let term = |key| fleetwright_core::testing::affinity_to(key, "web");
        let both = pod("p").with_spec(|spec| {
            spec.pod_affinity.push(term("zone"));
            spec.pod_anti_affinity.push(term("host"));
        });
        let summary = constraints(&[both.build()]);
        assert!(summary.contains("; with pods by zone; apart from pods by host)"), "{summary}");
    }

    #[test]
    fn a_long_text_is_cut_at_the_maximum() {
        assert_eq!(shortened("a".repeat(SHAPE_BYTES)), "a".repeat(SHAPE_BYTES));
        assert_eq!(shortened("a".repeat(SHAPE_BYTES + 1)), format!("{}...", "a".repeat(SHAPE_BYTES - 3)));
    }
}
