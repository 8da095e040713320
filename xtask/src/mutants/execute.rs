//! Runs tests with a mutant on, and `cargo xtask mutants run`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use super::{SampledMutant, TestCase, record};

/// Limit of a test process in CPU time, as a multiple of the recorded time, to which 20 s are added. Beyond it the mutant counts as caught by a hang.
const SLOWER_MAX: u64 = 8;
/// Tests of one binary in one process: a failure among the first ends the rest.
const TESTS_PER_PROCESS: usize = 25;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The part `i/n` of the sample, i from 1 on
    #[arg(long, default_value = "1/1", value_parser = shard)]
    shard: (usize, usize),
    /// Only modules with this text in their path
    #[arg(long)]
    module: Option<String>,
    /// Only tests of suites with this text in their binary's path
    #[arg(long)]
    suite: Option<String>,
    /// Run survivors again, such as after a test was added
    #[arg(long)]
    survivors: bool,
    /// Seconds of tests for each mutant, by their recorded time
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Mutants at the same time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let parsed = text.split_once('/').and_then(|(part, all)| Some((part.parse().ok()?, all.parse().ok()?)));
    parsed
        .filter(|(part, all)| (1..=*all).contains(part))
        .ok_or_else(|| "give i/n with 1 <= i <= n".to_owned())
}

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Verdict {
    /// By this test.
    Caught(String),
    /// Of these tests, which evaluate it, none failed; of `all` that do, for want of time.
    Survived {
        tests: usize,
        all: usize,
    },
    NotViable,
}

/// A line of the file of results.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct MutantResult {
    pub(super) key: String,
    pub(super) verdict: Verdict,
}

/// The last result of each mutant.
pub(super) fn results(folder: &Path) -> BTreeMap<String, Verdict> {
    let results = record::lines::<MutantResult>(&folder.join("results.jsonl"));
    results.into_iter().map(|result| (result.key, result.verdict)).collect()
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let folder = super::folder()?;
    let prepared = record::prepared(&folder)?;
    let mut tests = record::tests(&folder);
    let suite =
        |path: &Path| args.suite.as_ref().is_none_or(|text| path.display().to_string().contains(text));
    tests.retain(|test| suite(&test.suite.binary));
    ensure!(!tests.is_empty(), "run `cargo xtask mutants record` first");
    let known = results(&folder);
    let file = record::Lines::open(&folder.join("results.jsonl"))?;
    let due = |sampled: &&SampledMutant| {
        let (part, all) = args.shard;
        let module = args.module.as_ref().is_none_or(|text| sampled.module.contains(text.as_str()));
        let again = match known.get(&sampled.mutant.key()) {
            None => true,
            Some(verdict) => args.survivors && matches!(verdict, Verdict::Survived { .. }),
        };
        module && again && usize::try_from(sampled.id).is_ok_and(|id| id % all == part - 1)
    };
    let due: Vec<&SampledMutant> = prepared.mutants.iter().filter(due).collect();
    anstream::println!("mutants: {} to run", due.len());
    record::in_parallel(args.jobs, &due, |sampled| {
        let verdict = judged(sampled, &tests, args.seconds)?;
        let key = sampled.mutant.key();
        if let Verdict::Survived { .. } = verdict {
            anstream::println!("survived: {key} ({}:{})", sampled.mutant.file, sampled.mutant.line);
        }
        file.append(&MutantResult { key, verdict })
    })
}

/// Runs the tests that evaluate a mutant, the quick ones first.
pub(super) fn judged(sampled: &SampledMutant, tests: &[TestCase], seconds: u64) -> anyhow::Result<Verdict> {
    if !sampled.viable {
        return Ok(Verdict::NotViable);
    }
    let mut tests: Vec<&TestCase> =
        tests.iter().filter(|test| test.passes && test.seen.contains(&sampled.id)).collect();
    let all = tests.len();
    tests.sort_by_key(|test| test.millis);
    let mut budget = seconds * 1000;
    tests.retain(|test| {
        let affordable = test.millis <= budget;
        budget = budget.saturating_sub(test.millis);
        affordable
    });
    for group in groups(&tests) {
        if let Some(by) = failure(group, sampled.id)? {
            return Ok(Verdict::Caught(by));
        }
    }
    Ok(Verdict::Survived { tests: tests.len(), all })
}

/// Neighbours of one suite run in one process.
fn groups<'a>(tests: &'a [&'a TestCase]) -> impl Iterator<Item = &'a [&'a TestCase]> {
    let together = |a: &&TestCase, b: &&TestCase| a.suite == b.suite && !a.suite.scenarios;
    tests.chunk_by(together).flat_map(|group| group.chunks(TESTS_PER_PROCESS))
}

/// The first test that fails with the mutant, or how the process ended.
fn failure(group: &[&TestCase], id: u32) -> anyhow::Result<Option<String>> {
    let millis: u64 = group.iter().map(|test| test.millis).sum();
    let Some(first) = group.first() else { return Ok(None) };
    let output = record::process(group, millis * SLOWER_MAX / 1000 + 20, &[("MUTANT", id.to_string())])?;
    if output.status.success() {
        return Ok(None);
    }
    if first.suite.scenarios {
        return Ok(Some(first.name.clone()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = text.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    // Without such a line the process hung, ran out of memory or of stack.
    Ok(Some(failed.map_or_else(|| format!("{} ({})", first.name, output.status), str::to_owned)))
}
