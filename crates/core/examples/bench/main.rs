//! Measures scheduling and consolidation against their targets: `cargo xtask bench` runs it in release.
//!
//! ```text
//! cargo xtask bench [-o table|json] [--only TEXT]
//! ```
//! Inputs come from seeds, which the output names. Times are processor time of the one thread that works, the least of
//! several runs, as noise only adds; a quantile is one over many different questions. `--once NAME` and `--idle NAME` do the work of one row, or only make its input:
//! the difference is what a counter of instructions outside is asked for.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures, so it needs a clock")]

mod cluster;
mod disruption;
mod measure;
mod packing;
mod report;

use std::{error::Error, io::Write};

use self::report::Row;

/// The seed of everything that is drawn.
const SEED: u64 = 42;

/// What is asked on the command line.
#[derive(Debug, Default)]
struct Args {
    json: bool,
    only: String,
    once: Option<String>,
    idle: Option<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = args(std::env::args().skip(1))?;
    let cases = packing::cases();
    if let Some(name) = args.once.as_ref().or(args.idle.as_ref()) {
        let case = cases.iter().find(|case| case.name == *name).ok_or("no such case")?;
        case.once(args.idle.is_none());
        return Ok(());
    }
    let mut rows: Vec<Row> = Vec::new();
    for case in cases.iter().filter(|case| case.name.contains(&args.only)) {
        progress(&case.name)?;
        rows.push(case.measure());
    }
    let works = cluster::ROWS.iter().chain(&disruption::ROWS);
    for (name, measure) in works.filter(|(name, _)| name.contains(&args.only)) {
        progress(name)?;
        rows.extend(measure()?);
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", report::json(&rows))?;
    } else {
        report::table(&mut out, &rows)?;
    }
    Ok(())
}

fn progress(name: &str) -> std::io::Result<()> {
    writeln!(std::io::stderr(), "{name} …")
}

fn args(mut given: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut args = Args::default();
    while let Some(flag) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "-o" => match value()?.as_str() {
                "json" => args.json = true,
                "table" => args.json = false,
                other => return Err(format!("unknown output {other:?}: use table or json")),
            },
            "--only" => args.only = value()?,
            "--once" => args.once = Some(value()?),
            "--idle" => args.idle = Some(value()?),
            other => return Err(format!("unknown argument {other:?}: use -o and --only")),
        }
    }
    Ok(args)
}
