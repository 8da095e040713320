//! The operator's binary on an API server in memory: a pending pod becomes a node, and the node goes with its pod.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use fleetwright_core::cloud::jiff::Timestamp;
use fleetwright_fake_kube::{Config, Server};
use serde_json::json;

use crate::{kubelet, stub::Stub};

/// How long a step may take on a slow host.
const LIMIT: Duration = Duration::from_secs(120);

/// A process that ends with the test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Starts the operator.
pub fn start(kubeconfig: &Path, url: &str, settings: &[(&str, &str)]) -> Running {
    let command = Command::new(env!("CARGO_BIN_EXE_pebble-autoscaler"))
        .args(["--cloud", "pebble", "--pebble-url", url])
        .env("KUBECONFIG", kubeconfig)
        .envs([("METRICS_PORT", "0"), ("HEALTH_PROBE_PORT", "0")])
        .envs([("DISRUPTION_PERIOD", "1s"), ("DISRUPTION_VALIDATION_DELAY", "3s")])
        .envs(settings.iter().copied())
        .stdin(Stdio::null())
        .spawn();
    Running(command.unwrap())
}

/// Stands in for the kubelets: each server registers its node.
fn register_nodes(kube: &Server, stub: &Stub, elapsed: Duration) {
    stub.inner().now = elapsed;
    let servers: Vec<_> = stub.inner().servers.values().filter(|server| !server.deleting).cloned().collect();
    for server in servers {
        if !kube.list("v1", "Node", "").iter().any(|node| node["metadata"]["name"] == *server.id) {
            kube.apply(kubelet::node(&server)).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_pod_becomes_a_node_and_the_node_goes_with_it() {
    let stub = Stub::default();
    let url = stub.serve().await;
    let kube = Server::new(Config::new(std::sync::Arc::new(Timestamp::now), 1));
    for definition in pebble_autoscaler::definitions() {
        kube.apply(serde_json::to_value(definition).unwrap()).unwrap();
    }
    let class = json!({"group": "pebble.example", "kind": "PebbleNodeClass", "name": "default"});
    for object in [
        json!({"apiVersion": "pebble.example/v1", "kind": "PebbleNodeClass", "metadata": {"name": "default"},
            "spec": {"image": "debian-13"}}),
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"},
            "spec": {"disruption": {"consolidateAfter": "0s"},
                "template": {"spec": {"nodeClassRef": class, "requirements": []}}}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"containers": [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "3"}}}]},
            "status": {"phase": "Pending", "conditions":
                [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}),
    ] {
        kube.apply(object).unwrap();
    }
    let listening = kube.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let kubeconfig = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubeconfig");
    std::fs::write(&kubeconfig, kube.kubeconfig(listening.address)).unwrap();
    let _operator = start(&kubeconfig, &url, &[("DISABLE_LEADER_ELECTION", "true")]);
    let begun = Instant::now();
    let until = async |what: &str, holds: &dyn Fn() -> bool| {
        let since = Instant::now();
        while !holds() {
            assert!(since.elapsed() < LIMIT, "{what} takes more than {LIMIT:?}");
            register_nodes(&kube, &stub, begun.elapsed());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let initialized = || {
        let nodes = kube.list("v1", "Node", "");
        nodes.iter().any(|node| node["metadata"]["labels"]["karpenter.sh/initialized"] == "true")
    };
    until("an initialized node", &initialized).await;
    let servers: Vec<_> = stub.inner().servers.values().cloned().collect();
    assert_eq!(servers.len(), 1, "{servers:?}");
    assert_eq!(
        (servers[0].server_type.as_str(), servers[0].zone.as_str()),
        ("p4", "north"),
        "the cheapest that fits"
    );
    let conditions =
        kube.list("pebble.example/v1", "PebbleNodeClass", "").remove(0)["status"]["conditions"].clone();
    assert_eq!(conditions[0]["status"], "True", "{conditions}");
    kube.delete("v1", "Pod", "default", "web").unwrap();
    until("the end of the empty node", &|| stub.inner().servers.is_empty()).await;
    until("the end of its NodeClaim", &|| kube.list("karpenter.sh/v1", "NodeClaim", "").is_empty()).await;
}
