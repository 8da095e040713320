//! The vectors that Karpenter's own hash gives, and independence of order.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn hash(metadata: Value, mut spec: Value) -> String {
    spec["nodeClassRef"] = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    spec["requirements"] = json!([{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]);
    let pool = json!({"metadata": {"name": "p"}, "spec": {"template": {"metadata": metadata, "spec": spec}}});
    serde_json::from_value::<NodePool>(pool).unwrap().drift_hash()
}

fn x() -> Value {
    json!({"key": "x", "value": "y", "effect": "NoSchedule"})
}

fn z() -> Value {
    json!({"key": "z", "effect": "NoExecute"})
}

fn full(taints: Value) -> String {
    let metadata = json!({"labels": {"team": "a", "env": "prod"}, "annotations": {"k": "v"}});
    let startup = json!([{"key": "s", "effect": "NoSchedule"}]);
    let spec = json!({
        "expireAfter": "720h", "taints": taints, "startupTaints": startup, "terminationGracePeriod": "10m",
    });
    hash(metadata, spec)
}

#[rstest]
#[case(hash(json!({}), json!({"expireAfter": "720h"})), "12745407319442031341")]
#[case(hash(json!({}), json!({"expireAfter": "Never"})), "7428780003907761376")]
#[case(full(json!([x(), z()])), "9780072963764806933")]
#[case(full(json!([z(), x()])), "9780072963764806933")]
#[case(hash(json!({}), json!({"expireAfter": "720h", "taints": [x(), x()]})), "845502862369909111")]
#[case(hash(json!({}), json!({"expireAfter": "720h", "taints": []})), "845502862369909111")]
fn equals_karpenters_hash(#[case] hash: String, #[case] expected: &str) {
    assert_eq!(hash, expected);
}

#[test]
fn only_the_template_without_requirements_counts() {
    let mut pool = NodePool::default();
    let before = pool.drift_hash();
    pool.spec.weight = Some(7);
    pool.spec.replicas = Some(3);
    pool.spec.template.spec.requirements.push(crate::Requirement { key: "a".into(), ..Default::default() });
    assert_eq!(pool.drift_hash(), before);
    pool.spec.template.spec.node_class_ref.name = "other".into();
    assert_ne!(pool.drift_hash(), before);
}

#[test]
fn the_text_of_a_duration_does_not_count_but_its_length_does() {
    let of = |after: &str| hash(json!({}), json!({"expireAfter": after}));
    assert_eq!(of("720h"), of("43200m"));
    assert_ne!(of("720h"), of("721h"));
    assert_ne!(of("720h"), of("Never"));
    assert_ne!(of("0s"), of("Never"));
    assert_eq!(of("Never"), hash(json!({}), json!({})));
}

#[test]
fn the_time_of_a_taint_counts() {
    let at = |time: &str| {
        let taint = json!({"key": "a", "effect": "NoExecute", "timeAdded": time});
        hash(json!({}), json!({"taints": [taint]}))
    };
    assert_ne!(at("2026-01-01T00:00:00Z"), at("2026-01-01T00:00:01Z"));
}

proptest! {
    #[test]
    fn order_of_taints_does_not_matter(
        taints in proptest::collection::vec(("[a-z]{1,4}", "[a-z]{0,3}", 0..3_usize), 0..6),
        seed in any::<prop::sample::Index>(),
    ) {
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        let list: Vec<Value> = taints
            .iter()
            .map(|(key, value, effect)| json!({"key": key, "value": value, "effect": effects[*effect]}))
            .collect();
        let mut turned = list.clone();
        if !turned.is_empty() {
            let by = seed.index(turned.len());
            turned.rotate_left(by);
            turned.reverse();
        }
        prop_assert_eq!(full(json!(list)), full(json!(turned)));
    }

    #[test]
    fn order_of_labels_does_not_matter(pairs in proptest::collection::btree_map("[a-z]{1,4}", "[a-z]{0,3}", 1..6)) {
        let forward = map(pairs.iter().map(|(key, value)| (text(key), text(value))));
        let backward = map(pairs.iter().rev().map(|(key, value)| (text(key), text(value))));
        prop_assert_eq!(forward, backward);
        prop_assert_eq!(labels(&pairs), forward);
    }
}
