//! The whole flow: the operator as a process, on an API server in memory, against AWS.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use fleetwright_aws_api::labels;
use serde_json::{Value, json};

use crate::case::Cx;
use crate::cluster::class_spec;
use crate::stage::{Collector, Operator, Server, eventually};

pub(super) const CLASSES: &str = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";
pub(super) const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
pub(super) const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(super) const NODES: &str = "/api/v1/nodes";

/// How long each step may take.
pub(super) const LIMIT: Duration = Duration::from_secs(90);

pub(super) fn node_class() -> Value {
    json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": class_spec(),
    })
}

pub(super) fn node_pool() -> Value {
    let values = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "general"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [
                values("kubernetes.io/arch", &["amd64"]),
                values("karpenter.sh/capacity-type", &["on-demand"]),
                values("karpenter.k8s.aws/instance-family", &["m5"]),
            ],
        }}},
    })
}

pub(super) fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{
            "name": "app",
            "image": "registry.k8s.io/pause:3.10",
            "resources": {"requests": {"cpu": "1", "memory": "256Mi"}},
        }]},
    })
}

/// The Node of an instance, as its kubelet would register it.
pub(super) fn node(name: &str, provider_id: &str) -> Value {
    let have = json!({"cpu": "2", "memory": "7Gi", "pods": "29", "ephemeral-storage": "20Gi"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {
            "providerID": provider_id,
            "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
        },
        "status": {
            "capacity": have, "allocatable": have,
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    })
}

/// Whether a condition holds.
pub(super) fn is_true(object: &Value, condition: &str) -> bool {
    let all = object["status"]["conditions"].as_array();
    all.is_some_and(|all| all.iter().any(|own| own["type"] == condition && own["status"] == "True"))
}

/// The only claim.
pub(super) async fn the_claim(server: &Server) -> anyhow::Result<Value> {
    let claims = server.rest.list(CLAIMS).await?;
    let [claim] = claims.as_slice() else {
        let events = server.rest.list("/api/v1/events").await?;
        let told: Vec<&str> = events.iter().filter_map(|event| event["message"].as_str()).collect();
        anyhow::bail!("{} claims; events: {told:?}", claims.len())
    };
    Ok(claim.clone())
}

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let collector = Collector::start().await?;
    let mut server = Server::start(cx).await?;
    server.traces = Some(collector.url.clone());
    let operator = server.operator(cx).await?;
    server.create(CLASSES, &node_class()).await?;
    eventually("the class is ready", LIMIT, async || {
        let class = server.rest.get(&format!("{CLASSES}/default")).await?.context("no class")?;
        ensure!(is_true(&class, "Ready"), "{}", class["status"]["conditions"]);
        Ok(())
    })
    .await?;
    cx.check("the class is ready", true)?;

    server.create(POOLS, &node_pool()).await?;
    server.create(PODS, &pod()).await?;
    let claim = eventually("the pod has a claim with an instance", LIMIT, async || {
        let claim = the_claim(&server).await?;
        ensure!(is_true(&claim, "Launched"), "{}", claim["status"]);
        Ok(claim)
    })
    .await?;
    let name = claim["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let provider_id = claim["status"]["providerID"].as_str().unwrap_or_default().to_owned();
    let id = provider_id.rsplit('/').next().unwrap_or_default().to_owned();
    cx.check(format!("the provider id {provider_id}"), provider_id.starts_with("aws:///us-west-2"))?;
    let instances = cx.account.instances().await?;
    let instance = instances.get(&id).context("the instance is not there")?;
    cx.equal("instances", &instances.len(), &1)?;
    cx.equal("the cheapest that fits", &instance.instance_type.as_str(), &"m5.large")?;
    cx.equal("its cluster", &instance.tags.get(labels::TAG_CLUSTER_UID), &Some(&server.uid))?;
    cx.equal("its claim", &instance.tags.get(labels::TAG_NODECLAIM), &Some(&name))?;

    server.create(NODES, &node("ip-10-0-0-1", &provider_id)).await?;
    eventually("the node is registered and the pod runs on it", LIMIT, async || {
        let claim = the_claim(&server).await?;
        ensure!(is_true(&claim, "Registered"), "{}", claim["status"]["conditions"]);
        let pod = server.rest.get(&format!("{PODS}/web")).await?.context("no pod")?;
        ensure!(pod["spec"]["nodeName"] == "ip-10-0-0-1", "the pod is not bound: {}", pod["status"]);
        Ok(())
    })
    .await?;
    cx.check("the node is registered and has the pod", true)?;
    eventually("the instance is named after its node", LIMIT, async || {
        let instances = cx.account.instances().await?;
        let name = instances.get(&id).and_then(|instance| instance.tags.get("Name"));
        ensure!(name.is_some_and(|name| name == "ip-10-0-0-1"), "{name:?}");
        Ok(())
    })
    .await?;
    let fleets = cx.proxy.mutations(0).iter().filter(|action| *action == "CreateFleet").count();
    cx.equal("fleets, without the dry run", &fleets, &1)?;
    metered(cx, &operator).await?;
    gone(cx, &server, &name).await?;
    let status = operator.stop().await?;
    cx.check(format!("the operator ends when it is told to: {status}"), status.success())?;
    traced(cx, &collector, [&name, &provider_id])
}

/// The metrics have the requests to AWS.
async fn metered(cx: &mut Cx<'_>, operator: &Operator) -> anyhow::Result<()> {
    // Figures are handed out every ten seconds.
    eventually("the metrics tell of each request, its answer and its time", LIMIT, async || {
        let labels = r#"{action="CreateFleet",code="200",service="EC2"}"#;
        for family in ["request_total", "request_attempt_total", "request_duration_seconds_count"] {
            let told = operator.metric(&format!("aws_sdk_go_{family}{labels}")).await?;
            ensure!(told == 1.0, "{family}: {told}");
        }
        let dry = operator.metric(r#"aws_sdk_go_request_total{action="CreateFleet",code="412""#).await?;
        ensure!(dry >= 1.0, "dry runs: {dry}");
        Ok(())
    })
    .await?;
    cx.check("requests to AWS are in the metrics, as Karpenter's dashboards ask for them", true)
}

/// The collector has the pod's trace, with what its node is.
fn traced(cx: &mut Cx<'_>, collector: &Collector, own: [&str; 2]) -> anyhow::Result<()> {
    let texts = ["plan", "launch", "register", "bind", "web"].into_iter().chain(own);
    let missing: Vec<&str> = texts.filter(|text| !collector.has(text)).collect();
    cx.equal("what the trace of the pod lacks", &missing, &Vec::new())
}

/// Waits until there is no NodeClaim, no node and no instance.
pub(super) async fn nothing_left(cx: &Cx<'_>, server: &Server, limit: Duration) -> anyhow::Result<()> {
    eventually("NodeClaims, nodes and instances are gone", limit, async || {
        let (claims, nodes) = (server.rest.list(CLAIMS).await?, server.rest.list(NODES).await?);
        let instances = cx.account.instances().await?;
        ensure!(
            claims.is_empty() && nodes.is_empty() && instances.is_empty(),
            "{} claims, {} nodes, {} instances",
            claims.len(),
            nodes.len(),
            instances.len()
        );
        Ok(())
    })
    .await
}

/// The pod is deleted, then the claim: the instance is terminated, node and claim are deleted.
async fn gone(cx: &mut Cx<'_>, server: &Server, claim: &str) -> anyhow::Result<()> {
    server.delete(&format!("{PODS}/web")).await?;
    server.delete(&format!("{CLAIMS}/{claim}")).await?;
    nothing_left(cx, server, LIMIT).await?;
    cx.equal("calls that end the instance", &cx.proxy.count("TerminateInstances", 0), &1)?;
    server.delete(&format!("{CLASSES}/default")).await?;
    eventually("the class goes, and what was made for it", LIMIT, async || {
        ensure!(server.rest.get(&format!("{CLASSES}/default")).await?.is_none(), "the class is there");
        Ok(())
    })
    .await?;
    cx.equal("instance profiles", &cx.account.profiles().await?.len(), &0)?;
    cx.equal("launch templates", &cx.account.templates().await?.len(), &0)
}
