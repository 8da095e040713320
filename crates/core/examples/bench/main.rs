//! Measures scheduling and consolidation against their targets: `cargo xtask bench` runs it in release.
//!
//! ```text
//! cargo xtask bench [-o table|json] [--only TEXT]
//! ```
//! Inputs are generated from seeds, which the output names. Times are CPU time of the one working thread, the minimum of
//! several runs; a quantile is over many different simulations. `--once NAME` does the work of one row, `--idle NAME` only makes its input:
//! an external counter of instructions measures the difference.

mod cluster;
mod disruption;
mod measure;
mod packing;
mod report;

use std::{error::Error, io::Write};

use self::report::Row;

/// The seed of all random input.
const SEED: u64 = 42;

/// The command line.
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
