//! Leader election with a Lease in the format of client-go, so that both implementations interoperate.
//!
//! A lease has expired when its record has not changed for [`LEASE_DURATION`] on the observer's monotonic clock: the clocks
//! of two hosts are never compared. A leader may act until [`RENEW_DEADLINE`] after the start of its last renewal, and
//! standbys wait [`LEASE_DURATION`] after they observed it: between both no process acts. See [`super::fence`].
//!
//! The watches of a standby may lag behind the last writes of its predecessor, NodeClaims and commands above all. A new
//! leader therefore acts only after it has listed NodeClaims again ([`Leadership::has_caught_up`]).

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fleetwright_core::clock::SharedClock;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tokio::{sync::Notify, time::Instant};

use super::shutdown::Shutdown;
use crate::events::{Event, regarding};

/// How long a lease is valid without a renewal.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a leader acts without a renewal.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Interval between reads of the lease.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Deadline of one call.
const CALL: Duration = Duration::from_secs(5);

/// Whether this process is the leader. Clones share one state.
#[derive(Clone, Debug)]
pub struct Leadership(Arc<LeadershipState>);

#[derive(Debug)]
enum LeadershipState {
    /// Without leader election.
    WithoutElection,
    /// The end of the leadership; `None` if it was never held or is lost.
    Until {
        until: Mutex<Option<Instant>>,
        /// Name of the lease, once the election has started.
        lease: OnceLock<String>,
        /// Wakes the task that waits for the election, also if it starts to wait later.
        elected: Notify,
        caught_up: AtomicBool,
    },
}

impl Leadership {
    /// The leadership of a process that runs without an election.
    #[must_use]
    pub fn without_election() -> Self {
        Self(Arc::new(LeadershipState::WithoutElection))
    }

    /// The leadership of a process that has to be elected first.
    #[must_use]
    pub fn candidate() -> Self {
        Self(Arc::new(LeadershipState::Until {
            until: Mutex::default(),
            lease: OnceLock::new(),
            elected: Notify::new(),
            caught_up: AtomicBool::new(false),
        }))
    }

    /// Whether this process may act now.
    #[must_use]
    pub fn holds(&self) -> bool {
        match &*self.0 {
            LeadershipState::WithoutElection => true,
            LeadershipState::Until { .. } => self.until().is_some_and(|until| Instant::now() < until),
        }
    }

    /// Returns once this process is elected. One task may wait for it, once per election.
    pub(super) async fn elected(&self) {
        match &*self.0 {
            LeadershipState::WithoutElection => std::future::pending().await,
            LeadershipState::Until { elected, .. } => elected.notified().await,
        }
    }

    /// Whether NodeClaims were listed since the election, so that all writes of the predecessor are in the index.
    #[must_use]
    pub fn has_caught_up(&self) -> bool {
        match &*self.0 {
            LeadershipState::WithoutElection => true,
            LeadershipState::Until { caught_up, .. } => caught_up.load(Ordering::Acquire),
        }
    }

    /// Records that a list that began after the election is applied.
    pub(super) fn catch_up(&self) {
        if let LeadershipState::Until { caught_up, .. } = &*self.0 {
            caught_up.store(true, Ordering::Release);
        }
    }

    /// Name of the lease of the election, and whether it is held.
    #[must_use]
    pub fn lease(&self) -> Option<(&str, bool)> {
        match &*self.0 {
            LeadershipState::WithoutElection => None,
            LeadershipState::Until { lease, .. } => lease.get().map(|name| (name.as_str(), self.holds())),
        }
    }

    fn set_lease_name(&self, name: &str) {
        if let LeadershipState::Until { lease, .. } = &*self.0 {
            lease.get_or_init(|| name.to_owned());
        }
    }

    fn until(&self) -> Option<Instant> {
        match &*self.0 {
            LeadershipState::WithoutElection => None,
            LeadershipState::Until { until, .. } => *until.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn set(&self, value: Option<Instant>) {
        if let LeadershipState::Until { until, elected, .. } = &*self.0 {
            let before = std::mem::replace(&mut *until.lock().unwrap_or_else(PoisonError::into_inner), value);
            if before.is_none() && value.is_some() {
                elected.notify_one();
            }
        }
    }
}

/// The lease was lost: the process must exit, because another leader may act already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("leader election lost")]
pub struct Lost;

/// One candidate of an election.
#[derive(Clone, Debug)]
pub struct Election {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// Identity of this process; never reused.
    pub identity: String,
}

/// The last observed record of the lease.
#[derive(Default)]
struct ObservedLease(Option<(Option<LeaseSpec>, Instant)>);

impl ObservedLease {
    /// Since when the record has not changed.
    fn unchanged(&mut self, record: Option<&LeaseSpec>) -> Duration {
        let now = Instant::now();
        match &self.0 {
            Some((known, since)) if known.as_ref() == record => now.duration_since(*since),
            _ => {
                self.0 = Some((record.cloned(), now));
                Duration::ZERO
            }
        }
    }
}

impl Election {
    /// Takes part in the election until `stop`, then releases the lease if it is held. Calls `elected` with the event to publish once
    /// the lease is acquired.
    ///
    /// # Errors
    /// [`Lost`] if the lease was held and could not be renewed.
    pub async fn campaign(
        &self,
        client: Client,
        clock: SharedClock,
        leadership: &Leadership,
        mut stop: Shutdown,
        elected: impl Fn(Event),
    ) -> Result<(), Lost> {
        let api: Api<Lease> = Api::namespaced(client, &self.namespace);
        leadership.set_lease_name(&self.name);
        let lock = format!("{}/{}", self.namespace, self.name);
        tracing::info!(lock, identity = self.identity, "Attempting to acquire leader lease...");
        let mut observed = ObservedLease::default();
        let mut was_leader = false;
        loop {
            let begun = Instant::now();
            let attempt = tokio::time::timeout(CALL, self.try_lead(&api, &clock, &mut observed));
            match attempt.await {
                Ok(Ok(Some(lease))) => {
                    leadership.set(begun.checked_add(RENEW_DEADLINE));
                    if !was_leader {
                        tracing::info!(lock, identity = self.identity, "Successfully acquired lease");
                        elected(self.event(&lease));
                    }
                    was_leader = true;
                }
                // Another replica holds it: the lease cannot be acquired now.
                Ok(Ok(None)) if was_leader => {
                    leadership.set(None);
                    return Err(Lost);
                }
                Ok(Ok(None)) => {}
                Ok(Err(error)) => tracing::warn!(%error, lease = self.name, "leader election"),
                Err(_) => tracing::warn!(lease = self.name, "leader election: no answer within {CALL:?}"),
            }
            if was_leader && !leadership.holds() {
                leadership.set(None);
                return Err(Lost);
            }
            tokio::select! {
                biased;
                () = stop.requested() => break,
                () = tokio::time::sleep(RETRY_PERIOD) => {}
            }
        }
        if leadership.holds() && was_leader {
            leadership.set(None);
            // If the release fails, the lease expires.
            if let Ok(Err(error)) = tokio::time::timeout(CALL, self.release(&api, &clock)).await {
                tracing::warn!(%error, lease = self.name, "failed to release the lease");
            }
        }
        Ok(())
    }

    /// The event of an election, in client-go's words.
    fn event(&self, lease: &Lease) -> Event {
        Event::normal(regarding(lease), "LeaderElection", format!("{} became leader", self.identity))
    }

    /// Tries to acquire or renew the lease, and returns it; at most one candidate succeeds per version of it.
    async fn try_lead(
        &self,
        api: &Api<Lease>,
        clock: &SharedClock,
        observed: &mut ObservedLease,
    ) -> kube::Result<Option<Lease>> {
        let now = MicroTime(clock.now());
        let Some(mut lease) = api.get_opt(&self.name).await? else {
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(self.record(&now, &now, 0)) };
            return won(api.create(&PostParams::default(), &lease).await);
        };
        let known = lease.spec.clone().unwrap_or_default();
        let unchanged = observed.unchanged(lease.spec.as_ref());
        let holder = known.holder_identity.as_deref().unwrap_or_default();
        let transitions = known.lease_transitions.unwrap_or(0);
        let record = if holder == self.identity {
            self.record(known.acquire_time.as_ref().unwrap_or(&now), &now, transitions)
        } else {
            let lasts = u64::try_from(known.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
            if !holder.is_empty() && unchanged < Duration::from_secs(lasts).max(RETRY_PERIOD) {
                return Ok(None);
            }
            self.record(&now, &now, transitions.saturating_add(1))
        };
        lease.spec = Some(record);
        won(api.replace(&self.name, &PostParams::default(), &lease).await)
    }

    fn record(&self, acquired: &MicroTime, renewed: &MicroTime, transitions: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            acquire_time: Some(acquired.clone()),
            renew_time: Some(renewed.clone()),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    /// Releases the lease, so that another replica can acquire it at once.
    async fn release(&self, api: &Api<Lease>, clock: &SharedClock) -> kube::Result<()> {
        let mut lease = api.get(&self.name).await?;
        let known = lease.spec.clone().unwrap_or_default();
        if known.holder_identity.as_deref() != Some(&self.identity) {
            return Ok(());
        }
        let now = MicroTime(clock.now());
        let mut record = self.record(&now, &now, known.lease_transitions.unwrap_or(0));
        record.holder_identity = Some(String::new());
        record.lease_duration_seconds = Some(1);
        lease.spec = Some(record);
        api.replace(&self.name, &PostParams::default(), &lease).await.map(|_| ())
    }
}

/// Maps a conflict to `None`: another candidate was faster.
fn won(answer: kube::Result<Lease>) -> kube::Result<Option<Lease>> {
    match answer {
        Ok(lease) => Ok(Some(lease)),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
