//! Instances of the fake cloud become nodes of a cluster and run its pods, in virtual time.
#![expect(clippy::unwrap_used, clippy::panic, reason = "the helpers of tests fail as tests do")]

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use fleetwright_api::{
    crd,
    labels::{ATTEMPT, BATCH_ID},
};
use fleetwright_core::clock::{Clock, SharedClock};
use fleetwright_fake::{
    Cloud, CloudConfig,
    api::{
        Bootstrap, CloudApi, CloudInstance, Launch, LaunchItem, LaunchOutcome, Lifecycle, Terminate,
        WireTaint,
    },
    catalogue::{OfferingKey, kwok},
    cloud::{Fault, Occasion},
    kubelet::{KubeletConfig, Kubelets, adopt},
};
use fleetwright_fake_kube::{Config, Server};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Node, Pod},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// The time of tokio, which the tests pause.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        start.checked_add(SignedDuration::try_from(self.0.elapsed()).unwrap()).unwrap()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(sleep(duration))
    }
}

struct TestCluster {
    client: Client,
    cloud: Arc<Cloud>,
    clock: SharedClock,
}

impl TestCluster {
    fn new(config: KubeletConfig) -> Self {
        let clock: SharedClock = Arc::new(TokioClock(Instant::now()));
        let time = clock.clone();
        let server = Server::new(Config::new(Arc::new(move || time.now()), 5));
        let client = Client::new(server.service(), "default");
        let cloud =
            Arc::new(Cloud::new(kwok(), CloudConfig { seed: 5, ..CloudConfig::default() }, clock.clone()));
        let kubelets =
            Kubelets::run(client.clone(), cloud.clone(), clock.clone(), config, std::future::pending());
        tokio::spawn(kubelets);
        Self { client, cloud, clock }
    }

    async fn launch(&self, claim: &str) -> CloudInstance {
        let taint = |key: &str, effect: &str| WireTaint {
            key: key.to_owned(),
            value: String::new(),
            effect: effect.to_owned(),
        };
        let bootstrap = Bootstrap {
            labels: [("team".to_owned(), "a".to_owned())].into(),
            taints: vec![taint("karpenter.sh/unregistered", "NoExecute"), taint("boot", "NoSchedule")],
            ..Bootstrap::default()
        };
        let item = LaunchItem {
            claim: claim.to_owned(),
            position: 0,
            node_pool: None,
            offerings: vec![OfferingKey {
                instance_type: "c-2x-amd64-linux".into(),
                zone: "test-zone-c".into(),
                capacity_type: "spot".into(),
            }],
            requirements: Vec::new(),
            bootstrap,
            registration_delay_ms: 0,
        };
        let (cluster_uid, batch) = ("us".to_owned(), claim.to_owned());
        let call = Launch { cluster_uid, batch, attempt: 1, items: vec![item], size: 1 };
        let reply = self.cloud.launch(&call).await.unwrap();
        let [LaunchOutcome::Launched(instance)] = reply.outcomes.as_slice() else { panic!("{reply:?}") };
        (**instance).clone()
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    async fn node(&self, name: &str) -> Option<Node> {
        self.nodes().get_opt(name).await.unwrap()
    }

    async fn pod(&self, name: &str) -> Option<Pod> {
        self.pods().get_opt(name).await.unwrap()
    }

    async fn bind(&self, name: &str, node: &str, annotations: Value) {
        let pod = json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
    }
}

fn ready(node: &Node) -> String {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    conditions.into_iter().find(|condition| condition.type_ == "Ready").map(|c| c.status).unwrap_or_default()
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let mut keys: Vec<String> = taints.into_iter().map(|taint| taint.key).collect();
    keys.sort();
    keys
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

async fn seconds(count: u64) {
    sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_becomes_a_node_until_it_is_terminated() {
    let cluster = TestCluster::new(KubeletConfig::default());
    let instance = cluster.launch("claim-1").await;
    assert!(cluster.node(&instance.node_name).await.is_none());
    seconds(100).await;
    let node = cluster.node(&instance.node_name).await.expect("the node has joined");
    assert_eq!(ready(&node), "True");
    assert_eq!(taints(&node), ["boot", "karpenter.sh/unregistered"]);
    let labels = node.metadata.labels.clone().unwrap();
    for (key, value) in [
        ("team", "a"),
        ("kubernetes.io/hostname", "claim-1"),
        ("topology.kubernetes.io/zone", "test-zone-c"),
        ("karpenter.sh/capacity-type", "spot"),
        ("kwok.x-k8s.io/node", "fake"),
        ("karpenter.kwok.sh/instance-cpu", "2"),
    ] {
        assert_eq!(labels.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert_eq!(node.spec.as_ref().unwrap().provider_id.as_deref(), Some(instance.id.as_str()));
    assert_eq!(node.status.as_ref().unwrap().allocatable.as_ref().unwrap()["cpu"].0, "1900m");
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "kube-node-lease");
    let renewed = leases.get(&instance.node_name).await.unwrap().spec.unwrap().renew_time.unwrap().0;
    assert!(cluster.clock.now().duration_since(renewed).as_secs() <= 16, "{renewed}");

    let end = Terminate { cluster_uid: "us".to_owned(), id: instance.id.clone(), has_node_claim: true };
    assert_eq!(cluster.cloud.terminate(&end).await, Ok(Lifecycle::Terminating));
    seconds(60).await;
    let node = cluster.node(&instance.node_name).await.unwrap();
    assert_eq!(ready(&node), "Unknown");
    assert!(taints(&node).contains(&"node.kubernetes.io/unreachable".to_owned()));
    seconds(90).await;
    assert!(
        cluster.node(&instance.node_name).await.is_none(),
        "a node without instance and finalizer is removed"
    );
}

#[tokio::test(start_paused = true)]
async fn pods_run_succeed_and_end() {
    let cluster = TestCluster::new(KubeletConfig::without_leases());
    let instance = cluster.launch("claim-1").await;
    seconds(100).await;
    cluster.bind("web", &instance.node_name, json!({})).await;
    cluster.bind("job", &instance.node_name, json!({"fleetwright.dev/run-for": "30s"})).await;
    seconds(3).await;
    let web = cluster.pod("web").await.unwrap();
    assert_eq!(phase(&web), "Running");
    let status = web.status.unwrap();
    assert!(status.pod_ip.is_some() && status.start_time.is_some());
    assert!(status.container_statuses.unwrap()[0].ready);
    assert!(status.conditions.unwrap().iter().any(|c| c.type_ == "Ready" && c.status == "True"));
    seconds(30).await;
    assert_eq!(phase(&cluster.pod("job").await.unwrap()), "Succeeded");
    cluster.pods().delete("web", &DeleteParams::default()).await.unwrap();
    assert!(cluster.pod("web").await.is_some(), "it has its grace");
    seconds(3).await;
    assert!(cluster.pod("web").await.is_none());
    // The instance fails: what still runs on it is collected once its node is gone.
    cluster.bind("left", &instance.node_name, json!({})).await;
    seconds(3).await;
    assert!(cluster.cloud.lose(&instance.id));
    seconds(300).await;
    assert!(cluster.pod("left").await.is_none() && cluster.node(&instance.node_name).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_node_with_a_finalizer_stays_and_a_deleted_node_does_not_return() {
    let cluster = TestCluster::new(KubeletConfig::without_leases());
    let (held, deleted) = (cluster.launch("held").await, cluster.launch("deleted").await);
    seconds(100).await;
    let hold = json!({"metadata": {"finalizers": ["karpenter.sh/termination"]}});
    cluster.nodes().patch(&held.node_name, &PatchParams::default(), &Patch::Merge(hold)).await.unwrap();
    cluster.nodes().delete(&deleted.node_name, &DeleteParams::default()).await.unwrap();
    assert!(cluster.cloud.lose(&held.id));
    seconds(600).await;
    assert_eq!(ready(&cluster.node(&held.node_name).await.unwrap()), "Unknown");
    assert!(cluster.node(&deleted.node_name).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn defects_show_on_nodes() {
    let cluster = TestCluster::new(KubeletConfig::without_leases());
    let taint = WireTaint { key: "late".to_owned(), value: String::new(), effect: "NoSchedule".to_owned() };
    cluster.cloud.inject(Fault::SmallerMemory { occasion: Occasion::next(1), percent: 50 });
    cluster.cloud.inject(Fault::LateTaint { occasion: Occasion::next(1), taint, after_ms: 60_000 });
    cluster.cloud.inject(Fault::NeverJoins { occasion: Occasion { skip: 1, times: 1 } });
    let (small, absent) = (cluster.launch("small").await, cluster.launch("absent").await);
    seconds(200).await;
    let node = cluster.node(&small.node_name).await.unwrap();
    assert_eq!(node.status.as_ref().unwrap().capacity.as_ref().unwrap()["memory"].0, "2Gi");
    assert!(taints(&node).contains(&"late".to_owned()));
    assert!(cluster.node(&absent.node_name).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn idle_kubelets_send_no_calls() {
    let cluster = TestCluster::new(KubeletConfig::without_leases());
    for n in 0..20 {
        cluster.launch(&format!("claim-{n}")).await;
    }
    seconds(200).await;
    let revision = |nodes: kube::core::ObjectList<Node>| nodes.metadata.resource_version;
    let before = revision(cluster.nodes().list(&Default::default()).await.unwrap());
    seconds(3600).await;
    let listed = cluster.nodes().list(&Default::default()).await.unwrap();
    assert!(listed.items.len() == 20 && listed.items.iter().all(|node| ready(node) == "True"));
    assert_eq!(revision(listed), before);
}

async fn install(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in crd::kwok() {
        api.create(&PostParams::default(), &definition).await.unwrap();
    }
}

fn custom(client: &Client, group: &str, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    Api::all_with(client.clone(), &kind)
}

#[tokio::test(start_paused = true)]
async fn an_embedded_cloud_adopts_the_clusters_instances() {
    let cluster = TestCluster::new(KubeletConfig::without_leases());
    install(&cluster.client).await;
    let instance = cluster.launch("joined").await;
    seconds(100).await;
    let claims = custom(&cluster.client, "karpenter.sh", "v1", "NodeClaim", "nodeclaims");
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": "launched", "annotations": {BATCH_ID: "batch-7", ATTEMPT: "2"},
            "labels": {"node.kubernetes.io/instance-type": "c-2x-amd64-linux",
                "topology.kubernetes.io/zone": "test-zone-a", "karpenter.sh/capacity-type": "spot"},
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
            "startupTaints": [{"key": "boot", "effect": "NoSchedule"}],
        },
    });
    claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
    let status = json!({"status": {"providerID": "kwok://kwok-launched", "capacity": {"cpu": "2", "memory": "4Gi"},
        "allocatable": {"cpu": "1900m", "memory": "3Gi"}}});
    claims.patch_status("launched", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();

    let reborn = Cloud::new(kwok(), CloudConfig::instant(1), cluster.clock.clone());
    assert_eq!(adopt(cluster.client.clone(), &reborn, "us").await.unwrap(), 2);
    let instances = reborn.instances();
    let known = instances.iter().find(|known| known.id == instance.id).unwrap();
    assert!(
        known.joined && known.tags == instance.tags && known.price_nanos == instance.price_nanos,
        "{known:?}"
    );
    assert_eq!((&known.offering, &known.capacity), (&instance.offering, &instance.capacity));
    let launched = instances.iter().find(|known| known.id == "kwok://kwok-launched").unwrap();
    assert!(!launched.joined && launched.node_name == "kwok-launched", "{launched:?}");
    assert_eq!((launched.tags.batch.as_deref(), launched.tags.attempt), (Some("batch-7"), 2));
    assert_eq!(launched.bootstrap.taints.len(), 2);
    assert_eq!(adopt(cluster.client.clone(), &reborn, "us").await.unwrap(), 0);
}
