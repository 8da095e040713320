//! The operator's binary on a real API server, scheduler and controller manager: pods become nodes, fewer pods smaller nodes, and a process
//! that is killed in the middle of a launch launches nothing twice.
//!
//! `cargo xtask provider-example --e2e` runs it. `KUBECONFIG` is that of an administrator of an empty cluster, and the operator acts with
//! what `deploy/operator.yaml` grants.

use std::{
    path::{Path, PathBuf},
    process::Child,
    time::{Duration, Instant},
};

use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
        PostParams,
    },
};
use serde_json::{Value, json};

use crate::{kubelet, operator::start, stub::Stub};

const MANIFESTS: &str = include_str!("../../deploy/operator.yaml");
/// Who the operator is.
const ACCOUNT: &str = "system:serviceaccount:pebble-autoscaler:pebble-autoscaler";
/// How long a step may take on a slow host.
const LIMIT: Duration = Duration::from_secs(180);
/// How long a cluster is observed in which nothing should happen.
const QUIET: Duration = Duration::from_secs(15);

/// The API server, for an administrator.
#[derive(Clone)]
struct Cluster(Client);

impl Cluster {
    fn api(&self, object: &Value) -> Api<DynamicObject> {
        let version = object["apiVersion"].as_str().unwrap();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
        let resource = ApiResource::from_gvk(&kind);
        match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.0.clone(), namespace, &resource),
            None => Api::all_with(self.0.clone(), &resource),
        }
    }

    async fn list(&self, version: &str, kind: &str) -> Vec<Value> {
        let api = self.api(&json!({"apiVersion": version, "kind": kind}));
        let all = api.list(&ListParams::default()).await.unwrap();
        all.items.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    /// Applies an object, as soon as the server has its kind.
    async fn apply(&self, object: &Value) {
        let params = PatchParams::apply("test").force();
        let since = Instant::now();
        while let Err(error) = self.api(object).patch(name(object), &params, &Patch::Apply(object)).await {
            assert!(since.elapsed() < LIMIT, "{object}: {error}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn delete(&self, object: &Value, params: &DeleteParams) -> kube::Result<()> {
        self.api(object).delete(name(object), params).await.map(drop)
    }

    /// A Deployment whose pods request so many CPUs.
    async fn deploy(&self, name: &str, replicas: u32, cpu: &str) -> Value {
        let container =
            json!({"name": name, "image": "registry.example/none", "resources": {"requests": {"cpu": cpu}}});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}}});
        self.apply(&deployment).await;
        deployment
    }

    /// The NodePool of the test, which consolidates after so long.
    async fn pool(&self, consolidate_after: &str) {
        let class = json!({"group": "pebble.example", "kind": "PebbleNodeClass", "name": "default"});
        self.apply(
            &json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"},
            "spec": {"disruption": {"consolidateAfter": consolidate_after, "budgets": [{"nodes": "100%"}]},
                "template": {"spec": {"nodeClassRef": class, "requirements": []}}}}),
        )
        .await;
    }

    /// Pods that run.
    async fn running(&self) -> usize {
        let pods = self.list("v1", "Pod").await;
        let runs = |pod: &&Value| pod["status"]["phase"] == "Running" && !is_deleting(pod);
        pods.iter().filter(runs).count()
    }

    /// One round of all kubelets: nodes register and stay ready, their pods run and end.
    async fn run_kubelets(&self, stub: &Stub) -> kube::Result<()> {
        let servers: Vec<_> = stub.inner().servers.values().filter(|one| !one.deleting).cloned().collect();
        let known = self.list("v1", "Node").await;
        for node in servers.iter().map(kubelet::node) {
            if known.iter().any(|other| name(other) == name(&node)) {
                let status =
                    Patch::Strategic(json!({"status": {"conditions": node["status"]["conditions"]}}));
                self.api(&node).patch_status(name(&node), &PatchParams::default(), &status).await?;
            } else {
                let object: DynamicObject = serde_json::from_value(node.clone()).unwrap();
                self.api(&node).create(&PostParams::default(), &object).await?;
            }
        }
        for mut pod in self.list("v1", "Pod").await {
            (pod["apiVersion"], pod["kind"]) = ("v1".into(), "Pod".into());
            let bound = servers.iter().any(|server| pod["spec"]["nodeName"] == *server.id);
            if bound && is_deleting(&pod) {
                self.delete(&pod, &DeleteParams::default().grace_period(0)).await?;
            } else if bound && pod["status"]["phase"] == "Pending" {
                let status =
                    json!({"status": {"phase": "Running", "conditions": [kubelet::ready("Started")]}});
                let (params, status) = (PatchParams::default(), Patch::Strategic(status));
                self.api(&pod).patch_status(name(&pod), &params, &status).await?;
            }
        }
        Ok(())
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Runs all kubelets until the test ends.
async fn kubelets(cluster: Cluster, stub: Stub) {
    let begun = Instant::now();
    loop {
        stub.inner().now = begun.elapsed();
        // What was deleted meanwhile is seen in the next round.
        if let Err(error) = cluster.run_kubelets(&stub).await {
            println!("a kubelet failed: {error}");
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Waits for a state.
async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let since = Instant::now();
    while !holds().await {
        assert!(since.elapsed() < LIMIT, "{what} takes more than {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    println!("{what}: after {:?}", since.elapsed());
}

/// The types of the servers, sorted.
fn types(stub: &Stub) -> Vec<String> {
    let mut types: Vec<String> =
        stub.inner().servers.values().map(|server| server.server_type.clone()).collect();
    types.sort();
    types
}

/// The servers by id, and those that NodeClaims name.
async fn fleet(cluster: &Cluster, stub: &Stub) -> (Vec<String>, Vec<String>) {
    let claims = cluster.list("karpenter.sh/v1", "NodeClaim").await;
    let named =
        claims.iter().map(|claim| claim["status"]["providerID"].as_str().unwrap_or("none").to_owned());
    let mut named: Vec<String> = named.collect();
    named.sort();
    let mut servers: Vec<String> =
        stub.inner().servers.values().map(|one| format!("pebble:///{}/{}", one.zone, one.id)).collect();
    servers.sort();
    (servers, named)
}

/// The administrator's kubeconfig, for the operator's account.
fn operators_kubeconfig() -> PathBuf {
    let admin = std::fs::read_to_string(std::env::var_os("KUBECONFIG").expect("KUBECONFIG is set")).unwrap();
    let mut config: Value = serde_saphyr::from_str(&admin).unwrap();
    config["users"][0]["user"]["as"] = ACCOUNT.into();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("operator.kubeconfig");
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

/// Asks a process to end, and waits until it does so.
fn stop(operator: &mut Child) {
    let id = operator.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert!(operator.wait().unwrap().success(), "the operator ends in good order");
}

async fn install(cluster: &Cluster) {
    for definition in pebble_autoscaler::definitions() {
        cluster.apply(&serde_json::to_value(definition).unwrap()).await;
    }
    // The Deployment's pods would need a node.
    for object in serde_saphyr::from_multiple::<Value>(MANIFESTS).unwrap() {
        if object["kind"] != "Deployment" {
            cluster.apply(&object).await;
        }
    }
    cluster
        .apply(&json!({"apiVersion": "pebble.example/v1", "kind": "PebbleNodeClass",
            "metadata": {"name": "default"}, "spec": {"image": "debian-13"}}))
        .await;
    cluster.pool("0s").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs an API server: cargo xtask provider-example --e2e"]
async fn pods_become_nodes_and_a_killed_operator_launches_nothing_twice() {
    let cluster = Cluster(Client::try_default().await.unwrap());
    let stub = Stub::default();
    let url = stub.serve().await;
    install(&cluster).await;
    let kubelets = tokio::spawn(kubelets(cluster.clone(), stub.clone()));
    let kubeconfig = operators_kubeconfig();
    let election = [("SYSTEM_NAMESPACE", "pebble-autoscaler")];
    let mut operator = start(&kubeconfig, &url, &election);

    let web = cluster.deploy("web", 1, "1700m").await;
    let batch = cluster.deploy("batch", 1, "5").await;
    until("both pods run", async || cluster.running().await == 2).await;
    assert_eq!(types(&stub), ["p8"], "the cheapest that has room for both");

    cluster.delete(&batch, &DeleteParams::default()).await.unwrap();
    until("a smaller node replaces the large one", async || {
        types(&stub) == ["p2"] && cluster.running().await == 1
    })
    .await;

    cluster.pool("Never").await;
    let launched = stub.inner().launched();
    stub.inner().hang = Some(0);
    cluster.deploy("web", 5, "1700m").await;
    until("a server whose creation is not answered", async || stub.inner().hang.is_none()).await;
    operator.0.kill().unwrap();
    operator.0.wait().unwrap();
    let mut operator = start(&kubeconfig, &url, &election);
    until("all pods run", async || cluster.running().await == 5).await;
    let (servers, named) = fleet(&cluster, &stub).await;
    assert_eq!(servers, named, "each server has its NodeClaim");
    assert_eq!(stub.inner().launched() - launched, servers.len() - 1, "nothing was launched twice");

    stop(&mut operator.0);
    let mut operator = start(&kubeconfig, &url, &election);
    let since = Instant::now();
    while since.elapsed() < QUIET {
        assert_eq!(
            (servers.clone(), named.clone()),
            fleet(&cluster, &stub).await,
            "a restart changes nothing"
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    cluster.pool("0s").await;
    cluster.delete(&web, &DeleteParams::default()).await.unwrap();
    until("the end of all servers", async || types(&stub).is_empty()).await;
    until("the end of all NodeClaims and nodes", async || {
        cluster.list("karpenter.sh/v1", "NodeClaim").await.is_empty()
            && cluster.list("v1", "Node").await.is_empty()
    })
    .await;
    stop(&mut operator.0);
    kubelets.abort();
}
