//! Every query asks for what there is, every label in a legend too, and every alert has its section in the runbook.

use std::collections::BTreeSet;
use std::fs;

use super::queries::{Metrics, is_conditional};
use super::{Dashboards, alerts, dashboards, grafana, live};
use crate::book::anchors;
use crate::shell;

fn metrics() -> Metrics {
    Metrics::documented(&shell::root()).unwrap()
}

fn panels(dashboards: &Dashboards) -> impl Iterator<Item = (String, &str, &str)> {
    dashboards.dashboards.iter().flat_map(|page| {
        page.panels.iter().flat_map(|panel| {
            panel.queries.iter().map(|(query, legend)| {
                (format!("{}, {}", page.title, panel.title), query.as_str(), legend.as_str())
            })
        })
    })
}

#[test]
fn queries_of_panels_ask_for_what_there_is() {
    let (metrics, dashboards) = (metrics(), dashboards(&shell::root()).unwrap());
    assert!(metrics.count() > 200, "docs/metrics.md was read: {}", metrics.count());
    assert_eq!(dashboards.dashboards.len(), 5);
    for (place, query, legend) in panels(&dashboards) {
        let query = live::without_variables(query);
        if let Err(error) = metrics.check(&query) {
            panic!("{place}: {error:#}\n{query}");
        }
        for label in
            legend.split("{{").skip(1).filter_map(|rest| rest.split_once("}}")).map(|(label, _)| label)
        {
            let is_kept = query.split("by (").skip(1).any(|rest| {
                rest.split(')').next().is_some_and(|list| list.split(", ").any(|one| one == label))
            });
            assert!(is_kept, "{place}: the query drops the label `{label}` of its legend\n{query}");
        }
    }
    for listed in grafana::variable_queries() {
        let inner = listed.trim_start_matches("label_values(").trim_end_matches(')');
        let (metric, label) = inner.split_once(", ").unwrap();
        metrics.check(&format!("max by ({label}) ({metric})")).unwrap();
    }
}

#[test]
fn alerts_ask_for_what_there_is_and_have_a_runbook() {
    let (metrics, alerts, root) = (metrics(), alerts(&shell::root()).unwrap(), shell::root());
    let page = alerts.runbook.rsplit("/blob/main/").next().unwrap();
    let sections = anchors(&fs::read_to_string(root.join(page)).unwrap());
    let mut names = BTreeSet::new();
    for alert in &alerts.alerts {
        let name = &alert.name;
        assert!(names.insert(name), "{name} is there twice");
        if let Err(error) = metrics.check(&alert.query) {
            panic!("{name}: {error:#}\n{}", alert.query);
        }
        assert!(
            is_conditional(&alert.query),
            "{name} fires always: its query compares nothing\n{}",
            alert.query
        );
        assert!(sections.contains(&alert.anchor), "{name}: {page} has no section #{}", alert.anchor);
        assert!(alert.lasts.ends_with('m'), "{name}: `for` is in minutes");
        assert!(!alert.about.is_empty() && !alert.summary.is_empty(), "{name} says nothing");
    }
}

#[test]
fn wrong_queries_are_found() {
    let metrics = metrics();
    for (query, expected) in [
        ("sum(karpenter_nodes_gone)", "the metric `karpenter_nodes_gone` does not exist (docs/metrics.md)"),
        (
            "sum(rate(karpenter_pods_bound_duration_seconds[5m]))",
            "the metric `karpenter_pods_bound_duration_seconds` does not exist",
        ),
        (
            "max(karpenter_nodepools_cost_total{pool=\"a\"})",
            "the metric `karpenter_nodepools_cost_total` has no label `pool`",
        ),
        (
            "sum by (zone) (karpenter_nodepools_cost_total)",
            "groups by `zone`, a label that none of its metrics has",
        ),
        (
            "sum(rate(karpenter_nodepools_cost_total[5m]))",
            "takes a rate of `karpenter_nodepools_cost_total`, which is a gauge",
        ),
        ("sum(karpenter_nodepools_cost_total", "no PromQL"),
        ("vector(1)", "asks for no metric"),
        ("max(operator_ec2nodeclass_status_condition_count{kind=\"x\"})", "has no label `kind`"),
    ] {
        let error = metrics.check(query).unwrap_err().to_string();
        assert!(error.contains(expected), "{query}: {error}");
    }
}

#[test]
fn an_alert_without_a_condition_is_found() {
    // The comparison belongs to the right side of `and`.
    assert!(!is_conditional("increase(a_total[5m]) and on (job) b > 0"));
    assert!(is_conditional("(increase(a_total[5m]) > 0) and on (job) b"));
    assert!(is_conditional("absent(b)"));
    assert!(!is_conditional("a + b"));
}

#[test]
fn panels_describe_themselves() {
    for page in dashboards(&shell::root()).unwrap().dashboards {
        for panel in page.panels {
            let (title, empty) = (&panel.title, &panel.empty);
            assert!(
                !panel.about.is_empty() && !panel.queries.is_empty(),
                "{title}: no description or no query"
            );
            let is_part = |why: &String| !why.is_empty() && !why.ends_with('.');
            assert!(
                empty.as_ref().is_none_or(is_part),
                "{title}: `empty` completes the sentence \"Empty if …\""
            );
        }
    }
}
