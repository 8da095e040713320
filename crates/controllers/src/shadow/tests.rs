//! A shadow over the in-memory API server, while the test acts as Karpenter, kubelet and kube-scheduler.

use async_trait::async_trait;
use fleetwright_core::{
    cloud::{CloudError, CloudProvider as _, ProviderInfo},
    model::{Catalog, NodePool},
    shadow::{Agreement, BatchComparison, DifferenceReason, DisruptionAgreement},
};
use serde_json::{Value, json};

use super::*;
use crate::{
    runtime::{Trigger, shutdown},
    testing::{CatalogOnly, Harness, Writes},
};

/// The catalogue of the harness.
struct Types(CatalogOnly);

#[async_trait]
impl InstanceTypeSource for Types {
    fn info(&self) -> &ProviderInfo {
        self.0.info()
    }

    async fn catalog(&self, pool: &NodePool) -> Result<Arc<Catalog>, CloudError> {
        self.0.catalog(pool).await
    }
}

/// A cluster with a NodePool, a shadow beside it, and what it asked of the API server.
struct Beside {
    harness: Harness,
    shadow: Shadow,
    writes: Arc<Writes>,
    stop: Trigger,
    task: tokio::task::JoinHandle<Result<(), RunError>>,
}

impl Beside {
    async fn new() -> Self {
        let writes = Arc::new(Writes::default());
        let harness = Harness::with(Some(writes.clone()));
        harness.pool("default", json!({}));
        let shadow = Shadow::new(ShadowParts {
            api_server: "kubernetes".to_owned(),
            client: ReadOnlyClient::new(kube::Client::new(harness.server.service(), "default")),
            clock: harness.clock.clone(),
            instance_types: Arc::new(Types(CatalogOnly::priced(None))),
            settings: Settings::default(),
            offload: Offload::Inline,
        });
        let (stop, stopping) = shutdown();
        let task = tokio::spawn(shadow.clone().run(stopping));
        harness.pass(5).await;
        Self { harness, shadow, writes, stop, task }
    }

    /// Ends the shadow. Returns the batches; it must not have written anything.
    async fn end(self) -> Vec<BatchComparison> {
        let batch = |record: ShadowRecord| match record {
            ShadowRecord::Batch(batch) => Some(batch),
            ShadowRecord::Disruption(_) => None,
        };
        self.records().await.into_iter().filter_map(batch).collect()
    }

    /// The same, with disruption commands.
    async fn records(self) -> Vec<ShadowRecord> {
        self.stop.fire();
        self.task.await.unwrap().unwrap();
        assert_eq!(self.writes.all(), Vec::<String>::new());
        assert!(self.harness.events().is_empty());
        let journal = self.shadow.journal().lock();
        journal.records().cloned().collect()
    }

    fn apply(&self, object: Value) {
        self.harness.server.apply(object).unwrap();
    }

    /// As Karpenter creates it: with the instance types that it may become.
    fn create_claim(&self, name: &str, allowed: &[&str]) {
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
        self.apply(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default"},
                "finalizers": ["karpenter.sh/termination"]},
            "spec": {"nodeClassRef": class, "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": allowed}]},
        }));
    }

    /// The claim is launched and its node joins.
    fn launch(&self, name: &str, instance_type: &str, cpu: &str) {
        let labels = json!({
            "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "on-demand",
            "node.kubernetes.io/instance-type": instance_type, "topology.kubernetes.io/zone": "a",
            "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": name,
            "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
        });
        let size = json!({"cpu": cpu, "memory": "64Gi", "pods": "110"});
        let mut claim = (*self.harness.server.get("karpenter.sh/v1", "NodeClaim", "", name).unwrap()).clone();
        claim["metadata"]["labels"] = labels.clone();
        let conditions = ["Launched", "Registered", "Initialized"].map(|condition| {
            json!({"type": condition, "status": "True", "reason": condition, "message": "",
                "lastTransitionTime": "2025-06-15T15:00:00Z"})
        });
        claim["status"] = json!({"providerID": format!("kwok://{name}"), "nodeName": name, "capacity": size,
            "allocatable": size, "conditions": conditions});
        self.apply(claim);
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "spec": {"providerID": format!("kwok://{name}")},
            "status": {"capacity": size, "allocatable": size, "conditions": [
                {"type": "Ready", "status": "True", "reason": "", "message": "",
                    "lastTransitionTime": "2025-06-15T15:00:00Z"}]},
        });
        self.apply(node.clone());
        // The API server taints new Nodes; the node controller removes the taint.
        node["spec"]["taints"] = json!([]);
        self.apply(node);
    }

    fn bind(&self, pod: &str, node: &str) {
        let mut pod = (*self.harness.server.get("v1", "Pod", "default", pod).unwrap()).clone();
        pod["spec"]["nodeName"] = json!(node);
        pod["status"] = json!({"phase": "Running"});
        self.apply(pod);
    }
}

/// Two pods of one CPU each, which one `small` node cannot hold together.
async fn two_pods(beside: &Beside) {
    for pod in ["a", "b"] {
        beside.harness.pending_pod(pod, "1500m");
    }
    beside.harness.pass(2).await;
}

#[tokio::test(start_paused = true)]
async fn karpenters_nodes_are_compared_and_nothing_is_written() {
    let beside = Beside::new().await;
    two_pods(&beside).await;
    // Karpenter launches one large node.
    beside.create_claim("k1", &["large"]);
    beside.harness.pass(3).await;
    beside.launch("k1", "large", "16");
    beside.harness.pass(3).await;
    beside.bind("a", "k1");
    beside.bind("b", "k1");
    beside.harness.pass(20).await;
    let metrics = beside.shadow.metrics().encode().unwrap();
    let batches = beside.end().await;
    let [batch] = &batches[..] else { panic!("{batches:?}") };
    assert_eq!((batch.pods, batch.karpenter_pods.new, batch.our_pods.new), (2, 2, 2));
    assert_eq!(batch.agreement, Agreement::OursCheaper, "{batch:?}");
    assert!(batch.reasons.contains(&DifferenceReason::InstanceType), "{:?}", batch.reasons);
    let dollars = |by: &str| {
        let series = format!("fleetwright_shadow_hourly_price_total{{by=\"{by}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&series)).unwrap().parse::<f64>().unwrap()
    };
    assert!(dollars("karpenter") > dollars("fleetwright") && dollars("fleetwright") > 0.0, "{metrics}");
    assert!(metrics.contains("fleetwright_shadow_batches_total{agreement=\"ours-cheaper\"} 1"), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn the_decision_ignores_karpenters_answer_to_the_same_batch() {
    let beside = Beside::new().await;
    // Karpenter's window closes before ours: its NodeClaim has room for both pods.
    for pod in ["a", "b"] {
        beside.harness.pending_pod(pod, "1500m");
    }
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    beside.create_claim("k1", &["large"]);
    beside.launch("k1", "large", "16");
    beside.harness.pass(3).await;
    beside.bind("a", "k1");
    beside.bind("b", "k1");
    beside.harness.pass(20).await;
    let batches = beside.end().await;
    assert_eq!((batches.len(), batches[0].our_pods.new, batches[0].our_pods.existing), (1, 2, 0));
    assert_eq!(batches[0].karpenter_pods.new, 2);
}

#[tokio::test(start_paused = true)]
async fn each_batch_starts_from_karpenters_nodes() {
    let beside = Beside::new().await;
    two_pods(&beside).await;
    beside.create_claim("k1", &["large"]);
    beside.launch("k1", "large", "16");
    beside.harness.pass(2).await;
    beside.bind("a", "k1");
    beside.bind("b", "k1");
    beside.harness.pass(30).await;
    // The third pod fits the large node, which our own plan would not have launched.
    beside.harness.pending_pod("c", "4");
    beside.harness.pass(5).await;
    beside.bind("c", "k1");
    beside.harness.pass(30).await;
    let batches = beside.end().await;
    let [_, second] = &batches[..] else { panic!("{batches:?}") };
    assert_eq!(
        (second.agreement, second.our_pods.existing, second.karpenter_pods.existing),
        (Agreement::Same, 1, 1)
    );
    assert!(second.ours.is_empty() && second.karpenter.is_empty());
}

#[tokio::test(start_paused = true)]
async fn objects_that_cannot_be_read_are_not_reported_to_the_cluster() {
    let beside = Beside::new().await;
    beside.harness.pool("odd", json!({}));
    beside.apply(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "odd"},
        "status": {"nodes": 10_000_000_000_000_000_000_u64}}));
    beside.harness.pass(130).await;
    assert_eq!(beside.shadow.ready(), Ok(()));
    assert!(beside.end().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn karpenters_disruption_is_compared_with_our_passes() {
    let beside = Beside::new().await;
    // An empty node that both would remove. Karpenter does, a minute later.
    beside.create_claim("k1", &["large"]);
    beside.launch("k1", "large", "16");
    let mark = |condition: &str, reason: &str| {
        let mut claim =
            (*beside.harness.server.get("karpenter.sh/v1", "NodeClaim", "", "k1").unwrap()).clone();
        let conditions = claim["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(json!({"type": condition, "status": "True", "reason": reason, "message": reason,
            "lastTransitionTime": "2025-06-15T15:00:00Z"}));
        beside.apply(claim);
    };
    mark("Consolidatable", "Consolidatable");
    beside.harness.pass(60).await;
    let savings = beside.shadow.metrics().value(&families::STANDING_SAVINGS, &[]);
    assert!(savings > 0.4, "{savings}");
    mark("DisruptionReason", "Empty");
    beside.harness.pass(90).await;
    let records = beside.records().await;
    let [ShadowRecord::Disruption(comparison)] = &records[..] else { panic!("{records:?}") };
    assert_eq!(comparison.agreement, DisruptionAgreement::AllNodes, "{comparison:?}");
    let karpenter = comparison.karpenter.as_ref().unwrap();
    assert_eq!((&*karpenter.reason, &karpenter.nodes), ("Empty", &comparison.ours[0].nodes));
}
