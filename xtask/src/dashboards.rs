//! Dashboards and alerts: `dashboards/*.toml` describes them, and Grafana's JSON and a PrometheusRule are generated from that.
//!
//! The tests beside it check every query against the metrics that `docs/metrics.md` lists, and every runbook link;
//! [`live`] runs every query on a real Prometheus.

mod grafana;
pub(crate) mod live;
#[cfg(test)]
mod queries;
mod rules;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The folder of the descriptions and of what is generated from them.
const FOLDER: &str = "dashboards";

/// `dashboards/dashboards.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dashboards {
    #[serde(rename = "dashboard")]
    pub(crate) dashboards: Vec<Dashboard>,
}

/// One page of Grafana.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dashboard {
    /// The file's name and the end of the page's UID.
    file: String,
    title: String,
    about: String,
    /// The cloud that has these metrics, where not every cloud has them.
    cloud: Option<String>,
    #[serde(rename = "panel")]
    panels: Vec<Panel>,
}

/// A graph, or a figure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Panel {
    /// The heading above it; panels of one row follow each other.
    row: String,
    title: String,
    /// A figure instead of a graph.
    #[serde(default)]
    stat: bool,
    /// The figure shows the legend, not the value.
    #[serde(default)]
    text: bool,
    /// Grafana's name of the unit.
    unit: String,
    /// PromQL and legend of each series.
    queries: Vec<(String, String)>,
    about: String,
    /// Why it may show nothing.
    empty: Option<String>,
}

/// `dashboards/alerts.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Alerts {
    /// Where the page is that the anchors are on.
    runbook: String,
    #[serde(rename = "alert")]
    alerts: Vec<Alert>,
}

/// A rule that fires.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Alert {
    name: String,
    query: String,
    /// How long the query has to have results.
    #[serde(rename = "for")]
    lasts: String,
    severity: Severity,
    summary: String,
    about: String,
    /// The section of the runbook.
    anchor: String,
}

/// How soon a person has to look.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Critical,
    Warning,
}

/// Reads the dashboards.
pub(crate) fn dashboards(root: &Path) -> anyhow::Result<Dashboards> {
    read(root, "dashboards.toml")
}

/// Reads the alerts.
pub(crate) fn alerts(root: &Path) -> anyhow::Result<Alerts> {
    read(root, "alerts.toml")
}

/// The files that are generated, with their text.
pub(crate) fn files(root: &Path) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let folder = root.join(FOLDER);
    let mut files = vec![(folder.join("prometheus-rule.yaml"), rules::manifest(&alerts(root)?)?)];
    for dashboard in &dashboards(root)?.dashboards {
        files.push((
            folder.join("grafana").join(format!("{}.json", dashboard.file)),
            grafana::page(dashboard)?,
        ));
    }
    Ok(files)
}

fn read<T: DeserializeOwned>(root: &Path, name: &str) -> anyhow::Result<T> {
    let path = root.join(FOLDER).join(name);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is not a description", path.display()))
}
