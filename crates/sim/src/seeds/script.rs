//! What people, and bad luck, do to a small cluster in one run.

mod actions;
mod objects;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::plan::Plan;
use crate::world::{World, WorldError};

/// Deployments of every run.
const APPS: [&str; 3] = ["api", "batch", "web"];

/// What was done from outside: the checks must not blame the operators for it.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// When somebody last did something that changes what operators may do.
    pub(super) last: Duration,
    /// Machines of other clusters.
    pub(super) foreign: BTreeSet<String>,
    /// Claims whose finalizer was taken away, or which never were.
    pub(super) stripped: BTreeSet<String>,
    /// Claims and nodes that were deleted.
    pub(super) deleted: BTreeSet<String>,
    /// Machines that were lost.
    pub(super) lost: BTreeSet<String>,
}

/// Decides, from a seed, what happens next.
pub(super) struct Script {
    dice: ChaCha8Rng,
    plan: Plan,
    next: Duration,
    guarded: bool,
    /// Pools that somebody deleted.
    deleted: BTreeSet<&'static str>,
    ledger: Ledger,
    happened: BTreeMap<&'static str, u32>,
}

impl Script {
    pub(super) fn new(seed: u64, plan: Plan) -> Self {
        Self {
            dice: ChaCha8Rng::seed_from_u64(seed ^ 0x5c71),
            plan,
            next: Duration::from_secs(60),
            guarded: false,
            deleted: BTreeSet::new(),
            ledger: Ledger::default(),
            happened: BTreeMap::new(),
        }
    }

    /// What was done from outside.
    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
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
        world.apply_object(json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
        }))?;
        for at in 0..self.plan.pools.len() {
            if self.plan.pools[at].replicas.is_none() {
                self.plan.pools[at].nodes = 4 + self.draw(9);
            }
            world.apply_object(self.plan.pools[at].object())?;
        }
        for object in objects::extras(&self.plan) {
            world.apply_object(object)?;
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
        if world.elapsed() < self.next {
            return Ok(());
        }
        let pause = 10 + u64::from(self.draw(50));
        self.next = world.elapsed().saturating_add(Duration::from_secs(pause));
        let Some(action) = self.pick(&actions::of(&self.plan)) else { return Ok(()) };
        let what = self.act(world, action)?;
        *self.happened.entry(what).or_default() += 1;
        if action.changes_what_is_allowed() {
            self.ledger.last = world.elapsed();
        }
        Ok(())
    }

    /// All trouble ends: nobody protects anything any more, since a protected pod keeps its node for ever; limits suffice;
    /// clocks are right; what was taken away is back.
    pub(super) fn calm(&mut self, world: &mut World) -> Result<(), WorldError> {
        world.cloud().heal();
        for operator in 0..world.replicas() {
            world.skew(operator, jiff::SignedDuration::ZERO);
        }
        for pool in &mut self.plan.pools {
            if pool.replicas.is_none() {
                (pool.nodes, pool.budget) = (20, "34%".to_owned());
            }
            world.apply_object(pool.object())?;
        }
        for node in world.server().list("v1", "Node", "") {
            if let Some(object) = objects::untouched(&node) {
                world.apply_object(object)?;
            }
        }
        self.guarded = false;
        let replicas = self.draw(4);
        self.scale(world, "web", replicas)?;
        self.ledger.last = world.elapsed();
        Ok(())
    }

    /// The name of any object of a kind.
    fn any(&mut self, world: &World, version: &str, kind: &str) -> Option<String> {
        let name = |object: &std::sync::Arc<Value>| {
            object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let names: Vec<String> = world.server().list(version, kind, "").iter().map(name).collect();
        self.pick(&names)
    }
}
