//! Scenario files of the tools, for their tests: the input is YAML, the report is beside it as `.txt`.
//!
//! `UPDATE_SCENARIOS=1` rewrites reports and schemas.

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use schemars::JsonSchema;

use crate::{catalogue::Catalogues, ec2::Ec2Catalogue, lab::FakeCatalogue, outcome::Outcome};

/// A path from the root of the repository.
pub(crate) fn from_root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[expect(clippy::disallowed_methods, reason = "a switch for people: it rewrites what is expected")]
fn updates() -> bool {
    std::env::var_os("UPDATE_SCENARIOS").is_some()
}

/// Compares the report of every scenario below a folder of `tests/scenarios/` with the one beside it.
pub(crate) fn check(folder: &str, report: impl Fn(&Path) -> String) {
    let mut wrong = Vec::new();
    for path in paths(folder) {
        let (found, expected) = (report(&path), path.with_extension("txt"));
        if updates() {
            std::fs::write(expected, found).unwrap();
            continue;
        }
        let wanted = std::fs::read_to_string(&expected).unwrap_or_default();
        if found != wanted {
            wrong.push(format!("=== {}\n--- wanted\n{wanted}--- found\n{found}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE_SCENARIOS=1 writes the reports again", wrong.join("\n"));
}

/// Every scenario below a folder of `tests/scenarios/`.
pub(crate) fn paths(folder: &str) -> Vec<PathBuf> {
    files(&format!("tests/scenarios/{folder}"))
}

/// Every YAML file below a folder of the repository.
pub(crate) fn files(folder: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    collect(&from_root(folder), &mut paths);
    assert!(!paths.is_empty());
    paths
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|end| end == "yaml") {
            found.push(path);
        }
    }
    found.sort();
}

/// The catalogues of the binary, which parse their definitions once.
pub(crate) fn catalogues() -> Catalogues {
    static ALL: LazyLock<Catalogues> = LazyLock::new(|| {
        Catalogues::default()
            .with_definitions("fake", fleetwright_api::crd::kwok)
            .with_definitions("aws", fleetwright_aws_api::crds)
            .with(FakeCatalogue)
            .with(Ec2Catalogue::default())
    });
    ALL.clone()
}

/// The table of a report, without the line that all reports on the default catalogue of the fake cloud share.
pub(crate) fn shown(notes: &[String], gaps: &[String], table: impl std::fmt::Display) -> String {
    let mut all: String = notes.iter().map(|note| format!("note: {note}\n")).collect();
    all.extend(gaps.iter().map(|gap| format!("incomplete: {gap}\n")));
    all += &table
        .to_string()
        .replace("catalogue: kwok (instance types and prices of the fake cloud, which do not exist)\n", "");
    if Outcome::of(gaps) == Outcome::Incomplete {
        all += "exit status 3\n";
    }
    all
}

/// Compares the schema of a report with the file in `docs/`.
pub(crate) fn check_schema<T: JsonSchema>(file: &str) {
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(T)).unwrap() + "\n";
    check_file(&format!("docs/{file}"), &schema);
}

/// Compares a text with a file of the repository.
pub(crate) fn check_file(file: &str, found: &str) {
    let path = from_root(file);
    if updates() {
        std::fs::write(&path, found).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(wanted, found, "UPDATE_SCENARIOS=1 writes {file} again");
}
