//! The view on a dump: golden frames, keys, and that only visible rows are formatted.

use std::ffi::OsString;

use fleetwright_core::model::Currency;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent};

use super::*;
use crate::{
    cli::{Interface, Invocation, Tool, parse},
    fleet::{FleetNode, tests::dump},
    scenarios,
    settings::Values,
};

/// The sizes of the golden frames: the smallest and largest terminals that the layout is made for, and a usual one.
const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (300, 80)];

fn read(extra: &str) -> TopApp {
    read_in(extra, Currency::USD)
}

fn read_in(extra: &str, currency: Currency) -> TopApp {
    let words = ["fleetwright", "top", "--at=2026-01-01T12:00:00Z", "-f"].into_iter().map(OsString::from);
    let args = words.chain([dump().into()]).chain(extra.split_whitespace().map(OsString::from));
    let (options, flags) = match parse(args, &Interface::plain()).unwrap() {
        Invocation::Tool(Tool::Top(options), flags) => (options, flags),
        other => panic!("{other:?}"),
    };
    let values = Values::resolve(&flags, |_| None).unwrap().priced_in(currency);
    let source = TopSource::new(&options, &scenarios::catalogues(), &values).unwrap();
    let mut app = view(&options, source.read().unwrap(), source.decisions(), false);
    app.source = "fleet.yaml".to_owned();
    app
}

fn shown(app: &TopApp, (columns, rows): (u16, u16)) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    frame::draw(app, &mut buffer);
    draw::text(&buffer)
}

fn press(app: &mut TopApp, keys: &str) {
    for letter in keys.chars() {
        let code = match letter {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '<' => KeyCode::Esc,
            letter => KeyCode::Char(letter),
        };
        app.press(KeyEvent::from(code));
    }
}

#[test]
fn a_view_in_another_currency_differs_by_its_sign_alone() {
    let [dollars, euros] =
        [Currency::USD, Currency::EUR].map(|currency| shown(&read_in("", currency), SIZES[2]));
    assert!(dollars.contains("SAVES $/H") && dollars.contains("/month"), "{dollars}");
    assert_eq!(euros, dollars.replace('$', "€"));
    let francs = shown(&read_in("", Currency::of("CHF").unwrap()), SIZES[0]);
    assert!(francs.contains(" CHF/H ") && !francs.contains('$'), "{francs}");
}

/// The decisions of the tests of `fleetwright decisions`.
fn with_decisions() -> TopApp {
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/scenarios/decisions/list.json");
    read(&format!("--decisions {list}"))
}

#[test]
fn decisions_have_a_pane() {
    let mut app = with_decisions();
    press(&mut app, "6");
    scenarios::check_file("tests/scenarios/top/decisions.120x40.txt", &shown(&app, SIZES[1]));
    press(&mut app, "jjj\n");
    let text = shown(&app, SIZES[1]);
    assert!(
        text.contains("decision 684ee1807a8ec3-3") && text.contains("nodeClaim: default-x7k2p"),
        "{text}"
    );
    press(&mut app, "<");
    // The selected one stays selected where others follow.
    let mut records: Vec<Value> = app.decisions.rows.iter().map(|(_, record)| record.clone()).collect();
    let mut later = records[0].clone();
    later["id"] = "684ee1807a8ec3-7".into();
    records.push(later);
    app.update_decisions(Ok(records));
    press(&mut app, "\n");
    assert!(shown(&app, SIZES[1]).contains("decision 684ee1807a8ec3-3"));
    // Those that were read stay where reading fails.
    app.update_decisions(Err("the endpoint is off".to_owned()));
    assert_eq!(app.decisions.rows.len(), 7);
    press(&mut app, "<");
    let text = shown(&app, SIZES[2]);
    assert!(text.contains("Decisions (7), reading failed: the endpoint is off"), "{text}");
}

#[test]
fn without_decisions_the_pane_says_how_to_see_some() {
    let mut app = read("");
    press(&mut app, "6\n");
    let text = shown(&app, SIZES[1]);
    assert!(text.contains("Decisions (0)") && text.contains("DECISIONS_ENDPOINT=true"), "{text}");
    let mut app = read("--decisions no-such-file.json");
    press(&mut app, "6");
    let text = shown(&app, SIZES[1]);
    assert!(text.contains("no-such-file.json"), "{text}");
}

#[test]
fn golden_frames() {
    let app = with_decisions();
    for (columns, rows) in SIZES {
        let text = shown(&app, (columns, rows));
        assert_eq!(text.lines().count(), usize::from(rows));
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(columns)));
        scenarios::check_file(&format!("tests/scenarios/top/fleet.{columns}x{rows}.txt"), &text);
    }
}

#[test]
fn the_report_of_the_dump() {
    let report = serde_json::to_string_pretty(&read("").report).unwrap();
    scenarios::check_file("tests/scenarios/top/fleet.json", &(report + "\n"));
}

#[test]
fn labels_of_the_selector_are_columns() {
    let app = read("-l kubernetes.io/os=linux,kubernetes.io/arch,karpenter.sh/capacity-type!=spot");
    let frame = shown(&app, SIZES[1]);
    let title = frame.lines().find(|line| line.contains("NODE ")).unwrap();
    let place = title.find("ARCH ").unwrap_or_else(|| panic!("{frame}"));
    assert!(
        title.contains(" OS ") && !title.contains("CAPACITY-TYPE"),
        "one has a column of its own: {frame}"
    );
    assert_eq!(listed(&app).len(), 3);
    let values =
        frame.lines().filter(|line| line.get(place..).is_some_and(|rest| rest.starts_with("amd64 ")));
    assert_eq!(values.count(), 3, "{frame}");
    assert!(!shown(&read(""), SIZES[1]).contains("ARCH"), "without a selector there are none");
}

#[test]
fn every_size_is_drawn() {
    let mut app = read("");
    for pane in ['1', '2', '3', '4', '5', '6', '?'] {
        press(&mut app, &pane.to_string());
        for columns in [1, 19, 20, 40, 79, 159, 161, 239, 241, 500] {
            for rows in [1, 7, 8, 17, 18, 60] {
                shown(&app, (columns, rows));
            }
        }
    }
}

/// The names of the listed nodes, in order.
fn listed(app: &TopApp) -> Vec<&str> {
    app.listed.iter().map(|place| &*app.report.nodes[*place].name).collect()
}

#[test]
fn keys_sort_filter_and_select() {
    let mut app = read("--sort price");
    let dearest = listed(&app)[0].to_owned();
    assert_eq!(dearest, "ip-10-0-1-14");
    press(&mut app, "R");
    assert_eq!(listed(&app).last(), Some(&&*dearest));
    press(&mut app, "/spot\n");
    assert_eq!(listed(&app).len(), 3);
    press(&mut app, "<p");
    assert_eq!((app.filter.node_pool.as_deref(), listed(&app).len()), (Some("default"), 3));
    press(&mut app, "p");
    assert_eq!((app.filter.node_pool.as_deref(), listed(&app).len()), (Some("spot"), 3));
    press(&mut app, "p");
    assert_eq!((app.filter.node_pool.as_deref(), listed(&app).len()), (None, 6));
}

#[test]
fn the_selected_node_stays_selected() {
    let mut app = read("");
    press(&mut app, "jj");
    let selected = |app: &mut TopApp| {
        let action = app.press(KeyEvent::from(KeyCode::Char('e')));
        app.press(KeyEvent::from(KeyCode::Esc));
        action
    };
    let before = selected(&mut app);
    assert!(matches!(&before, Some(TopAction::Explain(Subject::Node(_)))), "{before:?}");
    press(&mut app, "s");
    assert_eq!(selected(&mut app), before);
    let mut report = app.report.clone();
    let first = FleetNode { name: "a-new-one".to_owned(), ..report.nodes[0].clone() };
    report.nodes.insert(0, first);
    app.update(report);
    assert_eq!(selected(&mut app), before);
    let lines: Vec<&str> = app.changes.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(lines, ["node a-new-one ready: c-4x-amd64-linux in test-zone-a, on-demand, $0.1086/h"]);
}

#[test]
fn panes_have_subjects() {
    let mut app = read("");
    for (pane, expected) in [
        ('2', Some(Subject::Pod("shop/gpu-1".to_owned()))),
        ('3', Some(Subject::Node("default-x7k2p".to_owned()))),
        ('4', Some(Subject::Node("ip-10-0-1-14".to_owned()))),
        ('5', None),
        ('6', None),
    ] {
        press(&mut app, &pane.to_string());
        let asked = app.press(KeyEvent::from(KeyCode::Enter));
        assert_eq!(asked, expected.map(TopAction::Explain), "pane {pane}");
        press(&mut app, "<");
    }
}

/// A frame of 10,000 nodes formats the rows that it shows and no other.
#[test]
fn only_visible_rows_are_formatted() {
    let mut app = read("");
    let mut report = app.report.clone();
    let node = report.nodes[0].clone();
    report.nodes =
        (0..10_000).map(|number| FleetNode { name: format!("n-{number:05}"), ..node.clone() }).collect();
    app.update(report);
    press(&mut app, "G");
    let mut buffer = Buffer::empty(Rect::new(0, 0, 300, 80));
    let rows = frame::draw(&app, &mut buffer);
    assert!(draw::text(&buffer).contains("n-09999"));
    assert!((50..=140).contains(&rows), "{rows} rows");
}

/// A view of as many nodes, and another reading in which every tenth node is another one.
fn large(count: usize) -> (TopApp, FleetReport) {
    let mut app = read("");
    let mut report = app.report.clone();
    let nodes = report.nodes.clone();
    let name =
        |number: usize, change: &str| format!("node-{:05}{change}.compute.internal", number * 7919 % count);
    let all = |change: &str| {
        let named = |number: usize| {
            let change = if number.is_multiple_of(10) { change } else { "" };
            FleetNode { name: name(number, change), ..nodes[number % nodes.len()].clone() }
        };
        (0..count).map(named).collect()
    };
    report.nodes = all("");
    let other = FleetReport { nodes: all("-b"), ..report.clone() };
    app.update(report);
    (app, other)
}

/// How long the view takes from an event to the frame: `cargo test --release --lib -- --ignored --nocapture frames_of_10_000_nodes`. By
/// hand: a busy computer would fail it.
#[test]
#[ignore = "a measurement"]
#[expect(clippy::disallowed_methods, reason = "what is measured is the wall clock")]
fn frames_of_10_000_nodes() {
    type Event = Box<dyn Fn(&mut TopApp)>;
    let (_, other) = large(10_000);
    let events: [(&str, Event); 6] = [
        ("another reading", Box::new(move |app: &mut TopApp| app.update(other.clone()))),
        ("the next row", Box::new(|app| press(app, "j"))),
        ("the last row", Box::new(|app| press(app, "G"))),
        ("another order", Box::new(|app| press(app, "s"))),
        ("a letter of the filter", Box::new(|app| press(app, "/n"))),
        ("another NodePool", Box::new(|app| press(app, "p"))),
    ];
    for (columns, rows) in SIZES {
        let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
        for (what, event) in &events {
            let times = (0..10).map(|_| {
                let (mut app, _) = large(10_000);
                let begun = std::time::Instant::now();
                event(&mut app);
                frame::draw(&app, &mut buffer);
                begun.elapsed()
            });
            println!("{columns}x{rows}: {what}: {:.1?} at most", times.max().unwrap());
        }
    }
}

#[test]
fn explanations_are_those_of_explain() {
    let app = read("");
    assert_eq!(app.popup.as_ref().map(|_| ()), None);
    let words = ["fleetwright", "top", "--at=2026-01-01T12:00:00Z", "-f"].into_iter().map(OsString::from);
    let Invocation::Tool(Tool::Top(options), flags) =
        parse(words.chain([dump().into()]), &Interface::plain()).unwrap()
    else {
        panic!("not top");
    };
    let values = Values::resolve(&flags, |_| None).unwrap();
    let source = TopSource::new(&options, &scenarios::catalogues(), &values).unwrap();
    let mut app = view(&options, source.read().unwrap(), source.decisions(), false);
    for (pane, expected) in [("1", "PodDisruptionBudget"), ("2", "riscv64")] {
        press(&mut app, pane);
        let Some(TopAction::Explain(subject)) = app.press(KeyEvent::from(KeyCode::Enter)) else {
            panic!("nothing to explain");
        };
        assert!(shown(&app, (120, 40)).contains("reading…"));
        let page = source.explain(&subject).map_err(|error| error.to_string());
        app.explain(&subject, page);
        let text = shown(&app, (120, 40));
        assert!(text.contains(&subject.title()) && text.contains(expected), "{text}");
        press(&mut app, "<");
    }
}
