//! Property runs on the command line: prints every seed with a violation, and fails if there is one, or if the runs take longer than
//! `--within` seconds. With `--bug NAME` it prints the first seed that catches the planted bug; `--bug all` does so for each. With
//! `--tell SEED` it prints every change that a client requested in that run, with the answer.
//!
//! With `--large N` it runs one cluster of N nodes without faults instead.
//!
//! With `--fresh N` it also runs `--fresh-count` seeds from N on. One with a violation does not fail the command: it is a find and no regression, and
//! a block at the end says how to run it again.

use std::{
    process::ExitCode,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fleetwright_scenarios::seeds::{self, Bug, RunError, SeedReport};

/// A third of the time of a run is memory allocation.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const HELP: &str = "seeds [--first N] [--count N] [--fresh N] [--fresh-count N] [--threads N] [--within SECONDS] [--bug NAME|all] [--tell SEED] [--large NODES]";

struct Asked {
    first: u64,
    count: u64,
    fresh: Option<u64>,
    fresh_count: u64,
    threads: usize,
    within: Option<u64>,
    bug: Option<String>,
    tell: Option<u64>,
    large: Option<u32>,
}

fn read(mut arguments: impl Iterator<Item = String>) -> Option<Asked> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut asked = Asked {
        first: 0,
        count: 100,
        fresh: None,
        fresh_count: 200,
        threads,
        within: None,
        bug: None,
        tell: None,
        large: None,
    };
    while let Some(name) = arguments.next() {
        let value = arguments.next()?;
        match name.as_str() {
            "--first" => asked.first = value.parse().ok()?,
            "--count" => asked.count = value.parse().ok()?,
            "--fresh" => asked.fresh = Some(value.parse().ok()?),
            "--fresh-count" => asked.fresh_count = value.parse().ok()?,
            "--threads" => asked.threads = value.parse().ok()?,
            "--within" => asked.within = Some(value.parse().ok()?),
            "--tell" => asked.tell = Some(value.parse().ok()?),
            "--large" => asked.large = Some(value.parse().ok()?),
            "--bug" => asked.bug = Some(value),
            _ => return None,
        }
    }
    Some(asked)
}

#[expect(clippy::print_stdout, reason = "a command-line tool")]
fn main() -> ExitCode {
    let Some(asked) = read(std::env::args().skip(1)) else {
        println!("{HELP}");
        return ExitCode::FAILURE;
    };
    let bugs: Vec<Bug> = match &asked.bug {
        None => Vec::new(),
        Some(name) => {
            let wanted = |bug: &Bug| name == "all" || *name == format!("{bug:?}");
            Bug::ALL.into_iter().filter(wanted).collect()
        }
    };
    let sound = match (asked.tell, &asked.bug) {
        _ if asked.large.is_some() => large(asked.large.unwrap_or_default()),
        (Some(seed), _) => tell(seed, bugs.first().copied()),
        (None, None) => hold(&asked),
        (None, Some(name)) if bugs.is_empty() => {
            println!("no planted bug is called {name}: all, or one of {:?}", Bug::ALL);
            false
        }
        (None, Some(_)) => bugs.into_iter().filter(|bug| !catch(&asked, *bug)).count() == 0,
    };
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a large cluster, and returns whether it became stable without a violation.
#[expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a command-line tool that prints its duration"
)]
fn large(nodes: u32) -> bool {
    let begun = Instant::now();
    let report = match seeds::run_large(nodes) {
        Ok(report) => report,
        Err(error) => {
            println!("{error}");
            return false;
        }
    };
    report.violations.iter().for_each(|violation| println!("{violation}"));
    println!(
        "{} nodes and {} pods: all run after {:?}, stable after {:?} of virtual time; the operator writes {} times, others {}; {:.1} s, {} violations",
        report.nodes,
        report.pods,
        report.running,
        report.stable,
        report.writes.operator,
        report.writes.others,
        begun.elapsed().as_secs_f64(),
        report.violations.len()
    );
    report.stable.is_some() && report.violations.is_empty()
}

/// Prints the requests of one seed, and returns whether it has no violation.
#[expect(clippy::print_stdout, reason = "a command-line tool")]
fn tell(seed: u64, bug: Option<Bug>) -> bool {
    let sink: seeds::LineSink = Arc::new(|line| println!("{line}"));
    let report = seeds::run_logged(seed, bug, Some(sink));
    match &report {
        Ok(report) => println!("{report}"),
        Err(error) => println!("{error}"),
    }
    report.is_ok_and(|report| report.violations.is_empty())
}

/// Runs the seeds and the fresh ones, and returns whether none of the former has a violation.
#[expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a command-line tool that prints its duration"
)]
fn hold(asked: &Asked) -> bool {
    let begun = Instant::now();
    let mended = asked.first > 0 || run_mended();
    let fixed = run_range(asked, begun, asked.first, asked.count, &|broken| println!("{broken}"));
    if let Some(first) = asked.fresh {
        let found = Mutex::new(Vec::new());
        let note =
            |broken: &str| found.lock().unwrap_or_else(PoisonError::into_inner).push(broken.to_owned());
        run_range(asked, begun, first, asked.fresh_count, &note);
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !found.is_empty() {
            println!("{}", fresh_block(&found));
        }
    }
    mended && fixed
}

/// Runs the seeds that once had a violation, and returns whether none has one.
#[expect(clippy::print_stdout, reason = "a command-line tool")]
fn run_mended() -> bool {
    let mut sound = true;
    for (seed, minutes, what) in seeds::MENDED {
        match seeds::run_mended(seed, minutes) {
            Ok(report) if report.violations.is_empty() => continue,
            Ok(report) => println!("{report}once mended: {what}"),
            Err(error) => println!("seed {seed}: {error}"),
        }
        sound = false;
    }
    sound
}

/// Runs a range of seeds within the time that is left, with `tell` for each violation, and returns whether all were run and none has one.
#[expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a command-line tool that prints its duration"
)]
fn run_range(asked: &Asked, begun: Instant, first: u64, count: u64, tell: &(dyn Fn(&str) + Sync)) -> bool {
    let (own, broken) = (Instant::now(), AtomicU64::new(0));
    let within = asked.within.map(Duration::from_secs);
    let say = |report: &Result<SeedReport, RunError>| {
        let bad = match report {
            Ok(report) if report.violations.is_empty() => None,
            Ok(report) => {
                Some(format!("{report}replay: cargo xtask seeds --first {} --count 1", report.seed))
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(bad) = bad {
            broken.fetch_add(1, Ordering::Relaxed);
            tell(&bad);
        }
        within.is_some_and(|within| begun.elapsed() > within)
    };
    let reports = seeds::run_many(first, count, None, asked.threads, &say);
    let (broken, ran, took) = (broken.into_inner(), reports.len(), own.elapsed().as_secs_f64());
    let (threads, twice) = (asked.threads, seeds::TWICE);
    println!(
        "{ran} seeds from {first} in {took:.1} s on {threads} threads, one in {twice} run twice: {broken} with violations"
    );
    let whole = u64::try_from(ran).is_ok_and(|ran| ran == count);
    if !whole {
        println!("time limit reached: {count} seeds were requested within {:?}", within.unwrap_or_default());
    }
    broken == 0 && whole
}

/// The block at the end, with the fresh seeds that have a violation.
fn fresh_block(found: &[String]) -> String {
    let each = if found.len() == 1 {
        "1 fresh seed has".to_owned()
    } else {
        format!("{} fresh seeds have", found.len())
    };
    format!(
        "=== {each} violations. This run does not fail: no earlier commit ran them. Record them in docs/roadmap.md until they are mended.\n{}\n===",
        found.join("\n")
    )
}

/// Whether a bug is caught.
#[expect(clippy::print_stdout, reason = "a tool that reports to people")]
fn catch(asked: &Asked, bug: Bug) -> bool {
    let caught = |report: &Result<SeedReport, RunError>| {
        report.as_ref().is_ok_and(|report| bug.caught(report).is_some())
    };
    let reports = seeds::run_many(asked.first, asked.count, Some(bug), asked.threads, &caught);
    let found = reports.iter().flatten().find_map(|report| Some((report.seed, bug.caught(report)?)));
    match found {
        Some((seed, violation)) => {
            println!("{bug:?}: seed {seed}: {}: {}", violation.invariant, violation.what)
        }
        None => println!("{bug:?}: not caught by {} seeds", reports.len()),
    }
    found.is_some()
}
