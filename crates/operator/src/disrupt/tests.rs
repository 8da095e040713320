//! Scenarios: `tests/scenarios/disrupt/*.yaml` is the input, the file beside it with `.txt` the report.
//!
//! A first line `# disrupt: --flag …` adds to the command line; it decides at noon of the first day of 2026. The input is
//! full manifests, or one document in the [short form](short).

use std::{collections::BTreeMap, ffi::OsString, path::Path};

mod short;

use super::*;
use crate::{
    cli::{Interface, Invocation, Tool, parse},
    scenarios,
};

fn options(path: &Path, text: &str) -> (DisruptOptions, BTreeMap<String, String>) {
    let extra = text.lines().next().and_then(|line| line.strip_prefix("# disrupt:")).unwrap_or_default();
    let words = ["fleetwright", "disrupt", "--at=2026-01-01T12:00:00Z", "-f"].into_iter().map(OsString::from);
    let args = words.chain([path.into()]).chain(extra.split_whitespace().map(OsString::from));
    match parse(args, &Interface::plain()).unwrap() {
        Invocation::Tool(Tool::Disrupt(options), flags) => (options, flags),
        other => panic!("{other:?}"),
    }
}

fn report(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join(path.file_name().unwrap());
    std::fs::write(&input, short::manifests(&text)).unwrap();
    let (options, flags) = options(&input, &text);
    let values = Values::resolve(&flags, |_| None).unwrap();
    let at = options.at.unwrap();
    let report = survey(read(&options.files).unwrap(), &options.method, &values, at, at).unwrap();
    let notes: String = report.notes.iter().map(|note| format!("note: {note}\n")).collect();
    let folder = format!("{}/", folder.path().display());
    format!("{notes}{}", table::Table(&report)).replace(&folder, "")
}

#[test]
fn scenario_files() {
    scenarios::check("disrupt", report);
}

#[test]
fn unknown_methods_are_named() {
    let error = methods(&["emptyness".to_owned()], &[]).err().unwrap().to_string();
    assert!(error.contains("emptyness") && error.contains("emptiness"), "{error}");
}

#[test]
fn the_schema_in_docs_is_that_of_the_report() {
    scenarios::check_schema::<Report>("disrupt.schema.json");
}
