//! Table-driven tests against messages of kube-apiserver 1.35.

use rstest::rstest;
use serde_json::{Value, json};

use super::{FieldErrorKind, ListType, SchemaError, Structural};

/// A schema similar to that of a NodePool.
fn pool() -> Structural {
    Structural::parse(&serde_json::from_str(include_str!("testdata/pool.json")).unwrap()).unwrap()
}

/// A valid object with one value replaced (a null removes it).
fn with(pointer: &str, value: Value) -> Value {
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"},
        "spec": {"template": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}
    });
    set(&mut pool, pointer, value);
    pool
}

fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    let mut steps = pointer.split('.').filter(|step| !step.is_empty()).peekable();
    while let Some(step) = steps.next() {
        let map = at.as_object_mut().unwrap();
        if steps.peek().is_none() && value.is_null() {
            map.remove(step);
            return;
        }
        at = map.entry(step).or_insert_with(|| json!({}));
    }
    *at = value;
}

fn check(schema: &Structural, new: &Value, old: Option<&Value>, expected: &[&str]) {
    let actual: Vec<String> = schema.validate(new, old).iter().map(ToString::to_string).collect();
    assert_eq!(actual, expected, "for {new}");
}

const UNCHECKED: &str = "<nil>: Invalid value: null: some validation rules were not checked because the object was \
                         invalid; correct the existing errors to complete validation";
const REQUIREMENTS: &str = "spec.template.requirements";

#[rstest]
#[case::no_spec("", json!({}), &["spec: Required value", UNCHECKED])]
#[case("spec.template.nodeClassRef.kind", Value::Null, &["spec.template.nodeClassRef.kind: Required value", UNCHECKED])]
#[case("spec.weight", json!("a"), &[
    r#"spec.weight: Invalid value: "string": spec.weight in body must be of type integer: "string""#, UNCHECKED])]
#[case("spec.weight", json!(1.0), &[])]
#[case("spec.weight", json!(1.5), &[
    r#"spec.weight: Invalid value: "number": spec.weight in body must be of type integer: "number""#, UNCHECKED])]
#[case("spec.weight", json!(0), &["spec.weight: Invalid value: 0: spec.weight in body should be greater than or equal to 1"])]
#[case("spec.weight", json!(101), &["spec.weight: Invalid value: 101: spec.weight in body should be less than or equal to 100"])]
#[case::int32_is_not_checked("spec.replicas", json!(3_000_000_000_i64), &[])]
#[case("spec.limits", json!({"cpu": "1", "memory": 5}), &[])]
#[case("spec.limits", json!({"cpu": "x"}), &[
    r#"spec.limits.cpu: Invalid value: "x": spec.limits.cpu in body should match '^[0-9]+(m|Ki|Mi|Gi)?$'"#])]
#[case("spec.limits", json!({"cpu": true}), &[
    r#"spec.limits.cpu: Invalid value: "boolean": spec.limits.cpu in body must be of type integer,string: "boolean""#,
    r#"<nil>: Invalid value: "": "spec.limits.cpu" must validate at least one schema (anyOf)"#,
    r#"spec.limits.cpu: Invalid value: "boolean": spec.limits.cpu in body must be of type integer: "boolean""#,
    UNCHECKED])]
#[case("spec.limits", json!({"a": 1, "b": 1, "c": 1, "d": 1}), &["spec.limits: Too many: 4: must have at most 3 items", UNCHECKED])]
#[case("spec.disruption", json!({"consolidateAfter": "x", "budgets": []}), &[
    r#"spec.disruption.consolidateAfter: Invalid value: "x": spec.disruption.consolidateAfter in body should match '^(([0-9]+(s|m|h))+|Never)$'"#])]
#[case("spec.disruption.budgets", json!([{"nodes": "1", "reasons": ["Empty", "Empty", "Empty"]}]), &[
    r#"spec.disruption.budgets[0].reasons[1]: Duplicate value: "Empty""#])]
#[case("spec.disruption.budgets", json!([{"nodes": "1"}, {"nodes": "1"}, {"nodes": "1"}]), &[
    "spec.disruption.budgets: Too many: 3: must have at most 2 items", UNCHECKED])]
#[case::rule_of_a_list("spec.disruption.budgets", json!([{"nodes": "1", "schedule": "@daily"}]), &[
    "spec.disruption.budgets: Invalid value: 'schedule' must be set with 'duration'"])]
#[case::rule_of_a_string("spec.template.nodeClassRef.group", json!(""), &[
    r#"spec.template.nodeClassRef.group: Invalid value: "": group may not be empty"#])]
#[case("spec.template.labels", json!({"a": "123456"}), &["spec.template.labels.a: Too long: may not be more than 5 bytes", UNCHECKED])]
#[case(REQUIREMENTS, json!([{"key": "a", "operator": "Foo"}]), &[
    r#"spec.template.requirements[0].operator: Unsupported value: "Foo": supported values: "In", "NotIn""#, UNCHECKED])]
#[case(REQUIREMENTS, json!([{"key": "", "operator": "NotIn"}]), &[
    r#"spec.template.requirements[0].key: Invalid value: "": spec.template.requirements[0].key in body should be at least 1 chars long"#])]
#[case(REQUIREMENTS, json!([{"key": "a", "operator": "In", "values": []}]), &[
    "spec.template.requirements: Invalid value: requirements with operator 'In' must have a value defined"])]
#[case(REQUIREMENTS, json!([{"key": "a", "operator": "In"}]), &[
    "spec.template.requirements: Invalid value: \"array\": no such key: values evaluating rule: requirements with operator 'In' must have a value defined"])]
#[case(REQUIREMENTS, json!([{"key": "a", "operator": "NotIn", "timeAdded": "soon"}]), &[
    r#"spec.template.requirements[0].timeAdded: Invalid value: "soon": spec.template.requirements[0].timeAdded in body must be of type date-time: "soon""#,
    UNCHECKED])]
#[case("spec.template.ports", json!([{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}, {"port": 1, "protocol": "TCP"}]), &[
    r#"spec.template.ports[2]: Duplicate value: {"port":1,"protocol":"TCP"}"#])]
fn creation(#[case] pointer: &str, #[case] value: Value, #[case] expected: &[&str]) {
    check(&pool(), &with(pointer, value), None, expected);
}

#[rstest]
#[case::immutable(json!({}), ("spec.template.nodeClassRef.group", json!("h")), &[
    "spec.template.nodeClassRef: Invalid value: nodeClassRef.group is immutable"])]
#[case::presence(json!({}), ("spec.replicas", json!(1)), &["spec: Invalid value: Cannot transition"])]
#[case::unchanged_errors_are_forgiven(
    json!({"spec.weight": 500, "spec.disruption.budgets": [{"nodes": "1", "schedule": "x"}]}), ("metadata.name", json!("b")), &[])]
#[case::a_changed_neighbour_forgives(json!({"spec.weight": 500}), ("spec.template.labels", json!({"a": "b"})), &[])]
#[case::a_changed_value_does_not(json!({"spec.weight": 500}), ("spec.weight", json!(600)), &[
    "spec.weight: Invalid value: 600: spec.weight in body should be less than or equal to 100"])]
#[case::items_of_atomic_lists_are_not_matched(
    json!({"spec.template.requirements": [{"key": "a", "operator": "Foo"}]}),
    ("spec.template.requirements", json!([{"key": "a", "operator": "Foo"}, {"key": "b", "operator": "NotIn"}])),
    &[r#"spec.template.requirements[0].operator: Unsupported value: "Foo": supported values: "In", "NotIn""#, UNCHECKED])]
#[case::items_of_maps_are(
    json!({"spec.template.ports": [{"port": 1, "protocol": "TCP", "name": "long"}]}),
    ("spec.template.ports", json!([{"port": 2, "protocol": "TCP"}, {"port": 1, "protocol": "TCP", "name": "long"}])), &[])]
#[case::transition_rules_follow_keys(
    json!({"spec.template.ports": [{"port": 1, "protocol": "TCP", "name": "a"}]}),
    ("spec.template.ports", json!([{"port": 2, "protocol": "TCP", "name": "b"}, {"port": 1, "protocol": "TCP", "name": "c"}])),
    &[r#"spec.template.ports[1].name: Invalid value: "c": name is immutable"#])]
#[case::old_duplicates_are_forgiven(
    json!({"spec.disruption.budgets": [{"nodes": "1", "reasons": ["Empty", "Empty"]}]}),
    ("spec.disruption.budgets", json!([{"nodes": "2", "reasons": ["Empty", "Empty"]}])), &[])]
fn update(#[case] old: Value, #[case] change: (&str, Value), #[case] expected: &[&str]) {
    let mut before = with("metadata.name", json!("a"));
    for (pointer, value) in old.as_object().unwrap() {
        set(&mut before, pointer, value.clone());
    }
    let mut after = before.clone();
    set(&mut after, change.0, change.1);
    check(&pool(), &after, Some(&before), expected);
}

/// Rules on an object `{n, s, m}`; the object under test is `{"n": 1, "s": "x", "m": {"a-b": "v"}}`.
fn ruled(rule: Value) -> Structural {
    Structural::parse(&json!({"type": "object", "properties": {"spec": {
        "type": "object", "x-kubernetes-validations": [rule],
        "properties": {
            "n": {"type": "integer"}, "s": {"type": "string"}, "f": {"type": "number"},
            "a-b": {"type": "string"}, "x__y": {"type": "string"}, "under_score": {"type": "string"},
            "at": {"type": "string", "format": "date-time"},
            "m": {"type": "object", "additionalProperties": {"type": "string"}}
        }
    }}}))
    .unwrap()
}

#[rstest]
#[case::default_message(json!({"rule": "self.n > 1"}), &["spec: Invalid value: failed rule: self.n > 1"])]
#[case::expression(json!({"rule": "self.n > 1", "messageExpression": "'n is ' + string(self.n)", "message": "m"}),
    &["spec: Invalid value: n is 1"])]
#[case::bad_expression(json!({"rule": "self.n > 1", "messageExpression": "string(self.nope)", "message": "m"}),
    &["spec: Invalid value: m"])]
#[case::empty_expression(json!({"rule": "self.n > 1", "messageExpression": "' '", "message": "m"}), &["spec: Invalid value: m"])]
#[case::field_path(json!({"rule": "self.n > 1", "message": "m", "fieldPath": ".n"}), &["spec.n: Invalid value: m"])]
#[case::field_path_into_a_map(json!({"rule": "self.n > 1", "message": "m", "fieldPath": ".m['a-b']"}),
    &["spec.m[a-b]: Invalid value: m"])]
#[case::missing_receiver(json!({"rule": "[self].all(x, x.n == 1 ? (x.at2.size() == 1 && int(x.at2[0]) > 0) : true)", "message": "m"}),
    &[r#"spec: Invalid value: "object": no such key: at2 evaluating rule: m"#])]
#[case::conversion(json!({"rule": "int(self.s) > 1", "message": "m"}),
    &[r#"spec: Invalid value: "object": type conversion error from 'string' to 'int' evaluating rule: m"#])]
#[case::quantity(json!({"rule": "isQuantity(self.s) || quantity(self.s).sign() > 0", "message": "m"}),
    &[r#"spec: Invalid value: "object": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$' evaluating rule: m"#])]
#[case::forbidden(json!({"rule": "self.n > 1", "message": "m", "reason": "FieldValueForbidden"}), &["spec: Forbidden: m"])]
#[case::required(json!({"rule": "self.n > 1", "message": "m", "reason": "FieldValueRequired"}), &["spec: Required value: m"])]
#[case::duplicate(json!({"rule": "self.n > 1", "message": "m", "reason": "FieldValueDuplicate"}), &["spec: Duplicate value"])]
#[case::map_keys_are_not_escaped(json!({"rule": "self.m['a-b'] == 'v'"}), &[])]
#[case::fields_are(json!({"rule": "self.a__dash__b == 'd' && self.under_score == 'u' && self.x__underscores__y == 'z'"}), &[])]
#[case::times(json!({"rule": "self.at < timestamp('2025-01-01T00:00:00Z')"}), &[])]
#[case::whole_numbers_can_be_floats(json!({"rule": "self.f == 2.0"}), &[])]
#[case::undeclared_fields_are_invisible(json!({"rule": "!has(self.extra)"}), &[])]
#[case::transition_rules_wait(json!({"rule": "self.n == oldSelf.n + 1"}), &[])]
#[case::optional_old_self(json!({"rule": "oldSelf.hasValue() || self.n > 1", "optionalOldSelf": true, "message": "m"}),
    &["spec: Invalid value: m"])]
#[case::division(json!({"rule": "1 / (self.n - 1) == 0", "message": "m"}),
    &[r#"spec: Invalid value: "object": division by zero evaluating rule: m"#])]
fn rules(#[case] rule: Value, #[case] expected: &[&str]) {
    let object = json!({"spec": {"n": 1, "s": "x", "f": 2, "a-b": "d", "x__y": "z", "under_score": "u", "extra": 1,
        "at": "2024-01-01T00:00:00Z", "m": {"a-b": "v"}}});
    check(&ruled(rule), &object, None, expected);
}

#[test]
fn optional_old_self_has_the_old_value_on_update() {
    let schema =
        ruled(json!({"rule": "oldSelf.hasValue() && oldSelf.value().n == 1", "optionalOldSelf": true}));
    check(&schema, &json!({"spec": {"n": 2}}), Some(&json!({"spec": {"n": 1}})), &[]);
}

#[test]
fn a_rule_of_the_root_is_reported_without_a_path() {
    let rule = json!([{"rule": "self.metadata.name.size() < 3 && self.kind == 'Pool'", "message": "too long a name"}]);
    let schema = Structural::parse(&json!({"type": "object", "x-kubernetes-validations": rule})).unwrap();
    check(&schema, &json!({"kind": "Pool", "metadata": {"name": "ab"}}), None, &[]);
    let expected = "<nil>: Invalid value: too long a name";
    check(&schema, &json!({"kind": "Pool", "metadata": {"name": "abc"}}), None, &[expected]);
}

#[test]
fn causes_are_those_of_a_status() {
    let errors = pool().validate(&with("spec.weight", json!("a")), None);
    assert_eq!(
        (errors[0].kind, errors[0].kind.cause()),
        (FieldErrorKind::TypeInvalid, "FieldValueTypeInvalid")
    );
}

#[rstest]
#[case::unknown(json!({"spec": {"x": 1, "weight": 1}, "y": 1}), json!({"spec": {"weight": 1}}), &["spec.x", "y"])]
#[case::meta_stays(
    json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "a", "labels": {"b": "c"}, "nope": 1}}),
    json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "a", "labels": {"b": "c"}}}), &["metadata.nope"])]
#[case::in_lists(
    json!({"spec": {"template": {"requirements": [{"key": "a", "z": 1}]}}}),
    json!({"spec": {"template": {"requirements": [{"key": "a"}]}}}), &["spec.template.requirements[0].z"])]
#[case::maps_keep_keys(json!({"spec": {"limits": {"cpu": 1}}}), json!({"spec": {"limits": {"cpu": 1}}}), &[])]
#[case::nulls_go(json!({"spec": {"weight": null, "limits": {"cpu": null}}}), json!({"spec": {"limits": {}}}), &[])]
#[case::nulls_with_a_default_wait(json!({"status": {"nodes": null}}), json!({"status": {"nodes": null}}), &[])]
fn pruning(#[case] object: Value, #[case] expected: Value, #[case] unknown: &[&str]) {
    let mut pruned = object.clone();
    pool().prune(&mut pruned);
    assert_eq!(pruned, expected);
    assert_eq!(pool().unknown_fields(&object), unknown);
}

#[test]
fn preserved_fields_and_embedded_objects_are_kept() {
    let schema = Structural::parse(&json!({"type": "object", "properties": {
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"strict": {"type": "object", "properties": {"a": {"type": "string"}}}}},
        "inner": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}}
    }}))
    .unwrap();
    let mut object = json!({
        "open": {"any": {"thing": 1}, "strict": {"a": "b", "c": 1}},
        "inner": {"apiVersion": "v1", "metadata": {"name": "x", "odd": 1}, "spec": {"z": 1}, "y": 1}
    });
    let unknown = ["inner.metadata.odd", "inner.spec.z", "inner.y", "open.strict.c"];
    assert_eq!(schema.unknown_fields(&object), unknown);
    schema.prune(&mut object);
    let kept = json!({
        "open": {"any": {"thing": 1}, "strict": {"a": "b"}},
        "inner": {"apiVersion": "v1", "metadata": {"name": "x"}, "spec": {}}
    });
    assert_eq!(object, kept);
    check(&schema, &object, None, &["inner.kind: Required value"]);
}

#[rstest]
#[case::nested_in_a_default(json!({"spec": {}}), json!({"spec": {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "10%"}]}}}))]
#[case::in_lists(
    json!({"spec": {"disruption": {"consolidateAfter": "1m", "budgets": [{}, {"nodes": "5"}]}}}),
    json!({"spec": {"disruption": {"consolidateAfter": "1m", "budgets": [{"nodes": "10%"}, {"nodes": "5"}]}}}))]
#[case::nulls(json!({"status": {"nodes": null}}), json!({"status": {"nodes": 0}}))]
#[case::absent_parents_stay_absent(json!({}), json!({}))]
fn defaulting(#[case] object: Value, #[case] expected: Value) {
    let mut actual = object;
    pool().default(&mut actual);
    assert_eq!(actual, expected);
}

#[test]
fn nullable_fields_keep_their_null() {
    let schema = Structural::parse(&json!({"type": "object", "properties": {
        "a": {"type": "string", "nullable": true, "default": "x"}, "b": {"type": "string", "nullable": true}
    }}))
    .unwrap();
    let mut object = json!({"a": null, "b": null});
    schema.prune(&mut object);
    schema.default(&mut object);
    assert_eq!(object, json!({"a": null, "b": null}));
    check(&schema, &object, None, &[]);
}

#[test]
fn combinations() {
    let schema = Structural::parse(&json!({"type": "object", "properties": {"p": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]
    }}}))
    .unwrap();
    check(&schema, &json!({"p": {"a": "x"}}), None, &[]);
    let both = r#"<nil>: Invalid value: "": "p" must validate one and only one schema (oneOf). Found 2 valid alternatives"#;
    check(&schema, &json!({"p": {"a": "x", "b": "y"}}), None, &[both]);
    let none =
        r#"<nil>: Invalid value: "": "p" must validate one and only one schema (oneOf). Found none valid"#;
    check(&schema, &json!({"p": {}}), None, &[none, "p.a: Required value"]);
}

#[test]
fn lists_know_their_type() {
    let schema = pool();
    let ports = ["spec", "template", "ports"];
    assert_eq!(schema.list_type(&ports), Some(ListType::Map));
    assert_eq!(schema.list_map_keys(&ports), Some(vec!["port".to_owned(), "protocol".to_owned()]));
    let reasons = ["spec", "disruption", "budgets", "0", "reasons"];
    assert_eq!(schema.list_type(&reasons), Some(ListType::Set));
    assert_eq!(schema.list_type(&["spec", "disruption", "budgets"]), Some(ListType::Atomic));
    assert_eq!(schema.list_type(&["spec", "weight"]), None);
    assert_eq!(schema.list_map_keys(&reasons), None);
}

#[test]
fn bad_schemas_are_refused() {
    let deep = (0..70)
        .fold(json!({"type": "object"}), |inner, _| json!({"type": "object", "properties": {"a": inner}}));
    assert!(matches!(Structural::parse(&deep), Err(SchemaError::TooDeep { .. })));
    let property = |schema: Value| Structural::parse(&json!({"type": "object", "properties": {"a": schema}}));
    assert!(matches!(property(json!({"type": "text"})), Err(SchemaError::Keyword { keyword: "type", .. })));
    assert!(matches!(property(json!({"pattern": "("})), Err(SchemaError::Pattern { .. })));
    let rule = property(json!({"x-kubernetes-validations": [{"rule": "self +"}]}));
    let Err(SchemaError::Rule { path, .. }) = rule else { panic!("{rule:?}") };
    assert_eq!(path, "properties.a");
}

#[test]
fn a_schema_can_be_shared_between_threads() {
    fn shareable<T: Send + Sync>() {}
    shareable::<Structural>();
}

#[test]
fn what_a_rule_accepted_says_nothing_about_other_values() {
    let schema = pool();
    let group = |value: &str| with("spec.template.nodeClassRef.group", json!(value));
    let refused = r#"spec.template.nodeClassRef.group: Invalid value: "": group may not be empty"#;
    for _ in 0..2 {
        check(&schema, &group("g"), None, &[]);
        check(&schema, &group(""), None, &[refused]);
    }
}
