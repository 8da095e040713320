//! The binary `fleetwright`: the controller, and the tools around it.

#[cfg(feature = "aws")]
mod account;
#[cfg(feature = "aws")]
mod authority;
#[cfg(feature = "aws")]
mod aws;
mod cli;
mod clock;
mod controller;
mod crds;
mod demo;
mod devices;
mod disrupt;
mod fake;
mod http;
mod input;
mod kube_client;
mod logging;
mod plan;
#[cfg(test)]
mod scenarios;
mod settings;
mod wire;

use std::process::ExitCode;

fn main() -> ExitCode {
    wire::main(std::env::args_os())
}
