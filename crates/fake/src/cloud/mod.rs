//! An in-memory cloud that behaves: instances take time to start and to end, capacity runs dry, answers are late, lost,
//! or behind the truth.
//!
//! Driven by a clock and a seed: nothing happens but when somebody calls, and then everything that is due by the clock
//! happens first, in order. Chance is drawn per instance from the seed and the instance's token, so that the order of
//! calls changes no latency, price or address.

mod birth;
mod bucket;
mod config;
mod fault;
mod market;
mod world;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_core::clock::SharedClock;
use jiff::Timestamp;
use tokio::sync::watch;

pub use birth::Adopted;
pub use config::{CloudConfig, Rate};
pub use fault::{Fault, Occasion, Op};

use crate::{
    api::{
        ApiError, CloudApi, CloudInstance, Launch, LaunchReply, Lifecycle, SpotPrices, TagClaim, TakeBack,
        Terminate,
    },
    catalogue::Catalogue,
    dice,
};
use market::Market;
use world::World;

/// A fake cloud. Cheap to share behind an [`Arc`].
pub struct Cloud {
    clock: SharedClock,
    catalogue: Catalogue,
    config: CloudConfig,
    world: Mutex<World>,
    /// The number of the newest change.
    changed: watch::Sender<u64>,
}

impl Cloud {
    /// A cloud without instances that sells `catalogue`.
    #[must_use]
    pub fn new(catalogue: Catalogue, config: CloudConfig, clock: SharedClock) -> Self {
        let world = World::new(&config, clock.now());
        Self { clock, catalogue, config, world: Mutex::new(world), changed: watch::Sender::new(0) }
    }

    /// Adds a fault to the script.
    pub fn inject(&self, fault: Fault) {
        let now = self.clock.now();
        self.world().faults.add(fault, now);
    }

    /// Ends every scripted fault. Instances that were born defective stay so.
    pub fn heal(&self) {
        self.world().faults.clear();
    }

    /// Announces that the cloud takes an instance back, as it does with spot instances. Returns whether there is one.
    pub fn interrupt(&self, id: &str) -> bool {
        let now = self.clock.now();
        self.act(|world| world.interrupt(&self.config, id, now))
    }

    /// Loses an instance at once, without notice: hardware fails. Returns whether there was one.
    pub fn lose(&self, id: &str) -> bool {
        let now = self.clock.now();
        self.act(|world| world.lose(id, now))
    }

    /// Takes in an instance that the cluster knows of and this cloud does not. Returns whether it was new.
    pub fn adopt(&self, adopted: Adopted) -> bool {
        let now = self.clock.now();
        self.act(|world| world.adopt(&self.catalogue, adopted, now))
    }

    /// Every instance, the ended ones too while they are remembered, by id.
    #[must_use]
    pub fn instances(&self) -> Vec<Arc<CloudInstance>> {
        self.act(|world| world.instances().cloned().collect())
    }

    /// Instances that changed after change number `seen`, and the number to ask with next time.
    #[must_use]
    pub fn changes_since(&self, seen: u64) -> (Vec<Arc<CloudInstance>>, u64) {
        self.act(|world| world.changes_since(seen))
    }

    /// Tells of changes by their number.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// When something will next happen by itself.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.world().next_due()
    }

    /// Notes that an instance's node has joined: it never joins a second time.
    pub fn mark_joined(&self, id: &str) {
        self.act(|world| world.mark_joined(id));
    }

    /// How the cloud behaves.
    #[must_use]
    pub fn config(&self) -> &CloudConfig {
        &self.config
    }

    fn market(&self) -> Market {
        Market { seed: self.config.seed, step_ms: self.config.spot_step_ms }
    }

    /// What it sells.
    #[must_use]
    pub fn sells(&self) -> &Catalogue {
        &self.catalogue
    }

    fn world(&self) -> MutexGuard<'_, World> {
        // Every change of the world is complete when its lock is released, also by a panic of a caller's closure.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets everything happen that is due, then acts, and tells whether anything changed.
    fn act<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        let now = self.clock.now();
        let (result, version) = {
            let mut world = self.world();
            world.advance(&self.config, now);
            let result = act(&mut world);
            (result, world.version())
        };
        self.changed.send_if_modified(|seen| std::mem::replace(seen, version) != version);
        result
    }

    /// A call: takes a token, suffers the script, waits, and takes effect.
    async fn call<T>(
        &self,
        op: Op,
        effect: impl FnOnce(&mut World, Timestamp) -> Result<T, ApiError> + Send,
    ) -> Result<T, ApiError> {
        let (verdict, latency) = {
            let now = self.clock.now();
            let mut world = self.world();
            world.take_token(op, now)?;
            let nth = world.count_call().to_string();
            let latency = self.config.call_latency.draw(&mut dice(self.config.seed, &["call", &nth]));
            (world.faults.on_call(op), latency)
        };
        let latency = latency.saturating_add(Duration::from_millis(verdict.slower_ms));
        if !latency.is_zero() {
            self.clock.sleep(latency).await;
        }
        if let Some(error) = verdict.before {
            return Err(error);
        }
        let now = self.clock.now();
        let result = self.act(|world| effect(world, now));
        verdict.after.map_or(result, Err)
    }
}

/// Without an owner nothing is told: instances of nobody are instances of everybody.
fn named(cluster_uid: &str) -> Result<(), ApiError> {
    if !cluster_uid.is_empty() {
        return Ok(());
    }
    let message = "is empty: give the UID of the kube-system namespace".to_owned();
    Err(ApiError::Invalid { field: "clusterUid".to_owned(), message })
}

#[async_trait]
impl CloudApi for Cloud {
    async fn catalogue(&self) -> Result<Catalogue, ApiError> {
        Ok(self.catalogue.clone())
    }

    async fn launch(&self, call: &Launch) -> Result<LaunchReply, ApiError> {
        self.call(Op::Launch, |world, now| world.launch(&self.catalogue, &self.config, call, now)).await
    }

    async fn tag(&self, call: &TagClaim) -> Result<(), ApiError> {
        self.call(Op::Tag, |world, _| world.tag(call)).await
    }

    async fn terminate(&self, call: &Terminate) -> Result<Lifecycle, ApiError> {
        self.call(Op::Terminate, |world, now| world.terminate(&self.config, call, now)).await
    }

    async fn get(&self, id: &str) -> Result<CloudInstance, ApiError> {
        self.call(Op::Get, |world, now| world.get(id, now)).await
    }

    async fn list(&self, cluster_uid: &str) -> Result<Vec<CloudInstance>, ApiError> {
        named(cluster_uid)?;
        self.call(Op::List, |world, now| Ok(world.list(cluster_uid, now))).await
    }

    async fn spot_prices(&self) -> Result<SpotPrices, ApiError> {
        self.call(Op::Watch, |_, now| Ok(self.market().prices(&self.catalogue, now))).await
    }

    async fn notices(&self, cluster_uid: &str) -> Result<Vec<TakeBack>, ApiError> {
        named(cluster_uid)?;
        self.call(Op::Watch, |world, _| Ok(world.notices(cluster_uid))).await
    }
}

#[cfg(test)]
mod tests;
