//! The shared context of the controllers.

use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fleetwright_core::{
    clock::SharedClock, cloud::CloudProvider, disruption::DisplacedPods, model::NodeClassRef, safety::Limits,
};
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
    recorder::Recorder,
    solvers::Solvers,
    times::Times,
};
use crate::{
    metrics::{Metrics, cloud::Metered, pod_times::PodTimes, requests},
    settings::Settings,
};

/// How long a call to the API server may take.
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// Where long computations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// On the calling task: reproducible, for simulation (a wait for another thread would let paused time jump).
    Inline,
    /// On a separate thread, so that the async loops are not blocked.
    Thread,
}

/// The parts of a [`Ctx`].
pub struct Parts {
    /// Client of the API server; made by [`super::client`] or over a fake.
    pub client: Client,
    /// The clock.
    pub clock: SharedClock,
    /// The cloud.
    pub cloud: Arc<dyn CloudProvider>,
    /// The settings.
    pub settings: Settings,
    /// Seed of generated names.
    pub seed: u64,
    /// Where the solver runs.
    pub offload: Offload,
    /// UID of the `kube-system` namespace.
    pub cluster_uid: String,
}

/// What controllers share. Cloning shares all parts.
#[derive(Clone)]
pub struct Ctx {
    /// Client of the API server.
    pub client: Client,
    /// The clock.
    pub clock: SharedClock,
    /// The cloud.
    pub cloud: Arc<dyn CloudProvider>,
    /// The settings.
    pub settings: Arc<Settings>,
    /// The event recorder.
    pub recorder: Recorder,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// When scheduling first observed, decided on and placed each pod.
    pub pod_times: Arc<PodTimes>,
    /// Generator of names.
    pub names: Arc<Names>,
    /// UID of the `kube-system` namespace: the cluster's identity.
    pub cluster_uid: Arc<str>,
    /// Solvers that are kept between passes.
    pub solvers: Arc<Solvers>,
    /// What the limits on acts count.
    pub limits: Arc<Mutex<Limits>>,
    index: Arc<Mutex<Index>>,
    hub: Arc<Hub>,
    offload: Offload,
    leadership: Leadership,
    times: Arc<Times>,
    pulses: Arc<Pulses>,
    displaced: Arc<Mutex<DisplacedPods>>,
}

impl Ctx {
    /// Returns a context with an empty index.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let info = parts.cloud.info();
        let classes = info.node_classes.iter().map(|class| class.named("")).collect();
        let mut index = Index::new(info.schema.clone(), classes);
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
            names: Arc::new(Names::new(parts.seed)),
            cluster_uid: parts.cluster_uid.into(),
            solvers: Arc::default(),
            limits: Arc::default(),
            index: Arc::new(Mutex::new(index)),
            hub: Arc::default(),
            offload: parts.offload,
            leadership: Leadership::unopposed(),
            pulses: Arc::default(),
            displaced: Arc::default(),
        }
    }

    /// The leadership of this process.
    pub(crate) fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// Returns the context acting only while `leadership` is held. Must be called before the controllers run.
    #[must_use]
    pub fn led_by(mut self, leadership: Leadership) -> Self {
        self.cloud = Arc::new(Fenced::new(self.cloud, leadership.clone()));
        self.leadership = leadership;
        self
    }

    /// Whether controllers may act now: this process is the leader, and its watches are fresh.
    ///
    /// # Errors
    /// The reason why they may not.
    pub fn may_act(&self) -> Result<(), Passive> {
        if !self.leadership.holds() {
            return Err(Passive::NotLeading);
        }
        if !self.leadership.has_caught_up() {
            return Err(Passive::TakingOver);
        }
        may_act(&self.index(), self.steady())
    }

    /// Whether all loops of this process are alive, on the leader and on standbys.
    ///
    /// # Errors
    /// The loops that are stuck.
    pub fn alive(&self) -> Result<(), Stuck> {
        self.pulses.check(self.steady())
    }

    pub(super) fn pulses(&self) -> &Pulses {
        &self.pulses
    }

    /// The current time of the wall clock. Each call also checks whether the wall clock jumped.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.times.now(&*self.clock)
    }

    /// How long decisions that depend on the wall clock (ages, schedules, windows) remain suspended after it jumped; `None`
    /// if they are not suspended.
    #[must_use]
    pub fn wall_clock_rest(&self) -> Option<Duration> {
        self.times.rest(&*self.clock)
    }

    /// The current time of the steady clock: see [`fleetwright_core::clock::Clock::steady`].
    #[must_use]
    pub fn steady(&self) -> Timestamp {
        self.clock.steady()
    }

    /// The index, locked. Never hold the guard across an await.
    pub fn index(&self) -> MutexGuard<'_, Index> {
        // A panicking reader leaves no inconsistent state behind.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pods that consolidation evicted a short time ago.
    pub fn displaced_pods(&self) -> MutexGuard<'_, DisplacedPods> {
        // No statement leaves the pods half changed.
        self.displaced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies an object from a watch or from the response to our own write, and enqueues the interested controllers.
    pub fn observe<T: Tracked>(&self, object: T) {
        let mut index = self.index();
        let change = index.apply(object);
        self.tell(&index, change);
    }

    /// Applies the deletion of an object.
    pub fn forget<T: Tracked>(&self, object: &T) {
        let mut index = self.index();
        let change = index.delete(object);
        self.tell(&index, change);
    }

    /// Applies a complete list, as of `version`; with `class`, the list of one kind of NodeClass.
    pub fn reset<T: Tracked>(&self, objects: Vec<T>, version: &str, class: Option<&NodeClassRef>) {
        let now = self.steady();
        let mut index = self.index();
        let changes = match class {
            Some(class) => index.reset_class(class, objects, version, now),
            None => index.reset(objects, version, now),
        };
        self.tell(&index, changes);
    }

    /// Records that the watch of a kind is alive; with `class`, that of one kind of NodeClass.
    pub fn progress(&self, kind: Kind, class: Option<&NodeClassRef>) {
        let now = self.steady();
        match class {
            Some(class) => self.index().class_progress(class, now),
            None => self.index().progress(kind, now),
        }
    }

    fn tell(&self, index: &Index, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            self.hub.tell(&change, index);
        }
    }

    /// Enqueues a key of another controller, by that controller's name.
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

    /// Waits for the response of the API server, at most [`CALL_DEADLINE`].
    ///
    /// # Errors
    /// The server's error, classified; [`ReconcileError::Deadline`], after which the call may have had its effect; or
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

    /// Waits for `future`, at most until `deadline` on [`Self::clock`].
    pub async fn within<T>(&self, deadline: Duration, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            value = future => Some(value),
            () = self.clock.sleep(deadline) => None,
        }
    }

    /// Runs a long computation without blocking the async loops.
    ///
    /// # Errors
    /// [`ReconcileError::Other`] if the computation panicked.
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

    /// Whether computations run on separate threads, so that elapsed time is real.
    #[must_use]
    pub fn is_threaded(&self) -> bool {
        self.offload == Offload::Thread
    }
}
