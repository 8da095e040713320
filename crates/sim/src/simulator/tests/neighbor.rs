//! Two operators of different clouds on one API server: neither writes what is the other's.

use std::sync::Mutex;

use fleetwright_controllers::{
    classes::follow,
    runtime::{CtxParts, Leadership, Offload, Trigger, shutdown},
};
use fleetwright_core::cloud::{CloudProvider as _, NodeClassKind, NodeClasses};
use fleetwright_fake::{
    CloudConfig, FakeProvider, NodeClass,
    api::{CloudInstance, Lifecycle},
    catalogue::kwok,
    kubelet::KubeletConfig,
    node_classes,
};
use fleetwright_fake_kube::Request;
use http::HeaderValue;
use serde_json::json;

use super::{
    super::{
        link::{Cut, Link},
        mirror,
    },
    *,
};

/// User agents of the operators. A restart adds to that of a simulator's own.
const AGENTS: [&str; 2] = ["operator-0", "neighbor"];
/// Their NodePools, and the first word of everything that belongs to them: NodeClaims, nodes, pods.
const POOLS: [&str; 2] = ["ours", "theirs"];

/// Writes of an operator.
type Writes = Arc<Mutex<Vec<Request>>>;

/// The NodeClass of the second cloud.
fn their_class() -> NodeClassKind {
    NodeClassKind::new("acme.example", "v1alpha1", "AcmeNodeClass", "acmenodeclasses")
}

/// Its definition: that of a KWOKNodeClass, with other names.
fn their_definition() -> Value {
    let class = serde_json::to_string(&fleetwright_api::crd::kwok()[0]).unwrap();
    let class = class.replace("karpenter.kwok.sh", "acme.example").replace("KWOK", "Acme");
    serde_json::from_str(&class.replace("kwok", "acme")).unwrap()
}

/// The second operator, with a cloud of its own.
struct Neighbor {
    cloud: Arc<Cloud>,
    /// Stops the controllers when dropped.
    _trigger: Trigger,
}

impl Neighbor {
    async fn start(simulator: &mut Simulator) -> Self {
        let (clock, server) = (simulator.clock(), simulator.server.clone());
        let config = CloudConfig { seed: 2, ..CloudConfig::default() };
        let cloud = Arc::new(Cloud::new(kwok(), config, clock.clone()));
        let agent = HeaderValue::from_static(AGENTS[1]);
        let link = Link { server: server.clone(), agent, cut: Cut::default(), distort: None };
        let client = kube::Client::new(link, "default");
        let classes = NodeClasses::<NodeClass>::new(their_class());
        simulator.tasks.spawn(follow(client.clone(), classes.clone(), clock.clone()));
        let (kubelets, stop) = (KubeletConfig::default(), std::future::pending());
        let of_nodes = Kubelets::run(simulator.client(), cloud.clone(), clock.clone(), kubelets, stop);
        simulator.tasks.spawn(of_nodes);
        let provider = FakeProvider::new(cloud.clone(), classes, clock.clone()).await.unwrap();
        let cluster_uid = mirror::cluster_uid(&server);
        provider.identify(&cluster_uid).await.unwrap();
        let ctx = Ctx::new(CtxParts {
            api_server: "kubernetes".to_owned(),
            client,
            clock,
            cloud: Arc::new(provider),
            settings: simulator.config.settings.clone(),
            seed: 2,
            offload: Offload::Inline,
            cluster_uid,
            leadership: Leadership::without_election(),
        });
        let (trigger, stop) = shutdown();
        simulator.tasks.spawn(async move {
            fleetwright_controllers::all::run(ctx, stop).await.unwrap();
        });
        Self { cloud, _trigger: trigger }
    }
}

/// A NodePool whose nodes drift with `team`, and pods that run on its nodes alone, two on each.
fn workload(name: &str, class: &NodeClassKind, team: &str, replicas: u32) -> [Value; 2] {
    let class = json!({"group": &*class.group, "kind": &*class.kind, "name": "default"});
    let requirements = json!([
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]);
    let template = json!({"metadata": {"labels": {"team": team}},
        "spec": {"nodeClassRef": class, "requirements": requirements}});
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"template": template, "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}}});
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1500m"}}});
    let pod = json!({"metadata": {"labels": {"app": name}}, "spec":
        {"nodeSelector": {"karpenter.sh/nodepool": name}, "containers": [container]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": pod}});
    [pool, deployment]
}

/// Whether a write is about something of a NodePool. Of pods the one that has none of its nodes gets an event from each operator.
fn is_about(write: &Request, pool: &str) -> bool {
    let involved = &write.body["involvedObject"];
    if involved["kind"] == "Pod" {
        return false;
    }
    let metadata = &write.body["metadata"];
    let named = [&metadata["name"], &metadata["generateName"], &involved["name"]];
    let named = named.into_iter().filter_map(Value::as_str).chain([write.name.as_str()]);
    named.flat_map(|name| name.split(|c: char| !c.is_alphanumeric())).any(|word| word == pool)
}

/// A cluster with both operators, and what each of them wrote.
async fn cluster() -> (Simulator, Neighbor, [Writes; 2]) {
    let writes: [Writes; 2] = Default::default();
    let audited = writes.clone();
    let mut config = SimulatorConfig::selling(1, "2026-01-01T00:00:00Z".parse().unwrap(), kwok());
    config.audit = Some(Arc::new(move |request, _| {
        let is_read = matches!(request.verb.as_str(), "get" | "list" | "watch");
        let of = AGENTS.iter().position(|agent| request.user_agent.starts_with(agent));
        if let (false, Some(of)) = (is_read, of) {
            audited[of].lock().unwrap().push(request.clone());
        }
    }));
    let mut simulator = Simulator::new(config).await.unwrap();
    simulator.apply_object(their_definition()).unwrap();
    let neighbor = Neighbor::start(&mut simulator).await;
    for class in [node_classes().kind(), &their_class()] {
        let version = format!("{}/{}", class.group, class.version);
        let object =
            json!({"apiVersion": version, "kind": &*class.kind, "metadata": {"name": "default"}, "spec": {}});
        simulator.apply_object(object).unwrap();
    }
    (simulator, neighbor, writes)
}

fn apply(simulator: &Simulator, team: &str, replicas: u32) {
    let classes = [node_classes().kind().clone(), their_class()];
    for (pool, class) in POOLS.iter().zip(&classes) {
        for object in workload(pool, class, team, replicas) {
            simulator.apply_object(object).unwrap();
        }
    }
}

/// The instances that run.
fn running(cloud: &Cloud) -> Vec<Arc<CloudInstance>> {
    cloud.instances().into_iter().filter(|instance| instance.state == Lifecycle::Running).collect()
}

/// All pods run, on two nodes of each NodePool, which are the instances of its cloud.
fn assert_served(simulator: &Simulator, neighbor: &Neighbor, when: &str) {
    let seen = simulator.observe();
    assert_eq!((seen.pods.pending, seen.pods.running), (0, 8), "{when}: {seen:#?}");
    for (pool, cloud) in POOLS.iter().zip([&simulator.cloud, &neighbor.cloud]) {
        let running = running(cloud);
        let of_pool = |name: &str| name.split('-').any(|word| word == *pool);
        assert!(running.iter().all(|one| of_pool(&one.node_name)), "{when}: {running:#?}");
        assert_eq!(running.len(), 2, "{when}: {running:#?}");
    }
}

#[test]
fn operators_of_different_clouds_leave_each_other_alone() {
    virtual_runtime().unwrap().block_on(async {
        let (mut simulator, neighbor, writes) = cluster().await;
        apply(&simulator, "a", 4);
        simulator.run_for(Duration::from_secs(600)).await;
        assert_served(&simulator, &neighbor, "launched");

        apply(&simulator, "b", 4);
        simulator.run_for(Duration::from_secs(1800)).await;
        assert_served(&simulator, &neighbor, "drifted and replaced");

        for cloud in [&simulator.cloud, &neighbor.cloud] {
            assert!(cloud.lose(&running(cloud)[0].id));
        }
        simulator.kill(0, Duration::from_secs(5));
        simulator.run_for(Duration::from_secs(10)).await;
        simulator.start_due().await.unwrap();
        simulator.run_for(Duration::from_secs(1800)).await;
        assert_served(&simulator, &neighbor, "lost, and restarted");

        apply(&simulator, "b", 0);
        simulator.run_for(Duration::from_secs(1800)).await;
        assert!(simulator.observe().nodes.is_empty(), "{:#?}", simulator.observe());

        for (of, other) in [(0, 1), (1, 0)] {
            let writes = writes[of].lock().unwrap();
            let astray: Vec<_> = writes.iter().filter(|write| is_about(write, POOLS[other])).collect();
            assert!(astray.is_empty(), "{} writes {:#?}", AGENTS[of], astray);
            for resource in ["nodepools", "nodeclaims", "nodes", "pods", "events"] {
                let own = |write: &&Request| write.resource == resource && is_about(write, POOLS[of]);
                assert!(writes.iter().any(|write| own(&write)), "{} writes no {resource}", AGENTS[of]);
            }
        }
    });
}
