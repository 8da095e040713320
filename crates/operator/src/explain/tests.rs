//! Scenarios: `tests/scenarios/explain/*.yaml` is the input; its first line `# explain: …` is the command line, and the page is beside it.

use std::{ffi::OsString, path::Path};

use super::*;
use crate::{
    cli::{Explain, Interface, Invocation, Tool, parse},
    scenarios,
    sheet::Format,
};

fn explained(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let args = text.lines().next().and_then(|line| line.strip_prefix("# explain:")).unwrap();
    let words = ["fleetwright", "explain"].into_iter().chain(args.split_whitespace()).map(OsString::from);
    let more = ["--at=2026-01-01T12:00:00Z", "--budget=50it", "-f"].map(OsString::from);
    let (what, flags) = match parse(words.chain(more).chain([path.into()]), &Interface::plain()).unwrap() {
        Invocation::Tool(Tool::Explain(what), flags) => (what, flags),
        other => panic!("{other:?}"),
    };
    let values = Values::resolve(&flags, |_| None).unwrap();
    let new = |options| Question::new(options, &scenarios::catalogues(), &values).unwrap();
    let (question, page) = match &what {
        Explain::Pod(options) => {
            let mut question = new(options);
            let report = pod::report(&mut question, options);
            (question, report.map(|report| pod::page(&report)))
        }
        Explain::Type(options) => {
            let mut question = new(options);
            let report = instance_type::report(&mut question, &options.name);
            (question, report.map(|report| instance_type::page(&report)))
        }
        Explain::NodePool(options) => {
            let question = new(options);
            let report = node_pool::report(&question, &options.name);
            (question, report.map(|report| node_pool::page(&report)))
        }
        Explain::Node(_) => panic!("`disrupt` has those"),
    };
    let page = page.map_or_else(|error| format!("{error:#}\n"), |page| page.render(Format::Table, None));
    let folder = format!("{}/", path.parent().unwrap().display());
    scenarios::shown(&question.loaded.notes, &question.loaded.gaps, page).replace(&folder, "")
}

#[test]
fn scenario_files() {
    scenarios::check("explain", explained);
}
