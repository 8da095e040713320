//! What controllers are constructed from. A controller keeps the parts that it uses, not the [`Ctx`].

use std::sync::Arc;

use fleetwright_core::{clock::SharedClock, cloud::CloudProvider, disruption::DisplacedPods, safety::Limits};
use fleetwright_state::{Index, WatchedKind};
use kube::Client;

use super::{
    api_client::ApiClient,
    clocks::Clocks,
    cluster::Cluster,
    features::Features,
    fence::Fenced,
    gate::Gate,
    heartbeat::{Heartbeats, Stuck},
    leader::Leadership,
    names::Names,
    recorder::Recorder,
    references::References,
    shared::Shared,
    solvers::{Offload, Solvers},
};
use crate::{
    metrics::{Metrics, cloud::Metered, pod_times::PodTimes, requests},
    runtime::decisions::Decisions,
    settings::Settings,
};

/// What a [`Ctx`] is constructed from.
pub struct CtxParts {
    /// Host and port of the API server, for metrics.
    pub api_server: String,
    /// Client of the API server; made by [`super::client()`] or over a fake.
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
    /// The process acts while it holds the leadership.
    pub leadership: Leadership,
}

/// The parts of one process. Cloning shares all of them.
#[derive(Clone)]
pub struct Ctx {
    /// The API server.
    pub client: ApiClient,
    /// The index and the queues.
    pub cluster: Cluster,
    /// The clocks.
    pub clocks: Clocks,
    /// The cloud, which only the leader changes.
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
    /// Where decisions are computed.
    pub solvers: Solvers,
    /// The state of the safety limits.
    pub limits: Shared<Limits>,
    /// Pods that consolidation evicted a short time ago.
    pub displaced: Shared<DisplacedPods>,
    /// The decisions of this process.
    pub decisions: Decisions,
    /// Whether this process may act.
    pub gate: Gate,
    /// The features that are off.
    pub features: Features,
    /// The kinds that are referred to and may not be watched.
    pub references: References,
    pub(super) heartbeats: Arc<Heartbeats>,
}

impl Ctx {
    /// Returns the parts of a process with an empty index.
    #[must_use]
    pub fn new(parts: CtxParts) -> Self {
        let CtxParts {
            api_server,
            client,
            clock,
            cloud,
            mut settings,
            seed,
            offload,
            cluster_uid,
            leadership,
        } = parts;
        settings.currency = cloud.info().currency.unwrap_or(settings.currency);
        let index = index(&*cloud, &settings);
        let metrics = Arc::new(Metrics::default());
        let cloud = Arc::new(Metered { cloud, metrics: metrics.clone(), clock: clock.clone() });
        let client = requests::metered(client, metrics.clone(), clock.clone(), api_server.into());
        let clocks = Clocks::new(clock.clone(), metrics.clone());
        let cluster = Cluster::new(index, clocks.clone());
        let limits = Limits::default().with_startup_delay(settings.disruption.startup_delay);
        Self {
            client: ApiClient::new(client, clocks.clone(), leadership.clone()),
            cloud: Arc::new(Fenced::new(cloud, leadership.clone())),
            features: Features::new(cluster.clone(), metrics.clone()),
            decisions: Decisions::new(clock.clone(), seed, &cluster_uid, settings.currency),
            gate: Gate::new(leadership, cluster.clone(), clocks.clone()),
            cluster,
            clocks,
            settings: Arc::new(settings),
            recorder: Recorder::new(clock),
            metrics,
            pod_times: Arc::default(),
            names: Arc::new(Names::new(seed)),
            cluster_uid: cluster_uid.into(),
            solvers: Solvers::new(offload),
            limits: Shared::new(limits),
            displaced: Shared::default(),
            references: References::default(),
            heartbeats: Arc::default(),
        }
    }

    /// Whether all loops of this process are alive, on the leader and on standbys.
    ///
    /// # Errors
    /// The loops that are stuck.
    pub fn alive(&self) -> Result<(), Stuck> {
        self.heartbeats.check(self.clocks.steady())
    }
}

/// An empty index of the kinds that the settings need.
fn index(cloud: &dyn CloudProvider, settings: &Settings) -> Index {
    let info = cloud.info();
    let classes = info.node_classes.iter().map(|class| class.named("")).collect();
    let mut index = Index::new(info.schema.clone(), classes);
    index.set_objective(settings.objective);
    index.set_currency(settings.currency);
    if settings.gates.node_overlay {
        index.follow(WatchedKind::NodeOverlay);
    }
    if settings.gates.capacity_buffer {
        index.follow(WatchedKind::CapacityBuffer);
    }
    if !settings.ignore_dra_requests {
        WatchedKind::DEVICES.into_iter().for_each(|kind| index.follow(kind));
    }
    if settings.limit_range_defaults {
        index.follow(WatchedKind::LimitRange);
    }
    if !settings.default_spread.is_empty() {
        WatchedKind::SELECTING.into_iter().for_each(|kind| index.follow(kind));
    }
    index
}
