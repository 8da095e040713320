//! Two operators of different clouds in one cluster, each in its namespace and with its lease: neither writes what is the other's.
//!
//! The second has the manifests of `examples/provider`, and a NodeClass of its group.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::leader::{Candidate, holder_in};
use crate::e2e::case::Cx;
use crate::e2e::cloud::{Cloud, CloudPace};
use crate::e2e::fleet::{self, Fleet};
use crate::e2e::installation::parse;
use crate::e2e::manifests;
use crate::e2e::proxy::Noted;
use crate::e2e::server::connect;
use crate::e2e::world::LaneWorld;

const MANIFESTS: &str = include_str!("../../../../examples/provider/deploy/operator.yaml");
/// The namespace of its manifests.
const NAMESPACE: &str = "pebble-autoscaler";
const ACCOUNT: &str = "system:serviceaccount:pebble-autoscaler:pebble-autoscaler";
/// The second operator's NodePool, and a word in the name of everything of it.
const THEIRS: &str = "theirs";
/// The same of ours: the case's name.
const OURS: &str = "neighbor";

const LIMIT: Duration = Duration::from_secs(90);

/// The second operator and its cloud.
struct Neighbor {
    operator: Candidate,
    cloud: Cloud,
}

impl Neighbor {
    /// Installs it; it is not started yet.
    async fn install(cx: &mut Cx<'_>) -> anyhow::Result<Self> {
        let program = program(cx.world);
        for object in objects(cx.world).await? {
            cx.apply(&object).await?;
        }
        cx.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]).await?;
        let class = json!({"apiVersion": "pebble.example/v1", "kind": "PebbleNodeClass",
            "metadata": {"name": "default"}, "spec": {}});
        // The server answers 429 to the first objects of a kind.
        cx.eventually("the NodeClass is accepted", LIMIT, async |world| {
            world.kubectl.apply(&class).await.map(drop)
        })
        .await?;
        let (world, folder) = (&*cx.world, cx.world.folder.join("neighbor"));
        std::fs::create_dir_all(&folder)?;
        let kubelets = &world.server.kubeconfigs.cloud;
        let uid = world.uid().await?;
        let cloud = Cloud::start(&world.binary, &folder, kubelets, uid, world.tier, CloudPace::Quick).await?;
        let client = connect(&kubeconfig(world)?, None).await?;
        let mut operator = Candidate::of(world, "pebble", &program, client, cloud.url.clone()).await?;
        operator.operator.set(&[("SYSTEM_NAMESPACE", NAMESPACE)]);
        Ok(Self { operator, cloud })
    }
}

fn program(world: &LaneWorld) -> PathBuf {
    world.binary.with_file_name(format!("fleetwright-neighbor{}", std::env::consts::EXE_SUFFIX))
}

/// The administrator's kubeconfig, for the second operator's account.
fn kubeconfig(world: &LaneWorld) -> anyhow::Result<PathBuf> {
    let admin = std::fs::read_to_string(&world.server.kubeconfigs.admin)?;
    let mut config: Value = serde_saphyr::from_str(&admin)?;
    config["users"][0]["user"]["as"] = ACCOUNT.into();
    let path = world.folder.join("pebble-account.kubeconfig");
    std::fs::write(&path, config.to_string())?;
    Ok(path)
}

/// What is applied before the second operator starts: its definition, namespace, account and permissions.
async fn objects(world: &LaneWorld) -> anyhow::Result<Vec<Value>> {
    let printed = tokio::process::Command::new(program(world)).args(["crds", "--cloud", "fake"]).output();
    let printed = printed.await.context("cannot start the second operator")?;
    let mut objects = parse(&String::from_utf8(printed.stdout)?)?;
    objects.retain(|object| object["spec"]["group"] == "pebble.example");
    anyhow::ensure!(objects.len() == 1, "its definition: {}", String::from_utf8_lossy(&printed.stderr));
    // The Deployment's pods would need a node.
    let manifests = parse(MANIFESTS)?;
    objects.extend(manifests.into_iter().filter(|object| object["kind"] != "Deployment"));
    Ok(objects)
}

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    cx.world.operator.stop().await?;
    let mut theirs = Neighbor::install(cx).await?;
    let mut ours = Candidate::new(cx.world, "operator-a").await?;
    ours.operator.start()?;
    theirs.operator.operator.start()?;
    for (namespace, name) in [("kube-system", ours.name), (NAMESPACE, theirs.operator.name)] {
        cx.eventually(&format!("{name} holds the lease of {namespace}"), LIMIT, async |world| {
            let holder = holder_in(world, namespace).await?;
            anyhow::ensure!(holder.starts_with(&format!("{name}_")), "{holder:?} holds it");
            Ok(())
        })
        .await?;
    }

    deploy(cx).await?;
    cx.serving(4, LIMIT).await?;
    separate(cx, &theirs.cloud, 2).await?;
    replaced(cx, &theirs.cloud).await?;
    deleted(cx, &mut ours, &theirs.cloud).await?;

    cx.kubectl(&["scale", "deployment", "--all", "--replicas=0", "-n", &cx.namespace()]).await?;
    separate(cx, &theirs.cloud, 0).await?;
    for (operator, own, other) in [(&ours, OURS, THEIRS), (&theirs.operator, THEIRS, OURS)] {
        keeps_to_itself(cx, operator, own, other)?;
    }
    let mut second = theirs.operator.operator;
    for operator in [&mut ours.operator, &mut second] {
        let panic = operator.panic_line();
        cx.check(format!("no panic: {panic:?}"), panic.is_none())?;
        cx.equal("the exit status after SIGTERM", &operator.stop().await?.code(), &Some(0))?;
    }
    remove(cx).await
}

/// A NodePool for each operator, and two pods for each NodePool, one on a node.
async fn deploy(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let (namespace, pool) = (cx.namespace(), cx.pool());
    cx.deploy(4, 0, "3").await?;
    let mut foreign = manifests::node_pool(THEIRS, 4);
    foreign["spec"]["template"]["spec"]["nodeClassRef"] =
        json!({"group": "pebble.example", "kind": "PebbleNodeClass", "name": "default"});
    cx.apply(&foreign).await?;
    for (name, pool) in [(OURS, &*pool), (THEIRS, THEIRS)] {
        cx.apply(&manifests::deployment(&namespace, name, pool, 2, "3")).await?;
    }
    Ok(())
}

/// Waits until each NodePool has `nodes` nodes, which are the instances of its own cloud.
async fn separate(cx: &mut Cx<'_>, theirs: &Cloud, nodes: usize) -> anyhow::Result<()> {
    let what = format!("{nodes} nodes of each operator are the instances of its cloud");
    cx.eventually(&what, LIMIT, async |world| {
        let all = world.fleet().await?;
        for (word, instances) in [(OURS, all.instances.clone()), (THEIRS, theirs.instances().await?)] {
            let of = |objects: &[Value]| {
                objects.iter().filter(|object| has_word(&fleet::name(object), word)).cloned().collect()
            };
            let part = Fleet { claims: of(&all.claims), nodes: of(&all.nodes), instances };
            let found = part.discrepancies();
            anyhow::ensure!(found.is_empty(), "{word}: {}", found.join("; "));
            anyhow::ensure!(part.nodes.len() == nodes, "{word}: {}", part.sizes());
        }
        Ok(())
    })
    .await
}

/// Both NodePools change, and each operator replaces its nodes.
async fn replaced(cx: &mut Cx<'_>, theirs: &Cloud) -> anyhow::Result<()> {
    let change = json!({"spec": {"template": {"metadata": {"labels": {"team": "b"}}}}}).to_string();
    let pool = cx.pool();
    for pool in [&*pool, THEIRS] {
        cx.kubectl(&["patch", "nodepool", pool, "--type=merge", "-p", &change]).await?;
    }
    cx.eventually("all nodes are replaced", LIMIT, async |world| {
        let fleet = world.fleet().await?;
        let old = fleet.nodes.iter().filter(|node| node["metadata"]["labels"]["team"] != "b").count();
        anyhow::ensure!(old == 0 && fleet.nodes.len() == 4, "{old} old nodes; {}", fleet.sizes());
        Ok(())
    })
    .await?;
    separate(cx, theirs, 2).await?;
    cx.serving(4, LIMIT).await
}

/// The second operator's NodeClaims are deleted while ours starts again: the second drains, finalizes and replaces them.
async fn deleted(cx: &mut Cx<'_>, ours: &mut Candidate, theirs: &Cloud) -> anyhow::Result<()> {
    ours.operator.kill().await?;
    let claims = cx.world.fleet().await?.claims;
    let names: Vec<String> = claims.iter().map(fleet::name).filter(|name| has_word(name, THEIRS)).collect();
    for name in &names {
        cx.kubectl(&["delete", "nodeclaim", name, "--wait=false"]).await?;
    }
    ours.operator.start()?;
    ours.operator.wait_ready().await?;
    cx.eventually("the deleted NodeClaims are gone", LIMIT, async |world| {
        let fleet = world.fleet().await?;
        let left: Vec<String> =
            fleet.claims.iter().map(fleet::name).filter(|name| names.contains(name)).collect();
        anyhow::ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
    .await?;
    separate(cx, theirs, 2).await?;
    cx.serving(4, LIMIT).await
}

/// The operator wrote objects of its own, and none of the other's.
fn keeps_to_itself(cx: &mut Cx<'_>, of: &Candidate, own: &str, other: &str) -> anyhow::Result<()> {
    let noted = of.kube.noted();
    let about = |word: &str| -> Vec<String> {
        let found = noted.iter().filter(|noted| is_about(noted, word));
        found.map(|noted| format!("{} {}", noted.change, noted.path)).collect()
    };
    cx.equal(&format!("what {} wrote of {other}", of.name), &about(other), &Vec::new())?;
    let written = about(own);
    for resource in ["nodepools", "nodeclaims", "nodes", "pods", "events"] {
        let is_written = written.iter().any(|write| write.contains(&format!(" {resource}")));
        cx.check(format!("{} wrote {resource} of {own}", of.name), is_written)?;
    }
    Ok(())
}

/// Whether a write is about something with this word in its name. A pending pod gets an event from each operator.
fn is_about(noted: &Noted, word: &str) -> bool {
    let answer = noted.answer.as_ref().map_or(&Value::Null, |(_, answer)| answer);
    if answer["involvedObject"]["kind"] == "Pod" {
        return false;
    }
    let names = [&answer["metadata"]["name"], &answer["involvedObject"]["name"]];
    let object = noted.path.split_once("/v1/").map_or("", |(_, object)| object);
    // The namespace is named after the case.
    let object =
        object.strip_prefix("namespaces/").and_then(|rest| rest.split_once('/')).map_or(object, |(_, o)| o);
    names.into_iter().filter_map(Value::as_str).chain([object]).any(|name| has_word(name, word))
}

fn has_word(name: &str, word: &str) -> bool {
    name.split(|c: char| !c.is_alphanumeric()).any(|part| part == word)
}

/// Removes what was installed for the second operator.
async fn remove(cx: &Cx<'_>) -> anyhow::Result<()> {
    cx.kubectl(&["delete", "nodepool", THEIRS, "--wait=false"]).await?;
    for object in objects(cx.world).await? {
        let (kind, name) = (object["kind"].as_str().unwrap_or_default(), fleet::name(&object));
        let mut args = vec!["delete", kind, &name, "--ignore-not-found", "--wait=false"];
        if let Some(namespace) = object["metadata"]["namespace"].as_str() {
            args.extend(["-n", namespace]);
        }
        cx.kubectl(&args).await?;
    }
    Ok(())
}
