//! Scenarios: `tests/scenarios/explain/*.yaml` is the input; its first line `# explain: …` is the command line, and the page is beside it.

use std::{ffi::OsString, path::Path};

use fleetwright_core::model::Currency;
use serde_json::Value;

use super::*;
use crate::{
    cli::{Explain, Interface, Invocation, Tool, parse},
    scenarios,
    sheet::Format,
};

fn explained(path: &Path) -> String {
    explained_in(path, Currency::USD)
}

fn explained_in(path: &Path, currency: Currency) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let args = text.lines().next().and_then(|line| line.strip_prefix("# explain:")).unwrap();
    let words = ["fleetwright", "explain"].into_iter().chain(args.split_whitespace()).map(OsString::from);
    let more = ["--at=2026-01-01T12:00:00Z", "--budget=50it", "-f"].map(OsString::from);
    let (what, flags) = match parse(words.chain(more).chain([path.into()]), &Interface::plain()).unwrap() {
        Invocation::Tool(Tool::Explain(what), flags) => (what, flags),
        other => panic!("{other:?}"),
    };
    let values = Values::resolve(&flags, |_| None).unwrap().priced_in(currency);
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
        Explain::Node(_) | Explain::Decision(_) => panic!("others test those"),
    };
    let page = page.map_or_else(|error| format!("{error:#}\n"), |page| page.render(Format::Table, None));
    let folder = format!("{}/", path.parent().unwrap().display());
    scenarios::shown(&question.loaded.notes, &question.loaded.gaps, page).replace(&folder, "")
}

#[test]
fn scenario_files() {
    scenarios::check("explain", explained);
}

#[test]
fn explanations_in_another_currency_differ_by_its_sign_alone() {
    for scenario in ["nodepool", "pod-spread", "type", "type-refused"] {
        let path = scenarios::from_root(&format!("tests/scenarios/explain/{scenario}.yaml"));
        let [dollars, euros] = [Currency::USD, Currency::EUR].map(|currency| explained_in(&path, currency));
        assert!(dollars.contains('$'), "{scenario}: {dollars}");
        assert_eq!(euros, dollars.replace('$', "€"), "{scenario}");
    }
}

#[test]
fn patches_of_taints_add_up() {
    let path = scenarios::from_root("tests/scenarios/explain/pod-taints.yaml");
    let args = ["fleetwright", "explain", "pod", "web", "-f"].map(OsString::from);
    let Invocation::Tool(Tool::Explain(Explain::Pod(options)), flags) =
        parse(args.into_iter().chain([path.into()]), &Interface::plain()).unwrap()
    else {
        panic!("not explain pod");
    };
    let values = Values::resolve(&flags, |_| None).unwrap();
    let mut question = Question::new(&options, &scenarios::catalogues(), &values).unwrap();
    let rows = pod::report(&mut question, &options).unwrap().constraints;
    let patches: Vec<_> = rows.iter().map(|row| row.patch.as_ref().unwrap().merge["spec"].clone()).collect();
    let own = serde_json::json!({"key": "dedicated", "operator": "Exists"});
    let old = serde_json::json!({"key": "old", "operator": "Equal", "effect": "NoExecute"});
    let team = serde_json::json!({"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"});
    assert_eq!(
        patches,
        [
            serde_json::json!({"tolerations": [own, old]}),
            serde_json::json!({"tolerations": [own, old, team]}),
        ]
    );
}

#[test]
fn bad_input_is_named() {
    scenarios::check_bad_input("explain", &["objects"], |files| {
        let told = |what: &str| {
            let words = format!("explain {what} --at=2026-01-01T12:00:00Z --budget=2it");
            let (what, flags) =
                match parse(scenarios::command_line(&words, files), &Interface::plain()).unwrap() {
                    Invocation::Tool(Tool::Explain(what), flags) => (what, flags),
                    other => panic!("{other:?}"),
                };
            let values = Values::resolve(&flags, |_| None).unwrap();
            let (Explain::Pod(options)
            | Explain::Type(options)
            | Explain::NodePool(options)
            | Explain::Node(options)) = &what
            else {
                panic!("decisions are of recordings")
            };
            let mut question = Question::new(options, &scenarios::catalogues(), &values)?;
            let page = match &what {
                Explain::Pod(options) => pod::report(&mut question, options).map(|report| pod::page(&report)),
                Explain::NodePool(options) => {
                    node_pool::report(&question, &options.name).map(|report| node_pool::page(&report))
                }
                _ => instance_type::report(&mut question, &options.name)
                    .map(|report| instance_type::page(&report)),
            };
            let page =
                page.map_or_else(|error| format!("{error:#}"), |page| page.render(Format::Table, None));
            Ok::<_, anyhow::Error>(page.lines().next().unwrap_or_default().to_owned())
        };
        ["pod bad0", "nodepool bad0", "type c-8x-amd64-linux"].into_iter().map(told).collect()
    });
}

/// What `explain decision` says of a decision of a recording.
fn of_recording(id: &str, recording: &Path) -> anyhow::Result<Answer> {
    let words = format!("explain decision {id} --budget=2it --recording {}", recording.display());
    match parse(scenarios::command_line(&words, &[]), &Interface::plain()).unwrap() {
        Invocation::Tool(Tool::Explain(Explain::Decision(options)), flags) => {
            let values = Values::resolve(&flags, |_| None).unwrap();
            decision::explained(&options, &scenarios::catalogues(), &values)
        }
        other => panic!("{other:?}"),
    }
}

/// A plan whose pods were pending, a NodeClaim, a command on a node, nodes that are not disrupted, and no decision.
#[test]
fn decisions_of_a_recording() {
    let recording = scenarios::from_root("tests/scenarios/replay/decisions");
    let mut shown = String::new();
    for number in [10, 3, 20, 4, 99] {
        let id = format!("6955b9004feb5c-{number}");
        let text = match of_recording(&id, &recording) {
            Ok(answer) => {
                assert_eq!(answer.document["decision"]["id"], id.as_str());
                scenarios::shown(&answer.notes, &answer.gaps, answer.page.render(Format::Table, None))
            }
            Err(error) => format!("{error:#}\n"),
        };
        shown += &format!("# explain decision {id}\n{text}\n");
    }
    let shown = shown.replace(&format!("{}/", recording.parent().unwrap().display()), "");
    scenarios::check_file("tests/scenarios/replay/explained.txt", &shown);
}

#[test]
fn bad_recordings_are_named() {
    scenarios::check_bad_input("explain-decision", &["traces"], |files| {
        let [_, recording] = files else { panic!("{files:?}") };
        Ok(of_recording("p-1", recording)?.notes)
    });
}

/// Each patch of a constraint that alone rules the NodePool out is applied to its object, by the rules of `kubectl patch`: then the pod gets a node.
#[test]
fn patches_help() {
    let path = scenarios::from_root("tests/scenarios/plan/reasons/patches.yaml");
    let items = input::read(&[path]).unwrap();
    let options = |name: &str| match parse(
        scenarios::command_line(&format!("explain pod {name} --budget=2it"), &[]),
        &Interface::plain(),
    ) {
        Ok(Invocation::Tool(Tool::Explain(Explain::Pod(options)), _)) => options,
        other => panic!("{other:?}"),
    };
    let values = Values::resolve(&Default::default(), |_| None).unwrap();
    let answer = |items: Vec<Item>, name: &str| {
        pod_answer(items, &options(name), &scenarios::catalogues(), &values).unwrap().document
    };
    for (name, tried) in [
        ("label", 1),
        ("arm", 1),
        ("spot", 1),
        ("typo", 1),
        ("zone", 1),
        ("reserved", 1),
        ("large", 1),
        ("lonely", 1),
        ("none", 0),
        ("two", 2),
    ] {
        let before = answer(items.clone(), name);
        assert_eq!(before["state"], "Unschedulable", "{name}");
        let rows = before["constraints"].as_array().unwrap();
        let patches: Vec<&Value> =
            rows.iter().map(|row| &row["patch"]).filter(|patch| !patch.is_null()).collect();
        assert_eq!(patches.len(), tried, "{name}: {rows:?}");
        let mut patched = items.clone();
        for patch in &patches {
            apply(&mut patched, name, patch);
        }
        let wanted = if tried > 0 { "NewNode" } else { "Unschedulable" };
        let after = answer(patched, name);
        assert_eq!(after["state"], wanted, "{name}: {patches:?}: {after}");
    }
}

/// Applies a patch to the pod or the NodePool of an input.
fn apply(items: &mut [Item], pod: &str, patch: &Value) {
    let (kind, name) = match patch["object"].as_str().unwrap().split_once('/') {
        Some((kind, name)) => (kind, name),
        None => ("Pod", pod),
    };
    let is_meant = |item: &&mut Item| item.value["kind"] == kind && item.value["metadata"]["name"] == name;
    let value = &mut items.iter_mut().find(is_meant).unwrap().value;
    let mut merge = patch["merge"].clone();
    // A strategic merge patch: containers merge by name.
    if let Some(containers) = merge["spec"].as_object_mut().and_then(|spec| spec.remove("containers")) {
        for changed in containers.as_array().unwrap() {
            let all = value["spec"]["containers"].as_array_mut().unwrap();
            let own = all.iter_mut().find(|own| own["name"] == changed["name"]).unwrap();
            json_patch::merge(own, changed);
        }
    }
    json_patch::merge(value, &merge);
}

/// The work on one report has a bound, and the page says what it left out.
#[test]
fn many_node_pools_are_explained_in_part() {
    let pool = |at: usize| {
        format!(
            "{{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {{name: p{at:03}}}, spec: {{template: {{spec: {{nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}, requirements: []}}}}}}}}\n---\n"
        )
    };
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeSelector: {disk: ssd, rack: r}, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}";
    let report = |pools: usize| {
        let text: String = (0..pools).map(pool).chain([pod.to_owned()]).collect();
        let mut items = Vec::new();
        input::parse(Path::new("in.yaml"), &text, &mut items).unwrap();
        let words = scenarios::command_line("explain pod p --budget=2it", &[]);
        let Ok(Invocation::Tool(Tool::Explain(Explain::Pod(options)), flags)) =
            parse(words, &Interface::plain())
        else {
            panic!("not explain pod");
        };
        let values = Values::resolve(&flags, |_| None).unwrap();
        pod_answer(items, &options, &scenarios::catalogues(), &values).unwrap()
    };
    let constraints = |answer: &Answer, pools: usize| {
        let rows = answer.document["constraints"].as_array().unwrap();
        let of_pool = |at: usize| {
            let name = format!("p{at:03}");
            rows.iter().filter(|row| row["nodePool"] == name.as_str()).count()
        };
        (0..pools).map(of_pool).collect::<Vec<_>>()
    };
    let few = report(5);
    assert_eq!(constraints(&few, 5), [2; 5]);
    assert!(few.document["nodePoolsInPart"].is_null());
    let many = report(140);
    let found = constraints(&many, 140);
    let left = found.iter().filter(|count| **count == 1).count();
    assert!((1..140).contains(&left) && found.iter().all(|count| (1..=2).contains(count)), "{found:?}");
    assert_eq!(many.document["nodePoolsInPart"], left);
    let page = many.page.render(Format::Table, None);
    assert!(page.contains(&format!("{left} NodePools: only the first constraints")), "{page}");
}
