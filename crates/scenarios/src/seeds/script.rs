//! The disturbances of a small cluster in one run.

mod actions;
mod objects;
mod replacers;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::{chaos::Chaos, log::Log, plan::Plan, price_feed::PriceFeed};
use fleetwright_core::{cloud::GroundTruth, model::ProviderId};
use fleetwright_sim::simulator::{Simulator, SimulatorError};

/// Deployments of every run.
const APPS: [&str; 3] = ["api", "batch", "web"];

/// Disturbances from outside: the checks do not attribute them to the operators.
#[derive(Debug, Default)]
pub(super) struct Interventions {
    /// When a user last changed what operators may do.
    pub(super) last: Duration,
    /// Instances of other clusters.
    pub(super) foreign: BTreeSet<ProviderId>,
    /// Claims whose finalizer was removed or never set.
    pub(super) stripped: BTreeSet<String>,
    /// Claims and nodes that were deleted.
    pub(super) deleted: BTreeSet<String>,
    /// Instances that were lost.
    pub(super) lost: BTreeSet<ProviderId>,
    /// Whether a clock was ever wrong: times that operators wrote then stay wrong.
    pub(super) skewed: bool,
    /// Whether the faults are over.
    pub(super) calm: bool,
    /// Since when prices are outdated, if they are.
    pub(super) old_prices: Option<Duration>,
    /// When the NodeClass was last changed, deleted or created again, if it ever was: nodes may drift from it.
    pub(super) class_changed: Option<Duration>,
}

pub(super) use objects::SECRET;

/// When prices are not updated, if a run has that: the first loads are placed by then, and the shortest runs still have faults.
const SILENCE: std::ops::Range<Duration> = Duration::from_secs(75)..Duration::from_secs(225);

/// The maximum number of protected nodes per run.
const KEPT_MAX: u32 = 3;

/// Decides the next disturbance, from a seed.
pub(super) struct Script {
    dice: ChaCha8Rng,
    plan: Plan,
    feed: Arc<PriceFeed>,
    next: Duration,
    protected: bool,
    /// Deleted pools.
    deleted: BTreeSet<&'static str>,
    /// Every instance so far, by id.
    instances: BTreeMap<ProviderId, Arc<GroundTruth>>,
    interventions: Interventions,
    happened: BTreeMap<&'static str, u32>,
    chaos: Arc<Chaos>,
    log: Log,
}

impl Script {
    pub(super) fn new(seed: u64, plan: Plan, feed: Arc<PriceFeed>, chaos: Arc<Chaos>, log: Log) -> Self {
        Self {
            dice: ChaCha8Rng::seed_from_u64(seed ^ 0x5c71),
            plan,
            feed,
            next: Duration::from_secs(60),
            protected: false,
            deleted: BTreeSet::new(),
            instances: BTreeMap::new(),
            interventions: Interventions::default(),
            happened: BTreeMap::new(),
            chaos,
            log,
        }
    }

    /// The disturbances so far.
    pub(super) fn interventions(&self) -> &Interventions {
        &self.interventions
    }

    /// How long after the faults an action may still wait for a time that was set during them.
    pub(super) fn caught_up(&self) -> Duration {
        // A failed launch is given up after fifteen minutes, with its consequences; clocks were up to ten minutes fast.
        let minutes = match (self.plan.clocks, self.plan.cloud_faults || self.plan.classes) {
            (true, _) => 27,
            (false, true) => 17,
            (false, false) => 0,
        };
        Duration::from_secs(minutes * 60)
    }

    pub(super) fn happened(&self) -> BTreeMap<&'static str, u32> {
        self.happened.clone()
    }

    fn draw(&mut self, below: u32) -> u32 {
        self.dice.random_range(0..below.max(1))
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        let count = u32::try_from(from.len()).ok().filter(|count| *count > 0)?;
        let at = usize::try_from(self.draw(count)).ok()?;
        from.get(at).cloned()
    }

    /// The pools and the initial load.
    pub(super) fn begin(&mut self, simulator: &Simulator) -> Result<(), SimulatorError> {
        let class = simulator.node_class(0);
        simulator.apply_object(class.clone())?;
        for at in 0..self.plan.pools.len() {
            if self.plan.pools[at].replicas.is_none() {
                self.plan.pools[at].nodes = 4 + self.draw(9);
            }
            simulator.apply_object(self.plan.pools[at].object(&class))?;
        }
        for object in objects::extras(&self.plan) {
            simulator.apply_object(object)?;
        }
        if self.plan.fleets {
            // Between two creations of a batch, between two members of an attempt, or before the result is recorded.
            let after = 1 + self.draw(24);
            self.chaos.cut_after(after);
        }
        for app in APPS {
            let replicas = self.draw(8);
            self.scale(simulator, app, replicas)?;
        }
        Ok(())
    }

    fn scale(&mut self, simulator: &Simulator, app: &str, replicas: u32) -> Result<(), SimulatorError> {
        let protected = app == "web" && self.protected;
        simulator.apply_object(objects::deployment(app, replicas, protected, self.plan.spread)).map(|_| ())
    }

    /// Executes what is due.
    pub(super) fn step(&mut self, simulator: &mut Simulator) -> Result<(), SimulatorError> {
        self.end_cut(simulator);
        if self.plan.losses {
            let now = simulator.ground_truth();
            self.instances.extend(now.into_iter().map(|truth| (truth.provider_id.clone(), truth)));
        }
        if self.plan.protections {
            self.protect(simulator)?;
        }
        if self.plan.replacers {
            self.rack_nodes(simulator)?;
        }
        if self.plan.feed {
            self.update_prices(simulator.elapsed());
        }
        if simulator.elapsed() < self.next {
            return Ok(());
        }
        let pause = 10 + u64::from(self.draw(50));
        self.next = simulator.elapsed().saturating_add(Duration::from_secs(pause));
        let Some(action) = self.pick(&actions::of(&self.plan)) else { return Ok(()) };
        let what = self.act(simulator, action)?;
        self.log.print(|| format!("-- {what}"));
        *self.happened.entry(what).or_default() += 1;
        if action.changes_what_is_allowed() {
            self.interventions.last = simulator.elapsed();
        }
        if matches!(action, actions::Action::ClassChanged | actions::Action::ClassDeleted) {
            self.interventions.class_changed = Some(simulator.elapsed());
        }
        Ok(())
    }

    /// Kills the operator that ended at a change of a NodeClaim.
    fn end_cut(&mut self, simulator: &mut Simulator) {
        let Some(agent) = self.chaos.take_cut() else { return };
        let of = |at: &usize| agent.starts_with(&format!("operator-{at}/"));
        (0..simulator.replicas()).filter(of).for_each(|at| simulator.kill(at, Duration::from_secs(1)));
        *self.happened.entry("operator ended at a change").or_default() += 1;
    }

    /// Stops and resumes price updates.
    fn update_prices(&mut self, now: Duration) {
        const WHAT: &str = "prices not told";
        let silent = SILENCE.contains(&now);
        if self.feed.set_silent(silent) {
            self.log.print(|| format!("-- {WHAT}: {silent}"));
            *self.happened.entry(WHAT).or_default() += u32::from(silent);
            self.interventions.old_prices = silent.then_some(now);
        }
    }

    /// Protects a node that has a command and is not terminating yet: the command must be rolled back. The first node by name, as soon as
    /// it is seen.
    fn protect(&mut self, simulator: &Simulator) -> Result<(), SimulatorError> {
        const WHAT: &str = "node kept";
        let nodes = simulator.server().list("v1", "Node", "");
        let Some(node) = nodes.iter().find(|node| objects::is_taken(node)) else { return Ok(()) };
        let kept = self.happened.entry(WHAT).or_default();
        if *kept >= KEPT_MAX {
            return Ok(());
        }
        *kept += 1;
        self.log.print(|| format!("-- {WHAT}: {}", node["metadata"]["name"]));
        self.interventions.last = simulator.elapsed();
        simulator.apply_object(objects::protected(node, true)).map(|_| ())
    }

    /// Removes the protection of nodes.
    fn unprotect(&self, simulator: &Simulator) -> Result<(), SimulatorError> {
        let nodes = simulator.server().list("v1", "Node", "");
        let kept = nodes.iter().filter(|node| objects::is_protected(node));
        kept.map(|node| objects::protected(node, false))
            .try_for_each(|object| simulator.apply_object(object).map(|_| ()))
    }

    /// Ends all disturbances: no pod is protected any more, because a protected pod holds its node forever; limits suffice; clocks are
    /// right; deleted objects are recreated.
    pub(super) fn calm(&mut self, simulator: &mut Simulator) -> Result<(), SimulatorError> {
        simulator.heal();
        self.end_cut(simulator);
        self.chaos.cut_after(0);
        self.feed.set_silent(false);
        self.interventions.old_prices = None;
        for operator in 0..simulator.replicas() {
            simulator.skew(operator, jiff::SignedDuration::ZERO);
        }
        let class = simulator.node_class(0);
        end_deleted(simulator, &class)?;
        simulator.apply_object(class.clone())?;
        for pool in &mut self.plan.pools {
            if pool.replicas.is_none() {
                (pool.nodes, pool.budget) = (20, "34%".to_owned());
            }
            simulator.apply_object(pool.object(&class))?;
            // The observation of an undeclared taint lasts for hours, unless an annotation ends it.
            simulator.apply_object(json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
                "metadata": {"name": pool.name, "annotations": {"fleetwright.dev/observed": null}},
            }))?;
        }
        if self.plan.replacers {
            self.calm_replacers(simulator)?;
        }
        self.tidy(simulator)?;
        self.unprotect(simulator)?;
        self.protected = false;
        let replicas = self.draw(4);
        self.scale(simulator, "web", replicas)?;
        self.interventions.last = simulator.elapsed();
        self.interventions.class_changed = self.interventions.class_changed.map(|_| simulator.elapsed());
        self.interventions.calm = true;
        Ok(())
    }

    /// Removes the taints of users and faults from nodes.
    pub(super) fn tidy(&self, simulator: &Simulator) -> Result<(), SimulatorError> {
        let nodes = simulator.server().list("v1", "Node", "");
        nodes.iter().filter_map(|node| objects::untouched(node)).try_for_each(|object| {
            self.log.print(|| format!("-- tidied {}", object["metadata"]["name"]));
            simulator.apply_object(object).map(|_| ())
        })
    }

    /// The name of any object of a kind.
    fn any(&mut self, simulator: &Simulator, version: &str, kind: &str) -> Option<String> {
        let name = |object: &Arc<Value>| {
            object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let names: Vec<String> = simulator.server().list(version, kind, "").iter().map(name).collect();
        self.pick(&names)
    }
}

/// Ends a NodeClass that is being deleted: its finalizer waits for NodeClaims that nobody deletes, and meanwhile nothing is launched.
fn end_deleted(simulator: &Simulator, class: &Value) -> Result<(), SimulatorError> {
    let text = |at: &str| class.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("/apiVersion"), text("/kind"));
    let is_deleted = |known: &&Arc<Value>| known.pointer("/metadata/deletionTimestamp").is_some();
    let known = simulator.server().list(version, kind, "");
    known.iter().find(is_deleted).map_or(Ok(()), |known| {
        let metadata = json!({"name": known["metadata"]["name"], "finalizers": []});
        simulator.apply_object(json!({"apiVersion": version, "kind": kind, "metadata": metadata})).map(drop)
    })
}
