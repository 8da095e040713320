//! What replaces pods: a DaemonSet that preempts on new nodes, Deployments of high priority, rollouts, Jobs that fail.

use std::{collections::BTreeSet, time::Duration};

use fleetwright_sim::simulator::{Simulator, SimulatorError};
use serde_json::{Value, json};

use super::{APPS, Script};

/// When a user labels nodes, so that a DaemonSet that no plan counts preempts pods on each of them.
const RACKS: std::ops::Range<Duration> = Duration::from_secs(90)..Duration::from_secs(420);
/// The label.
const RACK: &str = "example.com/rack";
/// The priority class of what preempts.
const URGENT: &str = "urgent";

/// The priority class and the DaemonSet.
pub(super) fn objects() -> [Value; 2] {
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": URGENT}, "value": 100_000,
    });
    let daemon = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "racked", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"app": "racked"}},
            "template": {
                "metadata": {"labels": {"app": "racked"}},
                "spec": {
                    "priorityClassName": URGENT, "nodeSelector": {RACK: "a"}, "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "1200m"}}}],
                },
            },
        },
    });
    [class, daemon]
}

fn urgent_deployment(replicas: u32) -> Value {
    let labels = json!({"app": URGENT});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": URGENT, "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "priorityClassName": URGENT,
                    "containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "1500m"}}}],
                },
            },
        },
    })
}

/// A Job whose pods fail; it is deleted soon after it has.
fn failing_job(number: u32) -> Value {
    const FAILS: &str = "pod-container-running-failed.stage.kwok.x-k8s.io";
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": format!("failing-{number}"), "namespace": "default"},
        "spec": {
            "parallelism": 2, "backoffLimit": 3, "ttlSecondsAfterFinished": 30,
            "template": {
                "metadata": {
                    "labels": {"app": "failing", FAILS: "true"}, "annotations": {format!("{FAILS}/delay"): "8s"},
                },
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "700m"}}}],
                },
            },
        },
    })
}

impl Script {
    /// Labels nodes for the DaemonSet once pods of Deployments are on them, while it is time: its pod preempts them.
    pub(super) fn rack_nodes(&mut self, simulator: &Simulator) -> Result<(), SimulatorError> {
        if !RACKS.contains(&simulator.elapsed()) {
            return Ok(());
        }
        let pods = simulator.server().list("v1", "Pod", "default");
        let used: BTreeSet<&str> = pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
        let nodes = simulator.server().list("v1", "Node", "");
        let nodes = nodes
            .iter()
            .filter(|node| node["metadata"]["name"].as_str().is_some_and(|name| used.contains(name)));
        let bare = nodes.filter(|node| node["metadata"]["labels"].get(RACK).is_none());
        for name in bare.map(|node| &node["metadata"]["name"]) {
            self.log.print(|| format!("-- node labeled: {name}"));
            *self.happened.entry("node labeled").or_default() += 1;
            let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {RACK: "a"}}});
            simulator.apply_object(object)?;
        }
        Ok(())
    }

    pub(super) fn scale_urgent(&mut self, simulator: &Simulator) -> Result<(), SimulatorError> {
        let replicas = self.draw(4);
        simulator.apply_object(urgent_deployment(replicas)).map(|_| ())
    }

    /// Changes the template of a Deployment, so that all its pods are replaced.
    pub(super) fn roll_out(&mut self, simulator: &Simulator) -> Result<(), SimulatorError> {
        let app = self.pick(&APPS).unwrap_or(APPS[0]);
        let revision = self.draw(1_000_000);
        let template = json!({"metadata": {"labels": {"revision": revision.to_string()}}});
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app, "namespace": "default"},
            "spec": {"template": template},
        });
        simulator.apply_object(object).map(|_| ())
    }

    pub(super) fn start_failing_job(&mut self, simulator: &Simulator) -> Result<(), SimulatorError> {
        let number = self.draw(1_000_000);
        simulator.apply_object(failing_job(number)).map(|_| ())
    }

    /// Ends what preempts, as only that keeps pods off their nodes.
    pub(super) fn calm_replacers(&self, simulator: &Simulator) -> Result<(), SimulatorError> {
        simulator.delete_object("DaemonSet kube-system/racked")
    }
}
