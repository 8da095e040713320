//! Runs every scenario of `tests/scenarios/` and compares the report with the stored one.
//!
//! `UPDATE_SCENARIOS=1 cargo test -p fleetwright-tests --test scenarios` writes the reports; a scenario's own expectations must still
//! hold. `ONLY_SCENARIOS=drift` runs those with that text in their file name.

use std::{
    fs,
    num::NonZero,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use fleetwright_scenarios::scenario::{Scenario, play};
use fleetwright_sim::simulator::virtual_runtime;

/// Folders of `tests/scenarios/` with these scenarios.
const FOLDERS: [&str; 4] = ["", "aws", "life", "seeds"];

/// Runs one scenario; returns the error, if any.
fn check(path: &Path, update: bool) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let scenario = Scenario::parse(&text)?;
    let runtime = virtual_runtime().map_err(|error| error.to_string())?;
    let report = runtime.block_on(play(&scenario)).map_err(|error| error.to_string())?;
    let beside = path.with_extension("report");
    if update {
        fs::write(&beside, &report.text).map_err(|error| error.to_string())?;
    }
    if !report.failures.is_empty() {
        return Err(format!("{}\n{}", report.failures.join("\n"), report.text));
    }
    let expected = fs::read_to_string(&beside).unwrap_or_default();
    if expected == report.text {
        return Ok(());
    }
    let differs = expected.lines().zip(report.text.lines()).position(|(expected, found)| expected != found);
    let line = differs.unwrap_or_else(|| expected.lines().count().min(report.text.lines().count())) + 1;
    Err(format!("differs from {} at line {line}; it is now:\n{}", beside.display(), report.text))
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "test options: the selection of scenarios, and whether reports are written"
)]
fn every_scenario_matches_its_report() {
    let update = std::env::var_os("UPDATE_SCENARIOS").is_some();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut files: Vec<PathBuf> = FOLDERS
        .iter()
        .flat_map(|part| fs::read_dir(folder.join(part)).unwrap().map(|entry| entry.unwrap().path()))
        .collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    if let Some(part) = std::env::var_os("ONLY_SCENARIOS") {
        let part = part.to_string_lossy().into_owned();
        files.retain(|path| path.to_string_lossy().contains(&part));
        assert!(!files.is_empty(), "no scenario has {part:?} in its name");
    } else {
        assert!(files.len() >= 16, "only {} scenarios in {}", files.len(), folder.display());
    }
    let failures = failures(&files, update);
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// What fails, in the order of the files. Each scenario has a runtime and a cluster of its own, so that every core runs one.
fn failures(files: &[PathBuf], update: bool) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut failed = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = files.get(number) else { return failed };
            failed
                .extend(check(path, update).err().map(|why| (number, format!("{}: {why}", path.display()))));
        }
    };
    let mut failed: Vec<_> = thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a scenario panicked")).collect()
    });
    failed.sort_unstable();
    failed.into_iter().map(|(_, why)| why).collect()
}
