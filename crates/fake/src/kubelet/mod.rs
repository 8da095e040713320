//! The kubelets of the fake cloud's instances, and what a cloud's controllers do for nodes: the one module of this crate
//! with a Kubernetes client.
//!
//! One task looks at instances, Nodes and Pods, and asks the pure functions of [`decide`] what comes next for each; work
//! is done in the order in which it falls due, a bounded number of calls at once. A call that fails is decided again
//! after a pause; a watch that breaks is opened again.

mod adopt;
mod classes;
mod decide;
mod fleet;
mod objects;
mod run;
mod view;

use std::time::Duration;

pub use adopt::{AdoptError, adopt};
pub use classes::watch_classes;
pub use run::Kubelets;

/// Reason of a condition that says that a kubelet is broken for good: it does not become ready by itself.
pub const BROKEN: &str = "KubeletBroken";

/// How kubelets behave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletConfig {
    /// From joining until ready.
    pub ready_after: Duration,
    /// How long a ready node may carry the not-ready taint before it is taken off here: long enough for a node lifecycle
    /// controller, where there is one, to come first.
    pub untaint_after: Duration,
    /// How often leases are renewed; `None` where nobody watches them.
    pub lease_interval: Option<Duration>,
    /// How long after an instance began to end its node counts as lost.
    pub lost_after: Duration,
    /// How long after that a Node without finalizers is removed.
    pub remove_after: Duration,
    /// How long the pods of a Node that is gone are left.
    pub orphan_after: Duration,
    /// From being bound until running.
    pub pod_start: Duration,
    /// The longest that containers take to end.
    pub pod_stop: Duration,
    /// How long until a pod that a finalizer keeps is asked to go again.
    pub retry_finish: Duration,
    /// The shortest pause after a failed call or a broken watch; it doubles up to 30 s.
    pub backoff: Duration,
    /// How long a call may take.
    pub call_deadline: Duration,
    /// How many calls are made at once.
    pub max_calls: usize,
}

impl Default for KubeletConfig {
    /// Kubelets of a cluster with a node lifecycle controller.
    fn default() -> Self {
        Self {
            ready_after: Duration::from_secs(5),
            untaint_after: Duration::from_secs(3),
            lease_interval: Some(Duration::from_secs(15)),
            lost_after: Duration::from_secs(50),
            remove_after: Duration::from_secs(120),
            orphan_after: Duration::from_secs(40),
            pod_start: Duration::from_millis(1500),
            pod_stop: Duration::from_millis(1500),
            retry_finish: Duration::from_secs(30),
            backoff: Duration::from_millis(500),
            call_deadline: Duration::from_secs(30),
            max_calls: 32,
        }
    }
}

impl KubeletConfig {
    /// Kubelets of a cluster where nobody watches leases, so that an idle fleet makes next to no calls.
    #[must_use]
    pub fn without_leases() -> Self {
        Self { lease_interval: None, ..Self::default() }
    }
}

#[cfg(test)]
mod tests;
