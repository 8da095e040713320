//! The Deployments of a fleet, in the order of their arrival: the same in a simulator and on a real control plane.

use std::{collections::BTreeMap, time::Duration};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Time over which the Deployments arrive.
pub const ARRIVAL: Duration = Duration::from_secs(15);

/// A mix of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Requests alone.
    Generic,
    /// A third each: requests alone, a hard spread over zones, anti-affinity by hostname within the Deployment.
    Diverse,
}

/// Names a fleet: equal ones have the same Deployments, which arrive at the same times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetSpec {
    /// Seed of the cloud, and of the times at which Deployments arrive.
    pub seed: u64,
    /// The mix of pods.
    pub mix: Mix,
    /// Number of Deployments, with four pods each on average.
    pub deployments: usize,
}

/// One NodePool, on demand, without burstable types and those of more than 32 CPUs, of which two would hold all pods of a small fleet.
pub const NODEPOOL: &str = "
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.kwok.sh/instance-family, operator: NotIn, values: [t3, t3a, t4g]}
      - {key: karpenter.kwok.sh/instance-cpu, operator: Lt, values: ['33']}
      expireAfter: Never
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 30s, budgets: [{nodes: 100%}]}
";

/// The Deployments, and which of their pods were bound.
#[derive(Debug)]
pub struct FleetLoad {
    mix: Mix,
    /// The Deployments by the time of their arrival, which has milliseconds, each with its number.
    arrivals: Vec<(Duration, usize)>,
    arrived: usize,
    /// By Deployment: when it arrived, and how many of its pods have not been bound.
    waiting: BTreeMap<String, (Duration, usize)>,
}

impl FleetLoad {
    /// The load of a fleet: each Deployment arrives at a random time within [`ARRIVAL`].
    #[must_use]
    pub fn new(fleet: FleetSpec) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(fleet.seed);
        let within = u64::try_from(ARRIVAL.as_millis()).unwrap_or(u64::MAX);
        let mut arrival = || Duration::from_millis(random.random_range(0..within));
        let mut arrivals: Vec<(Duration, usize)> =
            (0..fleet.deployments).map(|number| (arrival(), number)).collect();
        arrivals.sort_unstable();
        Self { mix: fleet.mix, arrivals, arrived: 0, waiting: BTreeMap::new() }
    }

    /// The number of pods of all Deployments.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.arrivals.iter().map(|(_, number)| replicas(*number)).sum()
    }

    /// The manifests of the Deployments that are due after `elapsed` and were not returned before.
    pub fn due(&mut self, elapsed: Duration) -> Vec<String> {
        let mut manifests = Vec::new();
        while let Some((at, number)) = self.arrivals.get(self.arrived).filter(|(at, _)| *at <= elapsed) {
            manifests.push(deployment(self.mix, *number));
            self.waiting.insert(name(*number), (*at, replicas(*number)));
            self.arrived += 1;
        }
        manifests
    }

    /// The time of the next arrival.
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        self.arrivals.get(self.arrived).map(|(at, _)| *at)
    }

    /// The time of the last arrival.
    #[must_use]
    pub fn last(&self) -> Duration {
        self.arrivals.last().map_or(Duration::ZERO, |(at, _)| *at)
    }

    /// The time from the arrival of a pod until it was bound; `None` for the pods that replace evicted ones.
    pub fn wait(&mut self, pod: &str, now: Duration) -> Option<Duration> {
        let (arrived, left) = self.waiting.get_mut(pod.split('-').next()?)?;
        *left = left.checked_sub(1)?;
        Some(now.saturating_sub(*arrived))
    }
}

fn name(number: usize) -> String {
    format!("d{number:03}")
}

/// Replicas are 2, 4, 6 in turn.
fn replicas(number: usize) -> usize {
    2 + 2 * (number % 3)
}

fn deployment(mix: Mix, number: usize) -> String {
    let (name, replicas) = (name(number), replicas(number));
    let cpu = [100, 250, 500, 1000, 2000][number * 7 % 5];
    let memory = cpu * [1, 2, 4, 6][number * 5 % 4] * 1024 / 1000;
    let constraint = match (mix, number / 3 % 3) {
        (Mix::Diverse, 1) => format!(
            "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, \
             whenUnsatisfiable: DoNotSchedule, labelSelector: {{matchLabels: {{app: {name}}}}}}}]"
        ),
        (Mix::Diverse, 2) => format!(
            "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
             [{{topologyKey: kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: {name}}}}}}}]}}}}"
        ),
        _ => "terminationGracePeriodSeconds: 10".to_owned(),
    };
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: default}}\nspec:\n  replicas: {replicas}\n  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      \
         {constraint}\n      containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}m, memory: {memory}Mi}}}}}}]\n"
    )
}
