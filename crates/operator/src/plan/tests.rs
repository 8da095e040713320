//! Scenarios: `tests/scenarios/plan/**.yaml` is the input, the file beside it with `.txt` the report.
//!
//! A first line `# plan: --flag …` adds to the command line; with `-o json` the whole NodeClaims follow the report. Every
//! plan is judged by the independent validator.

mod examples;
mod mutations;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use fleetwright_core::{model::Currency, scheduling::validator};

use super::*;
use crate::{
    cli::{Interface, Invocation, Tool, parse},
    scenarios,
    sheet::Format,
};

fn options(path: &Path, extra: &str) -> (PlanOptions, BTreeMap<String, String>) {
    let words = ["fleetwright", "plan", "--budget=50it", "-f"].into_iter().map(OsString::from);
    let types = path.with_extension("json");
    let types = types.exists().then(|| [OsString::from("--instance-types"), types.into()]);
    let args = words.chain([path.into()]).chain(types.into_iter().flatten());
    let extra = extra.replace("{folder}", &path.parent().unwrap().display().to_string());
    match parse(args.chain(extra.split_whitespace().map(OsString::from)), &Interface::plain()).unwrap() {
        Invocation::Tool(Tool::Plan(options), flags) => (options, flags),
        other => panic!("{other:?}"),
    }
}

/// The table of the report, without parts that differ by run or directory.
fn report(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    report_with(path, text.lines().next().and_then(|line| line.strip_prefix("# plan:")).unwrap_or_default())
}

fn report_with(path: &Path, extra: &str) -> String {
    report_in(path, extra, Currency::USD)
}

fn report_in(path: &Path, extra: &str, currency: Currency) -> String {
    let (options, flags) = options(path, extra);
    let values = Values::resolve(&flags, |_| None).unwrap().priced_in(currency);
    let items = input::read_from(&options.input).unwrap();
    judge(&items, &options, &values, path);
    let mut report =
        plan(items, &options, &scenarios::catalogues(), &values, "2026-01-01T00:00:00Z".parse().unwrap())
            .unwrap();
    report.timing = Timing::none();
    let folder = format!("{}/", path.parent().unwrap().display());
    let page = table::page(&report, options.output == Format::Wide);
    let format =
        if matches!(options.output, Format::Json | Format::Yaml) { Format::Table } else { options.output };
    let shown =
        scenarios::shown(&report.notes, &report.incomplete, page.render(format, None)).replace(&folder, "");
    let mut shown = shown.replace("; solved in 0.0 ms", "");
    if let Some(condition) = &options.fail_if {
        let (now, then) = report.figures();
        let held = condition.holds(now, then, report.currency).unwrap();
        shown += &held.map_or_else(
            || "--fail-if does not hold\n".to_owned(),
            |why| format!("--fail-if holds: {why}\n"),
        );
    }
    if options.output == Format::Json {
        let claims: Vec<_> = report.node_claims.iter().map(|claim| &claim.resource).collect();
        shown += &(serde_json::to_string_pretty(&claims).unwrap() + "\n");
    }
    shown
}

/// The validator's verdict on the first pass.
fn judge(items: &[Item], options: &PlanOptions, values: &Values, path: &Path) {
    let (mut loaded, packing) =
        prepare_workloads(items.to_vec(), &options.replicas, options, &scenarios::catalogues(), values)
            .unwrap();
    let snapshot = loaded.index.snapshot("2026-01-01T00:00:00Z".parse().unwrap());
    let rules = rules(values);
    let pods = pods(&snapshot, false);
    let plan = solve(&mut PreparedSnapshot::new(&snapshot, &rules), &pods, packing, options.budget);
    let request =
        Request { pods: &pods, without: &[], purpose: Purpose::Provisioning, effort: Effort::First };
    assert_eq!(validator::violations(&snapshot, &request, &rules, &plan), [""; 0], "{}", path.display());
}

#[test]
fn scenario_files() {
    scenarios::check("plan", report);
}

#[test]
fn a_plan_in_another_currency_differs_by_its_sign_alone() {
    let path = scenarios::from_root("tests/scenarios/plan/what-if/template.yaml");
    let extra = "--what-if {folder}/change.yml --fail-if cost>0";
    let [dollars, euros] = [Currency::USD, Currency::EUR].map(|currency| report_in(&path, extra, currency));
    assert!(
        dollars.contains("$/month") && dollars.contains("$/H") && dollars.contains("cost>0 ($"),
        "{dollars}"
    );
    assert_eq!(euros, dollars.replace('$', "€"));
}

#[test]
fn the_document_names_the_currency_beside_bare_amounts() {
    let path = scenarios::from_root("tests/scenarios/plan/what-if/template.yaml");
    let (options, flags) = options(&path, "");
    let document = |currency| {
        let values = Values::resolve(&flags, |_| None).unwrap().priced_in(currency);
        let (items, at) =
            (input::read_from(&options.input).unwrap(), "2026-01-01T00:00:00Z".parse().unwrap());
        let mut report = plan(items, &options, &scenarios::catalogues(), &values, at).unwrap();
        report.timing = Timing::none();
        serde_json::to_value(&report).unwrap()
    };
    let [mut dollars, euros] = [Currency::USD, Currency::EUR].map(document);
    assert_eq!((&dollars["currency"], &euros["currency"]), (&"USD".into(), &"EUR".into()));
    assert!(euros["cost"]["hourly"].as_str().unwrap().parse::<f64>().is_ok(), "{euros}");
    dollars["currency"] = "EUR".into();
    assert_eq!(euros, dollars);
}

#[test]
fn the_schema_in_docs_is_that_of_the_report() {
    scenarios::check_schema::<PlanReport>("plan.schema.json");
}

#[test]
fn a_mistyped_deletion_is_an_error() {
    let path = scenarios::from_root("tests/scenarios/plan/what-if/delete-node.yaml");
    let (options, _) = options(&path, "");
    let items = input::read_from(&options.input).unwrap();
    let text = "$patch: delete\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: defualt}\n";
    let mut documents = Vec::new();
    input::parse(Path::new("change.yml"), text, &mut documents).unwrap();
    let applied = what_if::apply(items, documents, &mut Vec::new(), &scenarios::catalogues());
    let why = applied.err().unwrap().to_string();
    assert_eq!(
        why,
        "change.yml:1: $patch: delete: the input has no NodePool defualt (did you mean \"default\"?)"
    );
}

#[test]
fn bad_input_is_named() {
    fn told(report: &PlanReport) -> Vec<String> {
        let rows = report.unschedulable.iter();
        let rows = rows.map(|row| format!("{}: {}: {}", row.pod, row.reason, row.message));
        report.notes.iter().chain(&report.incomplete).cloned().chain(rows).collect()
    }
    fn planned(words: &str, files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
        let gates = "--feature-gates=NodeOverlay=true,CapacityBuffer=true,StaticCapacity=true";
        let args = scenarios::command_line(&format!("plan --budget=2it {gates} {words}"), files);
        let (options, flags) = match parse(args, &Interface::plain()).unwrap() {
            Invocation::Tool(Tool::Plan(options), flags) => (options, flags),
            other => panic!("{other:?}"),
        };
        let values = Values::resolve(&flags, |_| None).unwrap();
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        let items = input::read_from(&options.input)?;
        let report = plan(items, &options, &scenarios::catalogues(), &values, at)?;
        table::page(&report, true).render(Format::Table, None);
        Ok(told(&report))
    }
    scenarios::check_bad_input("plan", &["text", "objects"], |files| planned("", files));
    scenarios::check_bad_input("what-if", &["objects"], |files| {
        let [cluster, change] = files else { panic!("{files:?}") };
        planned(&format!("--what-if {}", change.display()), std::slice::from_ref(cluster))
    });
    scenarios::check_bad_input("instance-types", &["instance-types"], |files| {
        let [cluster, types] = files else { panic!("{files:?}") };
        planned(&format!("--instance-types {}", types.display()), std::slice::from_ref(cluster))
    });
}
