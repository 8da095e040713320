//! A whole world in one process, assembled from a seed: API server, cloud, kubelets, actors, controllers.
//!
//! A world belongs to the tokio runtime that it was made in. Under [`virtual_runtime`] its time is virtual: hours pass
//! in seconds, and two worlds of one seed do the same things in the same order.

mod activity;
mod classes;
mod config;
mod link;
mod look;
mod operators;
mod removals;
mod setup;
mod skew;
#[cfg(test)]
mod tests;

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use fleetwright_api::NillableDuration;
use fleetwright_controllers::runtime::Ctx;
use fleetwright_core::clock::{Clock as _, SharedClock};
use fleetwright_fake::{
    Cloud, NodeClasses,
    kubelet::{Kubelets, watch_classes},
};
use fleetwright_fake_kube::{Listening, Server};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::task::JoinSet;

pub use config::{WorldConfig, WorldError, Wrap};
pub use link::Distort;
pub use setup::CloudSetup;

use crate::{
    actors::{self, ActorsConfig},
    clock::TokioClock,
    overview::{NodePhase, Overview},
};
use activity::Activity;
use operators::Operator;
use removals::Removals;

/// What passes after the last change, beyond the longest `consolidateAfter`, before a world counts as settled: the
/// validation delay of disruption (15 s), its polling (10 s), a batch of pods (10 s), and as much again.
const QUIET: Duration = Duration::from_secs(70);
/// How often [`World::run_until_settled`] looks.
const LOOK: Duration = Duration::from_secs(5);

/// Kinds that [`World::delete_object`] knows, with their versions.
const KINDS: [(&str, &str); 17] = [
    ("Pod", "v1"),
    ("Node", "v1"),
    ("Namespace", "v1"),
    ("PersistentVolumeClaim", "v1"),
    ("PodTemplate", "v1"),
    ("Deployment", "apps/v1"),
    ("StatefulSet", "apps/v1"),
    ("DaemonSet", "apps/v1"),
    ("Job", "batch/v1"),
    ("PodDisruptionBudget", "policy/v1"),
    ("NodePool", "karpenter.sh/v1"),
    ("NodeClaim", "karpenter.sh/v1"),
    ("NodeOverlay", "karpenter.sh/v1alpha1"),
    ("CapacityBuffer", "autoscaling.x-k8s.io/v1beta1"),
    ("VolumeAttachment", "storage.k8s.io/v1"),
    ("KWOKNodeClass", "karpenter.kwok.sh/v1alpha1"),
    ("EC2NodeClass", "karpenter.k8s.aws/v1"),
];

/// A running world. Dropping it ends everything in it.
pub struct World {
    server: Server,
    clock: TokioClock,
    cloud: Arc<Cloud>,
    activity: Arc<Activity>,
    removals: Arc<Removals>,
    config: WorldConfig,
    classes: NodeClasses,
    operators: Vec<Operator>,
    /// How often an operator was started.
    starts: u64,
    /// Ends what runs when it is dropped.
    tasks: JoinSet<()>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("World").field("clock", &self.clock).finish_non_exhaustive()
    }
}

/// How [`World::run_until_settled`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Nothing is left to do, since this moment.
    Since(Timestamp),
    /// Time ran out first.
    OutOfTime,
}

impl World {
    /// Makes a world and sets it going.
    ///
    /// # Errors
    /// Where the configuration cannot be.
    pub async fn new(config: WorldConfig) -> Result<Self, WorldError> {
        let clock = TokioClock::new(config.origin, config.speed)?;
        let shared: SharedClock = Arc::new(clock);
        let activity = Arc::new(Activity::new(clock.now()));
        let server = Server::new(serving(&config, clock, &activity));
        for definition in definitions(&config) {
            apply(&server, definition.clone(), named(definition))?;
        }
        let client = kube::Client::new(server.service(), "default");
        let cloud = Arc::new(Cloud::new(config.catalogue.clone(), config.cloud.clone(), shared.clone()));
        let classes = NodeClasses::unread();
        let removals = Arc::new(Removals::default());
        let mut tasks = JoinSet::new();
        if let Some(setup) = &config.cloud_setup {
            for task in setup.tasks(client.clone(), cloud.clone(), shared.clone()) {
                tasks.spawn(task);
            }
        } else {
            tasks.spawn(watch_classes(client.clone(), classes.clone(), shared.clone()));
            tasks.spawn(classes::run(client.clone(), shared.clone()));
        }
        if config.count_removals {
            let (counting, client, clock) = (removals.clone(), client.clone(), shared.clone());
            tasks.spawn(async move { counting.run(client, clock).await });
        }
        tasks.spawn(actors::run(
            client.clone(),
            shared.clone(),
            ActorsConfig { seed: config.seed, zones: config.zones() },
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
        let mut world =
            Self { server, clock, cloud, activity, removals, config, classes, operators, starts: 0, tasks };
        world.tend().await?;
        Ok(world)
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

    /// Its cloud.
    #[must_use]
    pub fn cloud(&self) -> &Arc<Cloud> {
        &self.cloud
    }

    /// What the controllers of its first operator share: metrics, index. None where they do not run.
    #[must_use]
    pub fn controllers(&self) -> Option<&Ctx> {
        self.operators.iter().find_map(Operator::ctx)
    }

    /// Its time.
    #[must_use]
    pub fn clock(&self) -> SharedClock {
        Arc::new(self.clock)
    }

    /// Virtual time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Creates or replaces the objects of a YAML text, in order, and names them (`Deployment default/web`).
    ///
    /// # Errors
    /// At the first document that is not an object, or that the API server refuses; those before it are applied.
    pub fn apply(&self, yaml: &str) -> Result<Vec<String>, WorldError> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)
            .map_err(|error| WorldError::Document { index: 1, why: error.to_string() })?;
        let mut applied = Vec::new();
        for (at, document) in documents.into_iter().enumerate().filter(|(_, document)| !document.is_null()) {
            if !document.is_object() {
                let why = "an object with apiVersion and kind is expected".to_owned();
                return Err(WorldError::Document { index: at.saturating_add(1), why });
            }
            applied.push(self.apply_object(document)?);
        }
        Ok(applied)
    }

    /// Creates or replaces an object, and names it.
    ///
    /// # Errors
    /// Where the API server refuses it.
    pub fn apply_object(&self, object: Value) -> Result<String, WorldError> {
        self.activity.note(self.clock.now());
        let what = named(&object);
        apply(&self.server, object, what).map(|object| named(&object))
    }

    /// Deletes the object of this name (`Pod default/web-1`, `NodePool default`); absence is fine.
    ///
    /// # Errors
    /// Where the kind is none that scenarios delete, or the API server refuses.
    pub fn delete_object(&self, name: &str) -> Result<(), WorldError> {
        self.activity.note(self.clock.now());
        let unknown =
            || WorldError::Document { index: 1, why: format!("delete {name:?}: not a kind and a name") };
        let (kind, rest) = name.split_once(' ').ok_or_else(unknown)?;
        let version = KINDS.iter().find(|(known, _)| *known == kind).map(|(_, version)| *version);
        let (namespace, object) = rest.split_once('/').unwrap_or(("", rest));
        let deleted = self.server.delete(version.ok_or_else(unknown)?, kind, namespace, object);
        deleted.map_err(|source| WorldError::Refused { what: name.to_owned(), source: Box::new(source) })
    }

    /// Lets virtual time pass.
    pub async fn run_for(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    /// Lets virtual time pass until nothing is left to do, `limit` at most.
    pub async fn run_until_settled(&self, limit: Duration) -> Settled {
        let end = self.elapsed().saturating_add(limit);
        loop {
            if self.is_settled() {
                return Settled::Since(self.activity.last());
            }
            let left = end.saturating_sub(self.elapsed());
            if left.is_zero() {
                return Settled::OutOfTime;
            }
            self.clock.sleep(LOOK.min(left)).await;
        }
    }

    /// Whether nothing is left to do: every pod is where it should be, no NodeClaim is on its way in or out, no node
    /// is marked for disruption, and nothing has changed for longer than consolidation waits.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let quiet = self.clock.now().duration_since(self.activity.last());
        let patience = SignedDuration::try_from(QUIET.saturating_add(self.consolidate_after()));
        if quiet < patience.unwrap_or(SignedDuration::MAX) {
            return false;
        }
        let seen = look::look(&self.server, &self.cloud, self.clock.now());
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

    /// The fleet and its load now.
    #[must_use]
    pub fn observe(&self) -> Overview {
        let (claims_created, removed) = self.removals.counts();
        Overview { claims_created, removed, ..look::look(&self.server, &self.cloud, self.clock.now()) }
    }

    /// Serves the API on a port, for kubectl; port 0 takes a free one. Needs a runtime with I/O and time that is not
    /// paused.
    ///
    /// # Errors
    /// Where the address cannot be bound.
    pub async fn listen(&self, address: SocketAddr) -> std::io::Result<Listening> {
        self.server.listen(address).await
    }
}

/// A runtime of one thread whose time is virtual.
///
/// # Errors
/// Where the operating system refuses.
pub fn virtual_runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()
}

fn serving(
    config: &WorldConfig,
    clock: TokioClock,
    activity: &Arc<Activity>,
) -> fleetwright_fake_kube::Config {
    let mut serving = fleetwright_fake_kube::Config::new(Arc::new(move || clock.now()), config.seed);
    serving.track_updates = config.track_updates;
    serving.token.clone_from(&config.token);
    serving.faults.clone_from(&config.faults);
    let (activity, audit) = (activity.clone(), config.audit.clone());
    serving.audit = Some(Arc::new(move |request, code| {
        activity.judge(request, code, clock.now());
        if let Some(audit) = &audit {
            audit(request, code);
        }
    }));
    serving
}

/// The custom resource definitions of the world's cloud.
fn definitions(config: &WorldConfig) -> &'static [Value] {
    static FAKE: OnceLock<Vec<Value>> = OnceLock::new();
    if let Some(setup) = &config.cloud_setup {
        return setup.definitions();
    }
    FAKE.get_or_init(|| {
        let all = fleetwright_api::crd::kwok();
        // What is generated from types always serialises.
        all.iter().filter_map(|definition| serde_json::to_value(definition).ok()).collect()
    })
}

fn apply(server: &Server, document: Value, what: String) -> Result<Arc<Value>, WorldError> {
    server.apply(document).map_err(|source| WorldError::Refused { what, source: Box::new(source) })
}

fn named(object: &Value) -> String {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let (kind, name, namespace) = (text("/kind"), text("/metadata/name"), text("/metadata/namespace"));
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}
