//! Configuration of a simulator, and its errors.

use std::sync::Arc;

use fleetwright_controllers::settings::{Settings, SolveEffort};
use fleetwright_core::cloud::CloudProvider;
use fleetwright_fake::{Catalogue, Cloud, CloudConfig, catalogue::realistic, kubelet::KubeletConfig};
use fleetwright_fake_kube::{Audit, Faults};
use jiff::Timestamp;

use super::{cloud::CloudSetup, fake::FakeSetup, link::Distortion};

/// Seed of the realistic catalogue's spot prices: equal for all simulators.
const MARKET: u64 = 1;
/// Improvement rounds per plan: reproducible, and enough for the clusters of a demo.
const ROUNDS: u32 = 200;

/// Wraps the provider of the controllers; also gets the instances in memory.
pub type Wrap = Arc<dyn Fn(Arc<dyn CloudProvider>, &Arc<Cloud>) -> Arc<dyn CloudProvider> + Send + Sync>;

/// Configuration of a simulator.
#[derive(Clone)]
pub struct SimulatorConfig {
    /// The seed of all random draws.
    pub seed: u64,
    /// The virtual start time.
    pub origin: Timestamp,
    /// The cloud.
    pub cloud: Arc<dyn CloudSetup>,
    /// Behavior of kubelets.
    pub kubelets: KubeletConfig,
    /// Settings of the controllers.
    pub settings: Settings,
    /// Whether the controllers run; without them, others can use the API server.
    pub controllers: bool,
    /// The number of operators; several elect a leader.
    pub replicas: usize,
    /// Whether the API server tracks managed fields; nothing in a simulator reads them.
    pub track_updates: bool,
    /// Whether [`super::Simulator::observe`] counts created and deleted NodeClaims.
    pub count_removals: bool,
    /// Faults of the API server.
    pub faults: Option<Arc<dyn Faults>>,
    /// Receives every request to the API server with the status of its answer.
    pub audit: Option<Audit>,
    /// A wrapper between the controllers and their cloud.
    pub wrap: Option<Wrap>,
    /// A wrapper between the operators and their API server.
    pub distort: Option<Arc<dyn Distortion>>,
    /// Bearer token for clients of [`super::Simulator::listen`].
    pub token: Option<String>,
}

impl std::fmt::Debug for SimulatorConfig {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SimulatorConfig")
            .field("seed", &self.seed)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl SimulatorConfig {
    /// A simulator with `seed` that starts at `origin`, in tokio's own time, with the realistic catalogue and a cloud without faults.
    #[must_use]
    pub fn new(seed: u64, origin: Timestamp) -> Self {
        Self::selling(seed, origin, realistic(MARKET))
    }

    /// The same with another catalogue.
    #[must_use]
    pub fn selling(seed: u64, origin: Timestamp, catalogue: Catalogue) -> Self {
        let config = CloudConfig { seed, ..CloudConfig::default() };
        Self::over(seed, origin, Arc::new(FakeSetup { catalogue, config }))
    }

    /// The same over another cloud.
    #[must_use]
    pub fn over(seed: u64, origin: Timestamp, cloud: Arc<dyn CloudSetup>) -> Self {
        Self {
            seed,
            origin,
            cloud,
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

/// Why a simulator cannot be created, or rejects a document.
#[derive(Debug, thiserror::Error)]
pub enum SimulatorError {
    /// The cloud cannot be used.
    #[error("cloud: {0}")]
    Cloud(String),
    /// A document is not YAML, or not an object.
    #[error("document {index}: {why}")]
    Document {
        /// Its number in the text, from 1.
        index: usize,
        /// The problem.
        why: String,
    },
    /// The API server rejected an object.
    #[error("{what}: {source}")]
    Refused {
        /// Kind and name.
        what: String,
        /// The server's answer.
        source: Box<fleetwright_fake_kube::ApiError>,
    },
}
