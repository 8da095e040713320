//! Default spread constraints: what pods without any of their own obey (`SCHEDULER_CONFIG`).

use std::sync::Arc;

use super::tables::Tables;
use crate::model::{Pod, Str, TopologySpread, pod::PodSpec};
use crate::scheduling::ids::LabelSetId;

/// Pods that get the same constraints: address of the spec, kind of pod, UID of the owner.
pub(super) type SpecKey = (usize, LabelSetId, Option<Str>);

impl Tables {
    /// The spec that a pod is scheduled by, where that is not its own: with the default constraints. A pod that has
    /// constraints, or that no Service and no controller selects, gets none.
    pub(super) fn default_spec(&mut self, pod: &Pod, kind: LabelSetId) -> Option<Arc<PodSpec>> {
        if self.rules.default_spread.is_empty() || !pod.spec.topology_spread.is_empty() {
            return None;
        }
        let owner = pod.owner.as_ref().map(|owner| owner.uid.clone());
        let key = (Arc::as_ptr(&pod.spec) as usize, kind, owner);
        if let Some((_, known)) = self.default_specs.get(&key) {
            return known.clone();
        }
        let selector = self.snapshot.workloads.default_selector(pod);
        let spec = selector.map(|selector| {
            let constraint = |spread: &TopologySpread| TopologySpread {
                selector: Some(selector.clone()),
                ..spread.clone()
            };
            let topology_spread = self.rules.default_spread.iter().map(constraint).collect();
            Arc::new(PodSpec { topology_spread, ..(*pod.spec).clone() })
        });
        // The original is kept, so that its address stays its own.
        self.default_specs.insert(key, (Arc::clone(&pod.spec), spec.clone()));
        spec
    }
}
