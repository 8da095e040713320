//! Invalid input: it is reported, and everything else works.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::e2e::case::Cx;
use crate::e2e::fleet;
use crate::e2e::manifests;
use crate::e2e::process::{Recipe, free_ports, tail};

/// How long a message may take to appear on an object.
const SAID: Duration = Duration::from_secs(45);

/// A NodePool without a NodeClass has a condition and an event; the other NodePool serves its pods.
pub(super) async fn unknown_node_class(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let broken = format!("{}-broken", cx.pool());
    let mut pool = manifests::node_pool(&broken, 4);
    pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!("nowhere");
    cx.apply(&pool).await?;
    let path = format!("/apis/karpenter.sh/v1/nodepools/{broken}");
    cx.eventually("the NodePool says that its NodeClass is missing", SAID, async |world| {
        let pool = world.get(&path).await?.context("the pool is gone")?;
        let said = fleet::condition(&pool, "NodeClassReady").cloned().unwrap_or_default();
        anyhow::ensure!(said["status"] == "False" && said["reason"] == "NodeClassNotFound", "{said}");
        let ready = fleet::condition(&pool, "Ready").cloned().unwrap_or_default();
        anyhow::ensure!(ready["status"] == "False", "{ready}");
        Ok(())
    })
    .await?;
    let name = broken.clone();
    cx.eventually("an event says it too", SAID, async |world| {
        let events = world.events("NodePool", &name).await?;
        let said = events.iter().any(|event| event.to_string().contains("NodeClassNotFound"));
        anyhow::ensure!(said, "{} events without it", events.len());
        Ok(())
    })
    .await?;
    cx.deploy(4, 1, "1").await?;
    let lost = manifests::deployment(&cx.namespace(), "lost", &broken, 1, "1");
    cx.apply(&lost).await?;
    one_serves(cx, "web").await?;
    let fleet = cx.stable(Duration::from_secs(60)).await?;
    cx.equal("instances, none of them of the broken pool", &fleet.instances.len(), &1)
}

/// A pod that is too large for any instance, one with an invalid request, and a NodePool without a matching instance type: the pods have
/// events, and the ordinary pod runs.
pub(super) async fn impossible_pods(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let namespace = cx.namespace();
    cx.apply(&manifests::namespace(&namespace)).await?;
    cx.apply(&manifests::node_pool(&cx.pool(), 4)).await?;
    let barren = format!("{}-barren", cx.pool());
    cx.apply(&manifests::node_pool(&barren, 7777)).await?;
    cx.launches_as_foreseen(async |cx| {
        let pool = cx.pool();
        for (name, pool, cpu) in [
            ("giant", &pool, "100000"),
            ("absurd", &pool, "1e400"),
            ("barren", &barren, "1"),
            ("web", &pool, "1"),
        ] {
            cx.apply(&manifests::pod(&namespace, name, pool, cpu)).await?;
        }
        Ok(())
    })
    .await?;
    one_serves(cx, "web").await?;
    for name in ["giant", "absurd", "barren"] {
        cx.eventually(&format!("the operator says why {name} gets no node"), SAID, async |world| {
            let events = world.events("Pod", name).await?;
            // kube-scheduler uses the same reason; the reporting component distinguishes ours.
            let said = events.iter().any(|event| event["reason"] == "FailedScheduling" && is_ours(event));
            anyhow::ensure!(said, "{} events without it", events.len());
            Ok(())
        })
        .await?;
    }
    let fleet = cx.stable(Duration::from_secs(60)).await?;
    cx.equal("instances, all of them for the ordinary pod", &fleet.instances.len(), &1)
}

fn is_ours(event: &Value) -> bool {
    ["/source/component", "/reportingComponent"].iter().any(|path| {
        event.pointer(path).and_then(Value::as_str).is_some_and(|text| text.contains("karpenter"))
    })
}

async fn one_serves(cx: &mut Cx<'_>, app: &str) -> anyhow::Result<()> {
    let namespace = cx.namespace();
    cx.eventually(&format!("{app} gets a node and runs"), Duration::from_secs(90), async |world| {
        let pods = world.pods(&namespace).await?;
        let serves = |pod: &&Value| pod["metadata"]["labels"]["app"] == app && fleet::is_serving(pod);
        anyhow::ensure!(pods.iter().find(serves).is_some(), "none of {} pods is", pods.len());
        Ok(())
    })
    .await
}

/// A catalogue with an invalid price: the cloud reports it and does not start with half a catalogue.
pub(super) async fn catalogue(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    for (name, price) in [("negative", json!(-0.5)), ("missing", Value::Null)] {
        let file = cx.world.folder.join(format!("catalogue-{name}.json"));
        std::fs::write(&file, bad_catalogue(&price).to_string())?;
        let [port] = free_ports()?;
        let args =
            ["fake-cloud", "--listen", &format!("127.0.0.1:{port}"), "--instance-types"].map(str::to_owned);
        let kubeconfig = ["--kubeconfig".to_owned(), cx.world.server.kubeconfigs.admin.display().to_string()];
        let recipe = Recipe {
            name: if price.is_null() { "catalogue-missing" } else { "catalogue-negative" },
            program: cx.world.binary.clone(),
            args: args.into_iter().chain([file.display().to_string()]).chain(kubeconfig).collect(),
            env: Vec::new(),
            logs: cx.world.folder.clone(),
        };
        let process = recipe.start()?;
        let status = process.wait(Duration::from_secs(15)).await?;
        let said = tail(&recipe.log(), 20);
        cx.check(format!("a {name} price is refused: {status}\n{said}"), !status.success())?;
        let lower = said.to_lowercase();
        cx.check(format!("the message names the field: {said}"), lower.contains("price"))?;
        cx.check(format!("the message names the type: {said}"), said.contains("c-4x-amd64-linux"))?;
        cx.check(format!("nothing panics: {said}"), !said.contains("panicked"))?;
    }
    Ok(())
}

/// One instance type in the form of Karpenter's kwok provider.
fn bad_catalogue(price: &Value) -> Value {
    let requirement = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    json!([{
        "name": "c-4x-amd64-linux",
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": "4", "memory": "8Gi", "pods": "64", "ephemeral-storage": "20Gi"},
        "offerings": [{
            "Price": price,
            "Available": true,
            "Requirements": [
                requirement("karpenter.sh/capacity-type", "on-demand"),
                requirement("topology.kubernetes.io/zone", "test-zone-a"),
            ],
        }],
    }])
}
