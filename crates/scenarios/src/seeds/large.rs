//! A large cluster without faults: all pods are created at once, and the checks of property runs hold at every second until it is stable.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fleetwright_core::model::InstanceType;
use fleetwright_fake::{Catalogue, catalogue::realistic, kubelet::KubeletConfig};
use fleetwright_sim::simulator::{Simulator, SimulatorConfig, Stability, virtual_runtime};
use jiff::Timestamp;
use serde_json::json;

use super::{ORIGIN, RunError, STEP, Violation, check::Checker, log, script::Interventions};

/// Pods per node.
const PODS_PER_NODE: u32 = 10;
/// Pods per Deployment.
const PODS_PER_DEPLOYMENT: u32 = 100;
/// The CPU of the only instance type, in thousandths.
const NODE_CPU: i64 = 8000;
/// The CPU that each pod requests: [`PODS_PER_NODE`] fill a node.
const POD_CPU: &str = "750m";
/// The maximum virtual time until the cluster is stable.
const LIMIT: Duration = Duration::from_secs(2 * 60 * 60);
/// How often it is checked whether it is: the whole cluster is read.
const LOOK: u32 = 10;

/// Calls of the API server that change something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writes {
    /// Of the operator.
    pub operator: u64,
    /// Of kube-scheduler, kubelets and workload controllers.
    pub others: u64,
}

/// The end of a run.
#[derive(Clone, Debug)]
#[must_use]
pub struct LargeReport {
    /// Initialized nodes.
    pub nodes: usize,
    /// Running pods.
    pub pods: usize,
    /// Virtual time until all pods ran for the first time.
    pub running: Option<Duration>,
    /// Virtual time until the cluster was stable; `None` if it never was.
    pub stable: Option<Duration>,
    /// What was written until then.
    pub writes: Writes,
    /// Violations of invariants.
    pub violations: Vec<Violation>,
}

/// Creates the pods of `nodes` nodes at once, and waits until nothing is left to do.
///
/// # Errors
/// If the simulator cannot be created.
pub fn run_large(nodes: u32) -> Result<LargeReport, RunError> {
    virtual_runtime()?.block_on(run(nodes))
}

async fn run(nodes: u32) -> Result<LargeReport, RunError> {
    let log = log::Log::new(None);
    let writes = Arc::<Mutex<Writes>>::default();
    let simulator = Simulator::new(config(&log, &writes)).await?;
    for object in objects(nodes) {
        simulator.apply_object(object)?;
    }
    let mut checker = Checker::new(0, log);
    let interventions = Interventions { calm: true, ..Interventions::default() };
    let wanted = usize::try_from(nodes.saturating_mul(PODS_PER_NODE)).unwrap_or(usize::MAX);
    let (mut running, mut stable) = (None, None);
    while simulator.elapsed() < LIMIT && stable.is_none() && !checker.is_full() {
        for _ in 0..LOOK {
            simulator.run_for(STEP).await;
            checker.step(&simulator, &interventions);
        }
        if running.is_none() && simulator.observe().pods.running >= wanted {
            running = Some(simulator.elapsed());
        }
        stable = simulator.is_stable().then(|| simulator.elapsed());
    }
    let stability = stable.map_or(Stability::OutOfTime, |_| Stability::Since(simulator.observe().at));
    checker.rest(&simulator, stability, &interventions);
    let seen = simulator.observe();
    Ok(LargeReport {
        nodes: seen.claims.initialized,
        pods: seen.pods.running,
        running,
        stable,
        writes: *writes.lock().unwrap_or_else(PoisonError::into_inner),
        violations: checker.into_violations(),
    })
}

fn config(log: &log::Log, writes: &Arc<Mutex<Writes>>) -> SimulatorConfig {
    let origin = Timestamp::from_second(ORIGIN).unwrap_or(Timestamp::UNIX_EPOCH);
    let whole = realistic(1);
    let kind = whole.types.instance_types.iter().find(|known| known.capacity.cpu() == NODE_CPU);
    let kinds: Vec<InstanceType> = kind.map(|kind| (**kind).clone()).into_iter().collect();
    let mut config = SimulatorConfig::selling(0, origin, Catalogue::new(whole.vocabulary, kinds));
    let (audit, writes) = (log.audit(), writes.clone());
    config.audit = Some(Arc::new(move |request, code| {
        if !matches!(request.verb.as_str(), "get" | "list" | "watch") {
            let mut writes = writes.lock().unwrap_or_else(PoisonError::into_inner);
            match log::is_operators(request) {
                true => writes.operator += 1,
                false => writes.others += 1,
            }
        }
        audit(request, code);
    }));
    config.track_updates = false;
    config.count_removals = false;
    config.settings.disable_observability = true;
    config.kubelets = KubeletConfig::without_leases();
    config
}

fn objects(nodes: u32) -> Vec<serde_json::Value> {
    let mut objects = vec![
        json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
            "spec": {},
        }),
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {
                "template": {"spec": {
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                    "requirements": [
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    ],
                    "expireAfter": "Never",
                }},
                "disruption": {
                    "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s",
                    "budgets": [{"nodes": "10%"}],
                },
            },
        }),
    ];
    let pods = nodes.saturating_mul(PODS_PER_NODE);
    for number in 0..pods.div_ceil(PODS_PER_DEPLOYMENT) {
        let name = format!("app-{number}");
        let labels = json!({"app": name});
        objects.push(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": PODS_PER_DEPLOYMENT.min(pods - number * PODS_PER_DEPLOYMENT),
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "a", "image": "a",
                        "resources": {"requests": {"cpu": POD_CPU, "memory": "200Mi"}}}]},
                },
            },
        }));
    }
    objects
}

#[cfg(test)]
mod tests {
    //! The same cluster, small.
    use super::*;

    #[test]
    fn all_pods_run_and_nothing_is_left_to_do() {
        let report = run_large(6).unwrap();
        assert_eq!(report.violations, Vec::new());
        assert_eq!((report.nodes, report.pods), (6, 60), "{report:?}");
        assert!(report.running.is_some() && report.stable.is_some(), "{report:?}");
        assert!(report.writes.operator > 6 && report.writes.others > 2 * 60, "{report:?}");
    }
}
