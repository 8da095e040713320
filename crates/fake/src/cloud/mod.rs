//! An in-memory cloud: instances take time to start and to terminate, capacity is limited, answers are late, lost or stale.
//!
//! It is driven by a clock and a seed: state changes only during a call, after all events that are due have happened in order. Random
//! draws depend on the seed and the instance's token, so that the order of calls changes no latency, price or address.

mod birth;
mod bucket;
mod config;
mod fault;
mod market;
mod state;

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
        ApiError, CloudApi, CloudInstance, InstancePage, InterruptionNotice, Launch, LaunchReply, Lifecycle,
        SpotPrices, TagClaim, Terminate,
    },
    catalogue::Catalogue,
    dice,
};
use state::CloudState;

/// A fake cloud. Cheap to share behind an [`Arc`].
pub struct Cloud {
    clock: SharedClock,
    catalogue: Catalogue,
    config: CloudConfig,
    state: Mutex<CloudState>,
    /// The number of the last change.
    changed: watch::Sender<u64>,
}

impl Cloud {
    /// A cloud without instances that offers `catalogue`.
    #[must_use]
    pub fn new(catalogue: Catalogue, config: CloudConfig, clock: SharedClock) -> Self {
        let state = CloudState::new(&config, clock.now());
        Self { clock, catalogue, config, state: Mutex::new(state), changed: watch::Sender::new(0) }
    }

    /// Adds a fault to the script.
    pub fn inject(&self, fault: Fault) {
        let now = self.clock.now();
        self.state().faults.add(fault, now);
    }

    /// Removes all scripted faults. Defects of existing instances remain.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// Announces the interruption of an instance. Returns whether it exists.
    pub fn interrupt(&self, id: &str) -> bool {
        let now = self.clock.now();
        self.act(|state| state.interrupt(&self.config, id, now))
    }

    /// Terminates an instance at once, without notice, as a hardware failure. Returns whether it existed.
    pub fn lose(&self, id: &str) -> bool {
        let now = self.clock.now();
        self.act(|state| state.lose(id, now))
    }

    /// Adds an existing instance of the cluster. Returns whether it was new.
    pub fn adopt(&self, adopted: Adopted) -> bool {
        let now = self.clock.now();
        self.act(|state| state.adopt(&self.catalogue, adopted, now))
    }

    /// All instances, by id, including gone ones that are still remembered.
    #[must_use]
    pub fn instances(&self) -> Vec<Arc<CloudInstance>> {
        self.act(|state| state.instances().cloned().collect())
    }

    /// Instances that changed after change number `seen`, and the number for the next call.
    #[must_use]
    pub fn changes_since(&self, seen: u64) -> (Vec<Arc<CloudInstance>>, u64) {
        self.act(|state| state.changes_since(seen))
    }

    /// Publishes the number of the last change.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// When the next event is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.state().next_due()
    }

    /// Records that an instance's node has joined: it never joins again.
    pub fn mark_joined(&self, id: &str) {
        self.act(|state| state.mark_joined(id));
    }

    /// The cloud's configuration.
    #[must_use]
    pub fn config(&self) -> &CloudConfig {
        &self.config
    }

    /// The catalogue.
    #[must_use]
    pub fn sells(&self) -> &Catalogue {
        &self.catalogue
    }

    fn state(&self) -> MutexGuard<'_, CloudState> {
        // Every change of the state is complete when its lock is released, also if a caller's closure panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Processes all due events, then acts, and publishes whether anything changed.
    fn act<T>(&self, act: impl FnOnce(&mut CloudState) -> T) -> T {
        let now = self.clock.now();
        let (result, version) = {
            let mut state = self.state();
            state.advance(&self.config, now);
            let result = act(&mut state);
            (result, state.version())
        };
        self.changed.send_if_modified(|seen| std::mem::replace(seen, version) != version);
        result
    }

    /// A call: takes a token, applies the script, waits, and takes effect.
    async fn call<T>(
        &self,
        op: Op,
        effect: impl FnOnce(&mut CloudState, Timestamp) -> Result<T, ApiError> + Send,
    ) -> Result<T, ApiError> {
        let (verdict, latency) = {
            let now = self.clock.now();
            let mut state = self.state();
            state.take_token(op, now)?;
            let nth = state.count_call().to_string();
            let latency = self.config.call_latency.draw(&mut dice(self.config.seed, &["call", &nth]));
            (state.faults.on_call(op), latency)
        };
        let latency = latency.saturating_add(Duration::from_millis(verdict.slower_ms));
        if !latency.is_zero() {
            self.clock.sleep(latency).await;
        }
        if let Some(error) = verdict.before {
            return Err(error);
        }
        let now = self.clock.now();
        let result = self.act(|state| effect(state, now));
        verdict.after.map_or(result, Err)
    }
}

/// Rejects an empty cluster UID: instances without an owner would belong to every cluster.
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
        self.call(Op::Launch, |state, now| state.launch(&self.catalogue, &self.config, call, now)).await
    }

    async fn tag(&self, call: &TagClaim) -> Result<(), ApiError> {
        self.call(Op::Tag, |state, _| state.tag(call)).await
    }

    async fn terminate(&self, call: &Terminate) -> Result<Lifecycle, ApiError> {
        self.call(Op::Terminate, |state, now| state.terminate(&self.config, call, now)).await
    }

    async fn get(&self, id: &str) -> Result<CloudInstance, ApiError> {
        self.call(Op::Get, |state, now| state.get(id, now)).await
    }

    async fn list(&self, cluster_uid: &str, after: Option<&str>) -> Result<InstancePage, ApiError> {
        named(cluster_uid)?;
        let page_size = self.config.page_size;
        self.call(Op::List, |state, now| Ok(state.list(cluster_uid, after, page_size, now))).await
    }

    async fn spot_prices(&self) -> Result<SpotPrices, ApiError> {
        self.call(Op::Watch, |state, now| Ok(state.market.prices(&self.catalogue, now))).await
    }

    async fn notices(&self, cluster_uid: &str) -> Result<Vec<InterruptionNotice>, ApiError> {
        named(cluster_uid)?;
        self.call(Op::Watch, |state, _| Ok(state.notices(cluster_uid))).await
    }
}

#[cfg(test)]
mod tests;
