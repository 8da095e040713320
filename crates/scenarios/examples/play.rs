//! Runs a scenario and prints the report: `cargo run -p fleetwright-scenarios --example play -- SCENARIO [MANIFEST…]`. Manifests are
//! applied at the start, after the objects of the scenario.

use std::error::Error;

use fleetwright_scenarios::scenario::{Scenario, play};
use fleetwright_sim::simulator::virtual_runtime;

#[expect(clippy::print_stdout, reason = "a command-line tool")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut files = std::env::args().skip(1);
    let path = files.next().ok_or("give a scenario file")?;
    let mut scenario = Scenario::parse(&std::fs::read_to_string(&path)?)?;
    for path in files {
        let documents: Vec<serde_json::Value> =
            serde_saphyr::from_multiple(&std::fs::read_to_string(&path)?)?;
        scenario.apply.extend(documents);
    }
    let report = virtual_runtime()?.block_on(play(&scenario))?;
    println!("{}", report.text);
    if report.failures.is_empty() { Ok(()) } else { Err(report.failures.join("; ").into()) }
}
