//! The command line of `shadow`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

/// Tools for shadow mode.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ShadowTool {
    /// Prints what a controller with `--shadow` compared: of the running one, or of the file that it wrote.
    Report(ShadowReportOptions),
}

/// Options of `shadow report`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ShadowReportOptions {
    /// The report that SHADOW_FILE names; `-` is standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE", conflicts_with = "url")]
    pub(crate) file: Option<PathBuf>,
    /// The running controller, for example after `kubectl port-forward`.
    #[arg(long, value_name = "URL", default_value = "http://localhost:8080/shadow")]
    pub(crate) url: String,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Table)]
    pub(crate) output: ReportFormat,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For terminals.
    Table,
    /// For programs.
    Json,
    /// One page for browsers.
    Html,
}
