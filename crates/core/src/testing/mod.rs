//! Builders for the inputs of decisions: a small language in which tests, benchmarks and examples describe clusters.
//!
//! Every builder starts from a valid object, so that a case names only what differs.

mod catalog;
pub mod devices;
mod ec2;
mod large;
mod nodes;
mod pods;
mod pools;
mod workloads;

pub use catalog::{TypeBuilder, instance_type, kwok_catalog, linear_catalog, small_catalog};
pub use devices::{
    DRIVER, claim_spec, counters, device, exactly, having, in_zone, matching, option, slice, templates,
    uses_claim, uses_template,
};
pub use ec2::{ec2_catalog, shaped_pods};
pub use large::{gpu_catalog, large_pods};
pub use nodes::{NodeBuilder, node};
pub use pods::{PodBuilder, affinity_to, pod, spread_over};
pub use pools::{PoolBuilder, pool};
pub use workloads::{Numbers, diverse_pods, preference_pods};

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use crate::model::{
    Catalog, Devices, LabelSchema, Labels, NamespacedName, NodeClassRef, NodePool, Pod, PodDisruptionBudget,
    PodUid, PoolName, Price, Requirement, Snapshot, StateNode, Str, VolumeClaim, VolumeState,
};

/// Bytes in a gibibyte.
pub const GIB: i64 = 1 << 30;
/// Bytes in a mebibyte.
pub const MIB: i64 = 1 << 20;

/// The moment at which every test cluster is looked at: 2025-06-15T15:06:40Z.
#[must_use]
pub fn now() -> Timestamp {
    Timestamp::from_second(1_750_000_000).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A cluster under construction.
#[derive(Clone, Debug)]
pub struct ClusterBuilder {
    snapshot: Snapshot,
    catalog: Arc<Catalog>,
}

impl Default for ClusterBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl ClusterBuilder {
    /// A cluster with neither pools nor nodes, whose pools will offer [`small_catalog`].
    #[must_use]
    pub fn new() -> Self {
        let mut snapshot = Snapshot::empty(Arc::new(LabelSchema::default()), now());
        let namespace = Labels::from([("kubernetes.io/metadata.name".into(), "default".into())]);
        snapshot.namespaces = Arc::new(BTreeMap::from([("default".into(), namespace)]));
        Self { snapshot, catalog: small_catalog() }
    }

    /// A cluster with one pool called `default` that allows everything.
    #[must_use]
    pub fn with_default_pool() -> Self {
        Self::new().pool(pool("default"))
    }

    /// The catalogue of the pools that are added from now on.
    #[must_use]
    pub fn catalog(mut self, catalog: Arc<Catalog>) -> Self {
        self.catalog = catalog;
        self
    }

    /// Sets what a node costs beside its instance, in thousandths of a dollar per hour.
    #[must_use]
    pub fn node_overhead(mut self, milli_dollars: i64) -> Self {
        self.snapshot.objective.node_overhead = Price::from_nanos(milli_dollars * 1_000_000);
        self
    }

    /// Changes what label keys mean.
    #[must_use]
    pub fn schema(mut self, change: impl FnOnce(&mut LabelSchema)) -> Self {
        let mut schema = (*self.snapshot.schema).clone();
        change(&mut schema);
        self.snapshot.schema = Arc::new(schema);
        self
    }

    /// Adds a pool with the present catalogue.
    #[must_use]
    pub fn pool(mut self, pool: impl Into<Arc<NodePool>>) -> Self {
        let pool = pool.into();
        self.snapshot.catalogs.insert(pool.name.clone(), Arc::clone(&self.catalog));
        self.snapshot.pools.push(pool);
        self.snapshot.pools.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| b.name.cmp(&a.name)));
        self
    }

    /// Takes a pool's instance types away.
    #[must_use]
    pub fn without_catalog(mut self, pool: &str) -> Self {
        self.snapshot.catalogs.remove(&PoolName::from(pool));
        self
    }

    /// Adds a node.
    #[must_use]
    pub fn node(mut self, node: impl Into<Arc<StateNode>>) -> Self {
        self.snapshot.nodes.push(node.into());
        self.snapshot.nodes.sort_by(|a, b| a.name().cmp(b.name()));
        self
    }

    /// Adds a node whose name comes after those that are there: for clusters of thousands.
    #[must_use]
    pub fn node_unsorted(mut self, node: impl Into<Arc<StateNode>>) -> Self {
        self.snapshot.nodes.push(node.into());
        self
    }

    /// Adds a pod that waits for capacity.
    #[must_use]
    pub fn pending(mut self, pod: impl Into<Arc<Pod>>) -> Self {
        self.snapshot.pending.push(pod.into());
        self.snapshot.pending.sort_by(|a, b| a.id.cmp(&b.id));
        self
    }

    /// Adds `count` pods `<name>-0…` that differ in nothing but their names.
    #[must_use]
    pub fn pending_many(mut self, count: usize, template: &PodBuilder) -> Self {
        self.snapshot.pending.extend(template.replicas(count));
        self.snapshot.pending.sort_by(|a, b| a.id.cmp(&b.id));
        self
    }

    /// Adds a DaemonSet by its representative pod.
    #[must_use]
    pub fn daemon(mut self, pod: impl Into<Arc<Pod>>) -> Self {
        self.snapshot.daemons.push(pod.into());
        self
    }

    /// Adds a namespace with labels.
    #[must_use]
    pub fn namespace(mut self, name: &str, labels: &[(&str, &str)]) -> Self {
        Arc::make_mut(&mut self.snapshot.namespaces).insert(name.into(), labels_of(labels));
        self
    }

    /// Adds a PodDisruptionBudget.
    #[must_use]
    pub fn pdb(mut self, pdb: PodDisruptionBudget) -> Self {
        self.snapshot.pdbs.push(Arc::new(pdb));
        self
    }

    /// Adds a volume claim of namespace `default`, reachable in any of `zones` (everywhere where there are none).
    #[must_use]
    pub fn volume(mut self, name: &str, state: VolumeState, zones: &[&str]) -> Self {
        let id = NamespacedName::new("default", name);
        let zone = |zone: &&str| vec![Requirement::is_in(crate::model::labels::ZONE, [*zone])];
        let claim = VolumeClaim {
            id: id.clone(),
            state,
            topology: zones.iter().map(zone).collect(),
            driver: Some("ebs.csi.aws.com".into()),
            handle: format!("vol-{name}").into(),
        };
        Arc::make_mut(&mut self.snapshot.volumes).insert(id, claim);
        self
    }

    /// Says that the claim `claim` answers a pod.
    #[must_use]
    pub fn nominated(mut self, pod: &str, claim: &str) -> Self {
        self.snapshot.nominated.insert(PodUid::from(uid_of("default", pod)), claim.into());
        self
    }

    /// Claims of devices and devices, to be added to.
    fn devices_mut(&mut self) -> &mut Devices {
        Arc::make_mut(&mut self.snapshot.devices)
    }

    /// The cluster as decisions see it.
    #[must_use]
    pub fn build(self) -> Snapshot {
        self.snapshot
    }
}

/// The class of test pools.
fn kwok_class() -> NodeClassRef {
    NodeClassRef { group: "karpenter.kwok.sh".into(), kind: "KWOKNodeClass".into(), name: "default".into() }
}

/// A label map.
#[must_use]
pub fn labels_of(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| (Str::from(*key), Str::from(*value))).collect()
}

/// The UID that [`pod`] gives.
#[must_use]
pub fn uid_of(namespace: &str, name: &str) -> String {
    format!("uid-{namespace}-{name}")
}
