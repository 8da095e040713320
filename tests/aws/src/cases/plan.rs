//! What `fleetwright plan` says of pools of an EC2NodeClass is what the operator then launches: the same catalogue, prices and packing.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};
use fleetwright_aws_emulator::capacity::Reservation;
use fleetwright_core::clock::Clock as _;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::flow::{CLAIMS, CLASSES, LIMIT, PODS, POOLS, is_true, node_class};
use crate::case::Cx;
use crate::stage::{Server, eventually};

/// Pools by name: requirements of each.
fn pools() -> Vec<Value> {
    let values = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let family = |names: &[&str]| values("karpenter.k8s.aws/instance-family", names);
    let on_demand = || values("karpenter.sh/capacity-type", &["on-demand"]);
    let pool = |name: &str, requirements: Vec<Value>| {
        json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": {"template": {
                "metadata": {"labels": {"example.com/pool": name}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": requirements,
                },
            }},
        })
    };
    let of_type = |name: &str| values("node.kubernetes.io/instance-type", &[name]);
    vec![
        pool("general", vec![family(&["m5", "c5"]), on_demand()]),
        pool("arm", vec![family(&["m6g"]), values("kubernetes.io/arch", &["arm64"]), on_demand()]),
        pool("gpu", vec![family(&["g4dn"]), on_demand()]),
        pool(
            "zonal",
            vec![family(&["m5"]), values("topology.kubernetes.io/zone", &["us-west-2b"]), on_demand()],
        ),
        pool("spot", vec![family(&["m5", "c5"]), values("karpenter.sh/capacity-type", &["spot"])]),
        pool(
            "reserved",
            vec![of_type("m5.large"), values("karpenter.sh/capacity-type", &["reserved", "on-demand"])],
        ),
        pool("block", vec![family(&["m5"]), values("karpenter.sh/capacity-type", &["reserved"])]),
        pool(
            "later",
            vec![
                family(&["m5"]),
                values("topology.kubernetes.io/zone", &["us-west-2a"]),
                values("karpenter.sh/capacity-type", &["reserved"]),
            ],
        ),
    ]
}

/// The capacity that the class selects: an ordinary reservation, and blocks that have started, start later and are about to end.
fn capacity(now: Timestamp) -> Vec<Reservation> {
    let hours = |count: i64| now + SignedDuration::from_hours(count);
    vec![
        Reservation::new("cr-0123456789abcdef0", "m5.large", "us-west-2a", 2),
        Reservation::new("cr-0123456789abcdef1", "m5.xlarge", "us-west-2b", 1).block(hours(-1), hours(23)),
        Reservation::new("cr-0123456789abcdef2", "m5.xlarge", "us-west-2a", 1).block(hours(3), hours(27)),
        Reservation::new("cr-0123456789abcdef3", "m5.xlarge", "us-west-2a", 1).block(hours(-24), hours(0)),
    ]
}

/// Pods: name, pool, CPUs, GiB, GPUs.
const PODS_OF_POOLS: [(&str, &str, &str, &str, u32); 16] = [
    ("general-1", "general", "3", "2Gi", 0),
    ("general-2", "general", "3", "20Gi", 0),
    ("general-3", "general", "1", "1Gi", 0),
    ("arm-1", "arm", "1", "2Gi", 0),
    ("arm-2", "arm", "6", "8Gi", 0),
    ("gpu-1", "gpu", "2", "8Gi", 1),
    ("zonal-1", "zonal", "1", "2Gi", 0),
    ("zonal-2", "zonal", "7", "4Gi", 0),
    ("spot-1", "spot", "3", "4Gi", 0),
    ("spot-2", "spot", "1", "12Gi", 0),
    // Two instances are reserved.
    ("reserved-1", "reserved", "1500m", "2Gi", 0),
    ("reserved-2", "reserved", "1500m", "2Gi", 0),
    ("reserved-3", "reserved", "1500m", "2Gi", 0),
    // One instance of the block can be launched now: the second pod waits.
    ("block-1", "block", "3", "4Gi", 0),
    ("block-2", "block", "3", "4Gi", 0),
    // Its zone has a block that starts in three hours.
    ("later-1", "later", "3", "4Gi", 0),
];

fn pods() -> Vec<Value> {
    let pod = |(name, pool, cpu, memory, gpus): &(&str, &str, &str, &str, u32)| {
        let mut requests = json!({"cpu": cpu, "memory": memory});
        let mut limits = json!({});
        if *gpus > 0 {
            requests["nvidia.com/gpu"] = gpus.to_string().into();
            limits["nvidia.com/gpu"] = gpus.to_string().into();
        }
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "nodeSelector": {"example.com/pool": pool},
                "containers": [{
                    "name": "app",
                    "image": "registry.k8s.io/pause:3.10",
                    "resources": {"requests": requests, "limits": limits},
                }],
            },
        })
    };
    PODS_OF_POOLS.iter().map(pod).collect()
}

/// Dollars an hour: more than the built-in tables say for large sizes of c5, so that only the account's prices give the plan.
fn prices() -> Vec<(String, String)> {
    let sizes = [("large", 1.0), ("xlarge", 2.0), ("2xlarge", 4.0), ("4xlarge", 8.0), ("8xlarge", 16.0)];
    let families = [("m5", 0.096), ("c5", 0.11), ("m6g", 0.077), ("g4dn", 0.26)];
    let of = |(family, dollars): &(&str, f64)| {
        sizes.map(|(size, times)| (format!("{family}.{size}"), format!("{:.4}", dollars * times)))
    };
    families.iter().flat_map(of).collect()
}

/// Prices of spot pools: a share of the on-demand price that differs by family and zone.
fn spot_prices() -> BTreeMap<(String, String), String> {
    let zones = [("us-west-2a", 0.40, 0.35), ("us-west-2b", 0.30, 0.45)];
    let of = |(name, price): (String, String)| {
        let dollars: f64 = price.parse().unwrap_or_default();
        zones.map(|(zone, m5, c5)| {
            let share = if name.starts_with("c5.") { c5 } else { m5 };
            ((name.clone(), zone.to_owned()), format!("{:.4}", dollars * share))
        })
    };
    prices().into_iter().flat_map(of).collect()
}

/// How many NodeClaims there are by pool, capacity type, instance type and zone; the zone only where it matters: on demand all cost the same.
pub(super) type Counts = BTreeMap<[String; 4], usize>;

fn key(pool: &str, capacity_type: &str, instance_type: &str, zone: &str) -> [String; 4] {
    let zone = if pool == "zonal" || capacity_type != "on-demand" { zone } else { "" };
    [pool, capacity_type, instance_type, zone].map(str::to_owned)
}

pub(super) fn planned(report: &Value) -> anyhow::Result<Counts> {
    let mut counts = Counts::new();
    for claim in report["nodeClaims"].as_array().context("no nodeClaims")? {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let offering = &claim["offering"];
        let pool = text(&claim["nodePool"]);
        let zone = text(&offering["zone"]);
        let (market, name) = (text(&offering["capacityType"]), text(&offering["instanceType"]));
        *counts.entry(key(&pool, &market, &name, &zone)).or_default() += 1;
    }
    Ok(counts)
}

pub(super) fn launched(claims: &[Value]) -> Counts {
    let mut counts = Counts::new();
    for claim in claims {
        let label = |name: &str| claim["metadata"]["labels"][name].as_str().unwrap_or_default().to_owned();
        let (pool, zone) = (label("karpenter.sh/nodepool"), label("topology.kubernetes.io/zone"));
        let (market, name) = (label("karpenter.sh/capacity-type"), label("node.kubernetes.io/instance-type"));
        *counts.entry(key(&pool, &market, &name, &zone)).or_default() += 1;
    }
    counts
}

/// Checks that the reason of the pod without an instance of a block names the block that starts later.
fn waits_for_block(cx: &mut Cx<'_>, who: &str, said: &str) -> anyhow::Result<()> {
    let expected = "capacity block cr-0123456789abcdef2 starts in 3h";
    cx.check(format!("{who} says {expected}: {said}"), said.contains(expected))
}

pub(super) async fn agrees(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let capacity = capacity(cx.proxy.clock.now());
    let selected: Vec<Value> = capacity.iter().map(|own| json!({"id": own.id})).collect();
    cx.proxy.rules(|rules| {
        rules.prices = prices();
        rules.supply.spot_prices = spot_prices();
        rules.supply.reservations = capacity;
    });
    let server = Server::start(cx).await?;
    let mut class = node_class();
    class["spec"]["capacityReservationSelectorTerms"] = selected.into();
    server.create(CLASSES, &class).await?;
    for pool in pools() {
        server.create(POOLS, &pool).await?;
    }
    let operator = server.operator(cx).await?;
    let class = eventually("the class is ready", LIMIT, async || {
        let class = server.rest.get(&format!("{CLASSES}/default")).await?.context("no class")?;
        ensure!(is_true(&class, "Ready"), "{}", class["status"]["conditions"]);
        Ok(class)
    })
    .await?;
    let mut class = class;
    class["apiVersion"] = "karpenter.k8s.aws/v1".into();
    class["kind"] = "EC2NodeClass".into();
    let items: Vec<Value> = std::iter::once(class).chain(pools()).chain(pods()).collect();
    let file = cx.folder.join("dump.json");
    std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())?;
    let file = file.display().to_string();
    let printed = server.command(cx, &["plan", "-f", &file, "-o", "json", "--catalog", "ec2-live"]).await?;
    cx.check(format!("plan succeeds: {}", printed.err), printed.ok)?;
    let report: Value = serde_json::from_str(&printed.out)?;
    let expected = planned(&report)?;
    waits_for_block(cx, "plan", &report["unschedulable"].to_string())?;
    let planned: BTreeSet<&str> = expected.keys().map(|[pool, ..]| pool.as_str()).collect();
    let pools = ["arm", "block", "general", "gpu", "reserved", "spot", "zonal"];
    cx.equal("planned pools", &planned, &pools.into())?;
    let market =
        |name: &str| expected.iter().filter(|([_, own, ..], _)| own == name).map(|(_, n)| n).sum::<usize>();
    cx.equal("planned in reserved capacity", &market("reserved"), &3)?;
    let block = key("block", "reserved", "m5.xlarge", "us-west-2b");
    cx.equal("planned in the block that has started", &expected.get(&block), &Some(&1))?;
    cx.check(format!("planned on spot: {expected:?}"), market("spot") > 0)?;
    for pod in pods() {
        server.create(PODS, &pod).await?;
    }
    let count: usize = expected.values().sum();
    let claims = eventually("every NodeClaim is launched", LIMIT, async || {
        let claims = server.rest.list(CLAIMS).await?;
        let ready = claims.iter().filter(|claim| is_true(claim, "Launched")).count();
        ensure!(ready >= count, "{ready} of {count} are launched");
        Ok(claims)
    })
    .await?;
    let events = server.rest.list("/api/v1/events").await?;
    let waits = events.iter().filter(|event| event["reason"] == "FailedScheduling");
    let messages: Vec<String> = waits.map(|event| event["message"].to_string()).collect();
    waits_for_block(cx, "the operator", &messages.join("\n"))?;
    cx.equal("NodeClaims by pool, capacity type, instance type and zone", &launched(&claims), &expected)?;
    let instances = cx.account.instances().await?;
    cx.equal("instances", &instances.len(), &count)?;
    operator.kill().await
}
