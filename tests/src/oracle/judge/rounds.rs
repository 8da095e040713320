//! The free run: rounds of plans and launches until rest.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::planner::Plan;
use super::super::plant::Plant;
use super::wait::Outcome;
use super::{Judge, Stage, Verdict, pod_name};

/// More plans than this are a loop.
const ROUNDS_MAX: usize = 5;

impl Judge {
    /// Lets pods go where kube-scheduler likes, and plans for those that find no node.
    pub(super) async fn free(
        &mut self,
        stage: &mut Stage,
        first: &Plan,
        placements: &BTreeMap<String, String>,
        plant: Option<Plant>,
        verdict: &mut Verdict,
    ) -> anyhow::Result<()> {
        self.control_plane.extender.pin(BTreeMap::new());
        self.create_pods(stage, placements).await?;
        let pods = stage.pending.clone();
        let mut outcomes = self.wait(&pods, &stage.zones).await?;
        let unplaced = first.unplaced();
        let is_bound = |outcomes: &BTreeMap<String, Outcome>, pod: &str| {
            matches!(outcomes.get(pod), Some(Outcome::Bound(_)))
        };
        verdict.bound_unplaced = unplaced.keys().filter(|pod| is_bound(&outcomes, pod)).cloned().collect();
        verdict.empty = empty(stage, &outcomes);
        while outcomes.values().any(|outcome| matches!(outcome, Outcome::Refused(_))) {
            stage.bind(&outcomes);
            let plan = self.planner.plan(&stage.view(plant)).await?;
            let (objects, placements) = stage.launch(&plan)?;
            if plan.node_claims.is_empty() || verdict.rounds == ROUNDS_MAX {
                verdict.stuck = self.lasting_refusals(stage, &outcomes, &placements).await?;
                return Ok(());
            }
            verdict.rounds += 1;
            verdict.extra += plan.node_claims.len();
            self.nominate(stage, &placements).await?;
            self.api.create(&objects).await?;
            self.sync().await;
            outcomes = self.wait(&pods, &stage.zones).await?;
        }
        Ok(())
    }

    /// Creates the pending pods. Those with a nomination are held until they have it: their nodes are there already.
    async fn create_pods(&self, stage: &Stage, placements: &BTreeMap<String, String>) -> anyhow::Result<()> {
        if !self.nominates {
            return self.api.create(&stage.pending).await;
        }
        let mut pods = stage.pending.clone();
        for pod in &mut pods {
            pod["spec"]["schedulingGates"] = json!([{"name": "oracle/nomination"}]);
        }
        self.api.create(&pods).await?;
        self.nominate(stage, placements).await?;
        for name in stage.pending.iter().filter_map(pod_name) {
            self.api.patch("Pod", name, &json!({"spec": {"schedulingGates": null}})).await?;
        }
        Ok(())
    }

    /// Writes the nominations of the pods that new nodes are launched for.
    async fn nominate(&self, stage: &Stage, placements: &BTreeMap<String, String>) -> anyhow::Result<()> {
        for (pod, node) in
            placements.iter().filter(|(_, node)| self.nominates && stage.new_nodes.contains(*node))
        {
            let status = json!({"status": {"nominatedNodeName": node}});
            self.api.patch("Pod", &format!("{pod}/status"), &status).await?;
        }
        Ok(())
    }
}

/// New nodes that no pod went to.
fn empty(stage: &Stage, outcomes: &BTreeMap<String, Outcome>) -> usize {
    let used: BTreeSet<&String> = outcomes
        .values()
        .filter_map(|outcome| match outcome {
            Outcome::Bound(node) => Some(node),
            Outcome::Refused(_) => None,
        })
        .collect();
    stage.new_nodes.iter().filter(|node| !used.contains(node)).count()
}

impl Stage {
    /// Writes down where pods run now.
    fn bind(&mut self, outcomes: &BTreeMap<String, Outcome>) {
        let mut bound = BTreeMap::new();
        for mut pod in std::mem::take(&mut self.pending) {
            match pod_name(&pod).and_then(|name| outcomes.get(name)) {
                Some(Outcome::Bound(node)) => {
                    let node = node.clone();
                    pod["spec"]["nodeName"] = json!(node);
                    for claim in claims_of(&pod) {
                        bound.insert(claim, node.clone());
                    }
                    self.standing.push(pod);
                }
                _ => self.pending.push(pod),
            }
        }
        self.bind_claims(&bound);
    }

    /// Writes down the volumes of claims whose pod runs by now.
    fn bind_claims(&mut self, bound: &BTreeMap<String, String>) {
        let mut volumes = Vec::new();
        for claim in self.standing.iter_mut().filter(|object| super::wait::is_late(object)) {
            let Some(name) = claim["metadata"]["name"].as_str().map(str::to_owned) else { continue };
            let Some(zone) = bound.get(&name).and_then(|node| self.zones.get(node)) else { continue };
            let class = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
            volumes.push(super::super::generator::volume(&name, &name, class, zone));
            claim["spec"]["volumeName"] = json!(name);
        }
        self.standing.extend(volumes);
    }
}

fn claims_of(pod: &Value) -> Vec<String> {
    let volumes = pod["spec"]["volumes"].as_array();
    let names = volumes
        .into_iter()
        .flatten()
        .filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    names.map(str::to_owned).collect()
}
