//! An independent judge of plans: naive, pod by pod, straight from Kubernetes' rules.
//!
//! It shares no code with the solver beyond the model, and prefers the obvious to the fast. A pod on a new NodeClaim whose
//! zone is still open counts as possibly in each of its zones.

mod devices;
mod placement;
mod topology;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{NewClaim, Plan, Request, Rules};
use crate::model::{
    Labels, Pod, Requirement, Requirements, Resources, Snapshot, StateNode, Str, Taint, labels,
};

/// A node or a new NodeClaim with all pods that the plan sees there.
struct Host<'a> {
    name: String,
    node: Option<&'a StateNode>,
    new_claim: Option<&'a NewClaim>,
    /// What it is or may become.
    requirements: Requirements,
    labels: Labels,
    taints: Vec<Taint>,
    /// Pods that stay.
    running: Vec<Arc<Pod>>,
    /// Pods that the plan puts there.
    placed: Vec<Arc<Pod>>,
}

impl Host<'_> {
    /// The values that a label may have in the end; `None` where there will be no such label.
    fn domains(&self, key: &str) -> Option<BTreeSet<Str>> {
        if key == labels::HOSTNAME {
            return Some(BTreeSet::from([self.name.as_str().into()]));
        }
        if let Some(value) = self.labels.get(key) {
            return Some(BTreeSet::from([value.clone()]));
        }
        let requirement = self.requirements.get(key)?;
        (!requirement.is_complement() && !requirement.is_empty()).then(|| requirement.values().clone())
    }

    fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> + Clone {
        self.running.iter().chain(&self.placed)
    }
}

/// Everything that is wrong with a plan; empty for a valid one.
#[must_use]
pub fn violations(snapshot: &Snapshot, request: &Request<'_>, rules: &Rules, plan: &Plan) -> Vec<String> {
    let mut violations = Vec::new();
    every_pod_once(request, plan, &mut violations);
    let hosts = hosts(snapshot, request, plan);
    for host in &hosts {
        placement::check(snapshot, rules, host, &mut violations);
        topology::check(snapshot, rules, host, &hosts, &mut violations);
    }
    limits(snapshot, request, plan, &mut violations);
    devices::check(snapshot, request, plan, &mut violations);
    violations
}

fn every_pod_once(request: &Request<'_>, plan: &Plan, violations: &mut Vec<String>) {
    let mut seen: BTreeMap<&str, usize> = request.pods.iter().map(|pod| (&*pod.uid, 0)).collect();
    let placed = plan.new_claims.iter().flat_map(|new_claim| &new_claim.pods);
    let existing = plan.existing.iter().flat_map(|placement| &placement.pods);
    for pod in placed.chain(existing).chain(plan.unplaced.iter().map(|(pod, _)| pod)) {
        match seen.get_mut(&*pod.uid) {
            Some(count) => *count += 1,
            None => violations.push(format!("{} was not asked for", pod.id)),
        }
    }
    let wrong = seen.into_iter().filter(|(_, count)| *count != 1);
    violations.extend(wrong.map(|(uid, count)| format!("{uid} has {count} verdicts")));
}

fn hosts<'a>(snapshot: &'a Snapshot, request: &Request<'_>, plan: &'a Plan) -> Vec<Host<'a>> {
    let asked: BTreeSet<&str> = request.pods.iter().map(|pod| &*pod.uid).collect();
    let mut hosts = Vec::new();
    for (index, node) in snapshot.nodes.iter().enumerate() {
        let placed = plan.existing.iter().filter(|placement| placement.node.name() == node.name());
        let placed: Vec<Arc<Pod>> = placed.flat_map(|placement| placement.pods.iter().cloned()).collect();
        let removed = request.without.contains(&index);
        // What a removal does not move runs until the deadline of its node, if that has one.
        let deadline = node.claim.as_ref().is_some_and(|claim| claim.termination_grace_period.is_some());
        let stays = |pod: &&Arc<Pod>| {
            !asked.contains(&*pod.uid) && (!removed || (deadline && pod.is_reschedulable()))
        };
        if removed && placed.is_empty() && !node.pods.iter().any(|pod| stays(&pod)) {
            continue;
        }
        hosts.push(Host {
            name: node.hostname().to_owned(),
            node: Some(node),
            new_claim: None,
            requirements: node.requirements(),
            labels: node.labels().clone(),
            taints: node.taints(),
            running: node.pods.iter().filter(stays).cloned().collect(),
            placed,
        });
    }
    for (index, new_claim) in plan.new_claims.iter().enumerate() {
        hosts.push(Host {
            name: format!("new NodeClaim #{index}"),
            node: None,
            new_claim: Some(new_claim),
            requirements: becomes(snapshot, new_claim),
            labels: new_claim.labels.clone(),
            taints: new_claim.taints.clone(),
            running: Vec::new(),
            placed: new_claim.pods.clone(),
        });
    }
    hosts
}

/// What the node of a new NodeClaim will be. A key that no provider sets is what the labels make of it, whatever the
/// requirements leave open; a zone that they leave open is one of those in which a named type can be bought.
fn becomes(snapshot: &Snapshot, new_claim: &NewClaim) -> Requirements {
    let known = new_claim.requirements.iter().filter(|wanted| snapshot.schema.is_well_known(wanted.key()));
    let mut known: Requirements = known.cloned().collect();
    if !known.contains_key(labels::ZONE) {
        let types = new_claim.instance_types.iter();
        let offerings = types
            .flat_map(|known| &known.offerings)
            .filter(|offering| offering.available && new_claim.requirements.overlaps(&offering.requirements));
        let zones: BTreeSet<Str> = offerings.filter_map(|offering| offering.zone().cloned()).collect();
        known.add(Requirement::is_in(labels::ZONE, zones));
    }
    known
}

/// No pool may exceed its limits, whatever its claims become.
fn limits(snapshot: &Snapshot, request: &Request<'_>, plan: &Plan, violations: &mut Vec<String>) {
    for pool in &snapshot.pools {
        let new_claims: Vec<&NewClaim> =
            plan.new_claims.iter().filter(|o| o.pool.name == pool.name).collect();
        if new_claims.is_empty() {
            continue;
        }
        if pool.is_static() || !pool.ready || pool.deleting {
            violations.push(format!("pool {} takes no pods", pool.name));
        }
        let (mut usage, mut nodes) = (Resources::new(), 0);
        for (index, node) in snapshot.nodes.iter().enumerate() {
            let ours = node.label(labels::NODEPOOL) == Some(&*pool.name);
            if ours && !node.is_deleting() && !request.without.contains(&index) {
                usage.add_assign(&node.at_most.clone().unwrap_or_else(|| node.capacity()));
                nodes += 1;
            }
        }
        for new_claim in new_claims {
            let sizes = new_claim.instance_types.iter().map(|instance_type| &instance_type.capacity);
            usage.add_assign(&sizes.fold(Resources::new(), |largest, size| largest.component_max(size)));
            nodes += 1;
        }
        if let Some((name, usage, limit)) = pool.limits.first_exceeded(&usage, nodes) {
            violations.push(format!("pool {}: {name} {usage} exceeds {limit}", pool.name));
        }
    }
}
