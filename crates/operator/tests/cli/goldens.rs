//! Golden outputs: `tests/cli/TOOL.txt` has each call of a tool in each of its formats, with what it prints and how it ends.

use std::{collections::BTreeSet, fs, thread};

use regex::Regex;

use super::process::{Ended, from_root, run_words};

/// The name of a golden file, calls without a format, and the formats.
type Golden = (&'static str, &'static [&'static str], &'static [&'static str]);

const SHEETS: &[&str] = &["table", "wide", "json", "jsonl", "yaml", "csv", "markdown"];
const BOTH: &[&str] = &["table", "json"];

/// `AT` is a time. The first pod needs a node, the second cannot have one.
const GOLDENS: [Golden; 18] = [
    ("plan", &["plan -f cluster.yaml --budget 20it"], SHEETS),
    ("disrupt", &["disrupt -f cluster.yaml --at AT"], SHEETS),
    ("explain-pod", &["explain pod shop/web-1 -f cluster.yaml --at AT --budget 20it"], SHEETS),
    ("explain-pending-pod", &["explain pod shop/train-0 -f cluster.yaml --at AT --budget 20it"], SHEETS),
    ("explain-node", &["explain node busy -f cluster.yaml --at AT --budget 20it"], SHEETS),
    ("explain-type", &["explain type c-8x-amd64-linux -f cluster.yaml --at AT --budget 20it"], SHEETS),
    ("explain-nodepool", &["explain nodepool default -f cluster.yaml --at AT --budget 20it"], SHEETS),
    ("explain-decision", &["explain decision 6955b9004feb5c-1 --recording RECORDING --budget 20it"], SHEETS),
    ("lint", &["lint -f cluster.yaml"], &["text", "json", "sarif", "github"]),
    ("lint-calendar", &["lint -f cluster.yaml --calendar 12h --at AT"], &["text", "json"]),
    ("report", &["report -f cluster.yaml --at AT --budget 20it --label app"], &["json", "/dev/stdout"]),
    ("top", &["top -f cluster.yaml --at AT --once --size 100x30"], &["table"]),
    ("top-json", &["top -f cluster.yaml --at AT"], &["json"]),
    ("compat", &["compat -f cluster.yaml --at AT --budget 20it", "compat clean -f cluster.yaml"], BOTH),
    ("shadow", &["shadow report -f shadow.json"], &["table", "json", "html"]),
    ("decisions", &["decisions -f ../scenarios/decisions/list.json"], &["table", "json", "yaml", "jsonl"]),
    ("replay", &["replay RECORDING --until 2m"], BOTH),
    ("dump", &["dump -f cluster.yaml", "dump -f cluster.yaml --anonymize --key k"], &[]),
];

/// Tools whose output is not in a golden file, and why.
const ELSEWHERE: [(&str, &str); 12] = [
    ("version", "its commit and features are those of the build: `house`"),
    ("completion", "its script is run: `house`"),
    ("man", "its pages are as long as the help: `house`"),
    ("catalog", "a catalogue is a file for a tool, which reads it again: `house`"),
    ("crds", "`cargo xtask generate` compares its output with the charts'"),
    ("permissions", "`cargo xtask generate` compares its output with deploy/"),
    ("demo", "the tests of `lab::demo` have its reports, `cargo xtask ci terminal` its view"),
    ("fake-cloud", "a server"),
    ("fake-kube", "a server"),
    ("audit", "reads an account of AWS: the cases of the AWS tier"),
    ("iam", "reads an account of AWS: the cases of the AWS tier"),
    ("prices", "reads an account of AWS: the cases of the AWS tier"),
];

#[test]
fn each_tool_prints_what_is_expected_in_each_format() {
    let files = thread::scope(|scope| {
        let all = GOLDENS.map(|golden| (golden.0, scope.spawn(move || transcript(golden))));
        all.map(|(name, thread)| (name, thread.join().unwrap()))
    });
    let mut wrong = Vec::new();
    for (name, found) in files {
        let path = from_root(&format!("tests/cli/{name}.txt"));
        if updates() {
            fs::write(&path, found).unwrap();
            continue;
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        if let Some(difference) = difference(&expected, &found) {
            wrong.push(format!("tests/cli/{name}.txt: {difference}"));
        }
    }
    let how = "UPDATE_SCENARIOS=1 cargo test --test cli writes them again";
    assert!(wrong.is_empty(), "{}\n{how}", wrong.join("\n"));
}

#[expect(clippy::disallowed_methods, reason = "a switch for people: it rewrites what is expected")]
fn updates() -> bool {
    std::env::var_os("UPDATE_SCENARIOS").is_some()
}

/// The first line that differs.
fn difference(expected: &str, found: &str) -> Option<String> {
    let end = "the end of the file";
    let mut lines = expected.lines().chain([end]).zip(found.lines().chain([end])).enumerate();
    let (number, (old, new)) = lines.find(|(_, (old, new))| old != new)?;
    Some(format!("line {}:\n  expected {old}\n  found    {new}", number + 1))
}

/// All calls of a file, and what they print.
fn transcript((_, calls, formats): Golden) -> String {
    let mut text = String::new();
    for call in calls {
        for format in
            formats.iter().map(|format| format!(" -o {format}")).chain(formats.is_empty().then(String::new))
        {
            let call = format!("{call}{format}");
            let words = call
                .replace("AT", "2026-01-01T12:00:00Z")
                .replace("RECORDING", "../scenarios/replay/decisions");
            let Ended { out, err, status } = run_words(&words);
            text += &format!("$ fleetwright {call}\n{}", reproducible(&out));
            if !err.is_empty() {
                text += &format!("--- standard error\n{}", reproducible(&err));
            }
            text += &format!("--- status {status}\n\n");
        }
    }
    text
}

/// A text without what differs by run: times that it took, and the time of a dump. Style and script of a page have tests of their own.
fn reproducible(text: &str) -> String {
    let patterns = [
        (r"; solved in [0-9.]+ m?s", ""),
        (r#"("?(load|snapshot|solve)Ms"?): ?[0-9.]+"#, "$1: 0"),
        (r#"("fleetwright.dev/dump-taken-at":)"[^"]+""#, r#"$1"now""#),
        (r"(?s)<style>.*?</style>", "<style>…</style>"),
        (r#"(?s)<script type="module">.*?</script>"#, "<script type=\"module\">…</script>"),
        (r"'sha256-[^']+'", "'sha256-…'"),
    ];
    patterns.into_iter().fold(text.to_owned(), |text, (pattern, by)| {
        Regex::new(pattern).unwrap().replace_all(&text, by).into_owned()
    })
}

/// The tools that the help lists.
pub(crate) fn tools() -> Vec<String> {
    let help = run_words("--help").out;
    let (_, rest) = help.split_once("Tools (see").unwrap();
    let (tools, _) = rest.split_once("\n\n").unwrap();
    let names = tools.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

/// The values that the help of a tool lists for its option `-o`.
fn formats(tool: &str) -> BTreeSet<String> {
    let help = run_words(&format!("{tool} --help")).out;
    let Some((_, option)) = help.split_once("  -o, --output ") else { return BTreeSet::new() };
    let option = option.split("\n  -").next().unwrap();
    let values = option.lines().filter_map(|line| line.trim().strip_prefix("- ")?.split_once(':'));
    values.map(|(value, _)| value.to_owned()).collect()
}

#[test]
fn each_tool_and_format_has_a_golden_output() {
    let known: BTreeSet<&str> = ELSEWHERE.iter().map(|(tool, _)| *tool).collect();
    let of = |tool: &str| {
        let calls = |golden: &Golden| golden.1.iter().any(|call| call.starts_with(&format!("{tool} ")));
        GOLDENS.iter().filter(|golden| calls(golden)).collect::<Vec<_>>()
    };
    for tool in tools() {
        assert_ne!(
            known.contains(&*tool),
            !of(&tool).is_empty(),
            "{tool}: a golden output, or a reason why not"
        );
    }
    let subjects =
        ["pod", "node", "type", "nodepool", "decision"].map(|subject| format!("explain {subject}"));
    let others =
        ["plan", "disrupt", "lint", "top", "compat", "compat clean", "shadow report", "decisions", "replay"];
    for tool in others.into_iter().chain(subjects.iter().map(String::as_str)) {
        let golden: BTreeSet<String> =
            of(tool).iter().flat_map(|golden| golden.2).map(|&format| format.to_owned()).collect();
        let listed = formats(tool);
        assert!(!listed.is_empty(), "{tool}: no formats in its help");
        assert_eq!(golden, listed, "{tool}");
    }
}
