//! The seam to the cloud of a simulator: its providers, and what it really runs.

use std::sync::Arc;

use async_trait::async_trait;
use fleetwright_core::{
    clock::SharedClock,
    cloud::{CallFault, CloudError, CloudProvider, GroundTruth, Operation},
    model::ProviderId,
};
use fleetwright_fake::Cloud;
use futures::future::BoxFuture;
use kube::Client;
use serde_json::Value;

/// What is known of a cloud before it exists, and how it is made.
pub trait CloudSetup: Send + Sync {
    /// The custom resource definitions of a cluster on this cloud: its NodeClasses, and the common ones.
    fn definitions(&self) -> Vec<Value>;

    /// The zones that it has, sorted.
    fn zones(&self) -> Vec<String>;

    /// A NodeClass called `default` that can be used. Another revision of it is another object: nodes may drift from it.
    fn node_class(&self, revision: u32) -> Value;

    /// The cloud, in the time of a simulator. It is called once for each simulator.
    fn start(&self, clock: SharedClock) -> Arc<dyn SimulatedCloud>;
}

/// A cloud in a simulator. Its calls wait for the simulator's time alone: while a socket is waited for, virtual time would pass.
#[async_trait]
pub trait SimulatedCloud: Send + Sync {
    /// Loops for the simulator's lifetime, such as one that watches NodeClasses.
    fn tasks(&self, client: Client, clock: SharedClock) -> Vec<BoxFuture<'static, ()>>;

    /// The provider of an operator. It is called at each start of one.
    ///
    /// # Errors
    /// If the cloud cannot be used.
    async fn provider(&self, clock: SharedClock) -> Result<Arc<dyn CloudProvider>, CloudError>;

    /// The instances that run or are terminating, by id, whoever owns them; read from the cloud and not by the provider. The nodes of a
    /// simulator are those of its own instances: an instance of another cluster has a `cluster_uid` and no node.
    fn ground_truth(&self) -> Vec<Arc<GroundTruth>>;

    /// Injects a fault. `false` if this cloud does not have it. Faults of nodes reach a cloud whose instances are copied without it.
    fn inject(&self, _fault: &CloudFault) -> bool {
        false
    }

    /// Removes the injected faults.
    fn heal(&self) {}

    /// Ends an instance at once, as a hardware failure. `false` if there is no such instance.
    fn lose(&self, _id: &ProviderId) -> bool {
        false
    }

    /// Announces the end of an instance. `false` if this cloud announces none.
    fn interrupt(&self, _id: &ProviderId) -> bool {
        false
    }

    /// Puts an instance into the cloud that no operator launched. Its id has no meaning: the result is the one that the cloud gave to it.
    fn adopt(&self, _instance: GroundTruth) -> Option<ProviderId> {
        None
    }

    /// The instances in memory whose kubelets the simulator runs, if the cloud has them. Otherwise the simulator copies
    /// [`Self::ground_truth`] every second.
    fn in_memory(&self) -> Option<Arc<Cloud>> {
        None
    }
}

/// What goes wrong in a cloud during a property run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloudFault {
    /// The next calls of an operation go wrong, this many.
    Calls(Operation, CallFault, u32),
    /// The next launches take this much longer.
    SlowLaunches {
        /// How many.
        count: u32,
        /// By how much, in milliseconds.
        by_ms: u64,
    },
    /// There is no spot capacity for this long.
    NoSpot {
        /// In seconds.
        for_seconds: u32,
    },
    /// The next instance never becomes a node.
    NeverJoins,
    /// The next instance has less memory than it is sold with.
    SmallerMemory {
        /// What it has, in percent.
        percent: u32,
    },
    /// The node of the next instance gets a taint some seconds after it joined.
    LateTaint {
        /// The key; the effect is `NoSchedule`.
        key: &'static str,
        /// After how many milliseconds.
        after_ms: u64,
    },
    /// Instances that were launched as one fleet cannot be tagged with their NodeClaim, or the answer is lost; the next calls, this many.
    Tagging(CallFault, u32),
}
