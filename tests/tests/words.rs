//! Every reason of an event or a condition is asserted by a scenario.
//!
//! The words are parsed from the sources: capitalized words in quotes. A new reason without a scenario fails this test, and so does an
//! obsolete exception.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use fleetwright_scenarios::scenario::{Expect, Scenario, ScenarioStep};

/// Where reasons are made: conditions and events of NodeClaims, Nodes, NodePools, buffers and overlays.
const SOURCES: [&str; 5] = [
    "crates/api/src/labels.rs",
    "crates/core/src/cloud/step.rs",
    "crates/core/src/disruption/blocker.rs",
    "crates/core/src/nodeclaim",
    "crates/controllers/src",
];
/// Paths whose words are for metrics and logs only.
const ASIDE: [&str; 7] =
    ["metrics", "observability", "testing.rs", "tests", "tests.rs", "families.rs", "log.rs"];

/// Words that are not reasons of conditions or events, each with its meaning.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("Expired", "the API server's reason for a watch that is too old"),
    ("Gone", "the same"),
    ("TaintsExist", "how two reasons end"),
    ("NodeUnhealthy", "pods leave such a node before anybody looks: tests of core::nodeclaim::answer"),
    ("CapacityTaken", "a label of a metric; the event says it in words (life/releases-pods)"),
    ("Unreadable", "the API server's schema keeps such a NodeClaim out: tests of controllers::runtime"),
    ("RecentReplacement", "over too soon for a condition: the event says it in words (life/drift-blocked)"),
    (
        "FeaturesAvailable",
        "the API server of a scenario refuses no kind: tests of controllers::runtime::features",
    ),
    ("QuotaExceeded", "the fake cloud has no quota: tests of core::nodeclaim"),
    ("LaunchPending", "the fake cloud answers at once: tests of core::nodeclaim"),
    ("PricesTooOld", "prices of the fake cloud are never old: tests of core::disruption"),
    ("WouldUndo", "its text is in disrupt/would-undo"),
    ("UnreadablePod", "its text is in disrupt/unreadable-pod"),
    ("MinValues", "its text is in disrupt/min-values"),
    ("LimitExceeded", "its text is in disrupt/split-by-price-limited"),
    ("NeedsSeveral", "its text is in disrupt/split-too-little"),
    ("DriftCap", "never the first reason; its text is in life/drift-cap-reached"),
    ("NoPool", "its text is in disrupt/not-candidates"),
    ("NotConsolidatable", "lasts for a moment: events and disrupt/ have its text"),
    ("Queued", "the same"),
    ("Surplus", "its text is in disrupt/static-kept"),
    ("NodePoolNotReady", "the same"),
    ("LeaderElection", "a scenario has one operator: tests of controllers::runtime::leader"),
];

/// The files below `path` whose name ends with one of `ends`.
fn files(path: &Path, ends: &[&str], found: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_dir() {
        let mut inside: Vec<PathBuf> =
            fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
        inside.sort();
        return inside.iter().try_for_each(|path| files(path, ends, found));
    }
    if ends.iter().any(|end| path.to_string_lossy().ends_with(end)) {
        found.push(path.to_path_buf());
    }
    Ok(())
}

/// The string literals of a Rust source, without those of comments and of the tests at its end.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let (mut found, mut rest) = (Vec::new(), source);
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let tail = &rest[at..];
        if tail.starts_with("//") {
            rest = tail.split_once('\n').map_or("", |(_, rest)| rest);
        } else if tail.starts_with("'\"'") || tail.starts_with("'/'") {
            rest = &tail[3..];
        } else if let Some(text) = tail.strip_prefix('"') {
            let mut escaped = false;
            let end = text.find(|character| {
                let ends = character == '"' && !escaped;
                escaped = character == '\\' && !escaped;
                ends
            });
            let end = end.unwrap_or(text.len());
            found.push(text[..end].to_owned());
            rest = text.get(end + 1..).unwrap_or("");
        } else {
            rest = &tail[1..];
        }
    }
    found
}

/// Whether a literal may be a reason: one word of letters that begins with a capital, and is not all capitals.
fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.contains(|character: char| character.is_ascii_lowercase())
        && text.chars().all(|character| character.is_ascii_alphabetic())
}

fn words_of_the_product() -> io::Result<BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut words = BTreeSet::new();
    for part in SOURCES {
        let mut sources = Vec::new();
        files(&root.join(part), &[".rs"], &mut sources)?;
        for path in sources {
            // What lies above the workspace may be called anything.
            let inside = path.strip_prefix(&root).unwrap_or(&path);
            if !inside.iter().any(|part| ASIDE.iter().any(|aside| part == *aside)) {
                words.extend(literals(&fs::read_to_string(&path)?).into_iter().filter(|text| is_word(text)));
            }
        }
    }
    Ok(words)
}

/// The words that a scenario expects.
fn expected(steps: &[ScenarioStep], words: &mut String) {
    for step in steps {
        match step {
            ScenarioStep::SecondCluster(steps) => expected(steps, words),
            ScenarioStep::Expect(expect) => {
                let Expect { events, conditions, .. } = &**expect;
                events.iter().chain(conditions).for_each(|text| words.push_str(&format!("{text}\n")));
            }
            _ => {}
        }
    }
}

/// The words of all reports and expectations.
fn words_of_the_scenarios() -> Result<BTreeSet<String>, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut reports = Vec::new();
    files(&folder, &[".report", ".txt"], &mut reports).map_err(|error| error.to_string())?;
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let mut all = String::new();
    for path in &reports {
        let mut text = read(path)?;
        if path.extension().is_some_and(|end| end == "report") {
            let scenario = Scenario::parse(&read(&path.with_extension("yaml"))?)?;
            // What a scenario is about is prose, and proves nothing.
            text = text.replacen(&scenario.about, "", 1);
            expected(&scenario.steps, &mut text);
        }
        all.push_str(&text);
    }
    Ok(all.split(|character: char| !character.is_ascii_alphanumeric()).map(str::to_owned).collect())
}

#[test]
fn every_word_is_told_by_a_scenario() {
    let (known, told) = (words_of_the_product().unwrap(), words_of_the_scenarios().unwrap());
    assert!(known.len() > 100, "only {} words were found: look at SOURCES", known.len());
    let is_exception = |word: &str| EXCEPTIONS.iter().any(|(exception, _)| *exception == word);
    let missing: Vec<&String> =
        known.iter().filter(|word| !told.contains(*word) && !is_exception(word)).collect();
    assert!(missing.is_empty(), "no scenario of tests/scenarios reports or expects: {missing:?}");
    let idle: Vec<&str> = EXCEPTIONS
        .iter()
        .map(|(word, _)| *word)
        .filter(|word| !known.contains(*word) || told.contains(*word))
        .collect();
    assert!(idle.is_empty(), "no exceptions any more: {idle:?}");
}
