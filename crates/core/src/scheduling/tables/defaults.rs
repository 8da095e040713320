//! Default spread constraints: what pods without any of their own obey (`SCHEDULER_CONFIG`).

use std::sync::Arc;

use crate::{
    model::{Pod, Str, TopologySpread, pod::PodSpec},
    scheduling::{
        ids::LabelSetId,
        tables::{Tables, shared::Shared},
    },
};

/// The identity of pods that get the same default constraints: spec, label set, UID of the owner.
pub(crate) type SpecKey = (Shared<PodSpec>, LabelSetId, Option<Str>);

/// The spec that a pod is scheduled by, where that is not its own: with the default constraints. A pod that has
/// constraints, or that no Service and no controller selects, gets none.
pub(crate) fn default_spec(tables: &mut Tables, pod: &Pod, label_set: LabelSetId) -> Option<Arc<PodSpec>> {
    if tables.rules.default_spread.is_empty() || !pod.spec.topology_spread.is_empty() {
        return None;
    }
    let owner = pod.owner.as_ref().map(|owner| owner.uid.clone());
    let key = (Shared::new(&pod.spec), label_set, owner);
    if let Some(known) = tables.default_specs.get(&key) {
        return known.clone();
    }
    let selector = tables.snapshot.workloads.default_selector(pod);
    let spec = selector.map(|selector| {
        let constraint =
            |spread: &TopologySpread| TopologySpread { selector: Some(selector.clone()), ..spread.clone() };
        let topology_spread = tables.rules.default_spread.iter().map(constraint).collect();
        Arc::new(PodSpec { topology_spread, ..(*pod.spec).clone() })
    });
    tables.default_specs.insert(key, spec.clone());
    spec
}
