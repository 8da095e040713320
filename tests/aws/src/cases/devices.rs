//! Pods with resource claims (`IGNORE_DRA_REQUESTS=false`) get nodes with the GPUs that they claim: the devices of instance types are known before a node
//! exists, to `fleetwright plan` and to the operator.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::flow::{CLAIMS, CLASSES, LIMIT, PODS, POOLS, is_true, node_class};
use super::plan::{launched, planned};
use crate::case::Cx;
use crate::stage::{Server, eventually};

const DEVICE_CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
const RESOURCE_CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";

/// Claims: name, GPUs, what each must be, and the cheapest instance type with them.
const WANTED: [(&str, u32, &str, &str); 4] = [
    ("one", 1, "", "g4dn.xlarge"),
    ("four", 4, "", "g4dn.12xlarge"),
    ("ampere", 1, "device.attributes['gpu.nvidia.com'].architecture == 'Ampere'", "p4d.24xlarge"),
    ("large", 8, "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('35Gi')) >= 0", "p4d.24xlarge"),
];

/// A pool per claim, so that no pod is placed on another's node. All allow the same types.
fn pool(name: &str) -> Value {
    let values = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {
            "metadata": {"labels": {"example.com/pool": name}},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    values("karpenter.k8s.aws/instance-family", &["m5", "g4dn", "p4d"]),
                    values("karpenter.sh/capacity-type", &["on-demand"]),
                ],
            },
        }},
    })
}

/// The class of NVIDIA's driver.
fn device_class() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu.nvidia.com"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
    })
}

fn resource_claim(name: &str, count: u32, expression: &str) -> Value {
    let mut exactly =
        json!({"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": count});
    if !expression.is_empty() {
        exactly["selectors"] = json!([{"cel": {"expression": expression}}]);
    }
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    })
}

fn pod(name: &str, pool: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeSelector": {"example.com/pool": pool},
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
            "containers": [{
                "name": "app",
                "image": "registry.k8s.io/pause:3.10",
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "claims": [{"name": "gpu"}]},
            }],
        },
    })
}

pub(super) async fn claimed(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.proxy.rules(|rules| {
        let prices = [("m5.large", "0.0960"), ("g4dn.xlarge", "0.5260"), ("g4dn.12xlarge", "3.9120")];
        let all = prices.into_iter().chain([("p4d.24xlarge", "21.9576")]);
        rules.prices = all.map(|(name, price)| (name.to_owned(), price.to_owned())).collect();
    });
    let mut server = Server::start(cx).await?;
    server.settings = vec![("IGNORE_DRA_REQUESTS", "false".into())];
    server.create(CLASSES, &node_class()).await?;
    server.create(DEVICE_CLASSES, &device_class()).await?;
    let operator = server.operator(cx).await?;
    let mut class = eventually("the class is ready", LIMIT, async || {
        let class = server.rest.get(&format!("{CLASSES}/default")).await?.context("no class")?;
        ensure!(is_true(&class, "Ready"), "{}", class["status"]["conditions"]);
        Ok(class)
    })
    .await?;
    class["apiVersion"] = "karpenter.k8s.aws/v1".into();
    class["kind"] = "EC2NodeClass".into();
    let mut items = vec![class, device_class()];
    // No type has such a GPU.
    let absent =
        ("absent", 1, "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('200Gi')) >= 0", "");
    for (name, count, expression, _) in WANTED.into_iter().chain([absent]) {
        items.extend([pool(name), resource_claim(name, count, expression), pod(name, name)]);
    }
    let file = cx.folder.join("dump.json");
    std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())?;
    let file = file.display().to_string();
    let printed = server.command(cx, &["plan", "-f", &file, "-o", "json", "--catalog", "ec2-live"]).await?;
    let report = serde_json::from_str(&printed.out).with_context(|| printed.err.clone())?;
    let expected = planned(&report)?;
    let types = |pool: &str| -> Vec<&str> {
        expected.keys().filter(|[own, ..]| own == pool).map(|[_, _, name, _]| name.as_str()).collect()
    };
    for (name, _, _, instance_type) in WANTED {
        cx.equal(&format!("what is planned for the claim {name}"), &types(name), &vec![instance_type])?;
    }
    cx.equal("what is planned for a GPU that no type has", &types("absent"), &Vec::new())?;
    for item in &items[2..] {
        let path = match item["kind"].as_str() {
            Some("NodePool") => POOLS,
            Some("Pod") => PODS,
            _ => RESOURCE_CLAIMS,
        };
        server.create(path, item).await?;
    }
    let claims = eventually("every NodeClaim is launched", LIMIT, async || {
        let claims = server.rest.list(CLAIMS).await?;
        let ready = claims.iter().filter(|claim| is_true(claim, "Launched")).count();
        ensure!(ready >= WANTED.len(), "{ready} of {} are launched", WANTED.len());
        Ok(claims)
    })
    .await?;
    cx.equal("NodeClaims by pool, capacity type, instance type and zone", &launched(&claims), &expected)?;
    operator.kill().await
}
