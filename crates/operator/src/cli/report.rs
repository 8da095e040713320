//! The command line of `report`.

use std::path::PathBuf;

use fleetwright_controllers::settings::SolveEffort;

use super::budget;
use crate::{
    catalogue::CatalogueOptions,
    input::select::{InputOptions, SelectOptions},
};

/// Options of `report`, beside the controller's settings.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReportOptions {
    /// Where objects are read from.
    #[command(flatten)]
    pub(crate) input: InputOptions,
    /// The nodes and pending pods to list; costs and the cheapest plan are always those of the whole cluster.
    #[command(flatten)]
    pub(crate) select: SelectOptions,
    /// A file for the page; or `json`, which prints its data.
    #[arg(short, long, value_name = "FILE|json", default_value = "report.html", value_parser = output)]
    pub(crate) output: ReportOutput,
    /// List costs by this label of pods (may be repeated).
    #[arg(long, value_name = "KEY", default_values_t = ["app.kubernetes.io/name".to_owned()])]
    pub(crate) label: Vec<String>,
    /// The time of the evaluation, such as 2026-01-31T12:00:00Z. Defaults to now.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<jiff::Timestamp>,
    /// How long to improve the cheapest plan: a duration such as 500ms, or a number of rounds such as 2000it, which is reproducible.
    #[arg(long, default_value = "2s", value_parser = budget)]
    pub(crate) budget: SolveEffort,
    /// Region and prices of the instance types.
    #[command(flatten)]
    pub(crate) catalogue: CatalogueOptions,
}

/// Where a report goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReportOutput {
    /// Its data to standard output.
    Json,
    /// The page to a file.
    Page(PathBuf),
}

fn output(text: &str) -> Result<ReportOutput, String> {
    match text {
        "json" => Ok(ReportOutput::Json),
        "table" | "wide" | "yaml" | "csv" | "markdown" => Err(format!(
            "a report is a page or json, not {text}: name a file such as report.html, or ./{text}"
        )),
        file => Ok(ReportOutput::Page(file.into())),
    }
}
