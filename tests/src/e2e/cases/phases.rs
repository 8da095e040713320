//! kill -9 at every step of an instance's life.
//!
//! The operator talks to its servers through proxies with traps. Each kind of call that changes an instance or its pods is caught twice:
//! once before the server receives it and once after the server has executed it, and each time the operator is killed and restarted. The
//! two cases together cover a whole lifecycle: creation, launch, registration, initialization; replacement by a cheaper instance, drain,
//! termination; and the deletion of an empty node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::e2e::case::Cx;
use crate::e2e::fleet;
use crate::e2e::foreseen::looked_at;
use crate::e2e::history::{History, RecordedKind};
use crate::e2e::ledger::is_tainted;
use crate::e2e::manifests;
use crate::e2e::proxy::{Proxy, Upstream};
use crate::e2e::trap::{Side, Traps};
use crate::e2e::world::LaneWorld;

/// How long a life may take with all its interruptions.
const LIFE: Duration = Duration::from_secs(240);

/// How long the operator may take to look at a NodePool.
const LOOKED_AT: Duration = Duration::from_secs(30);

/// How often the goal is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// The operator behind proxies with traps, and its state.
struct Hunt {
    traps: Traps,
    cloud: Proxy,
    /// Never read: it serves until the hunt is over.
    _kube: Proxy,
    history: History,
    killed: Vec<(String, Side)>,
}

impl Hunt {
    /// Puts proxies between the operator and its servers.
    async fn begin(cx: &mut Cx<'_>) -> anyhow::Result<Self> {
        let traps = Traps::default();
        let client = cx.world.server.operators_client().await?;
        let kube = Proxy::start(Upstream::Kube(client), traps.clone()).await?;
        let cloud = Proxy::start(Upstream::Cloud(cx.world.cloud.url.clone()), traps.clone()).await?;
        let kubeconfig = cx.world.folder.join("proxy.kubeconfig");
        kube.write_kubeconfig(&kubeconfig)?;
        let path = kubeconfig.to_str().context("the path of the kubeconfig is no text")?;
        let history = cx.watch().await?;
        cx.reconfigure(&[("KUBECONFIG", path), ("FAKE_CLOUD", &cloud.url)]).await?;
        Ok(Self { traps, cloud, _kube: kube, history, killed: Vec::new() })
    }

    /// Kills the operator in every trap until `goal` is reached with no trap closed.
    async fn until(
        &mut self,
        cx: &mut Cx<'_>,
        what: &str,
        mut goal: impl AsyncFnMut(&LaneWorld) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + LIFE;
        loop {
            if tokio::time::timeout(LOOK, self.traps.closed()).await.is_ok() {
                cx.world.operator.kill().await?;
                self.killed.extend(self.traps.open());
                cx.world.operator.start()?;
                continue;
            }
            cx.world.check_running()?;
            let reason = match goal(cx.world).await {
                Ok(()) => return cx.check(what, true),
                Err(reason) => reason,
            };
            let late = Instant::now() > deadline;
            cx.check(format!("{what} after {:?}; last seen: {reason:#}", self.killed), !late)?;
        }
    }

    /// Both sides of each of these calls were met.
    fn met(&self, cx: &mut Cx<'_>, calls: &[&str]) -> anyhow::Result<()> {
        for call in calls {
            for side in [Side::Before, Side::After] {
                let met = self.killed.iter().any(|(what, at)| what.contains(call) && *at == side);
                cx.check(format!("killed {side:?} {call:?}, among {:?}", self.killed), met)?;
            }
        }
        Ok(())
    }

    /// Instances that the cloud launched, whether or not anybody heard of it.
    fn launched(&self) -> BTreeSet<String> {
        let answers = self.cloud.noted().into_iter().filter(|noted| noted.change.is_launch());
        let outcomes = answers
            .filter_map(|noted| noted.answer)
            .flat_map(|(_, answer)| answer["outcomes"].as_array().cloned().unwrap_or_default());
        outcomes.filter_map(|outcome| outcome["launched"]["id"].as_str().map(str::to_owned)).collect()
    }

    /// Every NodeClaim had one instance at most, and every instance one NodeClaim. Returns the names of the NodeClaims.
    async fn one_each(&mut self, cx: &mut Cx<'_>) -> anyhow::Result<BTreeSet<String>> {
        let record = self.history.so_far().await?;
        let mut claims: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut instances: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for seen in record.iter().filter(|seen| seen.kind == RecordedKind::NodeClaim) {
            let ids = claims.entry(fleet::name(&seen.object)).or_default();
            if let Some(id) = seen.object["status"]["providerID"].as_str().filter(|id| !id.is_empty()) {
                ids.insert(id.to_owned());
                instances.entry(id.to_owned()).or_default().insert(fleet::name(&seen.object));
            }
        }
        cx.check(
            format!("one instance per NodeClaim: {claims:?}"),
            claims.values().all(|ids| ids.len() <= 1),
        )?;
        cx.check(
            format!("one NodeClaim per instance: {instances:?}"),
            instances.values().all(|claims| claims.len() == 1),
        )?;
        Ok(claims.into_keys().collect())
    }
}

/// From unschedulable pods to initialized nodes.
pub(super) async fn birth(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut hunt = Hunt::begin(cx).await?;
    cx.apply(&manifests::namespace(&cx.namespace())).await?;
    let mut pool = manifests::node_pool(&cx.pool(), 4);
    // An instance too many is still there at the end.
    pool["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    cx.apply(&pool).await?;
    cx.eventually("the operator has looked at the NodePool", LOOKED_AT, looked_at).await?;
    let web = manifests::deployment(&cx.namespace(), "web", &cx.pool(), 2, "3");
    cx.world.operator.stop().await?;
    let foreseen = cx.foresee_launches(async |cx| cx.apply(&web).await.map(drop)).await?.without_pods();
    hunt.traps.arm();
    cx.world.operator.start()?;
    let namespace = cx.namespace();
    hunt.until(cx, "both pods serve on nodes of their own", async |world| {
        let pods = world.pods(&namespace).await?;
        let serving = pods.iter().filter(|pod| fleet::is_serving(pod)).count();
        anyhow::ensure!(serving == 2, "{serving} pods serve");
        is_settled(world).await
    })
    .await?;
    cx.launched_as(&foreseen).await?;
    let names = hunt.one_each(cx).await?;
    cx.equal("NodeClaims that there ever were", &names.len(), &2)?;
    cx.equal("instances that were ever launched", &hunt.launched().len(), &2)?;
    hunt.met(cx, &["create nodeclaims", "launch", "Launched", "patch nodes", "Registered", "Initialized"])
}

/// From a node that is too large to its cheaper replacement, and on to nothing.
pub(super) async fn end(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut hunt = Hunt::begin(cx).await?;
    let namespace = cx.namespace();
    cx.apply(&manifests::namespace(&namespace)).await?;
    cx.apply(&consolidated_pool(&cx.pool())).await?;
    // One after the other: the small pod takes the room that the large instance has left.
    let big = manifests::pod(&namespace, "big", &cx.pool(), "5");
    cx.launches_as_foreseen(async |cx| cx.apply(&big).await.map(drop)).await?;
    cx.serving(1, Duration::from_secs(60)).await?;
    cx.apply(&manifests::deployment(&namespace, "web", &cx.pool(), 1, "1")).await?;
    cx.serving(2, Duration::from_secs(60)).await?;
    let before = cx.stable(Duration::from_secs(60)).await?;
    let old = before.claims.first().map(fleet::name).context("there is no NodeClaim")?;
    cx.equal("large nodes", &before.nodes.len(), &1)?;

    cx.world.operator.stop().await?;
    let deletion = ["delete", "pod", "big", "-n", &namespace, "--grace-period=0"];
    let expected = cx.foresee_disruptions(async |cx| cx.kubectl(&deletion).await.map(drop)).await?;
    hunt.traps.arm();
    cx.world.operator.start()?;
    hunt.until(cx, "a cheaper node has taken over", async |world| {
        let fleet = world.fleet().await?;
        anyhow::ensure!(!fleet.claims.iter().any(|claim| fleet::name(claim) == old), "{old} is there");
        anyhow::ensure!(fleet.nodes.len() == 1, "{}", fleet.sizes());
        let serving = world.pods(&namespace).await?.iter().filter(|pod| fleet::is_serving(pod)).count();
        anyhow::ensure!(serving == 1, "{serving} pods serve");
        is_settled(world).await
    })
    .await?;
    hunt.one_each(cx).await?;
    cx.disrupted_as(&mut hunt.history, &expected).await?;
    cx.kubectl(&["scale", "deployment/web", "--replicas=0", "-n", &namespace]).await?;
    hunt.until(cx, "the fleet is empty", async |world| {
        let fleet = world.fleet().await?;
        anyhow::ensure!(fleet.is_empty(), "{}", fleet.sizes());
        Ok(())
    })
    .await?;
    hunt.one_each(cx).await?;
    hunt.met(
        cx,
        &[
            "disruption-command",
            "taints[karpenter.sh/disrupted]",
            "DisruptionReason",
            "create nodeclaims",
            "launch",
            "delete nodeclaims",
            "delete nodes",
            "pods/eviction",
            "terminate",
            "InstanceTerminating",
            "nodes -finalizer",
            "nodeclaims -finalizer",
        ],
    )
}

/// The operator is killed during a command, and meanwhile the reason for the command is gone: the command is not resumed, so its taints
/// and conditions must be removed.
pub(super) async fn undo(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let mut hunt = Hunt::begin(cx).await?;
    cx.apply(&manifests::namespace(&cx.namespace())).await?;
    let mut pool = manifests::node_pool(&cx.pool(), 4);
    pool["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    cx.apply(&pool).await?;
    let web = manifests::deployment(&cx.namespace(), "web", &cx.pool(), 1, "3");
    cx.launches_as_foreseen(async |cx| cx.apply(&web).await.map(drop)).await?;
    cx.serving(1, Duration::from_secs(60)).await?;
    let before = cx.stable(Duration::from_secs(60)).await?;

    cx.world.operator.stop().await?;
    let mut drifted = pool.clone();
    drifted["spec"]["template"]["metadata"] = json!({"labels": {"generation": "two"}});
    let expected = cx.foresee_disruptions(async |cx| cx.apply(&drifted).await.map(drop)).await?;
    hunt.traps.arm_for("create nodeclaims");
    cx.world.operator.start()?;
    let caught = tokio::time::timeout(Duration::from_secs(60), hunt.traps.closed()).await;
    cx.check("the replacement is asked for", caught.is_ok())?;
    cx.disrupted_as(&mut hunt.history, &expected).await?;
    cx.world.operator.kill().await?;
    let fleet = cx.world.fleet().await?;
    cx.check("the node is tainted by then", fleet.nodes.iter().any(is_tainted))?;
    // Without the template's labels: applying the first pool again would leave them.
    let path = r#"[{"op": "remove", "path": "/spec/template/metadata"}]"#;
    cx.kubectl(&["patch", "nodepool", &cx.pool(), "--type=json", "-p", path]).await?;
    hunt.traps.open();
    cx.world.operator.start()?;
    cx.eventually("the marks are taken off again", Duration::from_secs(60), async |world| {
        is_settled(world).await?;
        let annotated =
            |claim: &Value| claim["metadata"]["annotations"].to_string().contains("disruption-command");
        anyhow::ensure!(!world.fleet().await?.claims.iter().any(annotated), "the annotation is there");
        Ok(())
    })
    .await?;
    let after = cx.stable(Duration::from_secs(30)).await?;
    let names = |claims: &[Value]| claims.iter().map(fleet::name).collect::<Vec<_>>();
    cx.equal("NodeClaims", &names(&after.claims), &names(&before.claims))
}

/// Instances of 2 or 8 CPUs that make way for cheaper ones at once.
fn consolidated_pool(name: &str) -> Value {
    let mut pool = manifests::node_pool(name, 8);
    pool["spec"]["disruption"]["consolidationPolicy"] = json!("WhenEmptyOrUnderutilized");
    let requirements = &mut pool["spec"]["template"]["spec"]["requirements"];
    for requirement in requirements.as_array_mut().into_iter().flatten() {
        if requirement["key"] == "karpenter.kwok.sh/instance-cpu" {
            requirement["values"] = json!(["2", "8"]);
        }
    }
    pool
}

/// NodeClaims, Nodes and instances correspond one to one, all initialized, none marked.
async fn is_settled(world: &LaneWorld) -> anyhow::Result<()> {
    let fleet = world.fleet().await?;
    let mut found = fleet.discrepancies();
    let unready = fleet.claims.iter().filter(|claim| !fleet::is_true(claim, "Ready"));
    found.extend(unready.map(|claim| format!("{} is not Ready", fleet::name(claim))));
    let tainted = fleet.nodes.iter().filter(|node| is_tainted(node));
    found.extend(tainted.map(|node| format!("{} is tainted", fleet::name(node))));
    let marked = fleet.claims.iter().filter(|claim| fleet::is_true(claim, "DisruptionReason"));
    found.extend(marked.map(|claim| format!("{} is marked", fleet::name(claim))));
    anyhow::ensure!(found.is_empty(), "{}", found.join("; "));
    Ok(())
}
