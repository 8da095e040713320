//! Everything that a decision reads, as of one moment.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    currency::Currency,
    ids::{NamespacedName, PodUid, PoolName, Str},
    instance_type::Catalog,
    labels::{LabelSchema, Labels},
    node::StateNode,
    objective::Objective,
    pdb::{self, PodDisruptionBudget},
    pod::Pod,
    pool::NodePool,
    resource_claim::Devices,
    resources::Resources,
    volume::{StorageClasses, VolumeClaim},
    workloads::Workloads,
};

/// An immutable view of the cluster. Cloning shares all parts.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Counts changes that a decision could notice; equal epochs mean equal content.
    pub epoch: u64,
    /// When it was taken.
    pub taken_at: Timestamp,
    /// What plans minimize.
    pub objective: Objective,
    /// What prices are in.
    pub currency: Currency,
    /// What label keys mean.
    pub schema: Arc<LabelSchema>,
    /// All managed NodePools: weight descending, then name descending, as they are tried.
    pub pools: Vec<Arc<NodePool>>,
    /// The instance types of each pool; a pool without an entry has none yet.
    pub catalogs: BTreeMap<PoolName, Arc<Catalog>>,
    /// All nodes that exist or are on their way, by name.
    pub nodes: Vec<Arc<StateNode>>,
    /// Pods that wait for capacity, by namespace and name; virtual pods of capacity buffers among them.
    pub pending: Vec<Arc<Pod>>,
    /// Pods without a node that are not pending: not rejected by kube-scheduler (yet), gated, nominated by preemption. They are counted
    /// nowhere.
    pub unscheduled: Vec<Arc<Pod>>,
    /// One representative pod per DaemonSet.
    pub daemons: Vec<Arc<Pod>>,
    /// Labels of namespaces.
    pub namespaces: Arc<BTreeMap<Str, Labels>>,
    /// PodDisruptionBudgets.
    pub pdbs: Vec<Arc<PodDisruptionBudget>>,
    /// Volume claims by namespace and name.
    pub volumes: Arc<BTreeMap<NamespacedName, VolumeClaim>>,
    /// StorageClasses by name: the topology of volumes whose claims do not exist yet.
    pub storage_classes: Arc<StorageClasses>,
    /// Claims of devices and devices (DRA); empty where claims are ignored.
    pub devices: Arc<Devices>,
    /// Objects that select pods, for default spread constraints; may be empty.
    pub workloads: Arc<Workloads>,
    /// Pods that the last scheduling pass did not reach: they come first in the next one.
    pub deferred: Arc<BTreeSet<PodUid>>,
    /// Intended pods of claims that are not initialized: pod to name of the claim that answers it.
    pub nominated: BTreeMap<PodUid, Str>,
}

impl Snapshot {
    /// An empty cluster.
    #[must_use]
    pub fn empty(schema: Arc<LabelSchema>, taken_at: Timestamp) -> Self {
        Self {
            epoch: 0,
            taken_at,
            objective: Objective::LIST,
            currency: Currency::default(),
            schema,
            pools: Vec::new(),
            catalogs: BTreeMap::new(),
            nodes: Vec::new(),
            pending: Vec::new(),
            unscheduled: Vec::new(),
            daemons: Vec::new(),
            namespaces: Arc::default(),
            pdbs: Vec::new(),
            volumes: Arc::default(),
            storage_classes: Arc::default(),
            devices: Arc::default(),
            workloads: Arc::default(),
            deferred: Arc::default(),
            nominated: BTreeMap::new(),
        }
    }

    /// The pool called `name`.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<&Arc<NodePool>> {
        self.pools.iter().find(|pool| &*pool.name == name)
    }

    /// The instance types of the pool called `name`.
    #[must_use]
    pub fn catalog(&self, name: &str) -> Option<&Arc<Catalog>> {
        self.catalogs.get(name)
    }

    /// The node whose Node or NodeClaim is called `name`.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Arc<StateNode>> {
        self.nodes.iter().find(|node| {
            node.node_name().is_some_and(|n| &**n == name) || node.claim_name().is_some_and(|c| &**c == name)
        })
    }

    /// What the nodes of a pool are in sum, and how many: those on their way count as the largest that they may
    /// become, those going away do not, unless the limits of the pool are hard.
    #[must_use]
    pub fn usage(&self, pool: &str) -> (Resources, i64) {
        let mut sum = (Resources::new(), 0);
        let hard = self.pools.iter().any(|known| &*known.name == pool && known.limits.hard);
        for node in self.nodes.iter().filter(|node| node.label(super::labels::NODEPOOL) == Some(pool)) {
            if hard || !node.is_deleting() {
                sum.0.add_assign(&node.charge());
                sum.1 += 1;
            }
        }
        sum
    }

    /// Whether `pod` needs another node as soon as its node drains ([`pdb::is_currently_reschedulable`]).
    #[must_use]
    pub fn is_currently_reschedulable(&self, pod: &Pod, now: Timestamp) -> bool {
        let covering = self.pdbs.iter().map(|pdb| &**pdb).filter(|pdb| pdb.covers_pod(pod));
        pdb::is_currently_reschedulable(pod, covering, now)
    }

    /// Names of the namespaces whose labels `selector` selects.
    #[must_use]
    pub fn namespaces_matching(&self, selector: &super::pod::LabelSelector) -> BTreeSet<Str> {
        let matching = self.namespaces.iter().filter(|(_, labels)| selector.matches(labels));
        matching.map(|(name, _)| name.clone()).collect()
    }
}
