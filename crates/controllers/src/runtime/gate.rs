//! Controllers act only while their view of the cluster is fresh.
//!
//! Every kind must have been listed once, and its watch must have been alive within [`MAX_SILENCE`], except kinds
//! that the API server refuses and that are optional. A standby is passive too.

use std::{sync::Arc, time::Duration};

use fleetwright_state::{Index, Refusal, WatchedKind};
use jiff::Timestamp;

use super::{
    clocks::Clocks,
    cluster::Cluster,
    leader::Leadership,
    shutdown::{Shutdown, Stopping},
};

/// Maximum age of the last sign of life of a watch.
pub const MAX_SILENCE: Duration = Duration::from_secs(120);

/// Why controllers are passive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Passive {
    /// Another process is the leader.
    #[error("another replica holds the lease")]
    NotLeading,
    /// This process is shutting down: running reconciles end, and no new one starts.
    #[error("this replica is shutting down")]
    Stopping,
    /// This process is the leader and has not listed the NodeClaims since its election.
    #[error("NodeClaims have not been listed since this replica took the lease")]
    TakingOver,
    /// A kind has not been listed yet.
    #[error("{0} objects have not been listed yet")]
    NotListed(WatchedKind),
    /// A kind's watch is silent.
    #[error("the watch of {0} objects has been silent for more than two minutes")]
    Silent(WatchedKind),
    /// A kind that is required is refused.
    #[error("{0} objects are required: {1}")]
    Refused(WatchedKind, Refusal),
}

/// Whether controllers may act at `now` (steady clock, as signs of life are).
///
/// # Errors
/// The first reason why they may not.
pub fn may_act(index: &Index, now: Timestamp) -> Result<(), Passive> {
    // Called by every worker in every iteration.
    let oldest = now.checked_sub(MAX_SILENCE).unwrap_or(Timestamp::MIN);
    for kind in index.followed() {
        let passive = match index.last_progress(kind) {
            Some(last) if last >= oldest => continue,
            Some(_) => Passive::Silent(kind),
            None => Passive::NotListed(kind),
        };
        if !index.is_off(kind) {
            let refused = index.refusal(kind).map(|why| Passive::Refused(kind, why.clone()));
            return Err(refused.unwrap_or(passive));
        }
    }
    Ok(())
}

/// Whether this process may act.
#[derive(Clone)]
pub struct Gate {
    leadership: Leadership,
    cluster: Cluster,
    clocks: Clocks,
    stopping: Arc<Stopping>,
}

impl Gate {
    pub(super) fn new(leadership: Leadership, cluster: Cluster, clocks: Clocks) -> Self {
        Self { leadership, cluster, clocks, stopping: Arc::default() }
    }

    /// The leadership of this process.
    pub(super) fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// Sets the shutdown that ends the controllers.
    pub(super) fn stops_with(&self, stop: &Shutdown) {
        self.stopping.set(stop);
    }

    /// Waits for `duration`, or until shutdown is requested: the caller then checks [`Self::may_act`].
    pub async fn pause(&self, duration: Duration) {
        self.stopping.unless_requested(self.clocks.sleep(duration)).await;
    }

    /// Whether controllers may act now: this process is the leader, its watches are fresh, and it is not shutting down.
    ///
    /// # Errors
    /// The reason why they may not.
    pub fn may_act(&self) -> Result<(), Passive> {
        if self.stopping.is_requested() {
            return Err(Passive::Stopping);
        }
        if !self.leadership.holds() {
            return Err(Passive::NotLeading);
        }
        if !self.leadership.has_caught_up() {
            return Err(Passive::TakingOver);
        }
        may_act(&self.cluster.index(), self.clocks.steady())
    }
}
