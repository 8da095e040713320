//! `fleetwright-oracle`: kube-scheduler as the judge of plans, which `cargo xtask oracle` builds and runs.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use fleetwright_tests::e2e::Environment;
use fleetwright_tests::oracle::{self, Arguments};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match start(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // A closed standard error leaves nobody to tell.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(arguments: &Arguments) -> anyhow::Result<bool> {
    let environment = environment()?;
    // One thread: the harness only waits for the processes that it starts, and they need the cores.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(oracle::run(arguments, &environment, &mut std::io::stdout()))
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place where the program reads its environment"
)]
fn environment() -> anyhow::Result<Environment> {
    Environment::new(
        std::env::current_exe()?,
        std::env::var_os("KUBEBUILDER_ASSETS"),
        std::env::var_os("PATH").unwrap_or_default(),
    )
}
