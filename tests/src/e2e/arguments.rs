//! The user's options: tier, cases, seed; and tools from the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Parser, ValueEnum};

/// The command line of `cargo xtask e2e`.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask e2e",
    about = "The operator and the fake cloud against a Kubernetes API server"
)]
pub struct Arguments {
    /// Which API server the cases run against
    #[arg(long, value_enum, default_value_t = Tier::Kube)]
    pub tier: Tier,
    /// Seed of everything that is random in the cases; drawn and printed when absent
    #[arg(long)]
    pub seed: Option<u64>,
    /// How many cases run side by side, each lane on a control plane of its own
    #[arg(long, default_value_t = 3)]
    pub lanes: usize,
    /// List the cases with what each of them shows, and stop
    #[arg(long)]
    pub list: bool,
    /// Write the metrics ports of the operators to files in this folder, for `file_sd_configs` of a Prometheus
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["list", "speed", "price", "exec"])]
    pub scrape: Option<PathBuf>,
    /// Record the server's answers to refused objects in tests/e2e/refusals.json (kube tier only)
    #[arg(long)]
    pub bless: bool,
    /// Measure instead of running cases: from pods to claims, to bound, to an empty fleet
    #[arg(long, conflicts_with_all = ["cases", "list", "bless"])]
    pub speed: bool,
    /// Measure the realized price of a fleet instead of running cases, and judge each disruption of it
    #[arg(long, conflicts_with_all = ["cases", "list", "bless", "speed"])]
    pub price: bool,
    /// With --price: the mix of pods
    #[arg(long, value_enum, default_value_t = FleetMix::Generic)]
    pub fleet: FleetMix,
    /// With --price: nominate pods to the nodes that are launched for them
    #[arg(long)]
    pub nominate: bool,
    /// How many pods, one measurement each: 1000,5000 with --speed, 120 with --price
    #[arg(long, value_delimiter = ',')]
    pub pods: Vec<usize>,
    /// Start the API server, run this command with an administrator's KUBECONFIG, and stop: for programs outside of this repository
    #[arg(long, num_args = 1.., allow_hyphen_values = true, value_name = "COMMAND")]
    #[arg(conflicts_with_all = ["cases", "list", "bless", "speed"])]
    pub exec: Vec<String>,
    /// The cases to run; all of them when absent
    #[arg(value_name = "CASE")]
    pub cases: Vec<String>,
}

/// The mixes of pods whose realized price is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FleetMix {
    /// Requests alone
    Generic,
    /// A third each: requests alone, a hard spread over zones, anti-affinity by hostname
    Diverse,
}

/// The two API servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tier {
    /// A real kube-apiserver with etcd, kube-scheduler and kube-controller-manager
    Kube,
    /// `fleetwright fake-kube`: our in-memory API server with its world actors
    FakeKube,
    /// As kube, with cases beside Karpenter itself: a build of its kwok provider from the Go module proxy
    Karpenter,
}

impl Tier {
    /// The name on the command line, also that of the tier's folder.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kube => "kube",
            Self::FakeKube => "fake-kube",
            Self::Karpenter => "karpenter",
        }
    }

    /// Whether its API server is Kubernetes' own.
    #[must_use]
    pub fn is_real(self) -> bool {
        self != Self::FakeKube
    }
}

/// Where things are on this instance.
#[derive(Debug)]
pub struct Environment {
    /// The operator's binary, built beside the runner's.
    pub operator: PathBuf,
    /// `target/` of the workspace: control planes are cached here, runs keep their logs here.
    pub target: PathBuf,
    /// The repository.
    pub root: PathBuf,
    /// `KUBEBUILDER_ASSETS`, if set and not empty.
    pub assets: Option<PathBuf>,
    /// `PATH`, handed on to the processes, which inherit nothing else.
    pub path: OsString,
}

impl Environment {
    /// Derives all places from the runner's own: `target/<profile>/fleetwright-e2e`.
    ///
    /// # Errors
    /// When `runner` does not lie in a folder of a target folder.
    pub fn new(runner: PathBuf, assets: Option<OsString>, path: OsString) -> anyhow::Result<Self> {
        let profile = runner.parent().context("the runner's own path has no folder")?;
        let target = profile.parent().context("the runner does not lie in target/<profile>/")?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the tests crate has no parent")?;
        Ok(Self {
            operator: profile.join(format!("fleetwright{}", std::env::consts::EXE_SUFFIX)),
            target: target.to_path_buf(),
            root: root.to_path_buf(),
            assets: assets.filter(|folder| !folder.is_empty()).map(PathBuf::from),
            path,
        })
    }
}
