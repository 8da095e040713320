//! What is refused, and in which words.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn problems(template: Value) -> String {
    let pool: api::NodePool =
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"template": template}})).unwrap();
    super::pool(&pool, &LabelSchema::default())
        .map_or_else(|problems| problems.to_string(), |()| String::new())
}

fn requirements(list: Value) -> String {
    problems(json!({"spec": {"requirements": list}}))
}

#[test]
fn a_usual_pool_is_fine() {
    let template = json!({
        "metadata": {"labels": {"team": "a", "example.com/tier": "web"}},
        "spec": {
            "taints": [{"key": "example.com/a", "value": "b", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "example.com/a", "effect": "NoExecute"}],
            "requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "other"]},
                {"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                {"key": "team", "operator": "Exists"},
                {"key": "cpu", "operator": "Gt", "values": ["3"]}
            ]
        }
    });
    assert_eq!(problems(template), "");
}

#[rstest]
#[case(json!([{"key": "karpenter.sh/foo", "operator": "Exists"}]), "label karpenter.sh/foo is restricted; specify a well known label: [")]
#[case(json!([{"key": "kubernetes.io/hostname", "operator": "Exists"}]), "label kubernetes.io/hostname is restricted")]
#[case(json!([{"key": "karpenter.sh/nodepool", "operator": "Exists"}]), "invalid key: \"karpenter.sh/nodepool\" in requirements, restricted")]
#[case(json!([{"key": "a/b/c", "operator": "Exists"}]), "key a/b/c is not a qualified name, ")]
#[case(json!([{"key": "team", "operator": "Near"}]), "key team has an unsupported operator Near not in [")]
#[case(json!([{"key": "team", "operator": "In"}]), "key team with operator In must have a value defined")]
#[case(json!([{"key": "team", "operator": "In", "values": ["-a"]}]), "invalid value -a for key team, ")]
#[case(json!([{"key": "team", "operator": "In", "values": ["a"], "minValues": 2}]), "key team with operator In must have at least minimum number of values defined in 'values' field")]
#[case(json!([{"key": "n", "operator": "Gt", "values": ["x"]}]), "key n with operator Gt must have a single positive integer value")]
#[case(json!([{"key": "n", "operator": "Lte", "values": ["1", "2"]}]), "key n with operator Lte must have a single positive integer value")]
#[case(json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["cheap"]}]), "key karpenter.sh/capacity-type has 0 valid values of [cheap]")]
fn bad_requirements(#[case] list: Value, #[case] expected: &str) {
    let found = requirements(list);
    assert!(found.starts_with(expected), "{found}");
}

/// A provider knows the values of its keys, too.
#[test]
fn values_that_a_provider_does_not_know() {
    let mut schema = LabelSchema::default().with_well_known(["example.com/tenancy"]);
    schema.known_values.insert("example.com/tenancy".into(), vec!["default".into(), "dedicated".into()]);
    let of = |values: Value| {
        let list = json!([{"key": "example.com/tenancy", "operator": "In", "values": values}]);
        let pool = json!({"metadata": {"name": "p"}, "spec": {"template": {"spec": {"requirements": list}}}});
        let pool: api::NodePool = serde_json::from_value(pool).unwrap();
        super::pool(&pool, &schema).map_err(|problems| problems.to_string())
    };
    assert_eq!((of(json!(["default"])), of(json!(["dedicated", "other"]))), (Ok(()), Ok(())));
    let refused =
        "key example.com/tenancy has 0 valid values of [other], at least 1 needed: use default, dedicated";
    assert_eq!(of(json!(["other"])), Err(refused.to_owned()));
}

#[rstest]
#[case(json!({"metadata": {"labels": {"karpenter.sh/nodepool": "x"}}}), "invalid key name \"karpenter.sh/nodepool\" in labels, restricted")]
#[case(json!({"metadata": {"labels": {"team": "a b"}}}), "invalid value: a b for label[team], ")]
#[case(json!({"spec": {"taints": [{"key": "", "effect": "NoSchedule"}]}}), "invalid value: name part must be non-empty: taints[0]")]
#[case(json!({"spec": {"taints": [{"key": "a", "effect": "Maybe"}]}}), "invalid value: Maybe: taints[0]")]
#[case(json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}], "startupTaints": [{"key": "a", "effect": "NoSchedule"}]}}), "duplicate taint Key/Effect pair a=NoSchedule: startupTaints[0]")]
fn bad_templates(#[case] template: Value, #[case] expected: &str) {
    let found = problems(template);
    assert!(found.starts_with(expected), "{found}");
}

#[rstest]
#[case("9E9E", "spec.limits[cpu]: \"9E9E\" is not a quantity")]
#[case("1e400", "spec.limits[cpu]: \"1e400\" is out of range")]
#[case("-1", "spec.limits[cpu]: -1 is negative: give zero or more")]
fn bad_limits(#[case] limit: &str, #[case] expected: &str) {
    let pool: api::NodePool =
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"limits": {"cpu": limit}}}))
            .unwrap();
    let found = super::pool(&pool, &LabelSchema::default()).unwrap_err().to_string();
    assert!(found.starts_with(expected), "{found}");
}

#[test]
fn an_overlay_that_excludes_no_value_is_refused() {
    let refused = |values: Value| {
        let requirement = json!({"key": "team", "operator": "NotIn", "values": values});
        let overlay = json!({"metadata": {"name": "o"}, "spec": {"requirements": [requirement]}});
        super::overlay(&serde_json::from_value(overlay).unwrap(), &LabelSchema::default()).is_err()
    };
    assert!(refused(json!([])) && !refused(json!(["a"])));
}

#[test]
fn an_overlay_has_a_price_or_an_adjustment() {
    let found = |spec: Value| {
        let overlay = json!({"metadata": {"name": "o"}, "spec": spec});
        let found = super::overlay(&serde_json::from_value(overlay).unwrap(), &LabelSchema::default());
        found.map_err(|problems| problems.to_string())
    };
    assert_eq!(found(json!({"requirements": [], "price": "1"})), Ok(()));
    assert_eq!(found(json!({"requirements": [], "priceAdjustment": "+10%"})), Ok(()));
    let both = found(json!({"requirements": [], "price": "1", "priceAdjustment": "+10%"})).unwrap_err();
    assert_eq!(both, "cannot set both 'price' and 'priceAdjustment': choose one");
}

/// As many values as minValues asks for, of those that the provider knows.
#[test]
fn min_values_count_known_values() {
    let mut schema = LabelSchema::default().with_well_known(["example.com/tenancy"]);
    schema.known_values.insert("example.com/tenancy".into(), vec!["a".into(), "b".into(), "c".into()]);
    let refused = |values: Value, min: u32| {
        let list =
            json!([{"key": "example.com/tenancy", "operator": "In", "values": values, "minValues": min}]);
        let pool = json!({"metadata": {"name": "p"}, "spec": {"template": {"spec": {"requirements": list}}}});
        super::pool(&serde_json::from_value(pool).unwrap(), &schema).is_err()
    };
    assert!(!refused(json!(["a", "x"]), 1) && refused(json!(["x"]), 1));
    assert!(!refused(json!(["a", "b", "x"]), 2) && refused(json!(["a", "x"]), 2));
}
