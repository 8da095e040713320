//! Gauges of nodes, NodePools and the sync state of the cluster.

mod offerings;
mod pods;
pub(crate) mod status;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_core::model::{
    Node, Pod, Price, ResourceName, Resources, Snapshot, StateNode, Str, labels, resources::BASE,
};
use fleetwright_state::Key;
use jiff::Timestamp;

use crate::{
    metrics::{Family, Metrics, cluster as families},
    runtime::{Clocks, Cluster, Controller, Ctx, ReconcileError, Requeue},
};

/// The controllers of this module; none if they are disabled.
#[must_use]
pub fn controllers(ctx: &Ctx) -> Vec<Arc<dyn Controller>> {
    if ctx.settings.disable_observability {
        return Vec::new();
    }
    let mut all: Vec<Arc<dyn Controller>> = vec![
        Arc::new(NodeMetrics::new(ctx)),
        Arc::new(PoolMetrics::new(ctx)),
        Arc::new(pods::PodMetrics::new(ctx)),
        Arc::new(offerings::OfferingMetrics::new(ctx)),
    ];
    all.extend(status::controllers(ctx));
    all
}

/// The series of a gauge: label values and value.
type Series = Vec<(Vec<String>, f64)>;

/// Gauges of each node and of the cluster.
struct NodeMetrics {
    cluster: Cluster,
    clocks: Clocks,
    metrics: Arc<Metrics>,
    amounts: Vec<(Family, Amounts)>,
    lifetime: Family,
    /// Keys of the well-known labels, in the order of the families' labels.
    well_known: Vec<Str>,
}

impl NodeMetrics {
    fn new(ctx: &Ctx) -> Self {
        let well_known = families::well_known_labels(&ctx.cloud.info().schema);
        let (names, well_known): (Vec<String>, Vec<Str>) = well_known.into_iter().unzip();
        let amounts = PER_NODE.iter().map(|(family, amounts)| (family.with_labels(&names), *amounts));
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            metrics: ctx.metrics.clone(),
            amounts: amounts.collect(),
            lifetime: families::NODES_LIFETIME.with_labels(&names),
            well_known,
        }
    }

    /// The label values of a node's series: its own, `further` ones, and its well-known labels.
    fn labels(&self, (node, state): Joined<'_>, further: Option<String>) -> Vec<String> {
        // Kubernetes no longer sets a node's phase.
        let own = [state.is_managed().to_string(), node.name.to_string(), String::new()];
        let label = |key: &Str| node.labels.get(key).map(ToString::to_string).unwrap_or_default();
        own.into_iter().chain(further).chain(self.well_known.iter().map(label)).collect()
    }

    fn series(&self, node: Joined<'_>, amounts: &Resources) -> Series {
        let of = |(name, amount): (ResourceName, i64)| {
            (self.labels(node, Some(snake(&name))), value(&name, amount))
        };
        amounts.iter().map(of).collect()
    }

    fn age(&self, node: Joined<'_>, now: Timestamp) -> (Vec<String>, f64) {
        (self.labels(node, None), now.duration_since(node.0.created).as_secs_f64())
    }
}

#[async_trait]
impl Controller for NodeMetrics {
    fn name(&self) -> &'static str {
        "metrics.node"
    }

    fn is_singleton(&self) -> bool {
        true
    }

    async fn reconcile(&self, _key: &Key) -> Result<Requeue, ReconcileError> {
        let now = self.clocks.now();
        let snapshot = self.cluster.index().snapshot(now);
        for (family, amounts) in &self.amounts {
            let series = joined(&snapshot).flat_map(|node| self.series(node, &amounts(node)));
            self.metrics.replace(family, series);
        }
        self.metrics.replace(&self.lifetime, joined(&snapshot).map(|node| self.age(node, now)));
        self.metrics.replace(&families::UTILIZATION, utilization(&snapshot));
        self.metrics.set(&families::STATE_NODE_COUNT, &[], figure(snapshot.nodes.len()));
        Ok(Requeue::After(Duration::from_secs(5)))
    }
}

/// A Node, and what is known of it besides.
type Joined<'a> = (&'a Node, &'a StateNode);

/// The nodes that have joined: gauges show what Nodes report, not what NodeClaims promise.
fn joined(snapshot: &Snapshot) -> impl Iterator<Item = Joined<'_>> {
    snapshot.nodes.iter().filter_map(|state| Some((state.node.as_deref()?, &**state)))
}

type Amounts = fn(Joined<'_>) -> Resources;

/// The gauges of each node.
const PER_NODE: [(&Family, Amounts); 6] = [
    (&families::NODES_ALLOCATABLE, |(node, _)| node.allocatable.clone()),
    (&families::NODES_POD_REQUESTS, |(_, state)| state.requested.clone()),
    (&families::NODES_DAEMON_REQUESTS, |(_, state)| state.requested_by_daemons.clone()),
    (&families::NODES_POD_LIMITS, |(_, state)| limits(state, |_| true)),
    (&families::NODES_DAEMON_LIMITS, |(_, state)| limits(state, |pod| pod.owned_by("DaemonSet"))),
    (&families::NODES_SYSTEM_OVERHEAD, |(node, _)| node.capacity.minus(&node.allocatable)),
];

/// The limits and the number of the pods of a node that match `of`.
fn limits(node: &StateNode, of: fn(&Pod) -> bool) -> Resources {
    let mut sum = Resources::new();
    for pod in node.pods.iter().filter(|pod| of(pod)) {
        sum.add_assign(&pod.spec.limits.clone().with(ResourceName::Pods, 1));
    }
    sum
}

fn utilization(snapshot: &Snapshot) -> Series {
    let (mut allocatable, mut requested) = (Resources::new(), Resources::new());
    for (_, state) in joined(snapshot) {
        allocatable.add_assign(&state.allocatable());
        requested.add_assign(&state.requested);
    }
    let share = |(name, allocatable): (ResourceName, i64)| {
        let used = value(&name, requested.get(&name));
        (vec![snake(&name)], 100.0 * used / value(&name, allocatable))
    };
    allocatable.iter().filter(|(_, amount)| *amount > 0).map(share).collect()
}

/// Gauges by NodePool.
struct PoolMetrics {
    cluster: Cluster,
    clocks: Clocks,
    metrics: Arc<Metrics>,
    /// Nodes without a known price that were counted.
    unpriced: Mutex<BTreeSet<String>>,
}

impl PoolMetrics {
    fn new(ctx: &Ctx) -> Self {
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            metrics: ctx.metrics.clone(),
            unpriced: Mutex::default(),
        }
    }

    /// Counts each launched node whose price is not known once.
    fn count_unpriced(&self, snapshot: &Snapshot) {
        let mut counted = self.unpriced.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = BTreeSet::new();
        for pool in &snapshot.pools {
            self.metrics.add(&families::POOL_COST_ERRORS, &[pool.name.as_str()], 0.0);
            for node in launched(snapshot, &pool.name) {
                if price(snapshot, &pool.name, node).is_some() {
                    continue;
                }
                if !counted.contains(node.name()) {
                    self.metrics.inc(&families::POOL_COST_ERRORS, &[pool.name.as_str()]);
                }
                now.insert(node.name().to_owned());
            }
        }
        *counted = now;
    }
}

#[async_trait]
impl Controller for PoolMetrics {
    fn name(&self) -> &'static str {
        "metrics.nodepool"
    }

    fn is_singleton(&self) -> bool {
        true
    }

    async fn reconcile(&self, _key: &Key) -> Result<Requeue, ReconcileError> {
        let snapshot = self.cluster.index().snapshot(self.clocks.now());
        let (mut limits, mut usages, mut costs) = (Series::new(), Series::new(), Series::new());
        for pool in &snapshot.pools {
            costs.push((vec![pool.name.to_string()], cost(&snapshot, &pool.name)));
            let add = |to: &mut Series, name: &ResourceName, amount: i64| {
                to.push((vec![snake(name), pool.name.to_string()], value(name, amount)));
            };
            for (name, limit) in &pool.limits.resources {
                add(&mut limits, name, *limit);
            }
            let nodes = ResourceName::from("nodes");
            if let Some(limit) = pool.limits.nodes {
                add(&mut limits, &nodes, limit);
            }
            let (usage, count) = snapshot.usage(&pool.name);
            let unused = BASE.into_iter().filter(|name| usage.get(name) == 0);
            for (name, amount) in usage.iter().chain(unused.map(|name| (name, 0))) {
                add(&mut usages, &name, amount);
            }
            add(&mut usages, &nodes, count);
        }
        self.count_unpriced(&snapshot);
        self.metrics.replace(&families::POOL_LIMIT, limits);
        self.metrics.replace(&families::POOL_USAGE, usages);
        self.metrics.replace(&families::POOL_COST, costs);
        Ok(Requeue::After(Duration::from_secs(10)))
    }
}

/// The launched nodes of a NodePool.
fn launched<'s>(snapshot: &'s Snapshot, pool: &str) -> impl Iterator<Item = &'s Arc<StateNode>> {
    let of_pool = snapshot.nodes.iter().filter(move |node| node.label(labels::NODEPOOL) == Some(pool));
    of_pool.filter(|node| node.is_launched())
}

/// The price of a node of a NodePool, if it is known.
fn price(snapshot: &Snapshot, pool: &str, node: &StateNode) -> Option<Price> {
    let of = |key| node.label(key).unwrap_or_default();
    let catalog = snapshot.catalog(pool)?;
    catalog.price(of(labels::INSTANCE_TYPE), of(labels::ZONE), of(labels::CAPACITY_TYPE))
}

/// The cost of the launched nodes of a NodePool in dollars per hour; a node without a known price counts as zero.
fn cost(snapshot: &Snapshot, pool: &str) -> f64 {
    let prices = launched(snapshot, pool).filter_map(|node| price(snapshot, pool, node));
    prices.map(|price| price.dollars()).sum()
}

/// `ephemeral-storage` is `ephemeral_storage`.
fn snake(name: &ResourceName) -> String {
    name.as_str().replace('-', "_")
}

/// A resource in the unit of Kubernetes: CPUs, bytes, counts.
#[expect(clippy::cast_precision_loss, reason = "a figure to show")]
fn value(name: &ResourceName, amount: i64) -> f64 {
    if *name == ResourceName::Cpu { amount as f64 / 1000.0 } else { amount as f64 }
}

#[expect(clippy::cast_precision_loss, reason = "a figure to show")]
fn figure(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    //! Gauges of nodes and NodePools.
    use serde_json::json;

    use super::*;
    use crate::testing::Harness;

    #[tokio::test(start_paused = true)]
    async fn series_of_nodes_and_pools_exist_while_the_objects_do() {
        let harness = Harness::new();
        harness.pool("default", json!({"limits": {"cpu": 10, "nodes": 2}}));
        let node = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "n", "labels": {"karpenter.sh/nodepool": "default"}},
            "spec": {"providerID": "fake://n"},
            "status": {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "7500m"}}});
        harness.server.apply(node).unwrap();
        // What has not joined has no series of a node.
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
        harness
            .server
            .apply(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "c"},
                "spec": {"nodeClassRef": class, "requirements": []},
                "status": {"providerID": "fake://c", "capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}}))
            .unwrap();
        let (_trigger, _task) = harness.run(controllers(&harness.ctx));
        harness.pass(30).await;
        let text = harness.ctx.metrics.encode().unwrap();
        for expected in [
            "karpenter_nodes_allocatable{arch=\"\",capacity_type=\"\",instance_type=\"\",managed=\"false\",node_name=\"n\",\
             nodepool=\"default\",os=\"\",phase=\"\",region=\"\",resource_type=\"cpu\",windows_build=\"\",zone=\"\"} 7.5\n",
            "karpenter_nodepools_limit{nodepool=\"default\",resource_type=\"cpu\"} 10\n",
            "karpenter_nodepools_limit{nodepool=\"default\",resource_type=\"nodes\"} 2\n",
            "karpenter_nodepools_usage{nodepool=\"default\",resource_type=\"cpu\"} 8\n",
            "karpenter_nodepools_usage{nodepool=\"default\",resource_type=\"memory\"} 0\n",
            "karpenter_cluster_state_node_count 2\n",
            "karpenter_cluster_utilization_percent{resource_type=\"cpu\"} 0\n",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        assert!(!text.contains("node_name=\"c\""), "{text}");
        harness.server.delete("v1", "Node", "", "n").unwrap();
        harness.pass(30).await;
        assert!(!harness.ctx.metrics.encode().unwrap().contains("node_name=\"n\""));
    }
}
