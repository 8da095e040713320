//! Whether each pod may be where it is, topology aside.

use super::Host;
use crate::{
    model::{
        InstanceType, Labels, Offering, Pod, Requirement, Requirements, Resources, Snapshot, Taint,
        TaintEffect, labels, pod::HostPort, taint::first_untolerated,
    },
    scheduling::{Opening, Rules},
};

pub(super) fn check(snapshot: &Snapshot, rules: &Rules, host: &Host<'_>, found: &mut Vec<String>) {
    if host.placed.is_empty() {
        if host.opening.is_some() {
            found.push(format!("{} is for nobody", host.name));
        }
        return;
    }
    for pod in &host.placed {
        if !tolerated(&host.taints, pod) {
            found.push(format!("{} does not tolerate the taints of {}", pod.id, host.name));
        }
        if !selects(snapshot, host, pod) {
            found.push(format!("{} does not select {} ({})", pod.id, host.name, host.requirements));
        }
        let others = host.pods().filter(|other| other.uid != pod.uid);
        let taken =
            |port: &HostPort| others.clone().any(|o| o.spec.host_ports.iter().any(|p| p.conflicts(port)));
        if pod.spec.host_ports.iter().any(taken) {
            found.push(format!("{}: a host port is taken on {}", pod.id, host.name));
        }
    }
    match (host.node, host.opening) {
        (Some(node), _) => {
            if node.is_deleting() {
                found.push(format!("{} is going away", host.name));
            }
            let supply = node.allocatable();
            let mut demand = sum(host.pods().map(|pod| pod.requests()));
            demand.add_assign(&missing_daemons(snapshot, host));
            // Before launch the size is the provider's to tell.
            if (!supply.is_zero() || node.is_launched()) && !demand.fits(&supply) {
                found.push(format!("{} is overcommitted: {demand} on {supply}", host.name));
            }
        }
        (None, Some(opening)) => check_opening(snapshot, rules, host, opening, found),
        (None, None) => {}
    }
}

fn sum<'a>(requests: impl Iterator<Item = &'a Resources>) -> Resources {
    requests.fold(Resources::new(), |sum, more| sum.plus(more))
}

fn tolerated(taints: &[Taint], pod: &Pod) -> bool {
    let hard: Vec<Taint> =
        taints.iter().filter(|taint| taint.effect != TaintEffect::PreferNoSchedule).cloned().collect();
    first_untolerated(&hard, &pod.spec.tolerations).is_none()
}

/// The alternatives of a pod: its node selector with each of its required terms.
pub(super) fn alternatives(pod: &Pod) -> Vec<Requirements> {
    let selector = pod.spec.node_selector.iter();
    let selector = || selector.clone().map(|(key, value)| Requirement::is_in(key.clone(), [value.clone()]));
    if pod.spec.required_node_terms.is_empty() {
        return vec![selector().collect()];
    }
    pod.spec.required_node_terms.iter().map(|term| selector().chain(term.iter().cloned()).collect()).collect()
}

fn selects(snapshot: &Snapshot, host: &Host<'_>, pod: &Pod) -> bool {
    let open = host.opening.is_some() || host.node.is_some_and(|node| !node.is_launched());
    alternatives(pod).iter().any(|wanted| {
        let mut offered = host.requirements.clone();
        for (key, value) in &host.labels {
            offered.replace(Requirement::is_in(key.clone(), [value.clone()]));
        }
        offered.replace(Requirement::is_in(labels::HOSTNAME, [host.name.as_str()]));
        if open {
            offered.compatible_claim(wanted, &snapshot.schema).is_ok()
        } else {
            offered.compatible(wanted, |_| false).is_ok()
        }
    })
}

/// What daemons that are not on a machine yet will take there.
fn missing_daemons(snapshot: &Snapshot, host: &Host<'_>) -> Resources {
    let fits =
        |daemon: &&std::sync::Arc<Pod>| tolerated(&host.taints, daemon) && selects(snapshot, host, daemon);
    let expected = sum(snapshot.daemons.iter().filter(fits).map(|daemon| daemon.requests()));
    let there = sum(host.running.iter().filter(|pod| pod.is_daemon()).map(|pod| pod.requests()));
    expected.minus(&there).floored()
}

fn check_opening(
    snapshot: &Snapshot,
    rules: &Rules,
    host: &Host<'_>,
    opening: &Opening,
    found: &mut Vec<String>,
) {
    let named = &opening.instance_types;
    if named.is_empty() || named.len() > rules.max_instance_types {
        found.push(format!("{} names {} types", host.name, named.len()));
    }
    let demand = sum(opening.pods.iter().map(|pod| pod.requests()));
    if !demand.fits(&opening.requests) {
        found.push(format!("{}: requests {} are less than {demand}", host.name, opening.requests));
    }
    let mut cheapest = None;
    for instance_type in named.iter() {
        let bought: Vec<&Offering> = instance_type
            .offerings
            .iter()
            .filter(|offering| buys(opening, instance_type, offering))
            .collect();
        let daemons = daemons(snapshot, opening, instance_type);
        let mut holds = bought
            .iter()
            .filter(|offering| demand.plus(&daemons).fits(&instance_type.allocatable_of(offering)))
            .peekable();
        if holds.peek().is_none() {
            found.push(format!("{}: {} cannot hold {demand}", host.name, instance_type.name));
        }
        cheapest = holds.map(|offering| offering.price).chain(cheapest).min();
    }
    if cheapest != Some(opening.chosen.price) {
        found.push(format!("{}: {:?} is not the cheapest ({cheapest:?})", host.name, opening.chosen));
    }
    for requirement in opening.requirements.iter().filter(|requirement| requirement.min_values().is_some()) {
        let of_types = named.iter().filter_map(|t| t.requirements.get(requirement.key()));
        let values: std::collections::BTreeSet<_> = of_types.flat_map(|r| r.values()).collect();
        if u32::try_from(values.len()).ok() < requirement.min_values() {
            found.push(format!("{}: minValues of {} is not met", host.name, requirement.key()));
        }
    }
}

fn buys(opening: &Opening, instance_type: &InstanceType, offering: &Offering) -> bool {
    offering.available
        && opening.requirements.intersects(&instance_type.requirements).is_ok()
        && opening.requirements.intersects(&offering.requirements).is_ok()
}

/// What daemons take on a node of an instance type.
fn daemons(snapshot: &Snapshot, opening: &Opening, instance_type: &InstanceType) -> Resources {
    let pool = &opening.pool;
    let mut node = pool.template.requirements.clone();
    node.add_all(&Requirements::from_labels(&opening.labels));
    node.add_all(&instance_type.requirements);
    let ready: Labels =
        [(labels::REGISTERED.into(), "true".into()), (labels::INITIALIZED.into(), "true".into())].into();
    node.add_all(&Requirements::from_labels(&ready));
    let runs = |daemon: &&std::sync::Arc<Pod>| {
        tolerated(&pool.template.taints, daemon)
            && alternatives(daemon)
                .iter()
                .any(|wanted| node.compatible_claim(wanted, &snapshot.schema).is_ok())
    };
    sum(snapshot.daemons.iter().filter(runs).map(|daemon| daemon.requests()))
}
