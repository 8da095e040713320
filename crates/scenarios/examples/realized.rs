//! The realized price on the command line: one row for each mix and packer, as in docs/performance.md.
//!
//! `realized [--first SEED] [--seeds N] [--deployments N] [--nominate] [--node-overhead MILLIDOLLARS]`; with `--check` it runs a small fleet of each mix and fails if a figure is above its
//! limit, or if a second run has other figures.

#![expect(clippy::print_stdout, reason = "the table is the result")]

use std::{error::Error, ops::RangeInclusive, time::Duration};

use fleetwright_controllers::settings::Packing;
use fleetwright_core::model::{Objective, Price};
use fleetwright_scenarios::realized::{FleetSpec, HEADER, Mix, RealizedCase, RealizedLimits, measure};

/// Seeds and number of Deployments of the checked cases. Few seeds say little: of seeds 1 to 19 without nominations, 40 to 263 of 120 pods are
/// moved.
const CHECKED: (RangeInclusive<u64>, usize) = (1..=9, 30);

/// The checked cases, with limits of the medians, a fifth to a half above what they reach: plans of a small fleet differ with each change of
/// the solver.
const LIMITS: [(Mix, bool, RealizedLimits); 4] = [
    (Mix::Generic, false, limits(280, 90, 550, 25, 70)),
    (Mix::Diverse, false, limits(370, 130, 600, 48, 80)),
    (Mix::Generic, true, limits(85, 55, 320, 16, 15)),
    (Mix::Diverse, true, limits(200, 125, 550, 38, 48)),
];

/// Price when bound and at rest, in tenths of a percent above the plan; seconds to rest; NodeClaims; pods moved.
const fn limits(bound: i64, rest: i64, rest_after: u64, claims: u64, moved: usize) -> RealizedLimits {
    RealizedLimits { bound, rest, rest_after: Duration::from_secs(rest_after), claims, moved }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--check") {
        return check();
    }
    let value = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.map_or(Ok(default), |at| arguments.get(at + 1).map_or("", |value| value).parse())
    };
    let (first, seeds) = (value("--first", 42)?, value("--seeds", 1)?);
    let nominate = arguments.iter().any(|argument| argument == "--nominate");
    let deployments = usize::try_from(value("--deployments", 150)?)?;
    let default = Objective::default().node_overhead.nanos() / 1_000_000;
    let milli_dollars = i64::try_from(value("--node-overhead", u64::try_from(default)?)?)?;
    let objective = Objective { node_overhead: Price::from_nanos(milli_dollars * 1_000_000) };
    println!("{HEADER}");
    for mix in [Mix::Generic, Mix::Diverse] {
        for packing in [Packing::LeastCost, Packing::Compatible] {
            for seed in first..first + seeds {
                let fleet = FleetSpec { seed, mix, deployments };
                let case = RealizedCase { fleet, packing, nominate, objective };
                println!("{}", measure(case)?.row(&name(case)));
            }
        }
    }
    Ok(())
}

/// Runs the checked cases, the first of them twice: the figures must be equal. The median of each figure must be within the limits.
fn check() -> Result<(), Box<dyn Error>> {
    println!("{HEADER}");
    let (seeds, deployments) = CHECKED;
    let mut exceeded = Vec::new();
    for (at, (mix, nominate, limits)) in LIMITS.into_iter().enumerate() {
        let case = |seed| RealizedCase {
            fleet: FleetSpec { seed, mix, deployments },
            packing: Packing::LeastCost,
            nominate,
            objective: Objective::default(),
        };
        let mut all = Vec::new();
        for seed in seeds.clone() {
            let found = measure(case(seed))?;
            println!("{}", found.row(&name(case(seed))));
            all.push(found);
        }
        let first = all.first().cloned();
        exceeded.extend(limits.exceeded_by_medians(&all).into_iter().map(|what| format!("{mix:?}: {what}")));
        if at == 0 && Some(measure(case(*seeds.start()))?) != first {
            exceeded.push(format!("{mix:?}: a second run has other figures"));
        }
    }
    if exceeded.is_empty() { Ok(()) } else { Err(exceeded.join("\n").into()) }
}

fn name(case: RealizedCase) -> String {
    let nominated = if case.nominate { ", nominated" } else { "" };
    format!("{:?}, {:?}{nominated}, {}", case.fleet.mix, case.packing, case.fleet.seed)
}
