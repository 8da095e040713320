//! Takes constraints away from pods, so that the solver can be asked without them.

use fleetwright_core::model::{Taint, Toleration, pod::PodSpec, taint::TolerationOperator};

/// Takes a constraint away.
pub(super) type Lift = Box<dyn Fn(&mut PodSpec)>;

/// The toleration of one taint.
pub(super) fn tolerating(taint: &Taint) -> Toleration {
    Toleration {
        key: taint.key.clone(),
        operator: TolerationOperator::Equal,
        value: taint.value.clone(),
        effect: Some(taint.effect),
        seconds: None,
    }
}

/// Removes what node selector and affinity say of a label.
pub(super) fn drop_key(spec: &mut PodSpec, key: &str) {
    spec.node_selector.retain(|(known, _)| &**known != key);
    for term in &mut spec.required_node_terms {
        term.retain(|wanted| &**wanted.key() != key);
    }
    // A term without requirements selects nothing.
    spec.required_node_terms.retain(|term| !term.is_empty());
    for (_, term) in &mut spec.preferred_node_terms {
        term.retain(|wanted| &**wanted.key() != key);
    }
    spec.preferred_node_terms.retain(|(_, term)| !term.is_empty());
}

/// Removes the topology constraints of a key.
pub(super) fn drop_topology(spec: &mut PodSpec, key: &str) {
    spec.topology_spread.retain(|spread| &*spread.key != key);
    spec.pod_affinity.retain(|term| &*term.key != key);
    spec.pod_anti_affinity.retain(|term| &*term.key != key);
    spec.preferred_pod_affinity.retain(|(_, term)| &*term.key != key);
    spec.preferred_pod_anti_affinity.retain(|(_, term)| &*term.key != key);
}
