//! Whether each pod may be where it is, topology aside.

use std::{collections::BTreeSet, sync::Arc};

use super::Host;
use crate::{
    model::{
        InstanceType, Labels, NamespacedName, Offering, Pod, Requirement, Requirements, Resources, Snapshot,
        StateNode, Str, Taint, TaintEffect, VolumeState, labels, pod::HostPort, taint::first_untolerated,
        volume::VolumeRef,
    },
    scheduling::{NewClaim, Rules},
};

pub(super) fn check(snapshot: &Snapshot, rules: &Rules, host: &Host<'_>, violations: &mut Vec<String>) {
    if host.placed.is_empty() {
        if host.new_claim.is_some() {
            violations.push(format!("{} is for nobody", host.name));
        }
        return;
    }
    for pod in &host.placed {
        if !tolerated(&host.taints, pod) {
            violations.push(format!("{} does not tolerate the taints of {}", pod.id, host.name));
        }
        if !selects(snapshot, host, pod) {
            violations.push(format!("{} does not select {} ({})", pod.id, host.name, host.requirements));
        }
        volumes(snapshot, host, pod, violations);
        let others = host.pods().filter(|other| other.uid != pod.uid);
        let taken =
            |port: &HostPort| others.clone().any(|o| o.spec.host_ports.iter().any(|p| p.conflicts(port)));
        if pod.spec.host_ports.iter().any(taken) {
            violations.push(format!("{}: a host port is taken on {}", pod.id, host.name));
        }
    }
    match (host.node, host.new_claim) {
        (Some(node), _) => {
            if node.is_deleting() {
                violations.push(format!("{} is going away", host.name));
            }
            let supply = node.allocatable();
            let mut demand = sum(host.pods().map(|pod| pod.requests()));
            demand.add_assign(&missing_daemons(snapshot, host));
            attachments(snapshot, node, host, violations);
            // What is overcommitted already matters to those alone that ask for more of it.
            let requests = sum(host.placed.iter().map(|pod| pod.requests()));
            let over = requests.iter().any(|(name, more)| more > 0 && demand.get(&name) > supply.get(&name));
            // Before launch the size is the provider's to tell.
            if (!supply.is_zero() || node.is_launched()) && over {
                violations.push(format!("{} is overcommitted: {demand} on {supply}", host.name));
            }
        }
        (None, Some(new_claim)) => check_new_claim(snapshot, rules, host, new_claim, violations),
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

/// The alternatives of a pod: its node selector with each of its required terms, requirement by requirement, since two
/// on one key must both hold.
pub(super) fn alternatives(pod: &Pod) -> Vec<Vec<Requirements>> {
    let selector = pod.spec.node_selector.iter();
    let selector = || selector.clone().map(|(key, value)| Requirement::is_in(key.clone(), [value.clone()]));
    let alone = |requirement: Requirement| -> Requirements { [requirement].into_iter().collect() };
    if pod.spec.required_node_terms.is_empty() {
        return vec![selector().map(alone).collect()];
    }
    let terms = pod.spec.required_node_terms.iter();
    terms.map(|term| selector().chain(term.iter().cloned()).map(alone).collect()).collect()
}

fn selects(snapshot: &Snapshot, host: &Host<'_>, pod: &Pod) -> bool {
    alternatives(pod).iter().any(|all| all.iter().all(|wanted| meets(snapshot, host, wanted)))
}

/// Whether a host is or can be what is asked for.
fn meets(snapshot: &Snapshot, host: &Host<'_>, wanted: &Requirements) -> bool {
    let open = host.new_claim.is_some() || host.node.is_some_and(|node| !node.is_launched());
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
}

/// Alternatives of where a volume can be, and driver and handle of what is attached for it.
type Reach = (Vec<Vec<Requirement>>, Option<(Str, Str)>);

/// How a volume can be reached; an error where its pod must not be placed at all.
fn volume(snapshot: &Snapshot, pod: &Pod, volume: &VolumeRef) -> Result<Reach, &'static str> {
    let name = match volume {
        VolumeRef::Claim(name) => name.to_string(),
        VolumeRef::Ephemeral { volume, .. } => format!("{}-{volume}", pod.id.name),
    };
    let id = NamespacedName::new(pod.id.namespace.clone(), name);
    if let Some(claim) = snapshot.volumes.get(&id) {
        let attached = claim.driver.clone().map(|driver| (driver, claim.handle.clone()));
        return match claim.state {
            VolumeState::Bound | VolumeState::WaitsForConsumer => Ok((claim.topology.clone(), attached)),
            VolumeState::UnboundImmediate => Err("is not bound yet"),
            VolumeState::Broken(_) => Err("is broken"),
        };
    }
    let class = match volume {
        VolumeRef::Claim(_) => return Err("does not exist"),
        VolumeRef::Ephemeral { storage_class: Some(name), .. } => snapshot.storage_classes.get(name),
        VolumeRef::Ephemeral { storage_class: None, .. } => {
            let defaults = snapshot.storage_classes.values().filter(|class| class.default_since.is_some());
            defaults.max_by_key(|class| class.default_since)
        }
    };
    match class {
        None => Err("has no class"),
        Some(class) if class.immediate => Err("is not bound yet"),
        Some(class) => Ok((class.topology.clone(), Some((class.driver.clone(), id.to_string().into())))),
    }
}

/// Every volume of a placed pod must be usable and reachable from its host.
fn volumes(snapshot: &Snapshot, host: &Host<'_>, pod: &Pod, violations: &mut Vec<String>) {
    for wanted in &pod.spec.volumes {
        match volume(snapshot, pod, wanted) {
            Err(why) => violations.push(format!("{} is placed, although a volume {why}", pod.id)),
            Ok((topology, _)) => {
                let reaches =
                    |term: &Vec<Requirement>| meets(snapshot, host, &term.iter().cloned().collect());
                if !topology.is_empty() && !topology.iter().any(reaches) {
                    violations.push(format!("{}: a volume cannot be reached from {}", pod.id, host.name));
                }
            }
        }
    }
}

/// No node has more volumes of a driver than it can have, unless nothing is added.
fn attachments(snapshot: &Snapshot, node: &StateNode, host: &Host<'_>, violations: &mut Vec<String>) {
    let of = |pods: &[Arc<Pod>]| -> BTreeSet<(Str, Str)> {
        let all = pods.iter().flat_map(|pod| pod.spec.volumes.iter().map(move |volume| (pod, volume)));
        all.filter_map(|(pod, wanted)| volume(snapshot, pod, wanted).ok()?.1).collect()
    };
    let mut before = of(&host.running);
    before.extend(node.attached.iter().cloned());
    let new: BTreeSet<_> = of(&host.placed).difference(&before).cloned().collect();
    for (driver, limit) in &node.volume_limits {
        let count = |set: &BTreeSet<(Str, Str)>| set.iter().filter(|(of, _)| of == driver).count();
        if count(&new) > 0 && count(&before) + count(&new) > usize::try_from(*limit).unwrap_or(usize::MAX) {
            violations.push(format!("{} has more volumes of {driver} than {limit}", host.name));
        }
    }
}

/// What daemons that are not on a node yet will take there.
fn missing_daemons(snapshot: &Snapshot, host: &Host<'_>) -> Resources {
    let fits = |daemon: &&Arc<Pod>| tolerated(&host.taints, daemon) && selects(snapshot, host, daemon);
    let expected = sum(snapshot.daemons.iter().filter(fits).map(|daemon| daemon.requests()));
    let there = sum(host.running.iter().filter(|pod| pod.is_daemon()).map(|pod| pod.requests()));
    expected.minus(&there).floored()
}

fn check_new_claim(
    snapshot: &Snapshot,
    rules: &Rules,
    host: &Host<'_>,
    new_claim: &NewClaim,
    violations: &mut Vec<String>,
) {
    let named = &new_claim.instance_types;
    if named.is_empty() || named.len() > rules.max_instance_types {
        violations.push(format!("{} names {} types", host.name, named.len()));
    }
    let demand = sum(new_claim.pods.iter().map(|pod| pod.requests()));
    if !demand.fits(&new_claim.requests) {
        violations.push(format!("{}: requests {} are less than {demand}", host.name, new_claim.requests));
    }
    let mut cheapest = None;
    for instance_type in named.iter() {
        let bought: Vec<&Offering> = instance_type
            .offerings
            .iter()
            .filter(|offering| buys(new_claim, instance_type, offering))
            .collect();
        let daemons = daemons(snapshot, new_claim, instance_type);
        let mut holds = bought
            .iter()
            .filter(|offering| demand.plus(&daemons).fits(&instance_type.allocatable_of(offering)))
            .peekable();
        if holds.peek().is_none() {
            violations.push(format!("{}: {} cannot hold {demand}", host.name, instance_type.name));
        }
        let counts = |offering: &Offering| counts(snapshot, new_claim, instance_type, offering.price.nanos());
        cheapest = holds.map(|offering| counts(offering)).chain(cheapest).min();
    }
    if cheapest != Some(new_claim.chosen.effective.nanos()) {
        violations.push(format!("{}: {:?} is not the cheapest ({cheapest:?})", host.name, new_claim.chosen));
    }
    for requirement in new_claim.requirements.iter().filter(|requirement| requirement.min_values().is_some())
    {
        let of_types = named.iter().filter_map(|t| t.requirements.get(requirement.key()));
        let values: BTreeSet<_> = of_types.flat_map(|r| r.values()).collect();
        if u32::try_from(values.len()).ok() < requirement.min_values() {
            violations.push(format!("{}: minValues of {} is not met", host.name, requirement.key()));
        }
    }
}

/// What a list price counts as, in nano-dollars: over the baseline of a burstable type, with the overhead of a node.
fn counts(snapshot: &Snapshot, new_claim: &NewClaim, instance_type: &InstanceType, list: i64) -> i64 {
    let overhead = snapshot.objective.node_overhead.nanos();
    let named =
        |key: &&str| new_claim.pool.template.requirements.get(key).is_some_and(|r| !r.is_complement());
    match instance_type.baseline {
        Some(baseline) if overhead > 0 && !baseline.keys().any(|key| named(&key)) => {
            let share = i64::from(baseline.permille());
            (list * 1000).div_euclid(share) + i64::from(list * 1000 % share > 0) + overhead
        }
        _ => list + overhead,
    }
}

fn buys(new_claim: &NewClaim, instance_type: &InstanceType, offering: &Offering) -> bool {
    offering.available
        && new_claim.requirements.overlaps(&instance_type.requirements)
        && new_claim.requirements.overlaps(&offering.requirements)
}

/// What daemons take on a node of an instance type, of what that has.
fn daemons(snapshot: &Snapshot, new_claim: &NewClaim, instance_type: &InstanceType) -> Resources {
    let pool = &new_claim.pool;
    let mut node = pool.template.requirements.clone();
    node.add_all(&Requirements::from_labels(&new_claim.labels));
    node.add_all(&instance_type.requirements);
    let ready: Labels =
        [(labels::REGISTERED.into(), "true".into()), (labels::INITIALIZED.into(), "true".into())].into();
    node.add_all(&Requirements::from_labels(&ready));
    let runs = |daemon: &&Arc<Pod>| {
        tolerated(&pool.template.taints, daemon)
            && alternatives(daemon)
                .iter()
                .any(|all| all.iter().all(|wanted| node.compatible_claim(wanted, &snapshot.schema).is_ok()))
    };
    let all = sum(snapshot.daemons.iter().filter(runs).map(|daemon| daemon.requests()));
    all.iter().filter(|(name, _)| instance_type.capacity.get(name) > 0).collect()
}
