//! The alerts as a PrometheusRule, the object of the Prometheus operator.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Alert, Alerts, Severity};

/// Where the text comes from.
const HEADER: &str = "# Written by `cargo xtask generate` from dashboards/alerts.toml; do not edit.\n";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Metadata<'a>,
    spec: Groups<'a>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    labels: BTreeMap<&'a str, &'a str>,
}

/// What a rule file of Prometheus has.
#[derive(Serialize)]
struct Groups<'a> {
    groups: [Group<'a>; 1],
}

#[derive(Serialize)]
struct Group<'a> {
    name: &'a str,
    rules: Vec<Rule<'a>>,
}

#[derive(Serialize)]
struct Rule<'a> {
    alert: &'a str,
    expr: &'a str,
    #[serde(rename = "for")]
    lasts: &'a str,
    labels: BTreeMap<&'a str, &'a str>,
    annotations: BTreeMap<&'a str, String>,
}

/// The PrometheusRule as YAML.
pub(super) fn manifest(alerts: &Alerts) -> anyhow::Result<String> {
    let manifest = Manifest {
        api_version: "monitoring.coreos.com/v1",
        kind: "PrometheusRule",
        metadata: Metadata {
            name: "fleetwright",
            labels: BTreeMap::from([("app.kubernetes.io/name", "karpenter")]),
        },
        spec: groups(alerts),
    };
    Ok(format!("{HEADER}{}", serde_saphyr::to_string(&manifest)?))
}

/// The rules as a rule file, which promtool reads.
pub(super) fn rule_file(alerts: &Alerts) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(&groups(alerts))?)
}

fn groups(alerts: &Alerts) -> Groups<'_> {
    let rules = alerts.alerts.iter().map(|alert| rule(alert, &alerts.runbook)).collect();
    Groups { groups: [Group { name: "fleetwright", rules }] }
}

fn rule<'a>(alert: &'a Alert, runbook: &str) -> Rule<'a> {
    Rule {
        alert: &alert.name,
        expr: &alert.query,
        lasts: &alert.lasts,
        labels: BTreeMap::from([("severity", alert.severity.as_str())]),
        annotations: BTreeMap::from([
            ("summary", alert.summary.clone()),
            ("description", alert.about.clone()),
            ("runbook_url", format!("{runbook}#{}", alert.anchor)),
        ]),
    }
}

// === impl Severity ===

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
        }
    }
}
