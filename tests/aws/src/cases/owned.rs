//! Capacity with an owner where the operator is a process: a capacity block that ends, a cluster placement group, EFA.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use fleetwright_aws_api::labels;
use fleetwright_aws_emulator::capacity::{PlacementGroup, Reservation};
use fleetwright_core::clock::Clock as _;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::flow::{
    CLAIMS, CLASSES, LIMIT, NODES, PODS, POOLS, is_true, node, node_class, nothing_left, pod, the_claim,
};
use crate::case::Cx;
use crate::stage::{Server, eventually};

const BLOCK: &str = "cr-0123456789abcdef0";
const GROUP: &str = "pg-0123456789abcdef0";
const EFA: &str = "vpc.amazonaws.com/efa";
/// EC2 terminates the instances of a block this long before its end.
const RECLAIMED: SignedDuration = SignedDuration::from_mins(30);
/// For how long the block can be launched into, before its nodes are drained 40 minutes before its end.
const USABLE: SignedDuration = SignedDuration::from_secs(120);
/// How long the node may take to be drained and terminated from its launch on: the block is looked at once a minute.
const DRAINED_LIMIT: Duration = Duration::from_secs(280);

/// A pool whose pods select it by its label.
fn pool(name: &str, requirements: &[(&str, &str)]) -> Value {
    let of = |(key, value): &(&str, &str)| json!({"key": key, "operator": "In", "values": [value]});
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "disruption": {"consolidateAfter": "Never"},
            "template": {
                "metadata": {"labels": {"example.com/pool": name}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": requirements.iter().map(of).collect::<Vec<_>>(),
                },
            },
        },
    })
}

/// A pod of a pool.
fn pod_of(name: &str, pool: &str, cpu: &str) -> Value {
    let mut pod = pod();
    pod["metadata"]["name"] = name.into();
    pod["spec"]["nodeSelector"] = json!({"example.com/pool": pool});
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu.into();
    pod
}

/// Creates pools and their class with further fields, and waits until it is ready.
async fn ready(server: &Server, pools: &[Value], change: Value) -> anyhow::Result<()> {
    let mut class = node_class();
    for (field, value) in change.as_object().into_iter().flatten() {
        class["spec"][field] = value.clone();
    }
    server.create(CLASSES, &class).await?;
    for pool in pools {
        server.create(POOLS, pool).await?;
    }
    eventually("the class is ready", LIMIT, async || {
        let class = server.rest.get(&format!("{CLASSES}/default")).await?.context("no class")?;
        ensure!(is_true(&class, "Ready"), "{}", class["status"]["conditions"]);
        Ok(())
    })
    .await
}

fn label<'a>(claim: &'a Value, key: &str) -> &'a str {
    claim["metadata"]["labels"][key].as_str().unwrap_or_default()
}

/// The id of a NodeClaim's instance.
fn instance(claim: &Value) -> String {
    let id = claim["status"]["providerID"].as_str().unwrap_or_default();
    id.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Messages of all events.
async fn messages(server: &Server) -> anyhow::Result<Vec<String>> {
    let events = server.rest.list("/api/v1/events").await?;
    let text = |event: &Value| format!("{} {}", event["reason"], event["message"]);
    Ok(events.iter().map(text).collect())
}

pub(super) async fn block_ends(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let server = Server::start(cx).await?;
    let operator = server.operator(cx).await?;
    // Their start takes as long as this host likes.
    let now = cx.proxy.clock.now();
    let starts = now - SignedDuration::from_hours(1);
    let ends = now + SignedDuration::from_mins(40) + USABLE;
    let block = Reservation::new(BLOCK, "m5.large", "us-west-2a", 1).block(starts, ends);
    cx.proxy.rules(|rules| rules.supply.reservations = vec![block]);
    let pools = [pool("block", &[("karpenter.sh/capacity-type", "reserved")])];
    let terms = json!({"capacityReservationSelectorTerms": [{"id": BLOCK}]});
    ready(&server, &pools, terms).await?;
    server.create(PODS, &pod_of("web", "block", "1")).await?;
    let claim = eventually("the NodeClaim is launched", LIMIT, async || {
        let claim = the_claim(&server).await?;
        ensure!(is_true(&claim, "Launched"), "{}", claim["status"]["conditions"]);
        Ok(claim)
    })
    .await?;
    cx.equal("its capacity type", &label(&claim, "karpenter.sh/capacity-type"), &"reserved")?;
    cx.equal("its kind", &label(&claim, labels::CAPACITY_RESERVATION_TYPE), &"capacity-block")?;
    cx.equal("its block", &label(&claim, labels::CAPACITY_RESERVATION_ID), &BLOCK)?;
    let provider_id = claim["status"]["providerID"].as_str().unwrap_or_default();
    server.create(NODES, &node("ip-10-0-0-1", provider_id)).await?;
    eventually("the pod runs on its node", LIMIT, async || {
        let pod = server.rest.get(&format!("{PODS}/web")).await?.context("no pod")?;
        ensure!(pod["spec"]["nodeName"] == "ip-10-0-0-1", "the pod is not bound: {}", pod["status"]);
        Ok(())
    })
    .await?;
    drained(cx, &server, &instance(&claim), ends).await?;
    // The block has room again, and is not used any more.
    let before = cx.proxy.mark();
    server.create(PODS, &pod_of("late", "block", "1")).await?;
    eventually("a pod that comes later is unschedulable", LIMIT, async || {
        let told = messages(&server).await?;
        let says = |text: &String| text.contains("no instance type has the required offering");
        ensure!(told.iter().any(says), "{told:?}");
        Ok(())
    })
    .await?;
    cx.equal("fleets for it", &cx.proxy.count("CreateFleet", before), &0)?;
    cx.equal("instances in the end", &cx.account.instances().await?.len(), &0)?;
    operator.kill().await
}

/// The node is drained, then the operator terminates its instance, before EC2 would.
async fn drained(cx: &mut Cx<'_>, server: &Server, id: &str, ends: Timestamp) -> anyhow::Result<()> {
    nothing_left(cx, server, DRAINED_LIMIT).await?;
    let left = ends.duration_since(cx.proxy.clock.now());
    cx.check(format!("{left:#} before its end, EC2 has not terminated it"), left > RECLAIMED)?;
    cx.check(
        format!("{left:#} before its end, it was not drained early"),
        left < SignedDuration::from_mins(40),
    )?;
    let calls = cx.proxy.calls();
    let ended = |call: &&fleetwright_aws_emulator::call::Call| {
        call.action == "TerminateInstances" && call.params.values().any(|own| own == id) && call.status == 200
    };
    cx.equal("calls of the operator that terminate it", &calls.iter().filter(ended).count(), &1)?;
    let told = messages(server).await?;
    let says = |words: &str| told.iter().any(|text| text.contains(words));
    cx.check(format!("an event says why: {told:?}"), says("CapacityReservationExpiring"))?;
    cx.check(format!("its pod is evicted: {told:?}"), says("Evicted"))?;
    cx.check("and is gone", server.rest.get(&format!("{PODS}/web")).await?.is_none())
}

pub(super) async fn cluster_group(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let group =
        PlacementGroup { id: GROUP.to_owned(), name: "g".to_owned(), strategy: "cluster", partitions: 0 };
    let types = ("c5n.18xlarge", "on-demand");
    cx.proxy.rules(|rules| {
        rules.supply.groups = vec![group];
        // Each zone has two instances: the third cannot be near the first two.
        let pools = ["us-west-2a", "us-west-2b"]
            .map(|zone| ((types.0.to_owned(), zone.to_owned(), types.1.to_owned()), 2));
        rules.supply.pools = pools.into();
    });
    let requirements =
        [("node.kubernetes.io/instance-type", types.0), ("karpenter.sh/capacity-type", types.1)];
    let server = Server::start(cx).await?;
    let operator = server.operator(cx).await?;
    let selector = json!({"placementGroupSelector": {"name": "g"}});
    ready(&server, &[pool("group", &requirements)], selector).await?;
    for name in ["one", "two", "three"] {
        server.create(PODS, &pod_of(name, "group", "60")).await?;
    }
    let (claims, told) = eventually("two are launched and the third says why not", LIMIT, async || {
        let claims = server.rest.list(CLAIMS).await?;
        let launched: Vec<Value> = claims.iter().filter(|own| is_true(own, "Launched")).cloned().collect();
        let conditions: String = claims.iter().map(|own| own["status"]["conditions"].to_string()).collect();
        let told = conditions + &messages(&server).await?.join("\n");
        ensure!(launched.len() == 2 && told.contains("InvalidPlacementGroup.InUse"), "{told}");
        Ok((launched, told))
    })
    .await?;
    let says = "is in use in another availability zone";
    cx.check(format!("EC2's words are in a condition or an event: {told}"), told.contains(says))?;
    let instances = cx.account.instances().await?;
    cx.equal("instances", &instances.len(), &2)?;
    let zones: BTreeSet<&str> = instances.values().map(|own| own.zone.as_str()).collect();
    cx.equal("zones of the group", &zones.len(), &1)?;
    for claim in &claims {
        let id = instance(claim);
        let group = cx.proxy.rules(|rules| rules.supply.way_of(&id).and_then(|way| way.group.clone()));
        cx.equal("the group of an instance", &group, &Some((GROUP.to_owned(), None)))?;
        cx.check("the zone of its NodeClaim", zones.contains(label(claim, "topology.kubernetes.io/zone")))?;
    }
    operator.kill().await
}

pub(super) async fn efa(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let on_demand = ("karpenter.sh/capacity-type", "on-demand");
    let pools = ["with", "without"]
        .map(|name| pool(name, &[("node.kubernetes.io/instance-type", "c5n.18xlarge"), on_demand]));
    let server = Server::start(cx).await?;
    let operator = server.operator(cx).await?;
    ready(&server, &pools, json!({})).await?;
    let mut wants = pod_of("with", "with", "60");
    for kind in ["requests", "limits"] {
        wants["spec"]["containers"][0]["resources"][kind][EFA] = "1".into();
    }
    server.create(PODS, &wants).await?;
    server.create(PODS, &pod_of("without", "without", "60")).await?;
    let claims = eventually("both NodeClaims are launched", LIMIT, async || {
        let claims = server.rest.list(CLAIMS).await?;
        let count = claims.iter().filter(|own| is_true(own, "Launched")).count();
        ensure!(count == 2, "{:?}", claims.iter().map(|own| &own["status"]).collect::<Vec<_>>());
        Ok(claims)
    })
    .await?;
    for claim in &claims {
        let expected = usize::from(label(claim, "karpenter.sh/nodepool") == "with");
        let id = instance(claim);
        let found = cx.proxy.rules(|rules| rules.supply.way_of(&id).map(|way| way.efas));
        cx.equal("EFA interfaces of the instance", &found, &Some(expected))?;
        let devices = &claim["status"]["capacity"][EFA];
        let devices: usize = devices.as_str().unwrap_or("0").parse()?;
        cx.equal("EFA devices of the NodeClaim", &devices, &expected)?;
    }
    let types: BTreeSet<String> =
        cx.account.instances().await?.into_values().map(|own| own.instance_type).collect();
    cx.equal("instance types", &types, &["c5n.18xlarge".to_owned()].into())?;
    operator.kill().await
}
