//! A table that cannot fail is refused, and so is a row that changes nothing.

use serde_json::json;

use super::*;

fn row(expect: &[&str]) -> Row {
    Row {
        name: "row".into(),
        of: "Thing".into(),
        set: BTreeMap::new(),
        stored: None,
        expect: expect.iter().map(|&text| text.to_owned()).collect(),
        differs: None,
    }
}

fn refused(causes: &[&str]) -> Verdict {
    let causes = causes.iter().map(|&text| text.to_owned()).collect();
    Verdict { code: 422, reason: "Invalid".into(), causes }
}

#[test]
fn faults() {
    for (verdict, expect, fault) in [
        (Verdict::accepted(201), &[][..], None),
        (Verdict::accepted(201), &["bad"][..], Some("accepted, expected")),
        (refused(&["spec: bad"]), &[][..], Some("refused with")),
        (refused(&["spec: bad"]), &["bad"][..], None),
        (refused(&["spec: bad"]), &["bad", "worse"][..], Some("does not say \"worse\"")),
        (refused(&["a: bad", "b: worse"]), &["worse", "bad"][..], None),
    ] {
        let found = verdict.fault(&row(expect));
        match fault {
            None => assert_eq!(found, None),
            Some(text) => assert!(found.as_ref().is_some_and(|f| f.contains(text)), "{found:?}"),
        }
    }
}

#[test]
fn changes() {
    let base = json!({"spec": {"list": [1, 2], "a/b": 1, "gone": true}});
    let set =
        |pointer: &str, value: Value| change(base.clone(), &BTreeMap::from([(pointer.to_owned(), value)]));
    assert_eq!(set("/spec/list/-", json!(3)).unwrap()["spec"]["list"], json!([1, 2, 3]));
    assert_eq!(set("/spec/list/0", json!(3)).unwrap()["spec"]["list"], json!([3, 2]));
    assert_eq!(set("/spec/a~1b", json!(2)).unwrap()["spec"]["a/b"], json!(2));
    assert_eq!(set("/spec/gone", Value::Null).unwrap()["spec"].get("gone"), None);
    assert!(set("/spec/none/x", json!(1)).is_err(), "a mistyped pointer is not ignored");
    assert!(set("/spec/list/9", json!(1)).is_err());
    assert!(set("/spec/gone/x", json!(1)).is_err());
}

#[test]
fn bad_tables_are_refused() {
    for (text, message) in [
        ("base: {A: {}}\nrows:\n- {name: x, of: B, set: {/a: 1}}", "no valid object"),
        ("base: {A: {}}\nrows:\n- {name: x, of: A}", "changes nothing"),
        (
            "base: {A: {}}\nrows:\n- {name: x, of: A, set: {/a: 1}}\n- {name: x, of: A, set: {/b: 1}}",
            "two rows",
        ),
        ("base: {A: {}}\nrows:\n- {name: x, of: A, sets: {/a: 1}}", "table of refusals"),
    ] {
        let error = format!("{:#}", Table::parse(text).expect_err(text));
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn every_row_of_the_real_table_can_be_built() {
    let table = Table::parse(include_str!("../../../e2e/refusals.yaml")).unwrap();
    assert!(table.rows.len() > 50, "{} rows", table.rows.len());
    for row in &table.rows {
        let (stored, sent) = table.objects(row).unwrap_or_else(|error| panic!("{}: {error:#}", row.name));
        assert_ne!(
            Some(&sent),
            stored.as_ref().or_else(|| table.base.get(&row.of)),
            "{} changes nothing",
            row.name
        );
    }
    // Both answers are asked for: a server that refuses everything fails as surely as one that refuses nothing.
    assert!(table.rows.iter().any(|row| row.expect.is_empty()));
}
