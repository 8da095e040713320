//! `fleetwright-e2e-aws`: the AWS provider over the real SDK, against a moto server behind a proxy that adds what moto lacks.
//! `cargo xtask e2e --tier aws` builds and runs it.

mod account;
mod case;
mod cases;
mod clock;
mod cluster;
mod proxy;
mod runner;
mod stage;
mod venv;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use runner::{Arguments, Places};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match start(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // If standard error is closed, there is nowhere to report.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(arguments: &Arguments) -> anyhow::Result<bool> {
    let places = places()?;
    // The SDK reads megabytes of XML; the proxy must answer meanwhile.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(runner::run(arguments, &places, &mut std::io::stdout()))
}

#[expect(clippy::disallowed_methods, reason = "this is the one place where the runner reads its environment")]
fn places() -> anyhow::Result<Places> {
    Places::of(&std::env::current_exe()?, std::env::var_os("PATH").unwrap_or_default())
}
