//! The report of a dump: golden figures, parts that add up, and what no output may have.

use std::{ffi::OsString, path::Path};

use serde_json::Value;

use super::*;
use crate::{
    cli::{Interface, Invocation, Tool, parse},
    fleet::tests::dump,
    scenarios,
};

const SECRET: &str = "hunter2-planted";

fn read(file: &Path, extra: &str) -> FleetPage {
    let words = ["fleetwright", "report", "--at=2026-01-01T12:00:00Z", "--budget=50it", "-f"];
    let args = words.into_iter().map(OsString::from).chain([file.into()]);
    let args = args.chain(extra.split_whitespace().map(OsString::from));
    let (options, flags) = match parse(args, &Interface::plain()).unwrap() {
        Invocation::Tool(Tool::Report(options), flags) => (options, flags),
        other => panic!("{other:?}"),
    };
    let values = Values::resolve(&flags, |_| None).unwrap();
    let items = input::read_from(&options.input).unwrap();
    page(items, &options, (&scenarios::catalogues(), &values), options.at.unwrap()).unwrap()
}

#[test]
fn golden_figures() {
    let page = read(&dump(), "--label app");
    assert_eq!(page.source, "fleet.yaml");
    let shown = serde_json::json!({"funnels": page.funnels, "saving": page.saving});
    let text = serde_json::to_string_pretty(&shown).unwrap() + "\n";
    scenarios::check_file("tests/scenarios/report/fleet.json", &text);
}

/// Nano-dollars of an exact text.
fn nanos(text: &Value) -> i128 {
    let text = text.as_str().unwrap();
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{rest:0<9}").parse().unwrap()
}

fn sum(rows: &Value, field: &str) -> i128 {
    rows.as_array().unwrap().iter().map(|row| nanos(&row[field])).sum()
}

#[test]
fn the_parts_of_nodes_add_up_to_their_prices() {
    let page = read(&dump(), "--label app --label none");
    let nodes = nanos(&serde_json::json!(page.fleet.totals.cost.hourly));
    let of_pools = serde_json::to_value(&page.fleet.node_pools).unwrap();
    let saving = serde_json::to_value(page.saving.unwrap()).unwrap();
    assert!(nodes > 0);
    assert_eq!(sum(&saving["byNodePool"], "hourly"), nodes);
    assert_eq!(sum(&of_pools, "hourly"), nodes);
    let unused = nanos(&saving["waste"]["hourly"]);
    assert_eq!(sum(&saving["byNodePool"], "unusedHourly"), unused);
    for rows in [&saving["byNamespace"], &saving["byLabel"][0]["rows"], &saving["byLabel"][1]["rows"]] {
        assert_eq!(sum(rows, "hourly") + unused, nodes, "{rows}");
    }
    // No pod has the second label: all are in one row without a name.
    assert_eq!(saving["byLabel"][1]["rows"].as_array().unwrap().len(), 1);
    assert_eq!(saving["byLabel"][1]["rows"][0]["name"], Value::Null);
}

#[test]
fn no_output_has_environment_arguments_or_annotations() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dump.yaml");
    let container = format!(
        "\"image\": \"{SECRET}\", \"args\": [\"{SECRET}\"], \"command\": [\"{SECRET}\"], \"env\": [{{\"name\": \"P\", \"value\": \"{SECRET}\"}}]"
    );
    let annotated = format!("\"metadata\": {{\"annotations\": {{\"note\": \"{SECRET}\"}}, ");
    let of_line = |line: &str| {
        let line = line.replace("\"image\": \"i\"", &container);
        // An object with annotations of its own would have the field twice.
        if line.contains("\"annotations\"") { line } else { line.replacen("\"metadata\": {", &annotated, 1) }
    };
    let text = std::fs::read_to_string(dump()).unwrap();
    let planted: String = text.lines().map(|line| of_line(line) + "\n").collect();
    assert!(planted.matches(SECRET).count() > 40);
    let secret = format!(
        "---\n{{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"metadata\": {{\"name\": \"s\", \"namespace\": \"shop\"}}, \"stringData\": {{\"password\": \"{SECRET}\"}}}}\n"
    );
    std::fs::write(&file, planted + &secret).unwrap();
    let page = read(&file, "");
    assert_eq!(page.fleet.nodes.len(), 6);
    let outputs = [html::report(&page).unwrap(), serde_json::to_string_pretty(&page).unwrap()];
    for output in outputs {
        assert!(!output.contains(SECRET));
    }
}

#[test]
fn bad_input_is_named() {
    scenarios::check_bad_input("report", &["objects"], |files| {
        let words = "report --at=2026-01-01T12:00:00Z --budget=2it";
        let (options, flags) =
            match parse(scenarios::command_line(words, files), &Interface::plain()).unwrap() {
                Invocation::Tool(Tool::Report(options), flags) => (options, flags),
                other => panic!("{other:?}"),
            };
        let (values, at) = (Values::resolve(&flags, |_| None).unwrap(), options.at.unwrap());
        let tools = (&scenarios::catalogues(), &values);
        let page = page(input::read_from(&options.input)?, &options, tools, at)?;
        html::report(&page)?;
        Ok([page.fleet.notes, page.fleet.incomplete].concat())
    });
}
