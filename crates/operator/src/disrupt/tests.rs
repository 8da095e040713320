//! Scenarios: `tests/scenarios/disrupt/*.yaml` is the input, the file beside it with `.txt` the report.
//!
//! A first line `# disrupt: --flag …` adds to the command line; it decides at noon of the first day of 2026. The input is
//! full manifests, or one document in the [short form](short).

use std::{collections::BTreeMap, ffi::OsString, path::Path};

mod short;

use fleetwright_core::model::Currency;

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

/// The report on a scenario, and the folder of its input.
fn surveyed(path: &Path, currency: Currency) -> (DisruptReport, String) {
    let text = std::fs::read_to_string(path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join(path.file_name().unwrap());
    std::fs::write(&input, short::manifests(&text)).unwrap();
    let (options, flags) = options(&input, &text);
    let values = Values::resolve(&flags, |_| None).unwrap().priced_in(currency);
    let at = options.at.unwrap();
    let report = survey(
        crate::input::read_from(&options.input).unwrap(),
        &options,
        &scenarios::catalogues(),
        &values,
        (at, at),
    )
    .unwrap();
    (report, format!("{}/", folder.path().display()))
}

fn report(path: &Path) -> String {
    report_in(path, Currency::USD)
}

fn report_in(path: &Path, currency: Currency) -> String {
    let (report, folder) = surveyed(path, currency);
    scenarios::shown(
        &report.notes,
        &report.incomplete,
        table::page(&report, false).render(sheet::Format::Table, None),
    )
    .replace(&folder, "")
}

#[test]
fn scenario_files() {
    scenarios::check("disrupt", report);
}

#[test]
fn blockers_and_savings_in_another_currency_differ_by_its_sign_alone() {
    for (scenario, said) in [
        ("balanced-rejects", "the saving of $"),
        ("consolidation", "SAVES $/H"),
        ("no-net-benefit", "would save $"),
        ("multi-same-type", "a cheaper node (now $"),
    ] {
        let path = scenarios::from_root(&format!("tests/scenarios/disrupt/{scenario}.yaml"));
        let [dollars, euros] = [Currency::USD, Currency::EUR].map(|currency| report_in(&path, currency));
        assert!(dollars.contains(said), "{scenario}: {dollars}");
        assert_eq!(euros, dollars.replace('$', "€"), "{scenario}");
    }
}

#[test]
fn the_score_of_a_command_is_in_the_document() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios/disrupt/balanced-approves.yaml");
    let report = surveyed(&file, Currency::USD).0;
    let scores: Vec<_> = report.commands.iter().flat_map(|command| &command.scores).collect();
    let [score] = scores.as_slice() else { panic!("{scores:?}") };
    assert!(score.score.unwrap() >= score.threshold, "{score:?}");
    let quotient = score.savings_percent / score.disruption_percent;
    assert!((quotient - score.score.unwrap()).abs() < 1e-9, "{score:?}");
}

#[test]
fn the_explanation_of_a_node_has_its_drift_and_its_expiry() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios/disrupt/ec2.yaml");
    let items = crate::input::read(&[file]).unwrap();
    let values = Values::resolve(&BTreeMap::new(), |_| None).unwrap();
    let at = "2026-01-01T12:00:00Z".parse().unwrap();
    let tools = (&scenarios::catalogues(), &values);
    let page = answer(items, "a", &CatalogueOptions::default(), tools, at).unwrap().page;
    let text = page.render(sheet::Format::Table, None);
    assert!(text.contains("\n$/h        "), "{text}");
    assert!(text.contains("\nDrifted    RequirementsDrifted since "), "{text}");
    assert!(text.contains("\nExpires    "), "{text}");
}

/// When later passes remove which nodes of a document in the short form, within an hour, and how many replacements they launch.
fn later(text: &str) -> Vec<(String, Vec<String>, usize)> {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("fleet.yaml");
    std::fs::write(&input, short::manifests(text)).unwrap();
    let values = Values::resolve(&BTreeMap::new(), |_| None).unwrap();
    let at: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    let asked = (&[][..], &CatalogueOptions::default());
    let items = crate::input::read(&[input]).unwrap();
    let mut first = decide(items, asked, &scenarios::catalogues(), &values, (at, at)).unwrap();
    let forecast = first.later_passes(&values, (at, at + jiff::SignedDuration::from_hours(1)));
    let row = |(at, command): &(Timestamp, disruption::Command)| {
        let names = command.candidates.iter().map(|candidate| candidate.name().to_owned());
        (at.strftime("%H:%M").to_string(), names.collect(), command.replacements.len())
    };
    forecast.commands.iter().map(row).collect()
}

#[test]
fn savings_of_commands_are_unknown_if_one_price_is() {
    let path = scenarios::from_root("tests/scenarios/disrupt/drift-order.yaml");
    let text = short::manifests(&std::fs::read_to_string(&path).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("fleet.yaml");
    std::fs::write(&input, text).unwrap();
    let values = Values::resolve(&BTreeMap::new(), |_| None).unwrap();
    let at: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    let asked = (&["drift".to_owned()][..], &CatalogueOptions::default());
    let items = crate::input::read(&[input]).unwrap();
    let mut commands =
        decide(items, asked, &scenarios::catalogues(), &values, (at, at)).unwrap().survey.commands;
    assert_eq!(commands.len(), 3);
    // An empty node goes, and two are replaced by nodes of the same price.
    assert_eq!(savings(&commands), savings([&commands[0]]));
    assert!(savings(&commands).is_some_and(|saves| saves.starts_with("0.10")), "{:?}", savings(&commands));
    commands[2].candidates[0].price = fleetwright_core::model::Price::ZERO;
    assert_eq!(savings(&commands), None);
}

#[test]
fn later_passes_follow_as_the_budget_allows() {
    let fleet = |budget: &str| {
        let node = |name: &str| {
            format!(
                "- {{name: {name}, type: c-4x-amd64-linux, drifted: \"11:50\", hash: \"1\", pods: [{{name: of-{name}, cpu: \"3\", memory: 256Mi}}]}}\n"
            )
        };
        let nodes: String = ["a", "b", "c"].map(node).concat();
        format!(
            "pools:\n- {{disruption: {{consolidationPolicy: WhenEmpty, budgets: [{{nodes: {budget}}}]}}}}\nnodes:\n{nodes}"
        )
    };
    let row = |at: &str, node: &str| (at.to_owned(), vec![node.to_owned()], 1);
    assert_eq!(later(&fleet("\"1\"")), [row("12:02", "b"), row("12:04", "c")]);
    assert_eq!(later(&fleet("100%")), []);
    assert_eq!(later(&fleet("\"0\"")), []);
}

#[test]
fn later_passes_wait_for_consolidate_after() {
    // The pod of the drifted node moves to the other one, which is too large for it and was quiet until then.
    let fleet = r#"pools:
- {disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 20m, budgets: [{nodes: 100%}]}}
nodes:
- {name: drifted, type: c-1x-amd64-linux, drifted: "11:50", hash: "1", pods: [{name: p, cpu: 100m, memory: 256Mi}]}
- {name: large, type: c-8x-amd64-linux, pods: [{name: q, cpu: "3", memory: 256Mi}]}
"#;
    assert_eq!(later(fleet), [("12:22".to_owned(), vec!["large".to_owned()], 1)]);
}

#[test]
fn a_mistyped_node_gets_a_suggestion() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios/plan/input/bound-elsewhere.yaml");
    let items = crate::input::read(&[file]).unwrap();
    let values = Values::resolve(&BTreeMap::new(), |_| None).unwrap();
    let tools = (&scenarios::catalogues(), &values);
    let at = "2026-01-01T12:00:00Z".parse().unwrap();
    let error = answer(items, "heer", &CatalogueOptions::default(), tools, at).err().unwrap();
    let expected = "there is no Node or NodeClaim \"heer\" in the input (did you mean \"here\"?)";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn unknown_methods_are_named() {
    let error = methods(&["emptyness".to_owned()], &[]).err().unwrap().to_string();
    assert!(error.contains("emptyness") && error.contains("emptiness"), "{error}");
}

#[test]
fn the_schema_in_docs_is_that_of_the_report() {
    scenarios::check_schema::<DisruptReport>("disrupt.schema.json");
}

#[test]
fn bad_input_is_named() {
    scenarios::check_bad_input("disrupt", &["objects"], |files| {
        let args = scenarios::command_line("disrupt --at=2026-01-01T12:00:00Z", files);
        let (options, flags) = match parse(args, &Interface::plain()).unwrap() {
            Invocation::Tool(Tool::Disrupt(options), flags) => (options, flags),
            other => panic!("{other:?}"),
        };
        let (values, at) = (Values::resolve(&flags, |_| None).unwrap(), options.at.unwrap());
        let (items, catalogues) = (crate::input::read_from(&options.input)?, scenarios::catalogues());
        let report = survey(items.clone(), &options, &catalogues, &values, (at, at))?;
        table::page(&report, true).render(sheet::Format::Table, None);
        answer(items, "healthy", &options.catalogue, (&catalogues, &values), at)?;
        Ok([report.notes, report.incomplete].concat())
    });
}
