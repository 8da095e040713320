//! What people, and bad luck, do to a small cluster in one run.

mod actions;
mod objects;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::{chaos::Chaos, feed::Feed, log::Log, plan::Plan};
use fleetwright_sim::world::{World, WorldError};

/// Deployments of every run.
const APPS: [&str; 3] = ["api", "batch", "web"];

/// What was done from outside: the checks must not blame the operators for it.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// When somebody last did something that changes what operators may do.
    pub(super) last: Duration,
    /// Instances of other clusters.
    pub(super) foreign: BTreeSet<String>,
    /// Claims whose finalizer was taken away, or which never were.
    pub(super) stripped: BTreeSet<String>,
    /// Claims and nodes that were deleted.
    pub(super) deleted: BTreeSet<String>,
    /// Instances that were lost.
    pub(super) lost: BTreeSet<String>,
    /// Whether a clock was ever wrong: what operators wrote then is wrong for good.
    pub(super) skewed: bool,
    /// Whether the trouble is over.
    pub(super) calm: bool,
    /// Since when prices are too old to move anything, where they are.
    pub(super) old_prices: Option<Duration>,
}

pub(super) use objects::SECRET;

/// When prices are not told, where a life has that: the first loads are placed by then, and the shortest lives have trouble yet.
const SILENCE: std::ops::Range<Duration> = Duration::from_secs(75)..Duration::from_secs(225);

/// How many nodes are kept in one life at most.
const KEPT_MAX: u32 = 3;

/// Decides, from a seed, what happens next.
pub(super) struct Script {
    dice: ChaCha8Rng,
    plan: Plan,
    feed: Arc<Feed>,
    next: Duration,
    guarded: bool,
    /// Pools that somebody deleted.
    deleted: BTreeSet<&'static str>,
    ledger: Ledger,
    happened: BTreeMap<&'static str, u32>,
    chaos: Arc<Chaos>,
    log: Log,
}

impl Script {
    pub(super) fn new(seed: u64, plan: Plan, feed: Arc<Feed>, chaos: Arc<Chaos>, log: Log) -> Self {
        Self {
            dice: ChaCha8Rng::seed_from_u64(seed ^ 0x5c71),
            plan,
            feed,
            next: Duration::from_secs(60),
            guarded: false,
            deleted: BTreeSet::new(),
            ledger: Ledger::default(),
            happened: BTreeMap::new(),
            chaos,
            log,
        }
    }

    /// What was done from outside.
    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// How long after the trouble something may still wait for a moment that the trouble set.
    pub(super) fn caught_up(&self) -> Duration {
        // A launch that does not succeed is given up after a quarter of an hour, and what was concluded from it with it;
        // clocks were up to ten minutes fast beside.
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

    /// The pools and the first load.
    pub(super) fn begin(&mut self, world: &World) -> Result<(), WorldError> {
        world.apply_object(objects::class(0))?;
        for at in 0..self.plan.pools.len() {
            if self.plan.pools[at].replicas.is_none() {
                self.plan.pools[at].nodes = 4 + self.draw(9);
            }
            world.apply_object(self.plan.pools[at].object())?;
        }
        for object in objects::extras(&self.plan) {
            world.apply_object(object)?;
        }
        if self.plan.fleets {
            // Between two creations of a batch, between two members of an attempt, or before the result is recorded.
            let after = 1 + self.draw(24);
            self.chaos.cut_after(after);
        }
        for app in APPS {
            let replicas = self.draw(8);
            self.scale(world, app, replicas)?;
        }
        Ok(())
    }

    fn scale(&mut self, world: &World, app: &str, replicas: u32) -> Result<(), WorldError> {
        let guarded = app == "web" && self.guarded;
        world.apply_object(objects::deployment(app, replicas, guarded, self.plan.spread)).map(|_| ())
    }

    /// Does what is due now.
    pub(super) fn step(&mut self, world: &mut World) -> Result<(), WorldError> {
        self.end_cut(world);
        if self.plan.keepers {
            self.keep(world)?;
        }
        if self.plan.feed {
            self.tell_prices(world.elapsed());
        }
        if world.elapsed() < self.next {
            return Ok(());
        }
        let pause = 10 + u64::from(self.draw(50));
        self.next = world.elapsed().saturating_add(Duration::from_secs(pause));
        let Some(action) = self.pick(&actions::of(&self.plan)) else { return Ok(()) };
        let what = self.act(world, action)?;
        self.log.say(|| format!("-- {what}"));
        *self.happened.entry(what).or_default() += 1;
        if action.changes_what_is_allowed() {
            self.ledger.last = world.elapsed();
        }
        Ok(())
    }

    /// Kills the operator that ended at a change of a NodeClaim.
    fn end_cut(&mut self, world: &mut World) {
        let Some(agent) = self.chaos.take_cut() else { return };
        let of = |at: &usize| agent.starts_with(&format!("operator-{at}/"));
        (0..world.replicas()).filter(of).for_each(|at| world.kill(at, Duration::from_secs(1)));
        *self.happened.entry("operator ended at a change").or_default() += 1;
    }

    /// Prices stop being told, and are told again.
    fn tell_prices(&mut self, now: Duration) {
        const WHAT: &str = "prices not told";
        let silent = SILENCE.contains(&now);
        if self.feed.silence(silent) {
            self.log.say(|| format!("-- {WHAT}: {silent}"));
            *self.happened.entry(WHAT).or_default() += u32::from(silent);
            self.ledger.old_prices = silent.then_some(now);
        }
    }

    /// Somebody protects a node that a command has taken and not ended yet: the command has to be taken back. The first by
    /// name, as soon as it is seen.
    fn keep(&mut self, world: &World) -> Result<(), WorldError> {
        const WHAT: &str = "node kept";
        let nodes = world.server().list("v1", "Node", "");
        let Some(node) = nodes.iter().find(|node| objects::is_taken(node)) else { return Ok(()) };
        let kept = self.happened.entry(WHAT).or_default();
        if *kept >= KEPT_MAX {
            return Ok(());
        }
        *kept += 1;
        self.log.say(|| format!("-- {WHAT}: {}", node["metadata"]["name"]));
        self.ledger.last = world.elapsed();
        world.apply_object(objects::protected(node, true)).map(|_| ())
    }

    /// Nobody keeps nodes any more.
    fn release(&self, world: &World) -> Result<(), WorldError> {
        let nodes = world.server().list("v1", "Node", "");
        let kept = nodes.iter().filter(|node| objects::is_protected(node));
        kept.map(|node| objects::protected(node, false))
            .try_for_each(|object| world.apply_object(object).map(|_| ()))
    }

    /// All trouble ends: nobody protects anything any more, since a protected pod keeps its node for ever; limits suffice;
    /// clocks are right; what was taken away is back.
    pub(super) fn calm(&mut self, world: &mut World) -> Result<(), WorldError> {
        world.cloud().heal();
        self.end_cut(world);
        self.chaos.cut_after(0);
        self.feed.silence(false);
        self.ledger.old_prices = None;
        for operator in 0..world.replicas() {
            world.skew(operator, jiff::SignedDuration::ZERO);
        }
        world.apply_object(objects::class(0))?;
        for pool in &mut self.plan.pools {
            if pool.replicas.is_none() {
                (pool.nodes, pool.budget) = (20, "34%".to_owned());
            }
            world.apply_object(pool.object())?;
            // An observation of taints that nobody announced holds for hours, unless somebody says that it is over.
            world.apply_object(json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
                "metadata": {"name": pool.name, "annotations": {"fleetwright.dev/observed": null}},
            }))?;
        }
        self.tidy(world)?;
        self.release(world)?;
        self.guarded = false;
        let replicas = self.draw(4);
        self.scale(world, "web", replicas)?;
        self.ledger.last = world.elapsed();
        self.ledger.calm = true;
        Ok(())
    }

    /// Takes off nodes what people and accidents left there.
    pub(super) fn tidy(&self, world: &World) -> Result<(), WorldError> {
        let nodes = world.server().list("v1", "Node", "");
        nodes.iter().filter_map(|node| objects::untouched(node)).try_for_each(|object| {
            self.log.say(|| format!("-- tidied {}", object["metadata"]["name"]));
            world.apply_object(object).map(|_| ())
        })
    }

    /// The name of any object of a kind.
    fn any(&mut self, world: &World, version: &str, kind: &str) -> Option<String> {
        let name = |object: &Arc<Value>| {
            object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let names: Vec<String> = world.server().list(version, kind, "").iter().map(name).collect();
        self.pick(&names)
    }
}
