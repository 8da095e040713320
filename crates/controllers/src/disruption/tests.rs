//! Commands survive the process that started them.

mod conditions;
mod limits;
mod naming;

use std::{sync::Arc, time::Duration};

use rstest::rstest;
use serde_json::{Value, json};

use fleetwright_core::{clock::Clock as _, model::Currency};

use super::{commands, execute, figures};
use crate::{
    runtime::Controller,
    testing::{CatalogOnly, Harness, TokioClock},
};

const SINCE: &str = "2025-06-15T15:00:00Z";

fn condition(type_: &str) -> Value {
    json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": SINCE})
}

/// A drifted node with a pod that fills it.
fn drifted(harness: &Harness, name: &str) {
    node(harness, name, "Drifted");
}

/// A node on demand with a pod that fills it, and with a condition.
fn node(harness: &Harness, name: &str, of: &str) {
    let labels = json!({
        "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "on-demand",
        "node.kubernetes.io/instance-type": "medium", "topology.kubernetes.io/zone": "a",
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": name,
        "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
    });
    let size = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    let conditions: Vec<Value> =
        ["Launched", "Registered", "Initialized", of].into_iter().map(condition).collect();
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    harness
        .server
        .apply(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "labels": labels, "finalizers": ["karpenter.sh/termination"]},
            "spec": {"nodeClassRef": class, "requirements": []},
            "status": {"providerID": format!("fake:///{name}"), "nodeName": name, "capacity": size,
                "allocatable": size, "conditions": conditions},
        }))
        .unwrap();
    harness
        .server
        .apply(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "spec": {"providerID": format!("fake:///{name}")},
            "status": {"capacity": size, "allocatable": size, "conditions": [condition("Ready")]},
        }))
        .unwrap();
    harness
        .server
        .apply(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p-{name}"), "namespace": "default"},
            "spec": {"nodeName": name, "containers": [
                {"name": "a", "image": "a", "resources": {"requests": {"cpu": "3500m"}}}]},
            "status": {"phase": "Running", "conditions": [condition("Ready")]},
        }))
        .unwrap();
}

/// The controllers of catalogues and of disruption.
fn controllers(harness: &Harness) -> Vec<Arc<dyn Controller>> {
    let mut controllers = super::controllers(&harness.ctx);
    controllers.push(Arc::new(crate::provisioning::CatalogController::new(&harness.ctx)));
    controllers
}

/// Runs them.
async fn run_for(harness: &Harness, seconds: u64) {
    let (trigger, task) = harness.run(controllers(harness));
    harness.pass(seconds).await;
    trigger.fire();
    task.await.unwrap().unwrap();
}

fn claim(harness: &Harness, name: &str) -> Value {
    let found = harness.server.get("karpenter.sh/v1", "NodeClaim", "", name);
    found.map(|claim| (*claim).clone()).unwrap_or_default()
}

fn has_record(claim: &Value) -> bool {
    claim["metadata"]["annotations"]["fleetwright.dev/disruption-command"].is_string()
}

fn tainted(harness: &Harness, name: &str) -> bool {
    let node = harness.server.get("v1", "Node", "", name).unwrap();
    node["spec"]["taints"]
        .as_array()
        .is_some_and(|all| all.iter().any(|t| t["key"] == "karpenter.sh/disrupted"))
}

/// Names of the NodeClaims that replace others.
fn replacements(harness: &Harness) -> Vec<String> {
    let all = harness.server.list("karpenter.sh/v1", "NodeClaim", "");
    let ours = all.iter().filter(|c| c["metadata"]["annotations"]["fleetwright.dev/lineage"].is_string());
    ours.map(|claim| claim["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn started_command() -> Harness {
    let harness = Harness::new();
    harness.pool("default", json!({}));
    drifted(&harness, "old");
    run_for(&harness, 30).await;
    assert!(has_record(&claim(&harness, "old")) && tainted(&harness, "old"));
    assert_eq!(replacements(&harness).len(), 1);
    harness
}

#[tokio::test(start_paused = true)]
async fn a_command_continues_after_a_restart() {
    let mut harness = started_command().await;
    let before = replacements(&harness);
    harness.restart();
    run_for(&harness, 30).await;
    assert!(
        has_record(&claim(&harness, "old")) && tainted(&harness, "old"),
        "the command is resumed, not rolled back"
    );
    assert_eq!(replacements(&harness), before, "nothing is created twice");
    let mut ready = claim(&harness, &before[0]);
    ready["status"]["conditions"] = json!([condition("Initialized")]);
    harness.server.apply(ready).unwrap();
    harness.restart();
    run_for(&harness, 30).await;
    assert!(
        claim(&harness, "old")["metadata"]["deletionTimestamp"].is_string(),
        "{:#}",
        claim(&harness, "old")
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_with_another_clock_keeps_the_command_timeout() {
    for ahead in [3600, -3600] {
        let mut harness = started_command().await;
        let before = replacements(&harness);
        harness.clock.set_ahead(ahead);
        harness.restart();
        let _running = harness.run(controllers(&harness));
        harness.pass(60).await;
        assert!(
            has_record(&claim(&harness, "old")) && tainted(&harness, "old"),
            "{ahead} s: the command is resumed"
        );
        assert_eq!(replacements(&harness), before, "{ahead} s");
        // The node is not drifted any more, so that no command follows.
        let mut old = claim(&harness, "old");
        old["status"]["conditions"].as_array_mut().unwrap().retain(|c| c["type"] != "Drifted");
        harness.server.apply(old).unwrap();
        harness.pass(600).await;
        assert!(!tainted(&harness, "old"), "{ahead} s: the timeout is ten minutes on this process's clock");
    }
}

#[tokio::test(start_paused = true)]
async fn a_completed_command_counts_what_it_saved() {
    let harness = Harness::new();
    harness.pool("default", json!({}));
    node(&harness, "old", "Consolidatable");
    harness.server.delete("v1", "Pod", "default", "p-old").unwrap();
    let savings = || {
        let labels = ["delete", "empty", "empty"];
        harness.ctx.metrics.value(&figures::SAVINGS, &labels)
    };
    assert_eq!(savings(), 0.0);
    run_for(&harness, 60).await;
    assert!(claim(&harness, "old")["metadata"]["deletionTimestamp"].is_string());
    assert!((savings() - 0.24).abs() < 1e-9, "the price of the type medium: {}", savings());
}

#[tokio::test(start_paused = true)]
async fn events_of_a_command_name_its_record() {
    for (condition, reasons) in [
        ("Consolidatable", &["ConsolidationCandidate"][..]),
        ("Drifted", &["DisruptionLaunching", "DisruptionWaitingReadiness"]),
    ] {
        let harness = Harness::new();
        harness.pool("default", json!({}));
        node(&harness, "old", condition);
        run_for(&harness, 60).await;
        let commands: Vec<String> =
            harness.recorded("disruption").iter().map(|record| record.id.clone()).collect();
        for reason in reasons {
            let named = harness.decisions_of_events(reason);
            assert!(!named.is_empty(), "{reason}: {:?}", harness.events());
            assert!(named.iter().all(|id| commands.contains(id)), "{reason}: {named:?} of {commands:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn stale_prices_suspend_consolidation() {
    for (hours, moves) in [(1, true), (25, false)] {
        let as_of = TokioClock::new().now() - jiff::SignedDuration::from_hours(hours);
        let harness = Harness::over(CatalogOnly::priced(Some(as_of)));
        harness.pool("default", json!({}));
        node(&harness, "old", "Consolidatable");
        run_for(&harness, 60).await;
        assert_eq!(has_record(&claim(&harness, "old")), moves, "prices are {hours} hours old");
    }
}

#[tokio::test(start_paused = true)]
async fn the_event_of_a_command_is_in_the_currency_of_the_cloud() {
    let mut in_china = CatalogOnly::priced(None);
    in_china.info.currency = Some(Currency::CNY);
    for (harness, expected) in [
        (Harness::new(), "savings $0."),
        (Harness::set(|settings| settings.currency = Currency::EUR), "savings €0."),
        (Harness::over(in_china), "savings CNY 0."),
    ] {
        harness.pool("default", json!({}));
        node(&harness, "old", "Consolidatable");
        run_for(&harness, 60).await;
        let events = harness.events();
        let found: Vec<_> = events.iter().filter(|event| event.contains("ConsolidationCandidate")).collect();
        assert!(!found.is_empty() && found.iter().all(|event| event.contains(expected)), "{events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_validation_delay_and_starts_no_command() {
    let harness = Harness::new();
    harness.pool("default", json!({}));
    node(&harness, "old", "Consolidatable");
    let (trigger, task) = harness.run(controllers(&harness));
    let found = || harness.events().iter().any(|event| event.contains("ConsolidationCandidate"));
    for _ in 0..60 {
        if !found() {
            harness.pass(1).await;
        }
    }
    assert!(found(), "{:?}", harness.events());
    let start = tokio::time::Instant::now();
    trigger.fire();
    task.await.unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(harness.ctx.gate.may_act(), Err(crate::runtime::Passive::Stopping));
    assert!(!has_record(&claim(&harness, "old")) && !tainted(&harness, "old"), "no command starts");
}

#[tokio::test(start_paused = true)]
async fn a_jump_of_the_wall_clock_suspends_disruption_for_a_minute() {
    // Drift is acted on at once, consolidation after validation: neither in the minute after the jump.
    let kinds = ["Drifted", "Consolidatable"];
    for (of, jump) in kinds.into_iter().flat_map(|of| [(of, 90), (of, -120)]) {
        let harness = Harness::set(|settings| settings.disruption.period = Duration::from_secs(1));
        harness.pool("default", json!({}));
        node(&harness, "old", of);
        let _running = harness.run(controllers(&harness));
        harness.pass(8).await;
        assert!(!has_record(&claim(&harness, "old")), "{of}: not yet");
        harness.clock.set_ahead(jump);
        harness.pass(55).await;
        assert!(!has_record(&claim(&harness, "old")), "{of}, {jump} s: suspended");
        assert_eq!(harness.ctx.metrics.value(&crate::metrics::runtime::CLOCK_JUMPS, &[]), 1.0);
        // The delay after a start and the validation delay come on top.
        harness.pass(if jump < 0 { 150 } else { 30 }).await;
        assert!(has_record(&claim(&harness, "old")), "{of}, {jump} s: resumed");
    }
}

#[tokio::test(start_paused = true)]
async fn drift_found_by_an_earlier_process_is_evaluated_again() {
    let harness = || {
        let harness = Harness::set(|settings| settings.disruption.period = Duration::from_secs(1));
        harness.pool("default", json!({}));
        drifted(&harness, "old");
        harness
    };
    let early = harness();
    run_for(&early, 9).await;
    assert!(!has_record(&claim(&early, "old")) && !tainted(&early, "old"));
    let late = harness();
    run_for(&late, 12).await;
    assert!(has_record(&claim(&late, "old")) && tainted(&late, "old"), "drift that still exists is acted on");
}

#[tokio::test(start_paused = true)]
async fn a_command_without_its_replacement_is_rolled_back_by_the_next_process() {
    let mut harness = started_command().await;
    let before = replacements(&harness);
    // The replacement is deleted while no process runs, and the node is not drifted any more.
    let mut gone = claim(&harness, &before[0]);
    gone["metadata"]["finalizers"] = json!([]);
    harness.server.apply(gone).unwrap();
    harness.server.delete("karpenter.sh/v1", "NodeClaim", "", &before[0]).unwrap();
    let mut old = claim(&harness, "old");
    old["status"]["conditions"].as_array_mut().unwrap().retain(|c| c["type"] != "Drifted");
    harness.server.apply(old).unwrap();
    harness.restart();
    run_for(&harness, 30).await;
    let old = claim(&harness, "old");
    assert!(!has_record(&old) && !tainted(&harness, "old"), "{old:#}");
    let conditions = old["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().all(|c| c["type"] != "DisruptionReason"), "{old:#}");
    assert!(old["metadata"]["deletionTimestamp"].is_null());
}

#[rstest]
#[case::one_of_two_is_initialized(1, 1.0)]
#[case::none_is_initialized(0, 2.0)]
#[case::both_are_initialized(2, 0.0)]
#[tokio::test(start_paused = true)]
async fn replacements_that_were_not_initialized_are_counted(#[case] initialized: usize, #[case] failed: f64) {
    let (harness, command) = limits::decided(json!({})).await;
    let commands = Arc::new(commands::Commands::default());
    let execution = execute::Execution::new(&harness.ctx, commands.clone());
    execution.start(command, &crate::runtime::decisions::Decided::unrecorded()).await.unwrap();
    let created = replacements(&harness);
    assert_eq!(created.len(), 2);
    for name in created.iter().take(initialized) {
        let mut ready = claim(&harness, name);
        ready["status"]["conditions"] = json!([condition("Initialized")]);
        harness.server.apply(ready).unwrap();
        harness
            .ctx
            .cluster
            .observe(serde_json::from_value::<fleetwright_api::NodeClaim>(claim(&harness, name)).unwrap());
    }
    let id = commands.lock().keys().next().unwrap().clone();
    execution.roll_back(&id, "a test").await;
    let found = harness.ctx.metrics.value(&figures::QUEUE_FAILURES, &["replace", "drifted", ""]);
    assert!((found - failed).abs() < f64::EPSILON, "{found}");
}

/// The state that a crash left during a command that disrupts `old-a` and `old-b`.
struct Crash {
    recorded: &'static [&'static str],
    tainted: &'static [&'static str],
    replacements: usize,
    deleting: &'static [&'static str],
}

const BOTH: &[&str] = &["old-a", "old-b"];

/// A cluster after a crash during a command of two nodes.
fn after_crash(crash: &Crash, method: &str, replaces: usize) -> Harness {
    let harness = Harness::new();
    harness.pool("default", json!({}));
    let record = json!({"id": "cmd", "method": method, "started": harness.ctx.clocks.now().to_string(),
        "replacements": replaces, "nodes": 2});
    for name in BOTH {
        drifted(&harness, name);
        let mut object = claim(&harness, name);
        if method != "drift" {
            object["status"]["conditions"].as_array_mut().unwrap().retain(|c| c["type"] != "Drifted");
        }
        if crash.recorded.contains(name) {
            object["metadata"]["annotations"] =
                json!({"fleetwright.dev/disruption-command": record.to_string()});
        }
        if crash.tainted.contains(name) {
            object["status"]["conditions"].as_array_mut().unwrap().push(condition("DisruptionReason"));
        }
        harness.server.apply(object).unwrap();
        if crash.tainted.contains(name) {
            let mut node = (*harness.server.get("v1", "Node", "", name).unwrap()).clone();
            node["spec"]["taints"] = json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]);
            harness.server.apply(node).unwrap();
        }
        if crash.deleting.contains(name) {
            harness.server.delete("karpenter.sh/v1", "NodeClaim", "", name).unwrap();
        }
    }
    for at in 0..crash.replacements {
        let name = format!("new-{at}");
        drifted(&harness, &name);
        let mut object = claim(&harness, &name);
        object["metadata"]["annotations"] = json!({"fleetwright.dev/lineage": "command=cmd"});
        object["status"]["conditions"] = json!([condition("Launched"), condition("Initialized")]);
        harness.server.apply(object).unwrap();
    }
    harness
}

#[tokio::test(start_paused = true)]
async fn a_command_of_several_nodes_continues_or_is_rolled_back_on_all_of_them() {
    let none: &[&str] = &[];
    let one: &[&str] = &["old-a"];
    let crash =
        |recorded, tainted, replacements, deleting| Crash { recorded, tainted, replacements, deleting };
    // (step of the crash, method, replacements of the command, whether the command continues)
    let cases = [
        ("naming, with a replacement", crash(one, none, 0, none), "drift", 1, false),
        ("named, with a replacement", crash(BOTH, none, 0, none), "drift", 1, false),
        ("marking, with a replacement", crash(BOTH, one, 0, none), "drift", 1, false),
        ("marked, with a replacement", crash(BOTH, BOTH, 0, none), "drift", 1, false),
        ("creating, one of two", crash(BOTH, BOTH, 1, none), "drift", 2, false),
        ("created", crash(BOTH, BOTH, 1, none), "drift", 1, true),
        ("deleting, with a replacement", crash(BOTH, BOTH, 1, one), "drift", 1, true),
        ("naming", crash(one, none, 0, none), "drift", 0, false),
        ("named", crash(BOTH, none, 0, none), "drift", 0, false),
        ("marking", crash(BOTH, one, 0, none), "drift", 0, false),
        ("marked", crash(BOTH, BOTH, 0, none), "drift", 0, true),
        ("deleting", crash(BOTH, BOTH, 0, one), "drift", 0, true),
    ];
    for (what, crash, method, replaces, goes_on) in cases {
        let harness = after_crash(&crash, method, replaces);
        // Without the condition Drifted, no new command can be mistaken for the old one.
        for name in BOTH {
            let mut object = claim(&harness, name);
            object["status"]["conditions"].as_array_mut().unwrap().retain(|c| c["type"] != "Drifted");
            harness.server.apply(object).unwrap();
        }
        run_for(&harness, 5).await;
        for name in BOTH {
            let old = claim(&harness, name);
            let goes = old.is_null() || old["metadata"]["deletionTimestamp"].is_string();
            if crash.deleting.contains(name) {
                continue;
            }
            assert_eq!(goes, goes_on, "{what}: {name}: {old:#}");
            assert!(
                goes_on || (!has_record(&old) && !tainted(&harness, name)),
                "{what}: {name} is rolled back: {old:#}"
            );
        }
    }
}
