//! Damaged input: documents of the scenarios with a part removed, duplicated, or replaced by another. The
//! result is a plan or an error with its position, never a panic.

use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};

use super::*;
use crate::input::{self, Item, Source};

const TEXTS: [&str; 12] =
    ["", " ", "-1", "1e400", "9E99", "1n", "\u{0}", "a/b/c", "2026-13-45T99:00:00Z", "5m5", "NaN", "💥"];

/// Values of the wrong type or form.
fn unexpected_values() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(json!(1e300)),
        proptest::sample::select(&TEXTS[..]).prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([[[{"a": [null, {"b": {}}]}]]])),
        Just(json!(["x".repeat(5000)])),
        (0..40_usize).prop_map(|depth| (0..depth).fold(json!(0), |inner, _| json!([inner]))),
    ]
}

/// A part of a document, by number.
fn part<'a>(value: &'a mut Value, at: &mut usize) -> Option<&'a mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| part(item, at)),
        Value::Object(members) => members.values_mut().find_map(|member| part(member, at)),
        _ => None,
    }
}

fn parts(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(parts).sum(),
        Value::Object(members) => members.values().map(parts).sum(),
        _ => 0,
    }
}

/// The scenarios, by name.
fn texts() -> Vec<String> {
    scenarios::paths("plan").iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// Runs everything from the items to the report.
fn go_through(mut items: Vec<Item>) {
    let values = Values::resolve(
        &BTreeMap::from([("feature-gates".to_owned(), "NodeOverlay=true,CapacityBuffer=true".to_owned())]),
        |_| None,
    )
    .unwrap();
    if workloads::expand(&mut items, &[]).is_err() {
        return;
    }
    let offer = scenarios::catalogues().offer(&items, &Default::default(), &values).unwrap();
    let mut loaded = load::load(items, offer, &values).unwrap();
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let snapshot = loaded.index.snapshot(now);
    let pods = pods(&snapshot, false);
    let rules = rules(&values);
    let plan = solve(
        &mut PreparedSnapshot::new(&snapshot, &rules),
        &pods,
        Packing::LeastCost,
        SolveEffort::Iterations(1),
    );
    let request =
        Request { pods: &pods, without: &[], purpose: Purpose::Provisioning, effort: Effort::First };
    assert_eq!(validator::violations(&snapshot, &request, &rules, &plan), [""; 0]);
    let timing = Timing::new(now, now, now, now);
    let (before, after) = fleets(&snapshot, &plan, loaded.priced, |_| false);
    let aside: Vec<_> = set_aside(&loaded).map(|(id, pod)| (id.clone(), pod.clone())).collect();
    let (now, then, snapshot) = (&before, &after, &snapshot);
    let context = Context { loaded: &loaded, set_aside: &aside, seed: 1, timing, now, then, snapshot, rules };
    let report = PlanReport::new(&plan, &context);
    serde_json::to_string(&report).unwrap();
    table::page(&report, false).render(Format::Table, Some(80));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn unexpected_values_cause_no_panic(text in any::<Index>(), changes in prop::collection::vec((any::<Index>(), any::<Index>(), unexpected_values()), 1..6)) {
        let texts = texts();
        let mut items = Vec::new();
        input::parse(Path::new("in.yaml"), text.get::<String>(&texts), &mut items).unwrap();
        for (item, at, unexpected_values) in changes {
            let item = item.index(items.len());
            let Item { value, .. } = &mut items[item];
            let mut at = at.index(parts(value));
            if let Some(part) = part(value, &mut at) {
                *part = unexpected_values;
            }
        }
        for item in &mut items {
            // The error names a line of the input.
            item.source = Source::Cluster;
        }
        go_through(items);
    }

    #[test]
    fn damaged_text_is_read_or_refused_with_its_line(
        text in any::<Index>(), from in any::<Index>(), cut in 0..60_usize, more in "[ \t\r\n:{}\\[\\]'\"&*!|>%@`#,a-z-]{0,6}",
    ) {
        let texts = texts();
        let text: Vec<char> = text.get::<String>(&texts).chars().collect();
        let from = from.index(text.len());
        let (before, after) = (&text[..from], &text[(from + cut).min(text.len())..]);
        let damaged: String = before.iter().copied().chain(more.chars()).chain(after.iter().copied()).collect();
        let mut items = Vec::new();
        match input::parse(Path::new("in.yaml"), &damaged, &mut items) {
            Ok(()) => go_through(items),
            Err(error) => prop_assert!(error.to_string().starts_with("in.yaml:"), "{error}"),
        }
    }
}
