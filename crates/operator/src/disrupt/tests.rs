//! Scenarios: `tests/scenarios/disrupt/*.yaml` is the input, the file beside it with `.txt` the report.
//!
//! A first line `# disrupt: --flag …` adds to the command line; it decides at noon of the first day of 2026.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::*;
use crate::cli::{Invocation, Tool, parse};

fn options(path: &Path, text: &str) -> (DisruptOptions, BTreeMap<String, String>) {
    let extra = text.lines().next().and_then(|line| line.strip_prefix("# disrupt:")).unwrap_or_default();
    let words = ["fleetwright", "disrupt", "--at=2026-01-01T12:00:00Z", "-f"].into_iter().map(OsString::from);
    let args = words.chain([path.into()]).chain(extra.split_whitespace().map(OsString::from));
    match parse(args).unwrap() {
        Invocation::Tool(Tool::Disrupt(options), flags) => (options, flags),
        other => panic!("{other:?}"),
    }
}

fn report(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let (options, flags) = options(path, &text);
    let values = Values::resolve(&flags, |_| None).unwrap();
    let at = options.at.unwrap();
    let report = survey(read(&options.files).unwrap(), &options.method, &values, at, at).unwrap();
    let notes: String = report.notes.iter().map(|note| format!("note: {note}\n")).collect();
    let folder = format!("{}/", path.parent().unwrap().display());
    format!("{notes}{}", table::Table(&report)).replace(&folder, "")
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a switch for people: it rewrites the expected reports")]
fn scenario_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios/disrupt");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    paths.sort();
    assert!(!paths.is_empty());
    let update = std::env::var_os("UPDATE_SCENARIOS").is_some();
    let mut wrong = Vec::new();
    for path in paths {
        let (found, expected) = (report(&path), path.with_extension("txt"));
        if update {
            std::fs::write(expected, found).unwrap();
            continue;
        }
        let wanted = std::fs::read_to_string(&expected).unwrap_or_default();
        if found != wanted {
            wrong.push(format!("=== {}\n--- wanted\n{wanted}--- found\n{found}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE_SCENARIOS=1 writes the reports anew", wrong.join("\n"));
}

#[test]
fn unknown_methods_are_named() {
    let error = methods(&["emptyness".to_owned()], &[]).err().unwrap().to_string();
    assert!(error.contains("emptyness") && error.contains("emptiness"), "{error}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a switch for people: it rewrites the schema")]
fn the_schema_in_docs_is_that_of_the_report() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/disrupt.schema.json");
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(Report)).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCENARIOS").is_some() {
        std::fs::write(&path, &schema).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&path).unwrap_or_default(),
        schema,
        "UPDATE_SCENARIOS=1 writes it anew"
    );
}
