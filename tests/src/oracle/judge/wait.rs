//! Waiting until kube-scheduler has said something about each pod and changes nothing any more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::bail;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::generator::volume;
use super::{Judge, pod_name};

/// How often is looked.
const POLL: Duration = Duration::from_millis(100);

/// kube-scheduler is at rest when it has bound nothing for this long: pods whose obstacle has gone are tried again at once.
const SETTLED: Duration = Duration::from_millis(800);

/// The same where a volume may be on its way: kube-scheduler looks once a second whether it is there.
const SETTLED_VOLUMES: Duration = Duration::from_millis(2500);

/// No wait is longer.
const LIMIT: Duration = Duration::from_secs(60);

/// What became of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Bound(String),
    /// With the message of `PodScheduled`.
    Refused(String),
}

/// Whether an object is a volume claim that waits for its first consumer.
pub(super) fn is_late(object: &Value) -> bool {
    object["kind"] == "PersistentVolumeClaim" && object["spec"]["volumeName"].is_null()
}

impl Judge {
    /// Waits for a verdict on each of `pods`, and until kube-scheduler is at rest.
    pub(super) async fn wait(
        &mut self,
        pods: &[Value],
        zones: &BTreeMap<String, String>,
    ) -> anyhow::Result<BTreeMap<String, Outcome>> {
        let names: BTreeSet<&str> = pods.iter().filter_map(pod_name).collect();
        let has_volumes = pods.iter().any(|pod| !pod["spec"]["volumes"].is_null());
        let settled = if has_volumes { SETTLED_VOLUMES } else { SETTLED } * self.patience;
        let deadline = Instant::now() + LIMIT;
        let mut provisioned = BTreeSet::new();
        let (mut bound, mut changed) = (0, Instant::now());
        loop {
            if has_volumes {
                self.provision(zones, &mut provisioned).await?;
            }
            let outcomes = self.outcomes(&names).await?;
            let now_bound = outcomes.values().filter(|outcome| matches!(outcome, Outcome::Bound(_))).count();
            if now_bound != bound {
                (bound, changed) = (now_bound, Instant::now());
            }
            let has_all = outcomes.len() == names.len();
            if bound == names.len() || (has_all && changed.elapsed() > settled) {
                return Ok(outcomes);
            }
            if Instant::now() > deadline {
                let silent: Vec<&&str> = names.iter().filter(|name| !outcomes.contains_key(**name)).collect();
                bail!("kube-scheduler says nothing about {silent:?} for {LIMIT:?}");
            }
            self.control_plane.check_running()?;
            tokio::time::sleep(POLL).await;
        }
    }

    async fn outcomes(&self, names: &BTreeSet<&str>) -> anyhow::Result<BTreeMap<String, Outcome>> {
        let mut outcomes = BTreeMap::new();
        for pod in self.api.list("Pod").await? {
            let Some(name) = pod_name(&pod).filter(|name| names.contains(name)) else { continue };
            if let Some(outcome) = outcome(&pod) {
                outcomes.insert(name.to_owned(), outcome);
            }
        }
        Ok(outcomes)
    }

    /// Does what a CSI provisioner does: a claim for which kube-scheduler has chosen a node gets a volume in that zone.
    async fn provision(
        &self,
        zones: &BTreeMap<String, String>,
        done: &mut BTreeSet<String>,
    ) -> anyhow::Result<()> {
        for claim in self.api.list("PersistentVolumeClaim").await? {
            let chosen = claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].as_str();
            let Some(name) = claim["metadata"]["name"].as_str() else { continue };
            let Some(zone) = chosen.and_then(|node| zones.get(node)) else { continue };
            if !claim["spec"]["volumeName"].is_null() || !done.insert(name.to_owned()) {
                continue;
            }
            let class = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
            let mut volume = volume(name, name, class, zone);
            volume["spec"]["claimRef"]["uid"] = claim["metadata"]["uid"].clone();
            self.api.create(&[volume]).await?;
            let bound = json!({
                "metadata": {"annotations": {
                    "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
                }},
                "spec": {"volumeName": name},
            });
            self.api.patch("PersistentVolumeClaim", name, &bound).await?;
        }
        Ok(())
    }
}

fn outcome(pod: &Value) -> Option<Outcome> {
    if let Some(node) = pod["spec"]["nodeName"].as_str() {
        return Some(Outcome::Bound(node.to_owned()));
    }
    let conditions = pod["status"]["conditions"].as_array()?;
    let said = conditions.iter().find(|each| each["type"] == "PodScheduled" && each["status"] == "False")?;
    if said["reason"] == "SchedulingGated" {
        return None;
    }
    Some(Outcome::Refused(said["message"].as_str().unwrap_or_default().to_owned()))
}
