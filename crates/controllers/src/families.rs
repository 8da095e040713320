//! All metric families: `docs/metrics.md` documents exactly those that the process exposes.

use std::{fmt::Write as _, fs, path::Path};

use fleetwright_core::cloud::{NodeClassKind, ProviderInfo};

use crate::{
    disruption::figures,
    metrics::{DURATION_BUCKETS, Family, MetricType, cloud, cluster, pods, requests, runtime, scheduling},
    nodeclaim::families as life,
    observability, safety,
    shadow::families as shadow,
};

const CALLS: &[Family] =
    &[cloud::DURATION, cloud::ERRORS, requests::TOTAL, requests::REST, requests::DURATION];
/// With the provider's well-known labels.
const NODES: &[Family] = &[
    cluster::NODES_ALLOCATABLE,
    cluster::NODES_POD_REQUESTS,
    cluster::NODES_POD_LIMITS,
    cluster::NODES_DAEMON_LIMITS,
    cluster::NODES_DAEMON_REQUESTS,
    cluster::NODES_SYSTEM_OVERHEAD,
    cluster::NODES_LIFETIME,
];
const CLUSTER: &[Family] = &[
    cluster::UTILIZATION,
    cluster::STATE_NODE_COUNT,
    cluster::STATE_SYNCED,
    cluster::STATE_UNSYNCED_TIME,
    cluster::POOL_LIMIT,
    cluster::POOL_USAGE,
    cluster::POOL_COST,
    cluster::POOL_COST_ERRORS,
    cluster::OFFERING_PRICE,
    cluster::OFFERING_AVAILABLE,
    cluster::TYPE_CPU,
    cluster::TYPE_MEMORY,
];
const PODS: &[Family] = &[
    pods::STATE,
    pods::STARTUP,
    pods::BOUND,
    pods::PROVISIONING_BOUND,
    pods::PROVISIONING_STARTUP,
    pods::UNSTARTED,
    pods::UNBOUND,
    pods::PROVISIONING_UNBOUND,
    pods::PROVISIONING_UNSTARTED,
    pods::UNDECIDED,
];
const RUNTIME: &[Family] = &[
    runtime::RECONCILES,
    runtime::RECONCILE_ERRORS,
    runtime::PANICS,
    runtime::TERMINAL_ERRORS,
    runtime::TIMEOUTS,
    runtime::CONVERSION_PANICS,
    runtime::RECONCILE_TIME,
    runtime::WATCH_ERRORS,
    runtime::FEATURE_OFF,
    runtime::QUEUE_DEPTH,
    runtime::QUEUE_ADDS,
    runtime::QUEUE_RETRIES,
    runtime::QUEUE_WORK,
    runtime::QUEUE_WAIT,
    runtime::QUEUE_UNFINISHED,
    runtime::QUEUE_LONGEST,
    runtime::LEADER,
    runtime::LEADER_SLOW,
    runtime::ACTIVE,
    runtime::MAX_CONCURRENT,
    runtime::BUILD_INFO,
    runtime::CLOCK_JUMPS,
];
const SCHEDULING: &[Family] = &[
    scheduling::NODECLAIMS_CREATED,
    scheduling::SCHEDULING_DURATION,
    scheduling::QUEUE_DEPTH,
    scheduling::UNFINISHED_WORK,
    scheduling::IGNORED_PODS,
    scheduling::UNSCHEDULABLE_PODS,
    scheduling::DECISION_DURATION,
    scheduling::ZONE_PODS,
];
const DISRUPTION: &[Family] = &[
    figures::DECISIONS,
    figures::DECISIONS_BY_POOL,
    figures::EVALUATION,
    figures::ELIGIBLE,
    figures::TIMEOUTS,
    figures::FAILED_VALIDATIONS,
    figures::QUEUE_FAILURES,
    figures::SAVINGS,
    figures::ALLOWED,
    figures::CONSUMING,
    figures::DISRUPTED,
    figures::PODS_DISRUPTED,
    figures::SCORE,
    figures::MOVES,
    figures::UNREACHED,
    figures::DRIFT_CAP,
];
const LIFE: &[Family] = &[
    life::CLAIMS_TERMINATED,
    life::CLAIMS_UNHEALTHY,
    life::CLAIM_TERMINATION,
    life::INSTANCE_TERMINATION,
    life::NODES_CREATED,
    life::NODES_TERMINATED,
    life::NODE_TERMINATION,
    life::NODE_LIFETIME,
    life::NODES_DRAINED,
    life::EVICTION_REQUESTS,
    life::PODS_DRAINED,
    life::ORPHANS_TERMINATED,
    life::PODS_RELEASED,
    life::OBSERVATIONS,
    life::OBSERVED,
    life::INITIALIZATION_TIMEOUTS,
    safety::HELD,
];

const SHADOW: &[Family] = &[
    shadow::BATCHES,
    shadow::OPEN_BATCHES,
    shadow::DIFFERENCES,
    shadow::CLAIMS,
    shadow::PRICE,
    shadow::DISRUPTIONS,
    shadow::STANDING_SAVINGS,
];

/// Every family, by name.
fn all() -> Vec<Family> {
    let info = provider();
    let kinds = observability::status::families(&info);
    let of_kinds = kinds.iter().flat_map(|families| families.all()).cloned();
    let names: Vec<String> = cluster::well_known_labels(&info.schema).into_keys().collect();
    let of_nodes = NODES.iter().map(|family| family.with_labels(&names));
    let rest = [CALLS, CLUSTER, PODS, RUNTIME, SCHEDULING, DISRUPTION, LIFE, SHADOW].concat();
    let mut all: Vec<Family> = of_kinds.chain(of_nodes).chain(rest).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// The provider whose kinds and labels the table shows.
fn provider() -> ProviderInfo {
    let kind = NodeClassKind::new("karpenter.kwok.sh", "v1alpha1", "KWOKNodeClass", "kwoknodeclasses");
    ProviderInfo::new("kwok", [kind])
}

fn row(family: &Family) -> String {
    let metric_type = match family.metric_type {
        MetricType::Counter => "counter",
        MetricType::Gauge => "gauge",
        MetricType::Histogram(_) => "histogram",
        MetricType::Summary => "summary",
    };
    let labels: Vec<String> = family.labels.names().into_iter().map(|label| format!("`{label}`")).collect();
    format!("| `{}` | {metric_type} | {} | {} |", family.name, labels.join(", "), family.help)
}

/// `UPDATE_METRICS=1` rewrites the table.
#[test]
#[expect(clippy::disallowed_methods, reason = "the switch that writes the table again")]
fn the_documented_table_matches_the_exposed_metrics() {
    const HEAD: &str = "| Name | Type | Labels | Description |\n|---|---|---|---|\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let text = fs::read_to_string(&path).unwrap();
    let start = text.find(HEAD).expect("the table's head") + HEAD.len();
    let mut table = String::new();
    for family in all() {
        writeln!(table, "{}", row(&family)).unwrap();
    }
    if std::env::var_os("UPDATE_METRICS").is_some() {
        fs::write(&path, format!("{}{table}", &text[..start])).unwrap();
        return;
    }
    for (documented, exposed) in text[start..].lines().zip(table.lines()) {
        assert_eq!(documented, exposed);
    }
    assert_eq!(text[start..].lines().count(), table.lines().count());
}

/// Names and labels as dashboards made for Karpenter use them, written down independently of the code.
#[test]
fn dashboards_find_their_metrics() {
    const EXPECTED: &[(&str, &str)] = &[
        ("karpenter_cloudprovider_duration_seconds", "controller method provider"),
        ("karpenter_cloudprovider_errors_total", "controller error method provider"),
        ("karpenter_cluster_state_node_count", ""),
        ("karpenter_cluster_state_synced", ""),
        ("karpenter_cluster_utilization_percent", "resource_type"),
        ("karpenter_nodeclaims_created_total", "min_values_relaxed nodepool reason"),
        (
            "karpenter_nodeclaims_disrupted_total",
            "capacity_type consolidation_policy nodepool reason termination_mode",
        ),
        ("karpenter_nodeclaims_terminated_total", "capacity_type nodepool zone"),
        ("karpenter_nodepools_allowed_disruptions", "nodepool reason"),
        ("karpenter_nodepools_cost_total", "nodepool"),
        ("karpenter_nodepools_limit", "nodepool resource_type"),
        ("karpenter_nodepools_usage", "nodepool resource_type"),
        (
            "karpenter_nodes_total_pod_limits",
            "arch capacity_type instance_type managed node_name nodepool os phase region resource_type \
             windows_build zone",
        ),
        ("karpenter_pods_bound_duration_seconds", ""),
        ("karpenter_pods_startup_duration_seconds", ""),
        (
            "karpenter_pods_state",
            "arch capacity_type instance_type managed name namespace node nodepool owner phase ready scheduled \
             zone",
        ),
        ("karpenter_scheduler_pending_pods_by_effective_zone_count", "controller zone"),
        ("karpenter_scheduler_queue_depth", "controller scheduling_id"),
        ("karpenter_scheduler_unschedulable_pods_count", "controller"),
        (
            "karpenter_voluntary_disruption_decisions_by_nodepool_total",
            "consolidation_type decision nodepool reason",
        ),
        ("karpenter_voluntary_disruption_decisions_total", "consolidation_type decision reason"),
        ("karpenter_voluntary_disruption_eligible_nodes", "reason"),
        ("client_go_request_duration_seconds", "group kind subresource verb version"),
        ("client_go_request_total", "code method"),
        ("controller_runtime_reconcile_errors_total", "controller"),
        (
            "operator_nodeclaim_status_condition_transitions_total",
            "karpenter_kwok_sh_kwoknodeclass karpenter_sh_nodepool reason status type",
        ),
        (
            "operator_node_status_condition_count",
            "karpenter_kwok_sh_kwoknodeclass karpenter_sh_initialized karpenter_sh_nodepool name namespace reason \
             status type",
        ),
        ("operator_nodepool_status_condition_current_status_seconds", "name namespace reason status type"),
        ("operator_status_condition_transition_seconds", "group kind status type"),
        ("workqueue_depth", "controller name priority"),
        ("workqueue_work_duration_seconds", "controller name"),
    ];
    let all = all();
    for (name, labels) in EXPECTED {
        let family = all.iter().find(|family| family.name == *name);
        let mut found = family.unwrap_or_else(|| panic!("{name} is missing")).labels.names();
        found.sort_unstable();
        assert_eq!(found.join(" "), *labels, "{name}");
    }
}

/// A declared family that is not in the list would be exposed without documentation.
#[test]
fn the_list_is_complete() {
    fn declared(folder: &Path) -> usize {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries
            .map(|path| match path.file_name().and_then(|name| name.to_str()) {
                _ if path.is_dir() => declared(&path),
                // This file.
                _ if path.ends_with("src/families.rs") => 0,
                Some("tests.rs" | "status.rs") => 0,
                _ => {
                    let text = fs::read_to_string(&path).unwrap();
                    text.split_whitespace()
                        .collect::<Vec<_>>()
                        .join(" ")
                        .matches(": Family = Family::")
                        .count()
                }
            })
            .sum()
    }
    let of_kinds = 6 * observability::status::families(&provider()).len();
    // Deleted claims are counted in two places, under one name.
    let twice = 1;
    let declared = declared(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert_eq!(declared + of_kinds - twice, all().len());
}

/// Karpenter's families, as its reference states them: name, type, labels and buckets, or a stated difference.
#[test]
fn karpenters_families_are_equal() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let table = fs::read_to_string(root.join("tests/metrics/karpenter.tsv")).unwrap();
    let documented = fs::read_to_string(root.join("docs/metrics.md")).unwrap();
    let all = all();
    let sorted = |labels: &mut Vec<String>| labels.sort();
    let (mut rows, mut faults) = (0, Vec::new());
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        rows += 1;
        let mut columns = line.split('\t').map(|column| {
            column
                .replace("{nodeclass}", "kwoknodeclass")
                .replace("{class}", "karpenter_kwok_sh_kwoknodeclass")
        });
        let mut next = || columns.next().unwrap_or_default();
        let (name, metric_type, labels, buckets, difference) = (next(), next(), next(), next(), next());
        let mut expected: Vec<String> = labels.split_whitespace().map(str::to_owned).collect();
        sorted(&mut expected);
        // The provider's families are compared with the table of the documentation, which a test of the provider compares with them.
        let row = documented.lines().find(|row| row.starts_with(&format!("| `{name}` |")));
        let Some(row) = row else {
            faults.push(format!("{name} is missing"));
            continue;
        };
        let cells: Vec<&str> = row.split(" | ").collect();
        let mut found: Vec<String> = cells[2]
            .split(", ")
            .map(|label| label.replace('`', ""))
            .filter(|label| !label.is_empty())
            .collect();
        sorted(&mut found);
        let family = all.iter().find(|family| family.name == name);
        let bounds = match family.map(|family| family.metric_type) {
            Some(MetricType::Histogram(bounds)) if bounds == DURATION_BUCKETS => "durations".to_owned(),
            Some(MetricType::Histogram(bounds)) => {
                bounds.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            }
            _ => String::new(),
        };
        let numbers = |text: &str| text.split(' ').map(|one| one.parse::<f64>().ok()).collect::<Vec<_>>();
        let equal_buckets =
            matches!(&*buckets, "*" | "aws") || bounds == buckets || numbers(&bounds) == numbers(&buckets);
        let is_equal = cells[1].trim() == metric_type && found == expected && equal_buckets;
        if is_equal != difference.is_empty() {
            faults.push(format!(
                "{name}: {} {found:?} {bounds}, expected {metric_type} {expected:?} {buckets}",
                cells[1]
            ));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_eq!(rows, 135);
}

/// The families and labels that Karpenter's Grafana dashboards (capacity, performance, controllers) query.
#[test]
fn grafana_dashboards_find_their_metrics() {
    const EXPECTED: &[(&str, &[&str])] = &[
        (
            "karpenter_pods_state",
            &["phase", "nodepool", "zone", "arch", "capacity_type", "instance_type", "name"],
        ),
        ("karpenter_nodes_termination_duration_seconds", &[]),
        ("karpenter_pods_startup_duration_seconds", &[]),
        ("controller_runtime_reconcile_time_seconds", &["controller"]),
        ("controller_runtime_reconcile_total", &["controller"]),
        ("karpenter_nodepools_usage", &["nodepool", "resource_type"]),
        ("karpenter_nodepools_limit", &["nodepool", "resource_type"]),
        (
            "karpenter_nodes_allocatable",
            &["instance_type", "zone", "arch", "capacity_type", "nodepool", "resource_type"],
        ),
        ("karpenter_nodes_total_pod_requests", &["node_name", "nodepool", "resource_type"]),
        ("karpenter_nodeclaims_created_total", &["nodepool", "reason"]),
        ("karpenter_nodeclaims_terminated_total", &["nodepool"]),
        ("karpenter_nodeclaims_disrupted_total", &["nodepool", "reason"]),
        ("karpenter_voluntary_disruption_decisions_total", &["decision", "reason"]),
        ("karpenter_voluntary_disruption_eligible_nodes", &["reason"]),
        ("workqueue_depth", &["name"]),
    ];
    let all = all();
    for (name, labels) in EXPECTED {
        let family = all.iter().find(|family| family.name == *name).unwrap_or_else(|| panic!("{name}"));
        let found = family.labels.names();
        assert!(labels.iter().all(|label| found.contains(label)), "{name}: {found:?}");
    }
}
