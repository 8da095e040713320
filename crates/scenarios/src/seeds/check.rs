//! The checks compare the API server and the cloud, with code that shares nothing with the product.
//!
//! Each file checks a few invariants of `docs/invariants.md`: S for safety, after every step, and L for liveness, when the cluster should
//! be stable. A check receives one [`Observation`] after the other and keeps the state that it needs.

mod budgets;
mod changes;
mod deletions;
mod drift;
mod end;
mod freshness;
mod instances;
mod launches;
mod leftover_taints;
mod limits;
mod liveness;
mod memory;
mod observation;
mod pods;
mod prices;
mod replacements;
mod termination_limits;
mod writes;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use super::{
    log::{Entry, Log},
    script::Interventions,
};
use fleetwright_core::cloud::GroundTruth;
use fleetwright_sim::simulator::{Simulator, Stability};
pub(super) use observation::Observation;
use observation::PodViews;

/// The number of violations that ends a run.
const ENOUGH: usize = 5;
/// The interval of checks without a change after the faults: pods that wait too long cause no change.
const BLINK: Duration = Duration::from_secs(30);
/// How much of an object a violation shows, in bytes.
const SHOWN: usize = 4000;

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The seed.
    pub seed: u64,
    /// The number of the check.
    pub step: u64,
    /// Virtual time since the start.
    pub at: Duration,
    /// The invariant: S1 to S21, L1 to L6, L.
    pub invariant: &'static str,
    /// The violation.
    pub what: String,
    /// The objects, as JSON.
    pub objects: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, step, invariant, what, .. } = self;
        write!(formatter, "{invariant} broken by seed {seed}, step {step}, {:?}: {what}", self.at)?;
        self.objects.iter().try_for_each(|object| write!(formatter, "\n    {object}"))
    }
}

/// The violations that checks find.
#[derive(Default)]
pub(super) struct Findings(Vec<(&'static str, String, Vec<String>)>);

impl Findings {
    /// Records a violation, with the objects that show it.
    pub(super) fn add<'a>(
        &mut self,
        invariant: &'static str,
        what: String,
        objects: impl IntoIterator<Item = &'a serde_json::Value>,
    ) {
        let shown = objects.into_iter().map(|object| {
            let mut text = object.to_string();
            let end = (0..=SHOWN.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
            text.truncate(end.unwrap_or(0));
            text
        });
        self.0.push((invariant, what, shown.collect()));
    }
}

/// A check of one or a few invariants.
trait Check {
    /// Checks the current state, and keeps what the next step needs.
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings);

    /// Checks the final, stable state.
    fn end(&mut self, _look: &Observation<'_>, _found: &mut Findings) {}
}

/// All checks and their violations.
pub(super) struct Checker {
    seed: u64,
    log: Log,
    steps: u64,
    checks: Vec<Box<dyn Check>>,
    violations: Vec<Violation>,
    /// The pods at the last step.
    pods: PodViews,
    /// Resource version of the API server, and instances, at the last step.
    seen: (u64, Vec<Arc<GroundTruth>>),
    /// The time of the last step.
    looked: Duration,
}

impl Checker {
    pub(super) fn new(seed: u64, log: Log) -> Self {
        let checks: Vec<Box<dyn Check>> = vec![
            Box::new(instances::InstanceChecks::default()),
            Box::new(limits::Limits::default()),
            Box::new(instances::Answers),
            Box::new(budgets::Budgets::default()),
            Box::new(pods::Pods::default()),
            Box::new(freshness::Freshness::default()),
            Box::new(deletions::Deletions::default()),
            Box::new(drift::Drift::default()),
            Box::new(changes::Changes::default()),
            Box::new(termination_limits::TerminationLimits::default()),
            Box::new(leftover_taints::LeftoverTaints::default()),
            Box::new(liveness::Liveness::default()),
            Box::new(replacements::Replacements::default()),
            Box::new(launches::Launches::default()),
            Box::new(prices::Prices::default()),
            Box::new(writes::Writes),
            Box::new(end::StableState::default()),
        ];
        Self {
            seed,
            log,
            steps: 0,
            checks,
            violations: Vec::new(),
            pods: PodViews::default(),
            seen: (0, Vec::new()),
            looked: Duration::ZERO,
        }
    }

    /// Whether the maximum number of violations is reached.
    pub(super) fn is_full(&self) -> bool {
        self.violations.len() >= ENOUGH
    }

    pub(super) fn into_violations(self) -> Vec<Violation> {
        self.violations
    }

    fn protect(&mut self, simulator: &Simulator, found: Findings) {
        for (invariant, what, objects) in found.0 {
            let known = self.violations.iter().any(|known| known.what == what);
            if !self.is_full() && !known {
                let (seed, step, at) = (self.seed, self.steps, simulator.elapsed());
                self.violations.push(Violation { seed, step, at, invariant, what, objects });
            }
        }
    }

    /// Checks the current state.
    pub(super) fn step(&mut self, simulator: &Simulator, interventions: &Interventions) {
        self.steps = self.steps.saturating_add(1);
        let log = self.log.take();
        let seen = (simulator.server().revision(), simulator.ground_truth());
        let now = simulator.elapsed();
        let awaited = interventions.calm && now.saturating_sub(self.looked) >= BLINK;
        if seen == self.seen && log.is_empty() && !awaited {
            return;
        }
        self.looked = now;
        self.judge(simulator, interventions, &log);
    }

    fn judge(&mut self, simulator: &Simulator, interventions: &Interventions, log: &[Entry]) {
        let mut observation = Observation::new(simulator, interventions, log, &mut self.pods);
        observation.pod_changes = self.pods.take_changes();
        let now = (simulator.server().revision(), observation.instances.clone());
        let ids: BTreeSet<_> = now.1.iter().map(|instance| instance.provider_id.clone()).collect();
        let (_, before) = std::mem::replace(&mut self.seen, now);
        observation.gone.extend(before.into_iter().filter(|instance| !ids.contains(&instance.provider_id)));
        let mut found = Findings::default();
        for check in &mut self.checks {
            check.step(&observation, &mut found);
        }
        self.protect(simulator, found);
    }

    /// Whether there are instances without a claim.
    pub(super) fn has_orphans(simulator: &Simulator, interventions: &Interventions) -> bool {
        end::orphans(&Observation::new(simulator, interventions, &[], &mut PodViews::default()))
            .next()
            .is_some()
    }

    /// Whether a replacement was initialized less than `since` ago.
    pub(super) fn has_young_replacement(simulator: &Simulator, since: Duration) -> bool {
        let from = jiff::SignedDuration::try_from(since)
            .ok()
            .and_then(|since| simulator.clock().now().checked_sub(since).ok());
        let claims = simulator.server().list("karpenter.sh/v1", "NodeClaim", "");
        claims.iter().any(|claim| from.is_some_and(|from| replacements::is_younger(claim, from)))
    }

    /// Checks that the cluster became stable, and what is left over.
    pub(super) fn rest(
        &mut self,
        simulator: &Simulator,
        stability: Stability,
        interventions: &Interventions,
    ) {
        if self.is_full() {
            return;
        }
        let log = self.log.take();
        let observation = Observation::new(simulator, interventions, &log, &mut self.pods);
        let mut found = Findings::default();
        if stability == Stability::OutOfTime {
            let seen = simulator.observe();
            let what = format!("not stable: {:?} {:?}", seen.claims, seen.pods);
            let waiting = observation.pods.iter().filter(|pod| pod.node.is_empty());
            found.add("L", what, waiting.take(2).map(|pod| &***pod));
        } else {
            for check in &mut self.checks {
                check.end(&observation, &mut found);
            }
        }
        self.protect(simulator, found);
    }

    /// Checks the stable phase: no operator may have changed anything.
    pub(super) fn end(&mut self, simulator: &Simulator, interventions: &Interventions) {
        let log = self.log.take();
        let mut found = Findings::default();
        end::quiet(&log, &mut found);
        memory::judge(
            simulator,
            &Observation::new(simulator, interventions, &[], &mut self.pods),
            &mut found,
        );
        self.protect(simulator, found);
        self.judge(simulator, interventions, &log);
    }
}
