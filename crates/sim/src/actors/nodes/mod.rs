//! The node controllers of kube-controller-manager: taints by condition, missed lease renewals, taint eviction, and garbage collection of
//! pods.

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
