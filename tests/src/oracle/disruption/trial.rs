//! One cluster on a control plane with the operator: it grows, loses a third of its load, and shrinks until it is at rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::api::Api;
use super::super::generator::{Cluster, volume};
use super::super::plant::Plant;
use super::scene::{Scene, consolidating, replicas};
use crate::e2e::judge::{
    DisruptionVerdict, LaneWorld, Proxy, ReadView, Recorder, Upstream, is_true, judge, name,
};

/// How often is looked.
const LOOK: Duration = Duration::from_secs(1);

/// A fleet is at rest when nothing has changed for this long: consolidation waits 3 s for pods and 3 s for its second look, and on a busy
/// host the first command comes 25 s after a start of the operator.
const QUIET: Duration = Duration::from_secs(30);

/// The same while pods are pending: a moved one has to have been pending for longer than the judge allows.
const QUIET_PENDING: Duration = Duration::from_secs(45);

/// How long the fleet may take until all pods that find a node have one.
const GROWTH_LIMIT: Duration = Duration::from_secs(180);

/// How long it is watched after that; it is judged then, at rest or not.
const SHRINK_LIMIT: Duration = Duration::from_secs(300);

/// How long it may take until nothing of a cluster is left.
const CLEAN_LIMIT: Duration = Duration::from_secs(120);

const NODE_POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
const NODE_CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// What a cluster showed.
#[derive(Debug, Default)]
pub(super) struct TrialOutcome {
    pub(super) verdict: DisruptionVerdict,
    pub(super) pods: u64,
    /// Pods that found no node when the fleet grew. They are taken away before the load goes down.
    pub(super) unplaced: u64,
    pub(super) nodes_before: usize,
    pub(super) nodes_after: usize,
    pub(super) is_at_rest: bool,
    /// The operator's log of it.
    pub(super) log: String,
}

/// A cluster in a lane.
pub(super) struct Trial<'a> {
    world: &'a mut LaneWorld,
    api: Api,
    scene: Scene,
    /// Claims that have got a volume.
    provisioned: BTreeSet<String>,
}

/// Runs `cluster` and judges what happened. From the time at which its load goes down, a planted fault is in what the operator sees.
pub(super) async fn run(
    world: &mut LaneWorld,
    cluster: &Cluster,
    plant: Option<Plant>,
) -> anyhow::Result<TrialOutcome> {
    world.operator.stop().await?;
    world.operator.unset();
    let earlier = world.operator.log()?.len();
    world.operator.start()?;
    world.operator.wait_ready().await?;
    let api = Api(world.server.client(Some(Duration::from_secs(60))).await?);
    let mut trial = Trial { world, api, scene: Scene::new(cluster), provisioned: BTreeSet::new() };
    let mut outcome = trial.go(plant).await?;
    outcome.log = trial.world.operator.log()?.split_off(earlier);
    trial.clean_up().await.context("cleaning up")?;
    Ok(outcome)
}

impl Trial<'_> {
    async fn go(&mut self, plant: Option<Plant>) -> anyhow::Result<TrialOutcome> {
        self.api.create(&self.surroundings()).await?;
        for pool in self.scene.node_pools.clone() {
            self.write("POST", NODE_POOLS, &pool).await?;
        }
        let mut recorder = Recorder::start(self.world.watching.clone()).await?;
        for set in self.scene.replica_sets.clone() {
            self.write("POST", REPLICA_SETS, &set).await?;
        }
        self.rest(GROWTH_LIMIT).await?;
        let running = self.running().await?;
        self.scale(&running).await?;
        let pods = self.scene.pods();
        let mut outcome = TrialOutcome {
            pods,
            unplaced: pods.saturating_sub(running.values().sum()),
            nodes_before: self.world.list(NODE_CLAIMS).await?.len(),
            ..TrialOutcome::default()
        };
        // Until the operator is behind it; it serves until the cluster is judged.
        let _proxy = match plant {
            Some(plant) => Some(self.blind(plant).await?),
            None => None,
        };
        self.scale(&self.scene.reduced(&running)).await?;
        for pool in self.scene.node_pools.iter().map(consolidating).collect::<Vec<_>>() {
            let path = format!("{NODE_POOLS}/{}", name(&pool));
            let mut now = self.world.get(&path).await?.context("a NodePool is gone")?;
            now["spec"]["disruption"] = pool["spec"]["disruption"].clone();
            self.write("PUT", &path, &now).await?;
        }
        outcome.is_at_rest = self.rest(SHRINK_LIMIT).await?;
        outcome.nodes_after = self.world.list(NODE_CLAIMS).await?.len();
        outcome.verdict = judge(&recorder.so_far().await?);
        if plant.is_some() {
            // It has to see what it cleans up.
            self.world.operator.stop().await?;
            self.world.operator.unset();
            self.world.operator.start()?;
            self.world.operator.wait_ready().await?;
        }
        Ok(outcome)
    }

    /// Classes, volumes and DaemonSets without the UIDs that files name.
    fn surroundings(&self) -> Vec<Value> {
        let mut objects = self.scene.surroundings.clone();
        for object in &mut objects {
            if let Some(meta) = object["metadata"].as_object_mut() {
                meta.remove("uid");
            }
        }
        objects
    }

    /// Starts the operator again behind a proxy that hides from it what `plant` says.
    async fn blind(&mut self, plant: Plant) -> anyhow::Result<Proxy> {
        let view: ReadView = Arc::new(move |object| plant.alter_one(object));
        let client = self.world.server.operators_client().await?;
        let proxy = Proxy::with_view(Upstream::Kube(client), view).await?;
        let kubeconfig = self.world.folder.join("blind.kubeconfig");
        proxy.write_kubeconfig(&kubeconfig)?;
        let path = kubeconfig.to_str().context("the path of the kubeconfig is no text")?;
        self.world.operator.stop().await?;
        self.world.operator.set(&[("KUBECONFIG", path)]);
        self.world.operator.start()?;
        self.world.operator.wait_ready().await?;
        Ok(proxy)
    }

    async fn write(&self, method: &str, path: &str, object: &Value) -> anyhow::Result<()> {
        match self.world.rest.write(method, path, object).await? {
            Ok(_) => Ok(()),
            Err(refused) => bail!("{method} {path} ({}) is refused: {}", name(object), refused.message),
        }
    }

    /// Bound pods of each ReplicaSet, by its name.
    async fn running(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let mut running: BTreeMap<String, u64> =
            self.scene.replica_sets.iter().map(|set| (name(set), 0)).collect();
        for pod in self.world.list(PODS).await? {
            let owner = pod["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default();
            if let Some(count) = running.get_mut(owner).filter(|_| pod["spec"]["nodeName"].is_string()) {
                *count += 1;
            }
        }
        Ok(running)
    }

    /// Gives ReplicaSets their number of pods, where it is another one; the controller takes pending ones first.
    async fn scale(&self, wanted: &BTreeMap<String, u64>) -> anyhow::Result<()> {
        for (set, count) in wanted {
            let path = format!("{REPLICA_SETS}/{set}");
            let mut now = self.world.get(&path).await?.context("a ReplicaSet is gone")?;
            if replicas(&now) != *count {
                now["spec"]["replicas"] = json!(count);
                self.write("PUT", &path, &now).await?;
            }
        }
        Ok(())
    }

    /// Waits until nothing changes any more; false where `limit` ends first.
    async fn rest(&mut self, limit: Duration) -> anyhow::Result<bool> {
        let deadline = Instant::now() + limit;
        let (mut last, mut changed) = (String::new(), Instant::now());
        while Instant::now() < deadline {
            self.world.check_running()?;
            self.provision().await?;
            let look = self.look().await?;
            if look.state != last {
                (last, changed) = (look.state, Instant::now());
            }
            let quiet = if look.has_pending { QUIET_PENDING } else { QUIET };
            if !look.is_busy && changed.elapsed() >= quiet {
                return Ok(true);
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(false)
    }

    async fn look(&self) -> anyhow::Result<FleetState> {
        let mut look = FleetState::default();
        let mut parts = Vec::new();
        for pod in self.world.list(PODS).await? {
            let is_ending = !pod["metadata"]["deletionTimestamp"].is_null();
            look.has_pending |= pod["spec"]["nodeName"].is_null() && !is_ending;
            look.is_busy |= is_ending;
            parts.push(format!("{} {} {is_ending}", pod["metadata"]["uid"], pod["spec"]["nodeName"]));
        }
        for claim in self.world.list(NODE_CLAIMS).await? {
            let is_ending = !claim["metadata"]["deletionTimestamp"].is_null();
            let is_marked = is_true(&claim, "DisruptionReason");
            let is_initialized = is_true(&claim, "Initialized");
            look.is_busy |= is_ending || is_marked || !is_initialized;
            parts.push(format!("{} {is_ending} {is_marked} {is_initialized}", name(&claim)));
        }
        parts.sort();
        look.state = parts.join("\n");
        Ok(look)
    }

    /// Does what a CSI provisioner does: a claim for which kube-scheduler has chosen a node gets a volume in that zone.
    async fn provision(&mut self) -> anyhow::Result<()> {
        for claim in self.api.list("PersistentVolumeClaim").await? {
            let chosen = claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].as_str();
            let Some(node) = chosen.filter(|_| claim["spec"]["volumeName"].is_null()) else { continue };
            let Some(node) = self.world.get(&format!("/api/v1/nodes/{node}")).await? else { continue };
            let zone = node["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str().unwrap_or_default();
            let claim_name = name(&claim);
            if !self.provisioned.insert(claim_name.clone()) {
                continue;
            }
            let class = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
            let mut volume = volume(&claim_name, &claim_name, class, zone);
            volume["spec"]["claimRef"]["uid"] = claim["metadata"]["uid"].clone();
            self.api.create(&[volume]).await?;
        }
        Ok(())
    }

    /// Deletes everything that the cluster consists of, and waits until its instances are gone.
    async fn clean_up(&mut self) -> anyhow::Result<()> {
        for what in [
            &["replicasets,daemonsets", "--namespace=default"][..],
            &["pods", "--grace-period=0", "--force", "--namespace=default"],
            &["nodepools,nodeclaims"],
            &["persistentvolumeclaims", "--namespace=default"],
            &["persistentvolumes,storageclasses"],
            &[
                "priorityclasses",
                "--field-selector=metadata.name!=system-node-critical,metadata.name!=system-cluster-critical",
            ],
        ] {
            let all = if what[0].starts_with("priority") { &[][..] } else { &["--all"] };
            let args = [&["delete"], what, all, &["--ignore-not-found", "--wait=false"]].concat();
            self.world.kubectl.run(&args).await?;
        }
        let deadline = Instant::now() + CLEAN_LIMIT;
        loop {
            self.world.check_running()?;
            let fleet = self.world.fleet().await?;
            let pods = self.world.list(PODS).await?.len();
            let mut others = self.world.list(NODE_POOLS).await?.len();
            for kind in ["PersistentVolumeClaim", "PersistentVolume", "StorageClass", "DaemonSet"] {
                others += self.api.list(kind).await?.len();
            }
            if fleet.is_empty() && pods == 0 && others == 0 {
                return Ok(());
            }
            if Instant::now() > deadline {
                let sizes = fleet.sizes();
                bail!("{sizes}, {pods} pods, {others} other objects are left after {CLEAN_LIMIT:?}");
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// One look at a fleet.
#[derive(Default)]
struct FleetState {
    /// Equal as long as nothing changes.
    state: String,
    /// Whether something is on its way: nodes that boot or end, pods that terminate.
    is_busy: bool,
    has_pending: bool,
}
