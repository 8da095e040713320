//! Everything that a controller works with.

use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fleetwright_core::{clock::SharedClock, cloud::CloudProvider};
use fleetwright_state::{Change, Index, Key, Kind, Tracked};
use jiff::Timestamp;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client};

use super::{
    controller::ReconcileError,
    fence::Fenced,
    gate::{Passive, may_act},
    hub::Hub,
    leader::Leadership,
    names::Names,
    pulse::{Pulses, Stuck},
    rates::Rates,
    recorder::Recorder,
    solvers::Solvers,
    times::Times,
};
use crate::{
    disruption::Returns,
    metrics::{Metrics, cloud::Metered, pod_times::PodTimes, requests},
    settings::Settings,
};

/// How long a call to the API server may take.
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// Where work that takes long is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Where it is asked for: reproducible, for simulation (a wait on another thread lets paused time jump).
    Inline,
    /// On a thread of its own, so that the loops go on.
    Thread,
}

/// The parts of a [`Ctx`].
pub struct Parts {
    /// Client of the API server; made by [`super::client`] or over a fake.
    pub client: Client,
    /// The time.
    pub clock: SharedClock,
    /// The cloud.
    pub cloud: Arc<dyn CloudProvider>,
    /// The settings.
    pub settings: Settings,
    /// Seed of the names that are generated.
    pub seed: u64,
    /// Where solving is done.
    pub offload: Offload,
    /// UID of the `kube-system` namespace.
    pub cluster_uid: String,
}

/// What controllers share. Cloning shares all parts.
#[derive(Clone)]
pub struct Ctx {
    /// Client of the API server.
    pub client: Client,
    /// The time.
    pub clock: SharedClock,
    /// The cloud.
    pub cloud: Arc<dyn CloudProvider>,
    /// The settings.
    pub settings: Arc<Settings>,
    /// Where events for people go.
    pub recorder: Recorder,
    /// Figures for nodes.
    pub metrics: Arc<Metrics>,
    /// When scheduling first saw, decided about and placed pods.
    pub pod_times: Arc<PodTimes>,
    /// Which pods consolidation displaced.
    pub returns: Arc<Returns>,
    /// Generated names.
    pub names: Arc<Names>,
    /// UID of the `kube-system` namespace: the cluster's identity.
    pub cluster_uid: Arc<str>,
    /// Solvers between their uses.
    pub solvers: Arc<Solvers>,
    /// How fast the cluster is changed.
    pub rates: Arc<Rates>,
    index: Arc<Mutex<Index>>,
    hub: Arc<Hub>,
    offload: Offload,
    leadership: Leadership,
    times: Arc<Times>,
    pulses: Arc<Pulses>,
}

impl Ctx {
    /// Joins the parts around an empty index.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let info = parts.cloud.info();
        let mut index = Index::new(info.schema.clone(), info.node_classes.clone());
        if parts.settings.gates.node_overlay {
            index.follow(Kind::NodeOverlay);
        }
        if parts.settings.gates.capacity_buffer {
            index.follow(Kind::CapacityBuffer);
        }
        if !parts.settings.ignore_dra_requests {
            Kind::DEVICES.into_iter().for_each(|kind| index.follow(kind));
        }
        if !parts.settings.default_spread.is_empty() {
            Kind::SELECTING.into_iter().for_each(|kind| index.follow(kind));
        }
        let (metrics, clock) = (Arc::new(Metrics::default()), parts.clock.clone());
        let cloud = Metered { cloud: parts.cloud, metrics: metrics.clone(), clock: clock.clone() };
        Self {
            times: Arc::new(Times::new(metrics.clone())),
            client: requests::metered(parts.client, metrics.clone(), clock),
            recorder: Recorder::new(parts.clock.clone()),
            clock: parts.clock,
            cloud: Arc::new(cloud),
            settings: Arc::new(parts.settings),
            metrics,
            pod_times: Arc::default(),
            returns: Arc::default(),
            names: Arc::new(Names::new(parts.seed)),
            cluster_uid: parts.cluster_uid.into(),
            solvers: Arc::default(),
            rates: Arc::default(),
            index: Arc::new(Mutex::new(index)),
            hub: Arc::default(),
            offload: parts.offload,
            leadership: Leadership::unopposed(),
            pulses: Arc::default(),
        }
    }

    /// Whether this process leads.
    pub(crate) fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// The same, acting only while `leadership` holds. To be called before anything runs.
    #[must_use]
    pub fn led_by(mut self, leadership: Leadership) -> Self {
        self.cloud = Arc::new(Fenced::new(self.cloud, leadership.clone()));
        self.leadership = leadership;
        self
    }

    /// Whether controllers may act now: this process leads, and what they see is fresh.
    ///
    /// # Errors
    /// Why not.
    pub fn may_act(&self) -> Result<(), Passive> {
        if !self.leadership.holds() {
            return Err(Passive::NotLeading);
        }
        if !self.leadership.has_caught_up() {
            return Err(Passive::TakingOver);
        }
        may_act(&self.index(), self.steady())
    }

    /// Whether all loops of this process are alive, leading or not.
    ///
    /// # Errors
    /// Those that are stuck.
    pub fn alive(&self) -> Result<(), Stuck> {
        self.pulses.check(self.steady())
    }

    pub(super) fn pulses(&self) -> &Pulses {
        &self.pulses
    }

    /// The present moment. Whether the wall clock jumped is looked at by the way.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.times.now(&*self.clock)
    }

    /// For how long what goes by the wall clock (ages, schedules, windows) must still rest, because it jumped; `None`
    /// where it need not.
    #[must_use]
    pub fn wall_clock_rest(&self) -> Option<Duration> {
        self.times.rest(&*self.clock)
    }

    /// The present moment on a clock that nobody sets: see [`fleetwright_core::clock::Clock::steady`].
    #[must_use]
    pub fn steady(&self) -> Timestamp {
        self.clock.steady()
    }

    /// The index, locked: never hold it across an await.
    pub fn index(&self) -> MutexGuard<'_, Index> {
        // The index has no state between two statements that a panic of a reader could leave behind.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an object from a watch or from the answer to an own write, and wakes who is interested.
    pub fn observe<T: Tracked>(&self, object: T) {
        let mut index = self.index();
        let change = index.apply(object);
        self.tell(&index, change);
    }

    /// Takes in that an object is gone.
    pub fn forget<T: Tracked>(&self, object: &T) {
        let mut index = self.index();
        let change = index.delete(object);
        self.tell(&index, change);
    }

    /// Takes in a whole list, as of `version`.
    pub fn reset<T: Tracked>(&self, objects: Vec<T>, version: &str) {
        let now = self.steady();
        let mut index = self.index();
        let changes = index.reset(objects, version, now);
        self.tell(&index, changes);
    }

    /// Notes that the watch of a kind is alive.
    pub fn progress(&self, kind: Kind) {
        let now = self.steady();
        self.index().progress(kind, now);
    }

    fn tell(&self, index: &Index, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            self.hub.tell(&change, index);
        }
    }

    /// Makes a key of another controller due, by that controller's name.
    pub fn enqueue(&self, controller: &str, key: Key) {
        self.hub.enqueue(controller, key);
    }

    pub(super) fn hub(&self) -> &Hub {
        &self.hub
    }

    /// An API for cluster-scoped objects.
    #[must_use]
    pub fn cluster_api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = ClusterResourceScope, DynamicType = ()>,
    {
        Api::all(self.client.clone())
    }

    /// An API for the objects of one namespace.
    #[must_use]
    pub fn namespaced_api<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Waits for the answer of the API server, [`CALL_DEADLINE`] at most.
    ///
    /// # Errors
    /// The server's refusal, sorted; [`ReconcileError::Deadline`], after which the call may have had its effect; or
    /// [`ReconcileError::NotLeading`] without a call.
    pub async fn call<T>(
        &self,
        what: &'static str,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ReconcileError> {
        if !self.leadership.holds() {
            return Err(ReconcileError::NotLeading { what });
        }
        match self.within(CALL_DEADLINE, call).await {
            Some(result) => result.map_err(|error| ReconcileError::from_kube(what, error)),
            None => Err(ReconcileError::Deadline { what, after: CALL_DEADLINE }),
        }
    }

    /// Waits for `future`, but no longer than `deadline` on our clock.
    pub async fn within<T>(&self, deadline: Duration, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            value = future => Some(value),
            () = self.clock.sleep(deadline) => None,
        }
    }

    /// Does long work where it does not hold up the loops.
    ///
    /// # Errors
    /// [`ReconcileError::Other`] where the work panicked.
    pub async fn offload<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ReconcileError> {
        match self.offload {
            Offload::Inline => Ok(work()),
            Offload::Thread => tokio::task::spawn_blocking(work)
                .await
                .map_err(|error| ReconcileError::Other(format!("background work: {error}"))),
        }
    }

    /// Whether work is done on threads of its own, so that elapsed time is real.
    #[must_use]
    pub fn is_threaded(&self) -> bool {
        self.offload == Offload::Thread
    }
}
