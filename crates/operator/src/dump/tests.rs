//! Dumps plan as what they were taken from, anonymized ones too, and hold nothing that was not read.

mod worlds;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::*;
use crate::{
    cli::{Interface, Invocation, PlanOptions, Tool, parse},
    scenarios,
    settings::{self, Values},
};

/// Generated worlds that are compared. A debug build takes about a second for each.
const WORLDS: u64 = 4;
/// Of the scenario files, each of this number is compared.
const SAMPLE: usize = 12;

/// The command line of `plan`, with further words.
fn options(words: &str) -> (PlanOptions, Values) {
    let args = ["fleetwright", "plan", "--budget=2it"].into_iter().chain(words.split_whitespace());
    match parse(args.map(OsString::from), &Interface::plain()).unwrap() {
        Invocation::Tool(Tool::Plan(options), flags) => (options, Values::resolve(&flags, |_| None).unwrap()),
        other => panic!("{other:?}"),
    }
}

fn items_of(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    input::parse(Path::new("dump.json"), text, &mut items).unwrap();
    items
}

/// What a plan does, without names: how many nodes of which type at which price, how full, and which pods get none.
fn decided(items: Vec<Item>, (options, values): &(PlanOptions, Values)) -> BTreeMap<String, usize> {
    let at = "2026-01-01T00:00:00Z".parse().unwrap();
    let report = plan::plan(items, options, &scenarios::catalogues(), values, at).unwrap();
    let report = serde_json::to_value(&report).unwrap();
    let mut found = BTreeMap::new();
    let mut note = |what: String| *found.entry(what).or_default() += 1;
    let pods = |row: &Value| row["pods"].as_array().unwrap().len();
    for claim in report["nodeClaims"].as_array().unwrap() {
        note(format!("new {} {} {} pods", claim["offering"], claim["instanceTypes"], pods(claim)));
    }
    for node in report["existing"].as_array().unwrap() {
        note(format!("existing {} pods", pods(node)));
    }
    for pod in report["unschedulable"].as_array().unwrap() {
        note(format!("unschedulable {}", pod["reason"]));
    }
    for part in ["cost", "now", "then"] {
        note(format!("{part} {}", report[part]));
    }
    found
}

fn dumped(items: &[Item]) -> Vec<Value> {
    projected(items, &scenarios::catalogues(), None).0
}

fn anonymized(objects: &[Value]) -> Vec<Value> {
    let mut objects = objects.to_vec();
    Anonymizer::new(&scenarios::catalogues(), Some("key")).unwrap().anonymize(&mut objects);
    objects
}

fn text(objects: &[Value]) -> String {
    written(objects, Timestamp::UNIX_EPOCH).unwrap()
}

/// Fails if a dump, or an anonymized one, plans otherwise than the items. Returns the text of the latter.
fn compare(items: &[Item], options: &(PlanOptions, Values), what: &str) -> String {
    let expected = decided(items.to_vec(), options);
    let objects = dumped(items);
    assert_eq!(decided(items_of(&text(&objects)), options), expected, "{what}: a dump");
    let anonymous = text(&anonymized(&objects));
    assert_eq!(decided(items_of(&anonymous), options), expected, "{what}: an anonymized dump");
    anonymous
}

/// Scenario files whose options name nothing. A dump leaves out what cannot be read.
fn scenario_files() -> impl Iterator<Item = (PathBuf, (PlanOptions, Values))> {
    let readable =
        scenarios::paths("plan").into_iter().filter(|path| !path.ends_with("input/malformed.yaml"));
    readable.filter_map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let extra = text.lines().next().and_then(|line| line.strip_prefix("# plan:")).unwrap_or_default();
        let folder = path.parent().unwrap().display().to_string();
        let types = path.with_extension("json");
        let mut words = extra.replace("{folder}", &folder);
        if types.exists() {
            words += &format!(" --instance-types {}", types.display());
        }
        let options = options(&words);
        let plan = &options.0;
        let names = !plan.what_if.is_empty()
            || !plan.replicas.is_empty()
            || plan.select.namespace.is_some()
            || plan.select.selector.is_some()
            // Labels of an own domain are renamed in objects, not in a file of instance types.
            || fs::read_to_string(&types).is_ok_and(|text| text.contains("example.com/"));
        (!names).then_some((path, options))
    })
}

#[test]
fn dumps_of_the_scenarios_plan_the_same() {
    let mut count = 0;
    let is_sampled = |number: usize, path: &Path| {
        // It compares the values of taints as numbers.
        number.is_multiple_of(SAMPLE) || path.ends_with("taints/operators.yaml")
    };
    for (_, (path, options)) in
        scenario_files().enumerate().filter(|(number, (path, _))| is_sampled(*number, path))
    {
        let items = input::read(std::slice::from_ref(&path)).unwrap();
        compare(&items, &options, &path.display().to_string());
        count += 1;
    }
    assert!(count >= 5, "{count}");
}

#[test]
fn dumps_of_generated_worlds_plan_the_same() {
    let options = options("");
    for seed in 0..WORLDS {
        let world = worlds::world(seed);
        let anonymous = compare(&items_of(&text(&world)), &options, &format!("seed {seed}"));
        for word in worlds::WORDS {
            assert!(!anonymous.contains(word), "seed {seed}: {word}");
        }
    }
}

#[test]
fn the_worlds_differ_in_what_they_plan() {
    let options = options("");
    let all: BTreeSet<Vec<(String, usize)>> = (0..4)
        .map(|seed| decided(items_of(&text(&worlds::world(seed))), &options).into_iter().collect())
        .collect();
    let words = format!("{all:?}");
    assert!(all.len() == 4 && words.contains("new ") && words.contains("existing "), "{words}");
    assert!(words.contains("unschedulable"), "{words}");
}

#[test]
fn the_key_decides_about_the_words() {
    let objects = worlds::world(1);
    let with = |key: Option<&str>| {
        let mut objects = objects.clone();
        Anonymizer::new(&scenarios::catalogues(), key).unwrap().anonymize(&mut objects);
        text(&objects)
    };
    assert_eq!(with(Some("a")), with(Some("a")));
    assert_ne!(with(Some("a")), with(Some("b")));
    assert_ne!(with(None), with(None), "a random key for each run");
}

#[test]
fn a_dump_of_a_cluster_full_of_secrets() {
    let items = input::read(&[scenarios::from_root("tests/scenarios/dump/cluster.yaml")]).unwrap();
    let (objects, notes) = projected(&items, &scenarios::catalogues(), None);
    assert_eq!(notes, ["1 object of v1 Secret left out: no decision reads them"]);
    let (plain, anonymous) = (text(&objects), text(&anonymized(&objects)));
    assert!(!plain.contains("s3cr3t"), "{plain}");
    for word in ["s3cr3t", "payments", "ledger", "team", "acme"] {
        assert!(!anonymous.contains(word), "{word}: {anonymous}");
    }
    scenarios::check_file("tests/scenarios/dump/cluster.json", &plain);
    scenarios::check_file("tests/scenarios/dump/anonymized.json", &anonymous);
}

/// `compat` finds the same in a dump as in the cluster, and the dump has no secrets.
#[test]
fn a_dump_for_compat_has_what_compat_reads() {
    let all = settings::tests::all();
    let text_of = |settings| {
        let items = input::read(&[scenarios::from_root("tests/scenarios/dump/compat.yaml")]).unwrap();
        text(&projected(&items, &scenarios::catalogues(), settings).0)
    };
    let (plain, with) = (text_of(None), text_of(Some(&all[..])));
    for word in ["s3cr3t", "node-lease", "others.example", "caBundle"] {
        assert!(!with.contains(word), "{word}: {with}");
    }
    assert!(!plain.contains("ClusterRole") && !plain.contains("CLUSTER_NAME"), "{plain}");
    scenarios::check_file("tests/scenarios/dump/compat.json", &with);
}

#[test]
fn the_fields_of_node_classes_are_understood() {
    for (group, kind) in [("karpenter.k8s.aws", "EC2NodeClass"), ("karpenter.kwok.sh", "KWOKNodeClass")] {
        let table = scenarios::catalogues().class_fields(group, kind).unwrap();
        assert!(!table.is_empty(), "{kind}");
        assert_eq!(fields::invalid_line(table), None, "{kind}");
    }
}

#[test]
fn bad_input_is_named() {
    scenarios::check_bad_input("dump", &["objects"], |files| {
        let items = input::read(files)?;
        let (objects, notes) = projected(&items, &scenarios::catalogues(), None);
        written(&objects, Timestamp::UNIX_EPOCH)?;
        let (mut objects, _) = projected(&items, &scenarios::catalogues(), Some(&settings::tests::all()));
        Anonymizer::new(&scenarios::catalogues(), Some("key"))?.anonymize(&mut objects);
        written(&objects, Timestamp::UNIX_EPOCH)?;
        Ok(notes)
    });
}
