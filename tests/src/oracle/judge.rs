//! One cluster before kube-scheduler. Two runs on the same nodes:
//!
//! 1. *Pinned*: each pod may run on the node that the plan names, and nowhere else. What kube-scheduler refuses then, it refuses
//!    for a reason of its own: nothing else can have taken the room.
//! 2. *Free*: pods go where kube-scheduler likes. What finds no node is planned again, until nothing is launched any more.

mod rounds;
mod wait;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use self::wait::Outcome;
use super::api::Api;
use super::control_plane::ControlPlane;
use super::dice::Dice;
use super::generator::{Cluster, is_pending};
use super::planner::{Plan, Planner, name};
use super::plant::Plant;
use super::{daemons, launch, node};

/// What kube-scheduler needs until its caches have what was just written.
const SYNC: Duration = Duration::from_millis(100);

/// A control plane with a planner to judge.
pub(super) struct Judge {
    pub(super) api: Api,
    pub(super) control_plane: ControlPlane,
    pub(super) planner: Planner,
    /// How much longer than usual caches are waited for: more than 1 where a verdict is confirmed.
    pub(super) patience: u32,
    /// Whether pods are nominated to the nodes that are launched for them.
    pub(super) nominates: bool,
}

/// A pod that has no node although there is a plan for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) pod: String,
    /// Where the plan puts it.
    pub(super) node: String,
    /// Whether the filters of kube-scheduler ever left that node.
    pub(super) was_feasible: bool,
    /// The message of its `PodScheduled` condition.
    pub(super) message: String,
}

/// What a cluster showed.
#[derive(Debug, Clone, Default)]
pub(super) struct Verdict {
    pub(super) pods: usize,
    /// Pods that the first plan has no node for.
    pub(super) unplaced: usize,
    /// Of those, the ones that kube-scheduler bound all the same.
    pub(super) bound_unplaced: Vec<String>,
    pub(super) existing_nodes: usize,
    /// NodeClaims of the first plan.
    pub(super) claims: usize,
    /// NodeClaims of later plans.
    pub(super) extra: usize,
    /// Plans until nothing was launched any more, beyond the first.
    pub(super) rounds: usize,
    /// New nodes without a pod, but for those of `DaemonSet`s.
    pub(super) empty: usize,
    /// Pods that were refused on the node of the plan.
    pub(super) refused: Vec<Refusal>,
    /// Pods that a plan puts on an existing node, at rest, and that kube-scheduler refuses.
    pub(super) stuck: Vec<Refusal>,
}

impl Verdict {
    /// Whether planner and kube-scheduler agree.
    pub(super) fn is_good(&self) -> bool {
        self.refused.is_empty() && self.stuck.is_empty()
    }
}

/// A cluster as it grows from plan to plan.
pub(super) struct Stage {
    /// Everything but pending pods.
    standing: Vec<Value>,
    pending: Vec<Value>,
    /// Zones of nodes by name.
    zones: BTreeMap<String, String>,
    cluster: String,
    dice: Dice,
    plans: usize,
    new_nodes: BTreeSet<String>,
}

impl Stage {
    fn new(cluster: &Cluster) -> Self {
        let (pending, standing): (Vec<Value>, Vec<Value>) =
            cluster.objects.iter().cloned().partition(is_pending);
        let seed =
            cluster.name.bytes().fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let mut stage = Self {
            standing,
            pending,
            zones: BTreeMap::new(),
            cluster: cluster.name.clone(),
            dice: Dice::new(seed),
            plans: 0,
            new_nodes: BTreeSet::new(),
        };
        stage.zones = stage.standing.iter().filter_map(zone).collect();
        stage
    }

    /// What the planner sees: the planted fault, if any, is in its eyes only.
    fn view(&self, plant: Option<Plant>) -> Vec<Value> {
        let mut objects: Vec<Value> = self.standing.iter().chain(&self.pending).cloned().collect();
        if let Some(plant) = plant {
            plant.alter(&mut objects);
        }
        objects
    }

    /// Launches the NodeClaims of `plan`: returns the new objects, and the node of each pod of the plan.
    fn launch(&mut self, plan: &Plan) -> anyhow::Result<(Vec<Value>, BTreeMap<String, String>)> {
        self.plans += 1;
        let mut objects = Vec::new();
        let mut placements = BTreeMap::new();
        for (claim, number) in plan.node_claims.iter().zip(0_u32..) {
            let node_name = format!("{}-{}-{number}", self.cluster, self.plans);
            let spec = launch::node(claim, node_name.clone(), &mut self.dice)?;
            let [manifest, claim_manifest] = node::manifests(&spec);
            let sets = self.standing.iter().filter(|object| object["kind"] == "DaemonSet");
            objects.extend(sets.filter_map(|set| daemons::pod(set, &manifest)));
            self.zones.insert(node_name.clone(), spec.zone);
            self.new_nodes.insert(node_name.clone());
            objects.extend([manifest, claim_manifest]);
            placements.extend(claim.pods.iter().map(|pod| (name(pod), node_name.clone())));
        }
        for placement in &plan.existing {
            placements.extend(placement.pods.iter().map(|pod| (name(pod), placement.node.clone())));
        }
        self.standing.extend(objects.iter().cloned());
        Ok((objects, placements))
    }
}

fn zone(object: &Value) -> Option<(String, String)> {
    let zone = object["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str()?;
    let name = object["metadata"]["name"].as_str().filter(|_| object["kind"] == "Node")?;
    Some((name.to_owned(), zone.to_owned()))
}

impl Judge {
    /// Judges the plan for `cluster`. With a planted fault, it ends at the first refusal.
    pub(super) async fn judge(&mut self, cluster: &Cluster, plant: Option<Plant>) -> anyhow::Result<Verdict> {
        self.control_plane.check_running()?;
        let mut stage = Stage::new(cluster);
        let plan = self.planner.plan(&stage.view(plant)).await?;
        self.api.clear().await?;
        let existing_nodes = stage.zones.len();
        let (_, placements) = stage.launch(&plan)?;
        // Waiting claims of pending pods belong to the pods: they are made again for the second run.
        self.api.create(&stage.standing).await?;
        self.sync().await;
        let mut verdict = Verdict {
            pods: stage.pending.len(),
            unplaced: plan.unschedulable.len(),
            existing_nodes,
            claims: plan.node_claims.len(),
            ..Verdict::default()
        };
        verdict.refused = self.pinned(&stage, placements.clone()).await?;
        if verdict.is_good() {
            self.unbind(&stage).await?;
            self.free(&mut stage, &plan, &placements, plant, &mut verdict).await?;
        }
        Ok(verdict)
    }

    async fn sync(&self) {
        tokio::time::sleep(SYNC * self.patience).await;
    }

    /// The pinned run: the pods that kube-scheduler refuses where the plan puts them.
    async fn pinned(
        &mut self,
        stage: &Stage,
        placements: BTreeMap<String, String>,
    ) -> anyhow::Result<Vec<Refusal>> {
        self.control_plane.extender.pin(placements.clone());
        let is_planned = |pod: &&Value| pod_name(pod).is_some_and(|name| placements.contains_key(name));
        let mut pods: Vec<Value> = stage.pending.iter().filter(is_planned).cloned().collect();
        // Zone by zone in turn: a spread then refuses fewer pods for a moment.
        let order = in_turn(&pods, &placements);
        pods.sort_by_key(|pod| pod_name(pod).and_then(|name| order.get(name)).cloned());
        self.api.create(&pods).await?;
        let outcomes = self.wait(&pods, &stage.zones).await?;
        self.lasting_refusals(stage, &outcomes, &placements).await
    }

    /// The refusals that last when affinity counts no terminating pod. A plan lets a pod wait for a terminating one that it must not run
    /// beside, instead of launching a node for the seconds that this takes. Their requests count to the end, in plans too.
    async fn lasting_refusals(
        &mut self,
        stage: &Stage,
        outcomes: &BTreeMap<String, Outcome>,
        placements: &BTreeMap<String, String>,
    ) -> anyhow::Result<Vec<Refusal>> {
        let refused = self.refusals(outcomes, placements);
        let terminating: Vec<Value> =
            stage.standing.iter().filter(|object| is_terminating(object)).cloned().collect();
        if terminating.is_empty() || !refused.iter().any(|refusal| refusal.message.contains("anti-affinity"))
        {
            return Ok(refused);
        }
        // What has no node goes first, so that nothing takes a place that is not its own.
        let waiting = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Refused(_)));
        self.api.delete_pods(&waiting.map(|(pod, _)| pod.clone()).collect::<Vec<_>>()).await?;
        let names: Vec<String> = terminating.iter().filter_map(pod_name).map(str::to_owned).collect();
        self.api.delete_pods(&names).await?;
        let fillers: Vec<Value> = terminating.iter().cloned().map(without_affinity).collect();
        self.api.create(&fillers).await?;
        self.sync().await;
        let is_refused = |pod: &&Value| {
            pod_name(pod).is_some_and(|name| refused.iter().any(|refusal| refusal.pod == name))
        };
        let pods: Vec<Value> = stage.pending.iter().filter(is_refused).cloned().collect();
        self.api.create(&pods).await?;
        let outcomes = self.wait(&pods, &stage.zones).await?;
        // The free run begins with them again.
        self.api.delete_pods(&names).await?;
        self.api.create(&terminating).await?;
        Ok(self.refusals(&outcomes, placements))
    }

    /// The refused ones among `outcomes` that have a placement.
    fn refusals(
        &self,
        outcomes: &BTreeMap<String, Outcome>,
        placements: &BTreeMap<String, String>,
    ) -> Vec<Refusal> {
        let refused = outcomes.iter().filter_map(|(pod, outcome)| match outcome {
            Outcome::Bound(_) => None,
            Outcome::Refused(message) => Some((pod, message)),
        });
        refused
            .filter_map(|(pod, message)| {
                let node = placements.get(pod)?;
                Some(Refusal {
                    pod: pod.clone(),
                    node: node.clone(),
                    was_feasible: self.control_plane.extender.was_feasible(pod, node),
                    message: message.clone(),
                })
            })
            .collect()
    }

    /// Takes back what the pinned run did: its pods, and what their volume claims were bound to.
    async fn unbind(&self, stage: &Stage) -> anyhow::Result<()> {
        let there: BTreeSet<String> =
            self.api.list("Pod").await?.iter().filter_map(|pod| pod_name(pod).map(str::to_owned)).collect();
        let names = stage.pending.iter().filter_map(pod_name).map(str::to_owned);
        self.api.delete_pods(&names.filter(|name| there.contains(name)).collect::<Vec<_>>()).await?;
        let late: Vec<Value> =
            stage.standing.iter().filter(|object| wait::is_late(object)).cloned().collect();
        if late.is_empty() {
            return Ok(());
        }
        let names: Vec<String> =
            late.iter().filter_map(|claim| claim["metadata"]["name"].as_str().map(str::to_owned)).collect();
        self.api.delete("PersistentVolumeClaim", &names).await?;
        let volumes: Vec<String> = self
            .api
            .list("PersistentVolume")
            .await?
            .iter()
            .filter_map(|volume| volume["metadata"]["name"].as_str())
            .filter(|volume| names.iter().any(|name| name == volume))
            .map(str::to_owned)
            .collect();
        self.api.delete("PersistentVolume", &volumes).await?;
        self.api.create(&late).await?;
        self.sync().await;
        Ok(())
    }
}

fn is_terminating(object: &Value) -> bool {
    object["kind"] == "Pod" && !object["metadata"]["deletionTimestamp"].is_null()
}

/// The same pod to the node that it runs on, and none to the affinity of any pod.
fn without_affinity(mut pod: Value) -> Value {
    pod["metadata"]["labels"] = Value::Null;
    pod["spec"]["affinity"] = Value::Null;
    pod
}

pub(super) fn pod_name(pod: &Value) -> Option<&str> {
    pod["metadata"]["name"].as_str()
}

/// A position for each pod: the first pods of all nodes, then the second ones, and so on.
fn in_turn(pods: &[Value], placements: &BTreeMap<String, String>) -> BTreeMap<String, (u32, String)> {
    let mut counts: BTreeMap<(&str, String), u32> = BTreeMap::new();
    let mut order = BTreeMap::new();
    for pod in pods {
        let Some((name, node)) = pod_name(pod).and_then(|name| Some((name, placements.get(name)?))) else {
            continue;
        };
        let app = pod["metadata"]["labels"]["app"].as_str().unwrap_or_default().to_owned();
        let count = counts.entry((node.as_str(), app)).or_default();
        order.insert(name.to_owned(), (*count, node.clone()));
        *count += 1;
    }
    order
}
