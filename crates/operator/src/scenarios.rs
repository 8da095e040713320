//! Scenario files of the tools, for their tests: the input is YAML, the report is beside it as `.txt`.
//!
//! `UPDATE_SCENARIOS=1` rewrites reports and schemas.

use std::{
    ffi::OsString,
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::{LazyLock, mpsc},
    thread,
    time::Duration,
};

use schemars::JsonSchema;

use crate::{catalogue::Catalogues, ec2::Ec2Catalogue, lab::FakeCatalogue, outcome::Outcome, sheet::plain};

/// A path from the root of the repository.
pub(crate) fn from_root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[expect(clippy::disallowed_methods, reason = "a switch for people: it rewrites what is expected")]
fn updates() -> bool {
    std::env::var_os("UPDATE_SCENARIOS").is_some()
}

/// Compares the report of every scenario below a folder of `tests/scenarios/` with the one beside it.
pub(crate) fn check(folder: &str, report: impl Fn(&Path) -> String) {
    let mut wrong = Vec::new();
    for path in paths(folder) {
        let (found, expected) = (report(&path), path.with_extension("txt"));
        if updates() {
            std::fs::write(expected, found).unwrap();
            continue;
        }
        let wanted = std::fs::read_to_string(&expected).unwrap_or_default();
        if found != wanted {
            wrong.push(format!("=== {}\n--- wanted\n{wanted}--- found\n{found}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE_SCENARIOS=1 writes the reports again", wrong.join("\n"));
}

/// Every scenario below a folder of `tests/scenarios/`.
pub(crate) fn paths(folder: &str) -> Vec<PathBuf> {
    files(&format!("tests/scenarios/{folder}"))
}

/// Every YAML file below a folder of the repository.
pub(crate) fn files(folder: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    collect(&from_root(folder), &mut paths);
    assert!(!paths.is_empty());
    paths
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|end| end == "yaml") {
            found.push(path);
        }
    }
    found.sort();
}

/// The catalogues of the binary, which parse their definitions once.
pub(crate) fn catalogues() -> Catalogues {
    static ALL: LazyLock<Catalogues> = LazyLock::new(|| {
        Catalogues::default()
            .with_definitions("fake", fleetwright_api::crd::kwok)
            .with_definitions("aws", fleetwright_aws_api::crds)
            .with(FakeCatalogue)
            .with(Ec2Catalogue::default())
    });
    ALL.clone()
}

/// The table of a report, without the line that all reports on the default catalogue of the fake cloud share.
pub(crate) fn shown(notes: &[String], gaps: &[String], table: impl std::fmt::Display) -> String {
    let mut all: String = notes.iter().map(|note| format!("note: {note}\n")).collect();
    all.extend(gaps.iter().map(|gap| format!("incomplete: {gap}\n")));
    all += &table
        .to_string()
        .replace("catalogue: kwok (instance types and prices of the fake cloud, which do not exist)\n", "");
    if Outcome::of(gaps) == Outcome::Incomplete {
        all += "exit status 3\n";
    }
    all
}

/// Compares the schema of a report with the file in `docs/`.
pub(crate) fn check_schema<T: JsonSchema>(file: &str) {
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(T)).unwrap() + "\n";
    check_file(&format!("docs/{file}"), &schema);
}

/// Compares a text with a file of the repository.
pub(crate) fn check_file(file: &str, found: &str) {
    let path = from_root(file);
    if updates() {
        std::fs::write(&path, found).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(wanted, found, "UPDATE_SCENARIOS=1 writes {file} again");
}

/// How long a tool may take over one file of bad input, beside other tests.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a message in the stored list.
const SHOWN: usize = 240;

/// A tool as the test of bad input calls it, with the files that are named on its command line: what it says of them.
pub(crate) type OverFiles = fn(&[PathBuf]) -> anyhow::Result<Vec<String>>;

/// Runs a tool over each file of a folder of `tests/scenarios/bad-input/`, with the healthy cluster there before it: the tool neither panics
/// nor hangs, and an error names the file. `NAME.txt` there has the first thing that it says of each file, and how much it says.
pub(crate) fn check_bad_input(name: &str, folders: &[&str], tool: OverFiles) {
    let root = from_root("tests/scenarios/bad-input");
    let mut said = String::new();
    for folder in folders {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(!files.is_empty());
        for file in files {
            let short = format!("{folder}/{}", file.file_name().unwrap().to_string_lossy());
            let messages = messages(&short, vec![root.join("cluster.yaml"), file.clone()], tool);
            let named = messages.iter().find(|message| message.contains(&file.display().to_string()));
            let first = named.or_else(|| messages.first()).map_or("nothing", String::as_str);
            let first = plain(&first.replace(&format!("{}/", root.display()), ""));
            let shown: String = first.chars().take(SHOWN).collect();
            writeln!(said, "{short}: {}: {shown}", messages.len()).unwrap();
        }
    }
    check_file(&format!("tests/scenarios/bad-input/{name}.txt"), &said);
}

/// A command line that names files with `-f`.
pub(crate) fn command_line(words: &str, files: &[PathBuf]) -> Vec<OsString> {
    let named = files.iter().flat_map(|file| [OsString::from("-f"), file.into()]);
    ["fleetwright"].into_iter().chain(words.split_whitespace()).map(OsString::from).chain(named).collect()
}

/// What a tool says of files, in a thread of its own, which may hang or panic.
fn messages(short: &str, files: Vec<PathBuf>, tool: OverFiles) -> Vec<String> {
    let (done, waits) = mpsc::channel();
    // The stack of a main thread.
    let thread = thread::Builder::new().name(short.to_owned()).stack_size(8 << 20);
    let file = files.last().unwrap().display().to_string();
    let thread = thread.spawn(move || done.send(tool(&files))).unwrap();
    match waits.recv_timeout(PATIENCE) {
        Ok(Ok(messages)) => messages,
        Ok(Err(error)) => {
            let error = format!("{error:#}");
            assert!(error.contains(&file), "{short}: the error does not name the file: {error}");
            vec![error]
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{short}: no end after {PATIENCE:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            drop(thread.join());
            panic!("{short}: the tool panicked")
        }
    }
}
