//! The Deployments of a run, in the order of their arrival.

use std::{collections::BTreeMap, error::Error, time::Duration};

use fleetwright_sim::Simulator;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::{Mix, RealizedCase};

/// One NodePool, on demand, without burstable types and those of more than 32 CPUs, of which two would hold all pods of a small fleet.
pub(super) const NODEPOOL: &str = "
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
pub(super) struct Load {
    mix: Mix,
    /// The Deployments by the time of their arrival, which has milliseconds, each with its number.
    arrivals: Vec<(Duration, usize)>,
    arrived: usize,
    /// By Deployment: when it arrived, and how many of its pods have not been bound.
    waiting: BTreeMap<String, (Duration, usize)>,
}

impl Load {
    /// Each Deployment arrives at a random time within `within`.
    pub(super) fn new(case: RealizedCase, within: Duration) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(case.seed);
        let within = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let mut arrival = || Duration::from_millis(random.random_range(0..within));
        let mut arrivals: Vec<(Duration, usize)> =
            (0..case.deployments).map(|number| (arrival(), number)).collect();
        arrivals.sort_unstable();
        Self { mix: case.mix, arrivals, arrived: 0, waiting: BTreeMap::new() }
    }

    /// The number of pods of all Deployments.
    pub(super) fn pods(&self) -> usize {
        self.arrivals.iter().map(|(_, number)| replicas(*number)).sum()
    }

    /// Creates the Deployments that are due.
    pub(super) fn arrive(&mut self, simulator: &Simulator, elapsed: Duration) -> Result<(), Box<dyn Error>> {
        while let Some((at, number)) = self.arrivals.get(self.arrived).filter(|(at, _)| *at <= elapsed) {
            simulator.apply(&deployment(self.mix, *number))?;
            self.waiting.insert(name(*number), (*at, replicas(*number)));
            self.arrived += 1;
        }
        Ok(())
    }

    /// The time of the next arrival.
    pub(super) fn next(&self) -> Option<Duration> {
        self.arrivals.get(self.arrived).map(|(at, _)| *at)
    }

    /// The time of the last arrival.
    pub(super) fn last(&self) -> Duration {
        self.arrivals.last().map_or(Duration::ZERO, |(at, _)| *at)
    }

    /// The time from the arrival of a pod until it was bound; `None` for the pods that replace evicted ones.
    pub(super) fn wait(&mut self, pod: &str, now: Duration) -> Option<Duration> {
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
