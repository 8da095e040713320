//! The cluster as it will be once a command is under way.

use std::sync::Arc;

use super::Command;
use crate::{
    model::{
        Labels, NodeClaim, Requirements, Snapshot, StateNode, Str,
        labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE},
    },
    scheduling::Opening,
};

/// Marks the machines that `command`, the `nth` of its pass, takes, and adds those that it creates, as the index does when
/// a command starts. Indices of machines stay what they are.
pub(super) fn carry_out(snapshot: &mut Snapshot, command: &Command, nth: usize) {
    for candidate in &command.candidates {
        if let Some(node) = snapshot.nodes.get_mut(candidate.index) {
            Arc::make_mut(node).marked_for_deletion = true;
        }
    }
    for (at, opening) in command.replacements.iter().enumerate() {
        // Machines are sorted by name: a tilde comes after all that a name may have.
        let claim = expected(opening, &format!("~{nth:06}-{at:03}-{}", opening.pool.name));
        for pod in &opening.pods {
            snapshot.answered.insert(pod.uid.clone(), Str::from(claim.name.as_str()));
        }
        snapshot.nodes.push(Arc::new(StateNode::new(Some(Arc::new(claim)), None, Vec::new())));
    }
}

/// The claim that an opening becomes, as large as the offering that it is expected to become.
fn expected(opening: &Opening, name: &str) -> NodeClaim {
    let chosen = &opening.chosen;
    let found = opening.instance_types.iter().find(|known| known.name == chosen.instance_type);
    let (capacity, allocatable) =
        found.map_or_else(Default::default, |found| (found.capacity.clone(), found.allocatable()));
    let mut labels: Labels = opening.labels.clone();
    labels.insert(NODEPOOL.into(), opening.pool.name.as_str().into());
    for (key, value) in
        [(INSTANCE_TYPE, &chosen.instance_type), (ZONE, &chosen.zone), (CAPACITY_TYPE, &chosen.capacity_type)]
    {
        if !value.is_empty() {
            labels.insert(key.into(), value.clone());
        }
    }
    let mut requirements: Requirements = opening.requirements.clone();
    for requirement in Requirements::from_labels(&labels).iter() {
        requirements.replace(requirement.clone());
    }
    NodeClaim {
        pool: Some(opening.pool.name.clone()),
        labels,
        annotations: opening.annotations.clone(),
        taints: opening.taints.clone(),
        startup_taints: opening.startup_taints.clone(),
        requirements,
        requests: opening.requests.clone(),
        intended_pods: opening.pods.iter().map(|pod| pod.uid.clone()).collect(),
        capacity,
        allocatable,
        ..NodeClaim::new(name, opening.pool.template.class.clone(), opening.pool.created)
    }
}
