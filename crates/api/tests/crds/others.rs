//! NodeOverlay, CapacityBuffer and KWOKNodeClass: one row per rule, pattern, enum and limit.

use serde_json::{Value, json};

use crate::review::{Row, check, defaulted, schema};

fn requirement(key: &str, operator: &str, values: &[&str]) -> Value {
    json!([{"key": key, "operator": operator, "values": values}])
}

#[test]
fn overlay() {
    let base = json!({"metadata": {"name": "o"}, "spec": {"requirements": []}});
    let at = "/spec/requirements";
    let many: Vec<Value> = vec![json!({"key": "a", "operator": "Exists"}); 101];
    let numeric = "must have a single positive integer value";
    let restricted = "invalid resource restricted";
    let mut rows: Vec<Row> = vec![
        (at, Value::Null, "requirements is required"),
        (at, json!(many[..100]), ""),
        (at, json!(many), "maxItems"),
        (at, requirement("a", "In", &[]), "operator 'In' must have a value defined"),
        (at, requirement("a", "NotIn", &[]), "operator 'NotIn' must have a value defined"),
        (at, requirement("a", "NotIn", &["x"]), ""),
        (at, requirement("a", "Gte", &["x", "y"]), numeric),
        (at, requirement("a", "Lt", &["5"]), ""),
        (at, requirement("a", "Is", &["5"]), "not in enum"),
        (at, requirement("a b", "Exists", &[]), "pattern"),
        (at, requirement("karpenter.sh/nodepool", "In", &["p"]), ""),
        (
            at,
            requirement("karpenter.sh/registered", "Exists", &[]),
            "label domain \"karpenter.sh\" is restricted",
        ),
        (
            at,
            requirement("kubernetes.io/hostname", "Exists", &[]),
            "label \"kubernetes.io/hostname\" is restricted",
        ),
        (at, requirement("karpenter.kwok.sh/other", "Exists", &[]), ""),
        ("/spec/weight", json!(10_000), ""),
        ("/spec/weight", json!(0), "below minimum"),
        ("/spec/weight", json!(10_001), "above maximum"),
        ("/spec/capacity", json!({"example.com/gpu": 2}), ""),
        ("/spec/capacity", json!({"example.com/gpu": "two"}), "pattern"),
    ];
    for resource in ["cpu", "memory", "ephemeral-storage", "pods"] {
        rows.push(("/spec/capacity", json!({ resource: "1" }), restricted));
    }
    for (price, refusal) in [("0", ""), ("1.25", ""), ("-1", "pattern"), ("1.", "pattern"), ("", "pattern")] {
        rows.push(("/spec/price", json!(price), refusal));
    }
    for adjustment in ["+0.5", "-0.5", "+.5", "+10%", "+298.5%", "-15%", "-99.9%", "-100%"] {
        rows.push(("/spec/priceAdjustment", json!(adjustment), ""));
    }
    for adjustment in ["0.5", "10%", "-101%", "-200%", "+%", "++1"] {
        rows.push(("/spec/priceAdjustment", json!(adjustment), "pattern"));
    }
    let both = json!({"requirements": [], "price": "1", "priceAdjustment": "+1"});
    rows.push(("/spec", both, "cannot set both 'price' and 'priceAdjustment'"));
    check("NodeOverlay", &base, &rows);
}

#[test]
fn buffer() {
    let base = json!({"metadata": {"name": "b", "namespace": "n"}, "spec": {}});
    let template = |more: Value| {
        let mut spec = json!({"podTemplateRef": {"name": "t"}});
        for (key, value) in more.as_object().expect("fields") {
            spec[key] = value.clone();
        }
        spec
    };
    let scalable = json!({"apiGroup": "apps", "kind": "Deployment", "name": "d"});
    let unsized_chunks = "replicas or limits must also be set";
    let rows: Vec<Row> = vec![
        ("/spec", Value::Null, "spec is required"),
        ("/spec", template(json!({"replicas": 3})), ""),
        ("/spec", template(json!({"limits": {"cpu": "10"}})), ""),
        ("/spec", template(json!({})), unsized_chunks),
        ("/spec", template(json!({"percentage": 10})), unsized_chunks),
        (
            "/spec",
            template(json!({"replicas": 1, "scalableRef": scalable})),
            "either PodTemplateRef or ScalableRef",
        ),
        ("/spec/scalableRef", scalable, ""),
        ("/spec/scalableRef", json!({"kind": "Deployment", "name": ""}), "minLength"),
        ("/spec/scalableRef", json!({"kind": "", "name": "d"}), "minLength"),
        ("/spec/scalableRef", json!({"name": "d"}), "kind is required"),
        ("/spec/scalableRef", json!({"kind": "Deployment"}), "name is required"),
        ("/spec", json!({"podTemplateRef": {"name": ""}, "replicas": 1}), "minLength"),
        ("/spec", json!({"podTemplateRef": {}, "replicas": 1}), "name is required"),
        ("/spec/replicas", json!(-1), "below minimum"),
        ("/spec/percentage", json!(0), ""),
        ("/spec/percentage", json!(-1), "below minimum"),
        ("/spec/limits", json!({"cpu": "x"}), "pattern"),
        ("/spec/provisioningStrategy", json!("anything.example.com/goes"), ""),
        ("/status/podTemplateRef", json!({"name": ""}), "minLength"),
        ("/status/replicas", json!(4), ""),
    ];
    check("CapacityBuffer", &base, &rows);
    let full = defaulted(&schema("CapacityBuffer"), &base);
    assert_eq!(full["spec"]["provisioningStrategy"], "buffer.x-k8s.io/active-capacity");
}

#[test]
fn kwok_class() {
    let base = json!({"metadata": {"name": "k"}});
    let rows: &[Row] = &[
        ("/spec", json!({}), ""),
        ("/spec/nodeRegistrationDelay", json!("1m30s"), ""),
        ("/spec/nodeRegistrationDelay", json!("Never"), "pattern"),
    ];
    check("KWOKNodeClass", &base, rows);
    let full = defaulted(&schema("KWOKNodeClass"), &base);
    assert_eq!(
        full["status"]["conditions"],
        json!([{
            "type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2024-01-01T01:01:01Z",
        }])
    );
}
