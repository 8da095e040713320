//! Options of `replay`.

use std::{path::PathBuf, time::Duration};

use clap::ValueEnum;

use super::{duration, positive};
use crate::catalogue::CatalogueOptions;

/// Options of `replay`, beside the controller's settings, which are those of the first variant.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReplayOptions {
    /// A recording, an audit log, a trace of kubereplay or SimKube, or a folder of recordings, of audit logs, or of dumps.
    #[arg(value_name = "FILE_OR_DIR")]
    pub(crate) path: PathBuf,
    /// Objects that exist from the start, beside those of the trace: NodePools and NodeClasses, which traces of workloads lack, or
    /// DaemonSets.
    #[arg(short = 'f', long = "filename", value_name = "FILE_OR_DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Play the same load with these settings too, such as PACKER=compatible; several with ';' between them (may be repeated).
    #[arg(long, value_name = "SETTING=VALUE")]
    pub(crate) against: Vec<String>,
    /// Stop after this much virtual time (a duration such as 2h). Defaults to the whole trace.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) until: Option<Duration>,
    /// How much faster than the wall clock time passes at most, from 0.01 to 10000. Defaults to as fast as possible.
    #[arg(long, value_parser = positive)]
    pub(crate) speed: Option<f64>,
    /// Show the replay in the terminal as `top` shows a cluster, at --speed (60 by default), and print the report afterwards.
    #[arg(long, conflicts_with = "against")]
    pub(crate) top: bool,
    /// The seed of names and of the simulated cloud.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = ReplayFormat::Table)]
    pub(crate) output: ReplayFormat,
    /// Region and prices of the instance types.
    #[command(flatten)]
    pub(crate) catalogue: CatalogueOptions,
}

/// How a replay is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReplayFormat {
    /// For people.
    Table,
    /// For programs.
    Json,
}
