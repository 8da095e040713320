//! The observable state of a simulator at one moment, as values: `demo` prints it, scenarios compare it.

use std::collections::BTreeMap;

use fleetwright_core::model::{Price, Resources};
use jiff::Timestamp;
use serde::Serialize;

/// Nodes and pods at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Overview {
    /// Virtual time.
    pub at: Timestamp,
    /// Nodes that the autoscaler launched, oldest first.
    pub nodes: Vec<NodeOverview>,
    /// NodeClaims by state.
    pub claims: ClaimCounts,
    /// Pods of all namespaces.
    pub pods: PodCounts,
    /// The current cost of all instances, in nano-dollars per hour.
    #[serde(serialize_with = "nanos")]
    pub hourly: Price,
    /// NodeClaims created since the start.
    pub claims_created: u64,
    /// Deleted NodeClaims by reason (`Underutilized`, `Empty`, `Drifted`, `Expired`, …; `Deleted` without a reason).
    pub removed: BTreeMap<String, u64>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeOverview {
    /// Name of the node.
    pub name: String,
    /// Name of its NodeClaim; empty without one.
    pub claim: String,
    /// NodePool.
    pub pool: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: String,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: String,
    /// Price of its instance, in nano-dollars per hour.
    #[serde(serialize_with = "nanos")]
    pub price: Price,
    /// Its state.
    pub phase: NodePhase,
    /// Allocatable resources: CPU in milli-CPUs, memory in bytes.
    #[serde(serialize_with = "cpu_and_memory")]
    pub allocatable: Resources,
    /// Requests of its pods.
    #[serde(serialize_with = "cpu_and_memory")]
    pub requested: Resources,
    /// Pods that are bound or assigned to it.
    pub pods: usize,
    /// When the node joined.
    pub created: Timestamp,
}

/// The state of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodePhase {
    /// Joined, not ready yet.
    #[default]
    Starting,
    /// Ready.
    Ready,
    /// Tainted for disruption: no new pods.
    Disrupted,
    /// Being deleted.
    Draining,
}

/// NodeClaims by state. Each is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClaimCounts {
    /// No instance yet.
    pub launching: usize,
    /// Launched, not registered yet.
    pub registering: usize,
    /// Registered, not initialized yet.
    pub initializing: usize,
    /// Initialized.
    pub initialized: usize,
    /// Being deleted.
    pub deleting: usize,
}

/// Pods by state. Each is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PodCounts {
    /// Without a node.
    pub pending: usize,
    /// On a node, not running yet.
    pub starting: usize,
    /// Running.
    pub running: usize,
    /// Being deleted.
    pub terminating: usize,
    /// Succeeded or failed.
    pub ended: usize,
}

impl Overview {
    /// Nodes by instance type.
    #[must_use]
    pub fn nodes_by_type(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for node in &self.nodes {
            let count: &mut usize = counts.entry(node.instance_type.clone()).or_default();
            *count = count.saturating_add(1);
        }
        counts
    }
}

fn nanos<S: serde::Serializer>(price: &Price, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(price.nanos())
}

fn cpu_and_memory<S: serde::Serializer>(amount: &Resources, serializer: S) -> Result<S::Ok, S::Error> {
    BTreeMap::from([("cpuMilli", amount.cpu()), ("memoryBytes", amount.memory())]).serialize(serializer)
}
