//! The mutants of a small source, how they are written into it, and which the sample takes.

use std::fs;
use std::path::Path;

use super::execute::{self, Verdict};
use super::{SampledMutant, TestCase, TestSuite, find, record, rewrite, sample};

const SOURCE: &str = r#"//! A limit.
const MAX: usize = 3;

/// Whether a test of this may be created.
fn admitted(count: usize, closed: bool) -> bool {
    if !closed && count < MAX {
        note(1);
        return true;
    }
    matches!(count, 0)
}

#[cfg(test)]
mod tests {
    fn one() -> usize { 1 + 1 }
}
"#;

fn keys(source: &str) -> Vec<String> {
    let found = find::mutants("a.rs", source).unwrap();
    found.iter().map(|mutant| mutant.key().trim_start_matches("a.rs ").to_owned()).collect()
}

#[test]
fn a_source_has_these_mutants() {
    assert_eq!(
        keys(SOURCE),
        [
            "admitted: body -> return true",
            "admitted: body -> return false",
            "admitted: !closed && count < MAX -> true",
            "admitted: !closed && count < MAX -> false",
            "admitted: !closed && count < MAX -> !closed || count < MAX",
            "admitted: !closed -> closed",
            "admitted: count < MAX -> count <= MAX",
            "admitted: count < MAX -> count >= MAX",
            "admitted: note(1); -> nothing",
            "admitted: 1 -> 2",
        ]
    );
}

#[test]
fn what_does_not_run_has_none() {
    for source in [
        "const fn f() -> usize { 1 + 1 }",
        "static S: usize = 1 + 1;",
        "fn f(x: usize) -> [u8; 2] { match x { 1 => [X; 4], _ => Y } }",
        "#[test] fn f() { g(1); }",
        "enum E { A = 1 }",
    ] {
        assert_eq!(keys(source), Vec::<String>::new(), "{source}");
    }
    let chain = "fn f() -> Y { if let Some(x) = g() && x { Y } else { Z } }";
    assert_eq!(keys(chain), Vec::<String>::new(), "a chain with a pattern has no other operator");
}

#[test]
fn equal_mutants_of_a_function_have_names_of_their_own() {
    assert_eq!(keys("fn f() -> Y { g(1, 1) }"), ["f: 1 -> 2", "f: 1 -> 2 #1"]);
}

#[test]
fn mutants_are_switched_by_number() {
    let found = find::mutants("a.rs", SOURCE).unwrap();
    let chosen: Vec<_> = (1..).zip(&found).collect();
    let rewritten = rewrite::rewritten(SOURCE, &chosen);
    let expected = r#"fn admitted(count: usize, closed: bool) -> bool { if crate::mutants::on(1) { return true; } if crate::mutants::on(2) { return false; }
    if (if crate::mutants::on(3) { true } else { (if crate::mutants::on(4) { false } else { (if crate::mutants::on(5) { !closed || count < MAX } else { (if crate::mutants::on(6) { closed } else { !closed }) && (if crate::mutants::on(7) { count <= MAX } else { (if crate::mutants::on(8) { count >= MAX } else { count < MAX }) }) }) }) }) {
        if !crate::mutants::on(9) { note((if crate::mutants::on(10) { 2 } else { 1 })); }
        return true;
"#;
    assert!(rewritten.text.contains(expected), "{}", rewritten.text);
    assert_eq!(rewrite::rewritten(SOURCE, &[]).text, SOURCE);

    let place = |text: &str| {
        let start = rewritten.text.find(text).unwrap();
        start..start + text.len()
    };
    assert_eq!(rewritten.blamed(&place("count >= MAX"), &chosen), [8], "the innermost mutant is blamed");
    assert_eq!(rewritten.blamed(&place("matches!"), &chosen).len(), 10, "otherwise those of the function");
    assert_eq!(rewritten.blamed(&place("MAX: usize"), &chosen), Vec::<u32>::new());
}

#[test]
fn the_sample_follows_from_seed_and_names() {
    let found = find::mutants("a.rs", SOURCE).unwrap();
    let keys = |seed| sample::draw(found.clone(), 4, seed).iter().map(find::Mutant::key).collect::<Vec<_>>();
    assert_eq!(keys(1), keys(1));
    assert_ne!(keys(1), keys(2));
    assert_eq!(keys(1).len(), 4);

    assert_eq!(sample::module("crates/core/src/safety.rs"), Some("crates/core/src/safety"));
    assert_eq!(sample::module("crates/state/src/index.rs"), Some("crates/state/src"));
    for none in
        ["crates/core/src/safety/tests.rs", "crates/core/src/safety_x.rs", "crates/core/src/model/a.rs"]
    {
        assert_eq!(sample::module(none), None, "{none}");
    }
}

/// A test binary with the tests `one` and `two`: mutant 1 makes `two` fail, mutant 2 ends the process, mutant 3 changes nothing.
const BINARY: &str = r#"#!/bin/sh
case "$MUTANT" in
1) echo "test one ... ok"; echo "test two ... FAILED"; exit 101 ;;
2) kill -9 $$ ;;
esac
"#;

fn planted(folder: &Path) -> (Vec<SampledMutant>, Vec<TestCase>) {
    use std::os::unix::fs::PermissionsExt as _;
    let binary = folder.join("binary");
    fs::write(&binary, BINARY).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    let suite = TestSuite { binary, folder: folder.to_path_buf(), scenarios: false };
    let test = |name: &str, seen: &[u32]| {
        let (name, seen) = (name.to_owned(), seen.to_vec());
        TestCase { suite: suite.clone(), name, millis: 1, passes: true, seen }
    };
    let found = find::mutants("a.rs", SOURCE).unwrap();
    let sampled = (1..).zip(found).map(|(id, mutant)| SampledMutant {
        id,
        module: "m".to_owned(),
        mutant,
        viable: id != 5,
    });
    (sampled.collect(), vec![test("one", &[1, 2, 3]), test("two", &[1, 3])])
}

#[test]
fn a_planted_mutant_is_caught_and_another_survives() {
    let folder = tempfile::tempdir().unwrap();
    let (mutants, tests) = planted(folder.path());
    let judged = |id: usize| execute::judged(&mutants[id - 1], &tests, 60).unwrap();
    assert_eq!(judged(1), Verdict::Caught("two".to_owned()));
    assert!(matches!(judged(2), Verdict::Caught(by) if by.starts_with("one (")), "a process that is killed");
    assert_eq!(judged(3), Verdict::Survived { tests: 2, all: 2 });
    assert_eq!(judged(4), Verdict::Survived { tests: 0, all: 0 }, "no test evaluates it");
    assert_eq!(judged(5), Verdict::NotViable);
}

#[test]
fn a_run_that_was_ended_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        r#"{"key":"a","verdict":{"Survived":{"tests":2,"all":2}}}"#,
        r#"{"key":"b","verdict":"NotViable"}"#,
        r#"{"key":"a","verdict":{"Caught":"two"}}"#,
        r#"{"key":"c","verd"#,
    ];
    fs::write(folder.path().join("results.jsonl"), lines.join("\n")).unwrap();
    let results = execute::results(folder.path());
    let expected = [("a", Verdict::Caught("two".to_owned())), ("b", Verdict::NotViable)];
    assert_eq!(results, expected.map(|(key, verdict)| (key.to_owned(), verdict)).into());
}

#[test]
fn a_test_that_took_too_long_is_recorded_again_with_more_time() {
    let folder = tempfile::tempdir().unwrap();
    let (_, tests) = planted(folder.path());
    let settled = |passes, millis, seconds| {
        record::is_settled(&TestCase { millis, passes, ..tests[0].clone() }, seconds)
    };
    assert!(settled(true, 40_000, 30), "it passed with more time");
    assert!(settled(false, 6050, 6), "it had its six seconds");
    assert!(!settled(false, 6050, 30), "it has 30 now");
}
