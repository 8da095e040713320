//! The kubelets of the fake cloud's instances, and the controllers of a cloud for nodes: the only module of this crate with a Kubernetes
//! client.
//!
//! One task observes instances, Nodes and Pods, and asks the pure functions of [`decide`] for the next action of each; work runs in due
//! order with a bounded number of concurrent calls. A failed call is decided again after a backoff; a broken watch is restarted.

mod adopt;
mod decide;
mod objects;
mod queue;
mod run;
mod view;

use std::time::Duration;

pub use adopt::{AdoptError, adopt, follow};
pub use run::Kubelets;

/// Reason of a condition of a permanently broken kubelet, which does not become ready again.
pub const BROKEN: &str = "KubeletBroken";

/// Reason of the Ready condition of a node that has just joined.
const NOT_READY: &str = "KubeletNotReady";
/// Reason of the conditions of a node whose kubelet is silent.
const LOST: &str = "NodeStatusUnknown";

/// The behavior of kubelets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletConfig {
    /// Time from joining until ready.
    pub ready_after: Duration,
    /// How long a ready node keeps the not-ready taint before the kubelet removes it: long enough for a node lifecycle controller to come
    /// first.
    pub untaint_after: Duration,
    /// The interval of lease renewals; `None` disables leases.
    pub lease_interval: Option<Duration>,
    /// Time from the start of a termination until the node is lost.
    pub lost_after: Duration,
    /// Time after that until a Node without finalizers is deleted.
    pub remove_after: Duration,
    /// Time until the pods of a deleted Node are deleted.
    pub orphan_after: Duration,
    /// Time from binding until running.
    pub pod_start: Duration,
    /// Maximum time until containers stop after their preStop hooks.
    pub pod_stop: Duration,
    /// Retry interval for a pod that a finalizer holds.
    pub retry_finish: Duration,
    /// Minimum backoff after a failed call or a broken watch; it doubles up to 30 s.
    pub backoff: Duration,
    /// Timeout of a call.
    pub call_deadline: Duration,
    /// Maximum number of concurrent calls.
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
    /// Kubelets without leases, so that idle nodes cause almost no calls.
    #[must_use]
    pub fn without_leases() -> Self {
        Self { lease_interval: None, ..Self::default() }
    }
}

#[cfg(test)]
mod tests;
