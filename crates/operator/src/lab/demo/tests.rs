//! What the shipped demo shows: consolidation is worth it.

use super::*;
use crate::cli::{Interface, Invocation, Tool, parse};

/// A run in virtual time, without the comparison.
fn played(seed: u64) -> DemoReport {
    let args =
        ["fleetwright", "demo", "--until-stable", "-o", "json", "--seed", &seed.to_string()].map(Into::into);
    let Invocation::Tool(Tool::Demo(options), _) = parse(args, &Interface::plain()).unwrap() else {
        panic!("not the demo")
    };
    let manifests = manifests(&options.files).unwrap();
    virtual_runtime().unwrap().block_on(play(&options, &manifests, None, None)).unwrap()
}

/// The load ends with the replicas that it began with.
#[test]
fn the_fleet_costs_no_more_after_the_load_than_before_it() {
    check(1);
}

#[test]
#[ignore = "an hour; `cargo test --release -p fleetwright-operator fifty -- --ignored --nocapture`"]
fn fifty_seeds() {
    (1..=50).for_each(check);
}

fn check(seed: u64) {
    let cost = serde_json::to_value(played(seed)).unwrap()["cost"].clone();
    let of = |field: &str| cost[field].as_str().unwrap().parse::<f64>().unwrap();
    let (before, peak, after) = (of("beforeHourly"), of("peakHourly"), of("afterHourly"));
    println!("seed {seed}: {before} {peak} {after}");
    assert!(after > 0.0 && after <= before && before < peak, "seed {seed}: {cost}");
}
