//! The command line of `top`.

use std::time::Duration;

use super::{TableOrJson, duration};
use crate::{
    catalogue::CatalogueOptions,
    fleet::order::NodeSort,
    input::select::{InputOptions, SelectOptions},
};

/// The shortest time between two readings: each lists the pods and nodes of the cluster.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Options of `top`, beside the controller's settings.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TopOptions {
    /// Where objects are read from.
    #[command(flatten)]
    pub(crate) input: InputOptions,
    /// The nodes to show; with a namespace also the pending pods.
    #[command(flatten)]
    pub(crate) select: SelectOptions,
    /// How long to wait between two readings of a cluster; at least 1s.
    #[arg(long, default_value = "5s", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Print one frame as text, and end.
    #[arg(long)]
    pub(crate) once: bool,
    /// The size of the frame of --once, such as 120x40. Defaults to that of the terminal.
    #[arg(long, value_name = "COLUMNSxROWS", value_parser = size, requires = "once")]
    pub(crate) size: Option<(u16, u16)>,
    /// Show the last decisions too: of the metrics port of a controller with DECISIONS_ENDPOINT=true, such as http://localhost:8080 after
    /// `kubectl port-forward`, or of a file that `decisions -o json` has written.
    #[arg(long, value_name = "URL_OR_FILE")]
    pub(crate) decisions: Option<String>,
    /// What nodes are sorted by.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) sort: NodeSort,
    /// List nodes with this text in name, instance type, zone, capacity type, NodePool or state.
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// List the nodes of this NodePool.
    #[arg(long, value_name = "NAME")]
    pub(crate) nodepool: Option<String>,
    /// The time of the evaluation, such as 2026-01-31T12:00:00Z. Defaults to now.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<jiff::Timestamp>,
    /// `json` prints one report, with all nodes, and ends.
    #[arg(short, long, value_enum, default_value_t = TableOrJson::Table)]
    pub(crate) output: TableOrJson,
    /// Region and prices of the instance types.
    #[command(flatten)]
    pub(crate) catalogue: CatalogueOptions,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if interval < MIN_INTERVAL { Err("it must be at least 1s".to_owned()) } else { Ok(interval) }
}

fn size(text: &str) -> Result<(u16, u16), String> {
    let parsed =
        text.split_once('x').and_then(|(columns, rows)| Some((columns.parse().ok()?, rows.parse().ok()?)));
    parsed
        .filter(|(columns, rows)| (20..=1000).contains(columns) && (8..=1000).contains(rows))
        .ok_or_else(|| "it takes columns and rows such as 120x40, from 20x8 to 1000x1000".to_owned())
}
