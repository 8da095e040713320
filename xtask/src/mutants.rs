//! `cargo xtask mutants`: mutation tests of the modules that decide.
//!
//! 1. `prepare` copies the repository to a folder of the target directory, writes a seeded sample of mutants into the copy, each switched at
//!    run time, and builds it once.
//! 2. `record` runs each test alone, without a mutant, and notes its time and the mutants that it evaluates.
//! 3. `run` switches each mutant on and runs the tests that evaluate it, the quick ones first, until one fails.
//! 4. `report` counts, and lists the survivors; those that docs/mutation.md names are accepted.
//!
//! Each test and each result is a line of a file: `record` and `run` go on where they were ended. By hand, not in CI.

mod execute;
mod find;
mod prepare;
mod record;
mod report;
mod rewrite;
mod sample;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::Subcommand;
use serde::{Deserialize, Serialize};

use crate::shell;
use find::Mutant;

/// What to do with mutants.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    task: MutantsTask,
}

#[derive(Subcommand)]
enum MutantsTask {
    /// Draw a sample and build it
    Prepare(prepare::Args),
    /// Run each test alone: its time, and which mutants it evaluates
    Record(record::Args),
    /// Run the tests with each mutant of the sample
    Run(execute::Args),
    /// Print the figures of each module, and the survivors
    Report,
}

/// Runs the task.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.task {
        MutantsTask::Prepare(args) => prepare::run(args),
        MutantsTask::Record(args) => record::run(args),
        MutantsTask::Run(args) => execute::run(args).and_then(|()| report::run()),
        MutantsTask::Report => report::run(),
    }
}

/// The folder of the copy and of results.
fn folder() -> anyhow::Result<PathBuf> {
    Ok(shell::workspace()?.target_directory.join("mutants").into_std_path_buf())
}

/// A sample that is built and can run.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Prepared {
    seed: u64,
    /// All mutants of each module, in the sample or not.
    possible: Vec<(String, usize)>,
    /// In the order of their numbers, from 1 on.
    mutants: Vec<SampledMutant>,
    suites: Vec<TestSuite>,
    /// Every test that can run alone: the number of its suite, and its name.
    tests: Vec<(usize, String)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SampledMutant {
    id: u32,
    module: String,
    mutant: Mutant,
    /// Whether it compiles.
    viable: bool,
}

/// A test that can run alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct TestCase {
    suite: TestSuite,
    name: String,
    millis: u64,
    /// Whether it passes without a mutant, within the limit; others are not used.
    passes: bool,
    /// The mutants that it evaluates.
    seen: Vec<u32>,
}

/// A test binary, and how a part of it is chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TestSuite {
    binary: PathBuf,
    folder: PathBuf,
    /// One scenario file instead of one test.
    scenarios: bool,
}
