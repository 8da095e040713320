//! Property runs from a shell: `cargo run --release -p fleetwright-sim --example seeds -- FIRST COUNT`. Prints every seed
//! that breaks something, and fails if there is one.

use std::process::ExitCode;

use fleetwright_sim::seeds;

#[expect(clippy::print_stdout, reason = "a tool that reports to people")]
fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let (first, count) = (numbers.first().copied().unwrap_or(0), numbers.get(1).copied().unwrap_or(100));
    let mut broken = 0_u64;
    for seed in first..first.saturating_add(count) {
        match seeds::run(seed, None) {
            Ok(report) if report.violations.is_empty() => {}
            Ok(report) => {
                broken = broken.saturating_add(1);
                println!("seed {seed}: {:#?} after {:?}", report.violations, report.happened);
            }
            Err(error) => {
                broken = broken.saturating_add(1);
                println!("seed {seed}: {error}");
            }
        }
    }
    println!("{count} seeds from {first}: {broken} broken");
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
