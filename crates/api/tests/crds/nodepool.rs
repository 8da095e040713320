//! NodePool: one row per rule, pattern, enum and limit.

use serde_json::{Value, json};

use crate::review::{Row, check, check_updates, defaulted, put, schema};

const SPEC: &str = "/spec/template/spec";

fn base() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [],
        }}},
    })
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> Value {
    json!([{"key": key, "operator": operator, "values": values}])
}

#[test]
fn defaults() {
    let full = defaulted(&schema("NodePool"), &base());
    assert_eq!(
        full["spec"]["disruption"],
        json!({
            "budgets": [{"nodes": "10%"}],
            "consolidateAfter": "0s",
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
        })
    );
    assert_eq!(full["spec"]["template"]["spec"]["expireAfter"], "720h");
    let mut partly = base();
    put(&mut partly, "/spec/disruption", json!({"budgets": [{}]}));
    put(&mut partly, "/status", json!({}));
    let full = defaulted(&schema("NodePool"), &partly);
    assert_eq!(full["spec"]["disruption"]["budgets"], json!([{"nodes": "10%"}]));
    assert_eq!(full["spec"]["disruption"]["consolidateAfter"], "0s");
    assert_eq!(full["status"]["nodes"], 0);
}

#[test]
fn pool() {
    let rows: &[Row] = &[
        ("/spec", Value::Null, "spec is required"),
        ("/spec/template", Value::Null, "template is required"),
        ("/spec/template/spec", Value::Null, "spec is required"),
        ("/spec/weight", json!(1), ""),
        ("/spec/weight", json!(100), ""),
        ("/spec/weight", json!(0), "below minimum"),
        ("/spec/weight", json!(101), "above maximum"),
        ("/spec/replicas", json!(0), ""),
        ("/spec/replicas", json!(-1), "below minimum"),
        ("/spec/limits", json!({"cpu": 1000, "memory": "1000Gi", "nodes": "10"}), ""),
        ("/spec/limits", json!({"cpu": "many"}), "pattern"),
        ("/spec/limits", json!({"cpu": true}), "wrong type"),
        ("/spec/limits", json!({"cpu": "1.5e3"}), ""),
        ("/spec/limits", json!({"cpu": "-.5k"}), ""),
    ];
    check("NodePool", &base(), rows);
}

#[test]
fn disruption() {
    let fifty = vec![json!({"nodes": "1"}); 50];
    let fifty_one = vec![json!({"nodes": "1"}); 51];
    let rows: &[Row] = &[
        ("/spec/disruption/consolidationPolicy", json!("WhenEmpty"), ""),
        ("/spec/disruption/consolidationPolicy", json!("Balanced"), ""),
        ("/spec/disruption/consolidationPolicy", json!("WhenUnderutilized"), "not in enum"),
        ("/spec/disruption/consolidateAfter", json!("Never"), ""),
        ("/spec/disruption/consolidateAfter", json!("1h30m5s"), ""),
        ("/spec/disruption/consolidateAfter", json!("-1s"), "pattern"),
        ("/spec/disruption/consolidateAfter", json!("1d"), "pattern"),
        ("/spec/disruption/consolidateAfter", json!("xNever"), "pattern"),
        ("/spec/disruption/budgets", json!(fifty), ""),
        ("/spec/disruption/budgets", json!(fifty_one), "maxItems"),
        ("/spec/disruption/budgets", json!([]), ""),
    ];
    check("NodePool", &base(), rows);
}

#[test]
fn budgets() {
    let mut base = base();
    put(&mut base, "/spec/disruption", json!({"budgets": [{}]}));
    let scheduled = |schedule: &str| json!({"schedule": schedule, "duration": "1h"});
    let lasting = |duration: &str| json!({"schedule": "@daily", "duration": duration});
    let at = "/spec/disruption/budgets";
    let rows: Vec<Row> = [
        (json!({"nodes": "0"}), ""),
        (json!({"nodes": "15"}), ""),
        (json!({"nodes": "100%"}), ""),
        (json!({"nodes": "101%"}), "pattern"),
        (json!({"nodes": "-1"}), "pattern"),
        (json!({"nodes": "1.5"}), "pattern"),
        (json!({"nodes": 5}), "wrong type"),
        (json!({"reasons": ["Empty", "Drifted", "Underutilized"]}), ""),
        (json!({"reasons": ["Empty", "Empty"]}), "duplicate"),
        (json!({"reasons": ["Expired"]}), "not in enum"),
        (scheduled("0 9 * * mon-fri"), ""),
        (scheduled("@hourly"), ""),
        (scheduled("@reboot"), "pattern"),
        (scheduled("* * *"), "pattern"),
        (lasting("8h"), ""),
        (lasting("1h30m0s"), ""),
        (lasting("30s"), "pattern"),
        (lasting("30m1h"), "pattern"),
        (json!({"schedule": "@daily"}), "'schedule' must be set with 'duration'"),
        (json!({"duration": "1h"}), "'schedule' must be set with 'duration'"),
    ]
    .into_iter()
    .map(|(budget, refusal)| (at, json!([budget]), refusal))
    .collect();
    check("NodePool", &base, &rows);
}

#[test]
fn labels() {
    let at = "/spec/template/metadata/labels";
    let many =
        |count: usize| (0..count).map(|i| (format!("l{i}"), json!("v"))).collect::<serde_json::Map<_, _>>();
    let long = "v".repeat(64);
    let rows: &[Row] = &[
        (at, json!({"team": "a", "example.com/x": "", "karpenter.sh/capacity-type": "spot"}), ""),
        (at, json!({"node-restriction.kubernetes.io/x": "y", "kops.k8s.io/x": "y"}), ""),
        (at, json!(many(100)), ""),
        (at, json!(many(101)), "maxProperties"),
        (at, json!({"a": long}), "maxLength"),
        (at, json!({"a": "-b"}), "pattern"),
        (at, json!({"karpenter.sh/other": "x"}), "label domain \"karpenter.sh\" is restricted"),
        (at, json!({"foo.karpenter.sh/x": "x"}), "label domain \"karpenter.sh\" is restricted"),
        (at, json!({"foo-karpenter.sh/x": "x"}), "label domain \"karpenter.sh\" is restricted"),
        (at, json!({"karpenter.sh/nodepool": "x"}), "label \"karpenter.sh/nodepool\" is restricted"),
        (at, json!({"kubernetes.io/hostname": "x"}), "label \"kubernetes.io/hostname\" is restricted"),
        ("/spec/template/metadata/annotations", json!({"any thing": "any value"}), ""),
    ];
    check("NodePool", &base(), rows);
}

/// Requirements, shared with NodeClaims except for the last two rows.
pub(crate) fn requirement_rows(at: &'static str) -> Vec<Row> {
    let many: Vec<Value> = vec![json!({"key": "a", "operator": "Exists"}); 101];
    let flexible =
        |least: i64| json!([{"key": "a", "operator": "In", "values": ["x", "y"], "minValues": least}]);
    let (key, karpenter) = ("a".repeat(317), "label domain \"karpenter.sh\" is restricted");
    let kwok = "label domain \"karpenter.kwok.sh\" is restricted";
    let numeric = "must have a single positive integer value";
    vec![
        (at, Value::Null, "requirements is required"),
        (at, json!(many[..100]), ""),
        (at, json!(many), "maxItems"),
        (at, json!([{"operator": "Exists"}]), "key is required"),
        (at, json!([{"key": "a"}]), "operator is required"),
        (at, requirement(&key, "Exists", &[]), "maxLength"),
        (at, requirement("a/b/c", "Exists", &[]), "pattern"),
        (at, requirement("Upper.Case/a", "Exists", &[]), "pattern"),
        (at, requirement("a", "Equals", &["b"]), "not in enum"),
        (at, requirement("a", "DoesNotExist", &[]), ""),
        (at, requirement("a", "NotIn", &[]), ""),
        (at, requirement("a", "In", &[]), "operator 'In' must have a value defined"),
        (at, requirement("a", "In", &["x"]), ""),
        (at, requirement("a", "Gt", &["0"]), ""),
        (at, requirement("a", "Lt", &["1", "2"]), numeric),
        (at, requirement("a", "Gte", &["-1"]), numeric),
        (at, requirement("a", "Lte", &[]), numeric),
        (at, requirement("a", "Lte", &["17"]), ""),
        (at, flexible(0), "below minimum"),
        (at, flexible(2), ""),
        (at, flexible(3), "at least that many values"),
        (at, json!([{"key": "a", "operator": "Exists", "minValues": 50}]), ""),
        (at, json!([{"key": "a", "operator": "Exists", "minValues": 51}]), "above maximum"),
        (at, requirement("karpenter.sh/capacity-type", "In", &["spot"]), ""),
        (at, requirement("karpenter.sh/initialized", "Exists", &[]), karpenter),
        (at, requirement("foo-karpenter.sh/x", "Exists", &[]), karpenter),
        (
            at,
            requirement("kubernetes.io/hostname", "Exists", &[]),
            "label \"kubernetes.io/hostname\" is restricted",
        ),
        (at, requirement("node.kubernetes.io/anything", "Exists", &[]), ""),
        (at, requirement("karpenter.kwok.sh/instance-size", "Lt", &["32"]), ""),
        (at, requirement("karpenter.kwok.sh/kwoknodeclass", "Exists", &[]), ""),
        (at, requirement("karpenter.kwok.sh/other", "Exists", &[]), kwok),
    ]
}

#[test]
fn requirements() {
    let at = "/spec/template/spec/requirements";
    let mut rows = requirement_rows(at);
    let refusal = "label \"karpenter.sh/nodepool\" is restricted";
    rows.push((at, requirement("karpenter.sh/nodepool", "Exists", &[]), refusal));
    check("NodePool", &base(), &rows);
}

/// Taints, node class and durations, shared with NodeClaims.
pub(crate) fn node_rows(at: fn(&str) -> &'static str) -> Vec<Row> {
    let taint =
        |key: &str, value: &str, effect: &str| json!([{"key": key, "value": value, "effect": effect}]);
    let mut rows: Vec<Row> = Vec::new();
    for field in ["taints", "startupTaints"] {
        let at = at(field);
        rows.extend([
            (at, taint("example.com/a", "b", "NoSchedule"), ""),
            (at, json!([{"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]), ""),
            (at, taint("a", "b", "PreferNoSchedule"), ""),
            (at, taint("a", "b", "Never"), "not in enum"),
            (at, taint("", "b", "NoSchedule"), at_key(field)),
            (at, taint("a b", "b", "NoSchedule"), "pattern"),
            (at, taint("a", "b c", "NoSchedule"), "pattern"),
            (at, json!([{"effect": "NoSchedule"}]), "key is required"),
            (at, json!([{"key": "a"}]), "effect is required"),
        ]);
    }
    let class = at("nodeClassRef");
    rows.extend([
        (class, Value::Null, "nodeClassRef is required"),
        (class, json!({"group": "", "kind": "K", "name": "n"}), "group may not be empty"),
        (class, json!({"group": "g", "kind": "", "name": "n"}), "kind may not be empty"),
        (class, json!({"group": "g", "kind": "K", "name": ""}), "name may not be empty"),
        (class, json!({"group": "g/v1", "kind": "K", "name": "n"}), "pattern"),
        (class, json!({"kind": "K", "name": "n"}), "group is required"),
        (class, json!({"group": "g", "name": "n"}), "kind is required"),
        (class, json!({"group": "g", "kind": "K"}), "name is required"),
        (at("expireAfter"), json!("Never"), ""),
        (at("expireAfter"), json!("24h30m"), ""),
        (at("expireAfter"), json!("1.5h"), "pattern"),
        (at("expireAfter"), json!("Neverland"), "pattern"),
        (at("terminationGracePeriod"), json!("48h"), ""),
        (at("terminationGracePeriod"), json!("Never"), "pattern"),
        (at("terminationGracePeriod"), json!(""), "pattern"),
    ]);
    rows
}

/// An empty key breaks its length and its pattern: both errors name the key.
fn at_key(field: &str) -> &'static str {
    if field == "taints" { "taints[0].key" } else { "startupTaints[0].key" }
}

#[test]
fn nodes() {
    let rows = node_rows(|field| match field {
        "taints" => "/spec/template/spec/taints",
        "startupTaints" => "/spec/template/spec/startupTaints",
        "nodeClassRef" => "/spec/template/spec/nodeClassRef",
        "expireAfter" => "/spec/template/spec/expireAfter",
        _ => "/spec/template/spec/terminationGracePeriod",
    });
    assert!(rows.iter().all(|(at, ..)| at.starts_with(SPEC)));
    check("NodePool", &base(), &rows);
}

#[test]
fn static_pools() {
    let mut fixed = base();
    put(&mut fixed, "/spec/replicas", json!(3));
    let rows: &[Row] = &[
        ("/spec/limits", json!({"nodes": "5"}), ""),
        ("/spec/limits", json!({}), ""),
        ("/spec/limits", json!({"cpu": "5"}), "only 'limits.nodes' is supported on static NodePools"),
        (
            "/spec/limits",
            json!({"cpu": "5", "nodes": "5"}),
            "only 'limits.nodes' is supported on static NodePools",
        ),
        ("/spec/weight", json!(5), "'weight' is not supported on static NodePools"),
    ];
    check("NodePool", &fixed, rows);
}

#[test]
fn updates() {
    let class = |group: &str, kind: &str, name: &str| json!({"group": group, "kind": kind, "name": name});
    let at = "/spec/template/spec/nodeClassRef";
    let transition = "Cannot transition NodePool";
    let rows: &[(Row, Value)] = &[
        ((at, class("g", "K", "other"), ""), class("g", "K", "n")),
        ((at, class("h", "K", "n"), "nodeClassRef.group is immutable"), class("g", "K", "n")),
        ((at, class("g", "L", "n"), "nodeClassRef.kind is immutable"), class("g", "K", "n")),
        (("/spec/replicas", json!(5), ""), json!(3)),
        (("/spec/replicas", json!(5), transition), Value::Null),
        (("/spec/replicas", Value::Null, transition), json!(5)),
    ];
    check_updates("NodePool", &base(), rows);
}

#[test]
fn conditions() {
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let edit = |field: &str, value: Value| {
        let mut changed = condition.clone();
        put(&mut changed, &format!("/{field}"), value);
        json!([changed])
    };
    let at = "/status/conditions";
    let long = "x".repeat(32_769);
    let rows: &[Row] = &[
        (at, json!([condition]), ""),
        (at, json!([condition, condition]), "duplicate"),
        (at, edit("type", Value::Null), "type is required"),
        (at, edit("type", json!("a b")), "pattern"),
        (at, edit("type", json!("a".repeat(317))), "maxLength"),
        (at, edit("status", json!("Maybe")), "not in enum"),
        (at, edit("reason", json!("not a word")), "pattern"),
        (at, edit("reason", json!("")), "reason"),
        (at, edit("reason", Value::Null), "reason is required"),
        (at, edit("reason", json!("a".repeat(1025))), "maxLength"),
        (at, edit("message", Value::Null), "message is required"),
        (at, edit("message", json!(long)), "maxLength"),
        (at, edit("lastTransitionTime", Value::Null), "lastTransitionTime is required"),
        (at, edit("observedGeneration", json!(0)), ""),
        (at, edit("observedGeneration", json!(-1)), "below minimum"),
        ("/status/resources", json!({"cpu": "x"}), "pattern"),
    ];
    check("NodePool", &base(), rows);
}
