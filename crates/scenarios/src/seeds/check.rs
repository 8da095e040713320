//! The checks: what the API server and the cloud hold, compared by code that shares nothing with what is checked.
//!
//! Each file judges a few invariants of `docs/invariants.md`, which go by the letters S (safety, after every step) and L
//! (liveness, when all should be at rest). A check sees one [`Look`] after the other and keeps what it needs of earlier
//! ones.

mod brakes;
mod budgets;
mod chains;
mod changes;
mod deletions;
mod drift;
mod end;
mod freshness;
mod held;
mod instances;
mod limits;
mod look;
mod marks;
mod pods;
mod prices;
mod soon;
mod writes;

use std::{fmt, time::Duration};

use super::{
    log::{Entry, Log},
    script::Ledger,
};
use fleetwright_sim::world::{Settled, World};
pub(super) use look::Look;

/// So many violations end a run.
const ENOUGH: usize = 5;
/// How long nobody looks where nothing changes once the trouble is over: who waits in vain changes nothing.
const BLINK: Duration = Duration::from_secs(30);
/// How much of an object a violation shows, in bytes.
const SHOWN: usize = 4000;

/// Something that must never be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The seed.
    pub seed: u64,
    /// Which look it was.
    pub step: u64,
    /// Virtual time since the start.
    pub at: Duration,
    /// The invariant: S1 to S20, L1 to L6, L.
    pub invariant: &'static str,
    /// What is broken.
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

/// What checks find.
#[derive(Default)]
pub(super) struct Findings(Vec<(&'static str, String, Vec<String>)>);

impl Findings {
    /// Notes a violation, with the objects that show it.
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

/// One or a few invariants.
trait Check {
    /// Judges the present, and keeps what the next look needs.
    fn step(&mut self, look: &Look<'_>, found: &mut Findings);

    /// Judges the end, when all is at rest.
    fn end(&mut self, _look: &Look<'_>, _found: &mut Findings) {}
}

/// All checks, and what they found.
pub(super) struct Checker {
    seed: u64,
    log: Log,
    steps: u64,
    checks: Vec<Box<dyn Check>>,
    violations: Vec<Violation>,
    /// Revision of the API server, and number of the cloud's last change, at the last look.
    seen: (u64, u64),
    /// When that was.
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
            Box::new(brakes::Brakes::default()),
            Box::new(marks::Marks::default()),
            Box::new(soon::Soon::default()),
            Box::new(chains::Chains::default()),
            Box::new(prices::Prices::default()),
            Box::new(writes::Writes),
            Box::new(end::Rest::default()),
        ];
        Self { seed, log, steps: 0, checks, violations: Vec::new(), seen: (0, 0), looked: Duration::ZERO }
    }

    /// Whether there is nothing more to learn.
    pub(super) fn is_full(&self) -> bool {
        self.violations.len() >= ENOUGH
    }

    pub(super) fn into_violations(self) -> Vec<Violation> {
        self.violations
    }

    fn keep(&mut self, world: &World, found: Findings) {
        for (invariant, what, objects) in found.0 {
            let known = self.violations.iter().any(|known| known.what == what);
            if !self.is_full() && !known {
                let (seed, step, at) = (self.seed, self.steps, world.elapsed());
                self.violations.push(Violation { seed, step, at, invariant, what, objects });
            }
        }
    }

    /// Judges the state as it is now.
    pub(super) fn step(&mut self, world: &World, ledger: &Ledger) {
        self.steps = self.steps.saturating_add(1);
        let log = self.log.take();
        let seen = (world.server().revision(), world.cloud().changes_since(u64::MAX).1);
        let now = world.elapsed();
        let awaited = ledger.calm && now.saturating_sub(self.looked) >= BLINK;
        if seen == self.seen && log.is_empty() && !awaited {
            return;
        }
        (self.seen, self.looked) = (seen, now);
        self.judge(world, ledger, &log);
    }

    fn judge(&mut self, world: &World, ledger: &Ledger, log: &[Entry]) {
        let look = Look::new(world, ledger, log);
        let mut found = Findings::default();
        for check in &mut self.checks {
            check.step(&look, &mut found);
        }
        self.keep(world, found);
    }

    /// Whether there are instances that no claim accounts for.
    pub(super) fn has_orphans(world: &World, ledger: &Ledger) -> bool {
        end::orphans(&Look::new(world, ledger, &[])).next().is_some()
    }

    /// Whether an instance that came in place of others was initialized less than `since` ago.
    pub(super) fn has_young(world: &World, since: Duration) -> bool {
        let from = jiff::SignedDuration::try_from(since)
            .ok()
            .and_then(|since| world.clock().now().checked_sub(since).ok());
        let claims = world.server().list("karpenter.sh/v1", "NodeClaim", "");
        claims.iter().any(|claim| from.is_some_and(|from| chains::is_younger(claim, from)))
    }

    /// Judges the coming to rest: that it came, and what is left over.
    pub(super) fn rest(&mut self, world: &World, settled: Settled, ledger: &Ledger) {
        if self.is_full() {
            return;
        }
        let log = self.log.take();
        let look = Look::new(world, ledger, &log);
        let mut found = Findings::default();
        if settled == Settled::OutOfTime {
            let seen = world.observe();
            let what = format!("no rest: {:?} {:?}", seen.claims, seen.pods);
            let waiting = look.pods.iter().filter(|pod| look::text(pod, "/spec/nodeName").is_empty());
            found.add("L", what, waiting.take(2).map(|pod| &**pod));
        } else {
            for check in &mut self.checks {
                check.end(&look, &mut found);
            }
        }
        self.keep(world, found);
    }

    /// Judges the quiet after all came to rest: no operator may have changed anything.
    pub(super) fn end(&mut self, world: &World, ledger: &Ledger) {
        let log = self.log.take();
        let mut found = Findings::default();
        end::quiet(&log, &mut found);
        held::judge(world, &Look::new(world, ledger, &[]), &mut found);
        self.keep(world, found);
        self.judge(world, ledger, &log);
    }
}
