//! `fleetwright-e2e`: the end-to-end cases as a program, which `cargo xtask e2e` builds and runs.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use fleetwright_tests::e2e::{self, Arguments, Environment};

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
    let environment = environment()?;
    // One thread: the harness only waits for the processes that it starts, and they need the cores.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(e2e::run(arguments, &environment, &mut std::io::stdout()))
}

#[expect(clippy::disallowed_methods, reason = "this is the one place where the runner reads its environment")]
fn environment() -> anyhow::Result<Environment> {
    Environment::new(
        std::env::current_exe()?,
        std::env::var_os("KUBEBUILDER_ASSETS"),
        std::env::var_os("PATH").unwrap_or_default(),
    )
}
