//! `fleetwright-e2e-aws`: the AWS provider over the real SDK, against a moto server behind a proxy that adds what moto lacks.
//! `cargo xtask e2e --tier aws` builds and runs it; with `live` as its first argument it tries a real account.

mod account;
mod case;
mod cases;
mod clock;
mod cluster;
mod live;
mod proxy;
mod runner;
mod stage;
mod venv;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use live::LiveArguments;
use runner::{Arguments, Places};

fn main() -> ExitCode {
    match start() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // If standard error is closed, there is nowhere to report.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> anyhow::Result<bool> {
    // The SDK reads megabytes of XML; the proxy must answer meanwhile.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == "live") {
        arguments.remove(1);
        let arguments = LiveArguments::parse_from(arguments);
        return runtime.block_on(live::run(&arguments, &mut std::io::stdout()));
    }
    let arguments = Arguments::parse_from(arguments);
    runtime.block_on(runner::run(&arguments, &places()?, &mut std::io::stdout()))
}

#[expect(clippy::disallowed_methods, reason = "this is the one place where the runner reads its environment")]
fn places() -> anyhow::Result<Places> {
    Places::of(&std::env::current_exe()?, std::env::var_os("PATH").unwrap_or_default())
}
