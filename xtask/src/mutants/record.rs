//! Runs tests under limits, and `cargo xtask mutants record`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::thread;

use anyhow::Context as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Prepared, TestCase};
use crate::shell;

/// Address space of a test process: 6 GiB; scenarios take 1 GiB.
const MEMORY_KIB_MAX: u64 = 6 * 1024 * 1024;
/// Limit of a test process in wall-clock time, as a multiple of its limit in CPU time, so that a busy host does not count as a hang.
const WAITS_MAX: u64 = 20;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Only suites with this text in their binary's path
    #[arg(long)]
    suite: Option<String>,
    /// Only tests with this text in their name
    #[arg(long)]
    test: Option<String>,
    /// Tests that take more seconds are not used
    #[arg(long, default_value_t = 30)]
    slowest: u64,
    /// Tests at the same time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
}

/// A file of JSON lines that threads append to.
pub(super) struct Lines(Mutex<File>);

impl Lines {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        Ok(Self(Mutex::new(File::options().append(true).create(true).open(path)?)))
    }

    pub(super) fn append(&self, value: &impl Serialize) -> anyhow::Result<()> {
        // It begins with the end of a line, for an ended run may have left a part of one.
        let line = format!("\n{}", serde_json::to_string(value)?);
        let mut file = self.0.lock().map_err(|_| anyhow::anyhow!("another thread panicked"))?;
        Ok(file.write_all(line.as_bytes())?)
    }
}

/// The values of a file of JSON lines, without one that was cut off when its run ended.
pub(super) fn lines<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The recorded tests.
pub(super) fn tests(folder: &Path) -> Vec<TestCase> {
    lines(&folder.join("tests.jsonl"))
}

/// Reads what `prepare` wrote.
pub(super) fn prepared(folder: &Path) -> anyhow::Result<Prepared> {
    let bytes = fs::read(folder.join("prepared.json")).context("run `cargo xtask mutants prepare` first")?;
    Ok(serde_json::from_slice(&bytes)?)
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let folder = super::folder()?;
    let prepared = prepared(&folder)?;
    let known = tests(&folder);
    let known = known.iter().filter(|test| is_settled(test, args.slowest));
    let known: BTreeSet<_> = known.map(|test| (&test.suite.binary, &test.name)).collect();
    let mut due = Vec::new();
    for (number, (suite, name)) in prepared.tests.iter().enumerate() {
        let suite = prepared.suites.get(*suite).context("a test without a suite")?;
        let path = suite.binary.display().to_string();
        let chosen = args.suite.as_ref().is_none_or(|text| path.contains(text.as_str()))
            && args.test.as_ref().is_none_or(|text| name.contains(text.as_str()));
        if chosen && !known.contains(&(&suite.binary, name)) {
            let (suite, name) = (suite.clone(), name.clone());
            due.push((number, TestCase { suite, name, millis: 0, passes: false, seen: Vec::new() }));
        }
    }
    anstream::println!("mutants: {} tests to record", due.len());
    let file = Lines::open(&folder.join("tests.jsonl"))?;
    in_parallel(args.jobs, &due, |(number, case)| {
        let test = recorded(&folder.join(format!("seen-{number}")), case, args.slowest)?;
        if !test.passes {
            anstream::println!("not used: {} fails without a mutant, or takes {} s", test.name, args.slowest);
        }
        file.append(&test)
    })
}

/// Whether it is not to be recorded again: it passed, or had as much time as a test may take now.
pub(super) fn is_settled(test: &TestCase, seconds: u64) -> bool {
    test.passes || test.millis >= seconds * 1000
}

/// Runs a test alone, without a mutant; `seen` is a file for the mutants that it evaluates.
fn recorded(seen: &Path, case: &TestCase, seconds: u64) -> anyhow::Result<TestCase> {
    let environment = [("MUTANT", u32::MAX.to_string()), ("MUTANTS_SEEN", seen.display().to_string())];
    let (output, took) = shell::timed(|| process(&[case], seconds, &environment));
    let ids = fs::read_to_string(seen).unwrap_or_default();
    let _ = fs::remove_file(seen);
    Ok(TestCase {
        millis: u64::try_from(took.as_millis())?,
        passes: output?.status.success(),
        seen: ids.lines().filter_map(|line| line.parse().ok()).collect(),
        ..case.clone()
    })
}

/// Runs tests of one suite under limits of processor time and memory.
pub(super) fn process(
    group: &[&TestCase],
    seconds: u64,
    environment: &[(&str, String)],
) -> anyhow::Result<Output> {
    let first = group.first().context("no test")?;
    let waits = seconds * WAITS_MAX;
    let limits = format!("ulimit -v {MEMORY_KIB_MAX}; ulimit -t {seconds}");
    let limited = format!("{limits}; exec timeout -k 2 {waits} \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).arg(&first.suite.binary).current_dir(&first.suite.folder);
    command
        .env("CARGO_MANIFEST_DIR", &first.suite.folder)
        .env("RUST_BACKTRACE", "0")
        .env("INSTA_UPDATE", "no");
    command.envs(environment.iter().map(|(name, value)| (*name, value)));
    if first.suite.scenarios {
        command.env("ONLY_SCENARIOS", &first.name);
    } else {
        command.args(["--exact", "--test-threads=1"]).args(group.iter().map(|test| &test.name));
    }
    command.output().with_context(|| format!("cannot start {}", first.suite.binary.display()))
}

/// Does `work` for each item on `jobs` threads; the first error ends all.
pub(super) fn in_parallel<T: Sync>(
    jobs: usize,
    items: &[T],
    work: impl Fn(&T) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let next = Mutex::new(items.iter());
    let take = || next.lock().ok().and_then(|mut items| items.next());
    let one = || -> anyhow::Result<()> {
        while let Some(item) = take() {
            work(item)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(one)).collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| anyhow::bail!("a thread panicked")));
        ended.collect()
    })
}
