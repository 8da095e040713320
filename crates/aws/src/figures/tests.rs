//! Recording, and that the documented table matches the exposed metrics.

use std::{fmt::Write as _, fs, path::Path};

use super::*;

fn row(family: &FigureFamily) -> String {
    let shape = match family.shape {
        FigureShape::Counter => "counter",
        FigureShape::Gauge => "gauge",
        FigureShape::Histogram(_) => "histogram",
    };
    let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
    format!("| `{}` | {shape} | {} | {} |", family.name, labels.join(", "), family.help)
}

/// `UPDATE_METRICS=1` rewrites the table.
#[test]
#[expect(clippy::disallowed_methods, reason = "the switch that rewrites the table")]
fn the_documented_table_matches_the_exposed_metrics() {
    const HEAD: &str = "| Name, on AWS | Type | Labels | Description |\n|---|---|---|---|\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let text = fs::read_to_string(&path).unwrap();
    let start = text.find(HEAD).expect("the table's head") + HEAD.len();
    let end = start + text[start..].find("\n\n").expect("an empty line after the table") + 1;
    let mut table = String::new();
    for family in all() {
        writeln!(table, "{}", row(family)).unwrap();
    }
    if std::env::var_os("UPDATE_METRICS").is_some() {
        fs::write(&path, format!("{}{table}{}", &text[..start], &text[end..])).unwrap();
        return;
    }
    assert_eq!(text[start..end], table);
}

/// Names and labels that dashboards for Karpenter use, written down independently of the code.
#[test]
fn dashboards_find_their_metrics() {
    for (name, labels) in [
        ("karpenter_cloudprovider_instance_launch_failures_total", "zone zone_id capacity_type reason"),
        ("karpenter_cloudprovider_instance_termination_failures_total", "zone zone_id"),
        ("karpenter_cloudprovider_batcher_batch_time_seconds", "batcher"),
        ("karpenter_cloudprovider_batcher_batch_size", "batcher"),
        ("karpenter_interruption_received_messages_total", "message_type"),
        ("karpenter_interruption_deleted_messages_total", ""),
        ("karpenter_interruption_message_queue_duration_seconds", ""),
        ("karpenter_interruption_instance_status_unhealthy_total", "category"),
        ("karpenter_ec2nodeclasses_userdata_bytes", "nodeclass"),
        ("aws_sdk_go_request_total", "service action code"),
        ("aws_sdk_go_request_retry_count", "service action code"),
        ("aws_sdk_go_request_duration_seconds", "service action code"),
        ("aws_sdk_go_request_attempt_total", "service action code"),
        ("aws_sdk_go_request_attempt_duration_seconds", "service action code"),
    ] {
        let family = all().into_iter().find(|family| family.name == name);
        assert_eq!(family.map(|family| family.labels.join(" ")).as_deref(), Some(labels), "{name}");
    }
}

#[test]
fn counters_add_up_gauges_are_the_last_and_histograms_keep_all() {
    let ledger = Ledger::default();
    for value in [1.0, 2.0] {
        ledger.note(&MESSAGES_DELETED, &[], value);
        ledger.note(&USER_DATA, &["a"], value);
        ledger.note(&BATCH_SIZE, &["create_fleet"], value);
    }
    let taken: Vec<(&str, f64)> =
        ledger.take().into_iter().map(|figure| (figure.family.name, figure.value.unwrap())).collect();
    let size = BATCH_SIZE.name;
    assert_eq!(taken, [(USER_DATA.name, 2.0), (MESSAGES_DELETED.name, 3.0), (size, 1.0), (size, 2.0)]);
    assert!(ledger.take().is_empty());
}

#[test]
fn hostile_codes_are_bounded() {
    let ledger = Ledger::default();
    for number in 0..WAITING_MAX + 10 {
        ledger.note(&LAUNCH_FAILURES, &["a", "b", "spot", &format!("{number}{}", "x".repeat(1000))], 1.0);
        ledger.note(&BATCH_SIZE, &["create_fleet"], 1.0);
    }
    let taken = ledger.take();
    assert_eq!(taken.len(), 2 * WAITING_MAX);
    assert!(taken.iter().flat_map(|figure| &figure.labels).all(|label| label.len() <= LABEL_MAX));
}
