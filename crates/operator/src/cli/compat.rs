//! Options of `compat`.

use std::path::PathBuf;

use clap::Subcommand;
use fleetwright_controllers::settings::SolveEffort;

use super::{TableOrJson, budget};
use crate::catalogue::CatalogueOptions;

/// Options of `compat`, beside the controller's settings, which are those of the running Deployment where no flag says otherwise.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct CompatOptions {
    /// What to do instead of the checks.
    #[command(subcommand)]
    pub(crate) tool: Option<CompatTool>,
    /// Manifests or dumps to read instead of the cluster; `-` is standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE_OR_DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// The time of the decision, such as 2026-01-31T12:00:00Z. Defaults to now.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<jiff::Timestamp>,
    /// AWS: policies of the controller's role, as JSON (may be repeated); checked as by `iam check`.
    #[arg(long, value_name = "FILE")]
    pub(crate) iam_policy: Vec<PathBuf>,
    /// How long to improve a plan: a duration such as 500ms, or a number of rounds such as 2000it, which is reproducible.
    #[arg(long, default_value = "500ms", value_parser = budget)]
    pub(crate) budget: SolveEffort,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = TableOrJson::Table)]
    pub(crate) output: TableOrJson,
    /// Region and prices of the instance types.
    #[command(flatten)]
    pub(crate) catalogue: CatalogueOptions,
}

/// What `compat` does instead of the checks.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum CompatTool {
    /// Lists the annotations, conditions and finalizers of Fleetwright on objects, for a cluster that went back to Karpenter.
    Clean(CleanOptions),
}

/// Options of `compat clean`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CleanOptions {
    /// Manifests or dumps to read instead of the cluster; `-` is standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE_OR_DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Remove them from the cluster.
    #[arg(long)]
    pub(crate) apply: bool,
    /// Also annotations that users set.
    #[arg(long)]
    pub(crate) all: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = TableOrJson::Table)]
    pub(crate) output: TableOrJson,
}
