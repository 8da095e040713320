//! Property runs from a shell: prints every seed that breaks something, and fails if there is one. With `--bug NAME` the
//! first seed that catches the planted bug is printed instead; `--bug all` does so for each.

use std::{process::ExitCode, sync::atomic::AtomicU64, time::Instant};

use fleetwright_sim::seeds::{self, Bug};

const HELP: &str = "seeds [--first N] [--count N] [--threads N] [--bug NAME|all]";

struct Asked {
    first: u64,
    count: u64,
    threads: usize,
    bug: Option<String>,
}

fn read(mut arguments: impl Iterator<Item = String>) -> Option<Asked> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut asked = Asked { first: 0, count: 100, threads, bug: None };
    while let Some(name) = arguments.next() {
        let value = arguments.next()?;
        match name.as_str() {
            "--first" => asked.first = value.parse().ok()?,
            "--count" => asked.count = value.parse().ok()?,
            "--threads" => asked.threads = value.parse().ok()?,
            "--bug" => asked.bug = Some(value),
            _ => return None,
        }
    }
    Some(asked)
}

#[expect(clippy::print_stdout, reason = "a tool that reports to people")]
fn main() -> ExitCode {
    let Some(asked) = read(std::env::args().skip(1)) else {
        println!("{HELP}");
        return ExitCode::FAILURE;
    };
    let sound = match &asked.bug {
        None => hold(&asked),
        Some(name) => {
            let wanted = |bug: &&Bug| name == "all" || *name == format!("{bug:?}");
            Bug::ALL.iter().filter(wanted).filter(|bug| !catch(&asked, **bug)).count() == 0
        }
    };
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether nothing breaks.
#[expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a tool that reports to people how long it took"
)]
fn hold(asked: &Asked) -> bool {
    let (begun, broken) = (Instant::now(), AtomicU64::new(0));
    let say = |report: &Result<seeds::Report, seeds::RunError>| {
        let bad = match report {
            Ok(report) if report.violations.is_empty() => return false,
            Ok(report) => report.to_string(),
            Err(error) => error.to_string(),
        };
        broken.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        println!("{bad}");
        false
    };
    let reports = seeds::run_many(asked.first, asked.count, None, asked.threads, &say);
    let broken = broken.into_inner();
    let (count, first, took) = (reports.len(), asked.first, begun.elapsed().as_secs_f64());
    println!("{count} seeds from {first} in {took:.1} s: {broken} broken");
    broken == 0
}

/// Whether a bug is caught.
#[expect(clippy::print_stdout, reason = "a tool that reports to people")]
fn catch(asked: &Asked, bug: Bug) -> bool {
    let caught = |report: &Result<seeds::Report, seeds::RunError>| {
        report.as_ref().is_ok_and(|report| !report.violations.is_empty())
    };
    let reports = seeds::run_many(asked.first, asked.count, Some(bug), asked.threads, &caught);
    match reports.iter().flatten().find(|report| !report.violations.is_empty()) {
        Some(report) => {
            let first = &report.violations[0];
            println!("{bug:?}: seed {}: {}: {}", report.seed, first.invariant, first.what);
            true
        }
        None => {
            println!("{bug:?}: not caught by {} seeds", reports.len());
            false
        }
    }
}
