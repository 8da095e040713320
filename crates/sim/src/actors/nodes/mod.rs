//! What the node controllers of kube-controller-manager do: taints by condition, silence noticed, pods evicted from
//! nodes that they do not tolerate, and pods of lost nodes collected.

mod collect;
mod evict;
mod lifecycle;

use std::sync::Arc;

use super::actor::Actor;

/// The actors of this folder.
pub(crate) fn all() -> Vec<Arc<dyn Actor>> {
    vec![
        Arc::new(lifecycle::Lifecycle::default()),
        Arc::new(evict::TaintEviction::default()),
        Arc::new(collect::PodCollector::default()),
    ]
}
