//! A simulator in one process, assembled from a seed: API server, cloud, kubelets, actors, controllers.
//!
//! A simulator belongs to the tokio runtime that it was created in. Under [`virtual_runtime`] its time is virtual: hours pass in seconds,
//! and two simulators with one seed do the same things in the same order.

mod activity;
mod classes;
mod cloud;
mod config;
mod fake;
mod link;
mod mirror;
mod operators;
mod read_overview;
mod removals;
mod skew;
#[cfg(test)]
mod tests;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use fleetwright_api::NillableDuration;
use fleetwright_controllers::runtime::Ctx;
use fleetwright_core::{
    clock::{Clock as _, SharedClock},
    cloud::GroundTruth,
};
use fleetwright_fake::{Cloud, kubelet::Kubelets};
use fleetwright_fake_kube::{Listening, Server};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::task::JoinSet;

pub use cloud::{CloudFault, CloudSetup, SimulatedCloud};
pub use config::{SimulatorConfig, SimulatorError, Wrap};
pub use fake::FakeSetup;
pub use link::Distortion;

use crate::{
    actors::{self, ActorsConfig},
    clock::TokioClock,
    overview::{NodePhase, Overview},
};
use activity::Activity;
use operators::Operator;
use removals::Removals;

/// Time after the last change, beyond the longest `consolidateAfter`, until a simulator counts as stable: the validation delay of
/// disruption (15 s), its polling (10 s), a batch of pods (10 s), and a margin of the same size.
const QUIET: Duration = Duration::from_secs(70);
/// How long a watch lasts whose client does not say.
const WATCH_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);
/// How often [`Simulator::run_until_stable`] checks.
const LOOK: Duration = Duration::from_secs(5);

/// Kinds that [`Simulator::delete_object`] supports beside the NodeClasses of the cloud, with their API versions.
const KINDS: [(&str, &str); 20] = [
    ("Pod", "v1"),
    ("Node", "v1"),
    ("Namespace", "v1"),
    ("PersistentVolume", "v1"),
    ("PersistentVolumeClaim", "v1"),
    ("LimitRange", "v1"),
    ("ResourceQuota", "v1"),
    ("PodTemplate", "v1"),
    ("Deployment", "apps/v1"),
    ("ReplicaSet", "apps/v1"),
    ("StatefulSet", "apps/v1"),
    ("DaemonSet", "apps/v1"),
    ("Job", "batch/v1"),
    ("PodDisruptionBudget", "policy/v1"),
    ("NodePool", "karpenter.sh/v1"),
    ("NodeClaim", "karpenter.sh/v1"),
    ("NodeOverlay", "karpenter.sh/v1alpha1"),
    ("CapacityBuffer", "autoscaling.x-k8s.io/v1beta1"),
    ("StorageClass", "storage.k8s.io/v1"),
    ("VolumeAttachment", "storage.k8s.io/v1"),
];

/// A running simulator. Dropping it stops all of it.
pub struct Simulator {
    server: Server,
    clock: TokioClock,
    simulated: Arc<dyn SimulatedCloud>,
    /// The instances whose kubelets run.
    cloud: Arc<Cloud>,
    activity: Arc<Activity>,
    removals: Arc<Removals>,
    config: SimulatorConfig,
    operators: Vec<Operator>,
    /// The number of operator starts.
    starts: u64,
    /// Its tasks, aborted when dropped.
    tasks: JoinSet<()>,
}

impl std::fmt::Debug for Simulator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Simulator").field("clock", &self.clock).finish_non_exhaustive()
    }
}

/// The result of [`Simulator::run_until_stable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// Nothing has been left to do since this time.
    Since(Timestamp),
    /// The time limit was reached.
    OutOfTime,
}

impl Simulator {
    /// Creates and starts a simulator.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub async fn new(config: SimulatorConfig) -> Result<Self, SimulatorError> {
        let clock = TokioClock::new(config.origin);
        let shared: SharedClock = Arc::new(clock);
        let activity = Arc::new(Activity::new(clock.now()));
        let server = Server::new(serving(&config, clock, &activity));
        for definition in config.cloud.definitions() {
            let what = named(&definition);
            apply(&server, definition, what)?;
        }
        let client = kube::Client::new(server.service(), "default");
        let simulated = config.cloud.start(shared.clone());
        let removals = Arc::new(Removals::default());
        let mut tasks = JoinSet::new();
        for task in simulated.tasks(client.clone(), shared.clone()) {
            tasks.spawn(task);
        }
        let cloud = simulated.in_memory().unwrap_or_else(|| {
            let copies = Arc::new(mirror::empty(shared.clone()));
            tasks.spawn(mirror::run(simulated.clone(), copies.clone(), server.clone(), shared.clone()));
            copies
        });
        if config.count_removals {
            let (counting, client, clock) = (removals.clone(), client.clone(), shared.clone());
            tasks.spawn(async move { counting.run(client, clock).await });
        }
        tasks.spawn(actors::run(
            client.clone(),
            shared.clone(),
            ActorsConfig { seed: config.seed, zones: config.cloud.zones() },
        ));
        tasks.spawn(Kubelets::run(
            client.clone(),
            cloud.clone(),
            shared.clone(),
            config.kubelets.clone(),
            std::future::pending(),
        ));
        let replicas = if config.controllers { config.replicas.max(1) } else { 0 };
        let operators = (0..replicas).map(|number| Operator::new(number, clock)).collect();
        let mut simulator =
            Self { server, clock, simulated, cloud, activity, removals, config, operators, starts: 0, tasks };
        simulator.start_due().await?;
        Ok(simulator)
    }

    /// A client of its API server.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.server.service(), "default")
    }

    /// Its API server.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The instances in memory whose kubelets run: those of the fake cloud, or copies of another cloud's.
    #[must_use]
    pub fn cloud(&self) -> &Arc<Cloud> {
        &self.cloud
    }

    /// Its cloud.
    #[must_use]
    pub fn simulated_cloud(&self) -> &dyn SimulatedCloud {
        &*self.simulated
    }

    /// Injects a fault into its cloud; one of a node, where instances are copied, into the copies. `false` if the cloud does not have it.
    #[must_use]
    pub fn inject(&self, fault: &CloudFault) -> bool {
        self.simulated.inject(fault)
            || (self.simulated.in_memory().is_none() && fake::inject_into_copies(&self.cloud, fault))
    }

    /// Removes the injected faults.
    pub fn heal(&self) {
        self.simulated.heal();
        self.cloud.heal();
    }

    /// A NodeClass called `default` of its cloud; another revision is another object.
    #[must_use]
    pub fn node_class(&self, revision: u32) -> Value {
        self.config.cloud.node_class(revision)
    }

    /// The instances that run or are terminating, by id, as the cloud has them.
    #[must_use]
    pub fn ground_truth(&self) -> Vec<Arc<GroundTruth>> {
        self.simulated.ground_truth()
    }

    /// The shared state of the controllers of its first operator: metrics, index. `None` without controllers.
    #[must_use]
    pub fn controllers(&self) -> Option<&Ctx> {
        self.operators.iter().find_map(Operator::ctx)
    }

    /// Its clock.
    #[must_use]
    pub fn clock(&self) -> SharedClock {
        Arc::new(self.clock)
    }

    /// Virtual time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Creates or replaces the objects of a YAML text, in order, and returns their names (`Deployment default/web`).
    ///
    /// # Errors
    /// At the first document that is not an object, or that the API server rejects; those before it are applied.
    pub fn apply(&self, yaml: &str) -> Result<Vec<String>, SimulatorError> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)
            .map_err(|error| SimulatorError::Document { index: 1, why: error.to_string() })?;
        let mut applied = Vec::new();
        for (at, document) in documents.into_iter().enumerate().filter(|(_, document)| !document.is_null()) {
            if !document.is_object() {
                let why = "an object with apiVersion and kind is expected".to_owned();
                return Err(SimulatorError::Document { index: at.saturating_add(1), why });
            }
            applied.push(self.apply_object(document)?);
        }
        Ok(applied)
    }

    /// Creates or replaces an object, and returns its name.
    ///
    /// # Errors
    /// If the API server rejects it.
    pub fn apply_object(&self, object: Value) -> Result<String, SimulatorError> {
        self.activity.note(self.clock.now());
        let what = named(&object);
        apply(&self.server, object, what).map(|object| named(&object))
    }

    /// Deletes the object with this name (`Pod default/web-1`, `NodePool default`); a missing object is no error.
    ///
    /// # Errors
    /// If the kind is unknown, or the API server rejects it.
    pub fn delete_object(&self, name: &str) -> Result<(), SimulatorError> {
        self.activity.note(self.clock.now());
        let unknown =
            || SimulatorError::Document { index: 1, why: format!("delete {name:?}: not a kind and a name") };
        let (kind, rest) = name.split_once(' ').ok_or_else(unknown)?;
        let known = KINDS.iter().find(|(known, _)| *known == kind).map(|(_, version)| (*version).to_owned());
        let version = known.or_else(|| self.defined(kind)).ok_or_else(unknown)?;
        let (namespace, object) = rest.split_once('/').unwrap_or(("", rest));
        let deleted = self.server.delete(&version, kind, namespace, object);
        deleted.map_err(|source| SimulatorError::Refused { what: name.to_owned(), source: Box::new(source) })
    }

    /// The API version of a kind that the cloud defines.
    fn defined(&self, kind: &str) -> Option<String> {
        let definitions = self.config.cloud.definitions();
        let of =
            definitions.iter().find(|of| of.pointer("/spec/names/kind").is_some_and(|name| name == kind))?;
        let (group, version) = (of.pointer("/spec/group")?, of.pointer("/spec/versions/0/name")?);
        Some(format!("{}/{}", group.as_str()?, version.as_str()?))
    }

    /// Advances virtual time.
    pub async fn run_for(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    /// Advances virtual time until nothing is left to do, at most by `limit`.
    pub async fn run_until_stable(&self, limit: Duration) -> Stability {
        let end = self.elapsed().saturating_add(limit);
        loop {
            if self.is_stable() {
                return Stability::Since(self.activity.last());
            }
            let left = end.saturating_sub(self.elapsed());
            if left.is_zero() {
                return Stability::OutOfTime;
            }
            self.clock.sleep(LOOK.min(left)).await;
        }
    }

    /// Whether nothing is left to do: every pod is on its final node, no NodeClaim is in flight or terminating, no node is tainted for
    /// disruption, and nothing has changed for longer than consolidation waits.
    #[must_use]
    pub fn is_stable(&self) -> bool {
        let quiet = self.clock.now().duration_since(self.activity.last());
        let patience = SignedDuration::try_from(QUIET.saturating_add(self.consolidate_after()));
        if quiet < patience.unwrap_or(SignedDuration::MAX) {
            return false;
        }
        let seen = read_overview::read_overview(&self.server, &self.ground_truth(), self.clock.now());
        let (claims, pods) = (seen.claims, seen.pods);
        let in_transit = claims.launching + claims.registering + claims.initializing + claims.deleting;
        in_transit == 0
            && pods.pending + pods.starting + pods.terminating == 0
            && seen.nodes.iter().all(|node| node.phase == NodePhase::Ready)
    }

    /// The longest `consolidateAfter` of all NodePools.
    fn consolidate_after(&self) -> Duration {
        let pools = self.server.list("karpenter.sh/v1", "NodePool", "");
        let texts =
            pools.iter().filter_map(|pool| pool.pointer("/spec/disruption/consolidateAfter")?.as_str());
        let longest = texts.filter_map(|text| NillableDuration::new(text).get().ok().flatten()).max();
        longest.unwrap_or_default().try_into().unwrap_or_default()
    }

    /// The current nodes and pods.
    #[must_use]
    pub fn observe(&self) -> Overview {
        let (claims_created, removed) = self.removals.counts();
        Overview {
            claims_created,
            removed,
            ..read_overview::read_overview(&self.server, &self.ground_truth(), self.clock.now())
        }
    }

    /// Serves the API on a port, for kubectl; port 0 selects a free one. Needs a runtime with I/O, such as [`served_runtime`].
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn listen(&self, address: SocketAddr) -> std::io::Result<Listening> {
        self.server.listen(address).await
    }
}

/// A single-threaded runtime with virtual time.
///
/// # Errors
/// If the operating system refuses.
pub fn virtual_runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()
}

/// The same with I/O, for a simulator that serves its API on a port. While a blocking task runs, time stands still, and requests are answered.
///
/// # Errors
/// If the operating system refuses.
pub fn served_runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()
}

fn serving(
    config: &SimulatorConfig,
    clock: TokioClock,
    activity: &Arc<Activity>,
) -> fleetwright_fake_kube::Config {
    let mut serving = fleetwright_fake_kube::Config::new(Arc::new(move || clock.now()), config.seed);
    serving.track_updates = config.track_updates;
    // `kubectl get -w` ends with its watch, and hours are seconds here.
    serving.watch_timeout = WATCH_TIMEOUT;
    serving.token.clone_from(&config.token);
    serving.faults.clone_from(&config.faults);
    let (activity, audit) = (activity.clone(), config.audit.clone());
    serving.audit = Some(Arc::new(move |request, code| {
        activity.observe(request, code, clock.now());
        if let Some(audit) = &audit {
            audit(request, code);
        }
    }));
    serving
}

fn apply(server: &Server, document: Value, what: String) -> Result<Arc<Value>, SimulatorError> {
    server.apply(document).map_err(|source| SimulatorError::Refused { what, source: Box::new(source) })
}

fn named(object: &Value) -> String {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let (kind, name, namespace) = (text("/kind"), text("/metadata/name"), text("/metadata/namespace"));
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}
