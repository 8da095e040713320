//! The snapshot after the start of a command.

use std::sync::Arc;

use super::Command;
use crate::{
    model::{
        Labels, NodeClaim, Requirements, Snapshot, StateNode, Str,
        labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE},
    },
    scheduling::NewClaim,
};

/// Marks the candidates of `command`, the `nth` of its pass, and adds its replacements, as the index does when a command
/// starts. The indices of nodes do not change.
pub(super) fn start(snapshot: &mut Snapshot, command: &Command, nth: usize) {
    for candidate in &command.candidates {
        if let Some(node) = snapshot.nodes.get_mut(candidate.index) {
            Arc::make_mut(node).marked_for_deletion = true;
        }
    }
    for (position, new_claim) in command.replacements.iter().enumerate() {
        // Nodes are sorted by name: a tilde sorts after every character of a name.
        let claim = expected_claim(new_claim, &format!("~{nth:06}-{position:03}-{}", new_claim.pool.name));
        for pod in &new_claim.pods {
            snapshot.nominated.insert(pod.uid.clone(), Str::from(claim.name.as_str()));
        }
        snapshot.nodes.push(Arc::new(StateNode::new(Some(Arc::new(claim)), None, Vec::new())));
    }
}

/// The NodeClaim of a replacement, as large as its expected offering.
fn expected_claim(new_claim: &NewClaim, name: &str) -> NodeClaim {
    let chosen = &new_claim.chosen;
    let found = new_claim.instance_types.iter().find(|known| known.name == chosen.instance_type);
    let (capacity, allocatable) =
        found.map_or_else(Default::default, |found| (found.capacity.clone(), found.allocatable()));
    let mut labels: Labels = new_claim.labels.clone();
    labels.insert(NODEPOOL.into(), new_claim.pool.name.as_str().into());
    for (key, value) in
        [(INSTANCE_TYPE, &chosen.instance_type), (ZONE, &chosen.zone), (CAPACITY_TYPE, &chosen.capacity_type)]
    {
        if !value.is_empty() {
            labels.insert(key.into(), value.clone());
        }
    }
    let mut requirements: Requirements = new_claim.requirements.clone();
    for requirement in Requirements::from_labels(&labels).iter() {
        requirements.replace(requirement.clone());
    }
    NodeClaim {
        pool: Some(new_claim.pool.name.clone()),
        labels,
        annotations: new_claim.annotations.clone(),
        taints: new_claim.taints.clone(),
        startup_taints: new_claim.startup_taints.clone(),
        requirements,
        requests: new_claim.requests.clone(),
        intended_pods: new_claim.pods.iter().map(|pod| pod.uid.clone()).collect(),
        capacity,
        allocatable,
        ..NodeClaim::new(name, new_claim.pool.template.class.clone(), new_claim.pool.created)
    }
}
