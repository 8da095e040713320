//! How a world is made, and why it cannot be.

use std::sync::Arc;

use fleetwright_controllers::settings::{Settings, SolveEffort};
use fleetwright_core::cloud::CloudProvider;
use fleetwright_fake::{Catalogue, Cloud, CloudConfig, catalogue::realistic, kubelet::KubeletConfig};
use fleetwright_fake_kube::{Audit, Faults};
use jiff::Timestamp;

use super::{link::Distort, setup::CloudSetup};

/// Seed of the realistic catalogue's spot prices: everybody sees the same market.
const MARKET: u64 = 1;
/// Rounds of improvement per plan: reproducible, and enough for the fleets of a demo.
const ROUNDS: u32 = 200;

/// Puts something between the controllers and their cloud; the cloud itself is at hand too.
pub type Wrap = Arc<dyn Fn(Arc<dyn CloudProvider>, &Arc<Cloud>) -> Arc<dyn CloudProvider> + Send + Sync>;

/// How a world is made.
#[derive(Clone)]
pub struct WorldConfig {
    /// Everything that is left to chance follows from it.
    pub seed: u64,
    /// The virtual moment of the start.
    pub origin: Timestamp,
    /// Virtual seconds per second of tokio's time. 1 under paused time.
    pub speed: f64,
    /// What the cloud sells.
    pub catalogue: Catalogue,
    /// How the cloud behaves: latencies, capacity, interruptions.
    pub cloud: CloudConfig,
    /// The cloud that the operators use instead of the fake cloud.
    pub cloud_setup: Option<Arc<dyn CloudSetup>>,
    /// How kubelets behave.
    pub kubelets: KubeletConfig,
    /// What the controllers are told.
    pub settings: Settings,
    /// Whether the controllers run in this world; without them others can be set upon its API server.
    pub controllers: bool,
    /// How many operators there are; several elect a leader.
    pub replicas: usize,
    /// Whether the API server notes who wrote which field; nothing in a world reads it.
    pub track_updates: bool,
    /// Whether [`super::World::observe`] tells how many NodeClaims came and went.
    pub count_removals: bool,
    /// Faults of the API server.
    pub faults: Option<Arc<dyn Faults>>,
    /// Sees every request to the API server with its answer's code.
    pub audit: Option<Audit>,
    /// What stands between the controllers and their cloud.
    pub wrap: Option<Wrap>,
    /// What stands between the operators and their API server.
    pub distort: Option<Arc<dyn Distort>>,
    /// Token that clients of [`super::World::listen`] must show.
    pub token: Option<String>,
}

impl std::fmt::Debug for WorldConfig {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("WorldConfig")
            .field("seed", &self.seed)
            .field("origin", &self.origin)
            .field("speed", &self.speed)
            .finish_non_exhaustive()
    }
}

impl WorldConfig {
    /// A world of `seed` that starts at `origin`, in tokio's own time, with the realistic catalogue and a cloud on a
    /// good day.
    #[must_use]
    pub fn new(seed: u64, origin: Timestamp) -> Self {
        Self::selling(seed, origin, realistic(MARKET))
    }

    /// The same with another catalogue.
    #[must_use]
    pub fn selling(seed: u64, origin: Timestamp, catalogue: Catalogue) -> Self {
        Self {
            seed,
            origin,
            speed: 1.0,
            catalogue,
            cloud: CloudConfig { seed, ..CloudConfig::default() },
            cloud_setup: None,
            kubelets: KubeletConfig::default(),
            settings: Settings { solve_effort: SolveEffort::Iterations(ROUNDS), ..Settings::default() },
            controllers: true,
            replicas: 1,
            track_updates: true,
            count_removals: true,
            faults: None,
            audit: None,
            wrap: None,
            distort: None,
            token: None,
        }
    }
}

impl WorldConfig {
    /// The zones in which the cloud sells anything, sorted.
    #[must_use]
    pub fn zones(&self) -> Vec<String> {
        let types = self.catalogue.types.instance_types.iter();
        let zones = types.flat_map(|sold| sold.offerings.iter().filter_map(|offering| offering.zone()));
        let zones: std::collections::BTreeSet<String> = zones.map(|zone| zone.to_string()).collect();
        zones.into_iter().collect()
    }
}

/// Why a world cannot be made, or refuses a document.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The speed is out of range.
    #[error(transparent)]
    Speed(#[from] crate::clock::BadSpeed),
    /// The cloud cannot be used.
    #[error("cloud: {0}")]
    Cloud(String),
    /// A document is not YAML, or not an object.
    #[error("document {index}: {why}")]
    Document {
        /// Its place in the text, from 1.
        index: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The API server refused an object.
    #[error("{what}: {source}")]
    Refused {
        /// Kind and name.
        what: String,
        /// The server's answer.
        source: Box<fleetwright_fake_kube::ApiError>,
    },
}
