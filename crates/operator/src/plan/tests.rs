//! Scenarios: `tests/scenarios/plan/**.yaml` is the input, the file beside it with `.txt` the report.
//!
//! A first line `# plan: --flag …` adds to the command line. Every plan is judged by the independent validator.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use fleetwright_core::scheduling::validator;

use super::*;
use crate::cli::{Invocation, Tool, parse};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios/plan")
}

fn scenarios(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            scenarios(&path, found);
        } else if path.extension().is_some_and(|end| end == "yaml") {
            found.push(path);
        }
    }
    found.sort();
}

fn options(path: &Path, text: &str) -> (PlanOptions, BTreeMap<String, String>) {
    let extra = text.lines().next().and_then(|line| line.strip_prefix("# plan:")).unwrap_or_default();
    let words = ["fleetwright", "plan", "--budget=50it", "-f"].into_iter().map(OsString::from);
    let types = path.with_extension("json");
    let types = types.exists().then(|| [OsString::from("--instance-types"), types.into()]);
    let args = words.chain([path.into()]).chain(types.into_iter().flatten());
    match parse(args.chain(extra.split_whitespace().map(OsString::from))).unwrap() {
        Invocation::Tool(Tool::Plan(options), flags) => (options, flags),
        other => panic!("{other:?}"),
    }
}

/// The report as people see it, without what differs from run to run and from place to place.
fn report(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let (options, flags) = options(path, &text);
    let values = Values::resolve(&flags, |_| None).unwrap();
    let (offer, notes) = offer(&values).unwrap();
    let mut loaded = load::load(input::read(&options.files).unwrap(), &offer).unwrap();
    loaded.notes.splice(0..0, notes);
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let snapshot = loaded.index.snapshot(now);
    let rules = rules(&values);
    let pods = pods(&snapshot, false);
    let plan = solve(&mut Solver::new(&snapshot, &rules), &pods, options.packer, options.budget);
    let request =
        Request { pods: &pods, without: &[], purpose: Purpose::Provisioning, effort: Effort::First };
    assert_eq!(validator::violations(&snapshot, &request, &rules, &plan), [""; 0], "{}", path.display());
    let timing = Timing::new(now, now, now, now);
    let report = Report::new(&plan, &Context { snapshot: &snapshot, loaded: &loaded, seed: 1, timing });
    let notes: String = report.notes.iter().map(|note| format!("note: {note}\n")).collect();
    let folder = format!("{}/", path.parent().unwrap().display());
    let shown = format!("{notes}{}", table::Table(&report)).replace(&folder, "");
    shown.replace("; solved in 0.0 ms", "")
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a switch for people: it rewrites the expected reports")]
fn scenario_files() {
    let mut paths = Vec::new();
    scenarios(&folder(), &mut paths);
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
#[expect(clippy::disallowed_methods, reason = "a switch for people: it rewrites the schema")]
fn the_schema_in_docs_is_that_of_the_report() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plan.schema.json");
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
