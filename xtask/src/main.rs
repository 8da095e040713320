//! The project's own tasks: `cargo xtask ci`, `generate`, `tidy`, `bench`, `seeds`, `realized`, `e2e`, `oracle`,
//! `mutants`, `fuzz`, `dashboards`, `picture`, `provider-example` and `new-provider`. Each task is a file of its own.

mod aws;
mod bench;
mod book;
mod browser;
mod charts;
mod ci;
mod dashboards;
mod deny;
mod e2e;
mod fuzz;
mod generate;
mod helm;
mod mutants;
mod oracle;
mod packages;
mod provider;
mod seeds;
mod semver;
mod shell;
mod terminal;
mod tidy;
mod tools;
mod upstream;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything that a change has to pass: fmt, clippy, tests, doc, deny, generate --check, charts, book, tidy, aws
    Ci(ci::Args),
    /// Write the files that are made from the code
    Generate(generate::Args),
    /// Check the rules that hold the shape of the repository
    Tidy,
    /// Measure scheduling and consolidation against their targets; a few minutes, most of them building
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Property runs: random clusters full of trouble, checked at every second; 2,000 fixed and 200 fresh ones without arguments
    #[command(disable_help_flag = true)]
    Seeds {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// The realized price of fleets that arrive within seconds, in virtual time: 600 pods of two mixes without arguments
    #[command(disable_help_flag = true)]
    Realized {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// The operator against a real control plane, or the AWS provider against a moto server (--tier aws); the arguments go to
    /// the case runner
    #[command(disable_help_flag = true)]
    E2e {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Build and test examples/provider from packaged crates, with a target directory of its own
    ProviderExample {
        /// Only its test on a real control plane, which is that of e2e; by hand
        #[arg(long)]
        e2e: bool,
    },
    /// Make a new provider of examples/provider
    NewProvider {
        /// Its name in lower-case letters, such as acme
        name: String,
        /// The folder that is created
        folder: std::path::PathBuf,
    },
    /// Run every query of the dashboards and alerts on a real Prometheus that scrapes running controllers
    Dashboards(dashboards::live::Args),
    /// Mutation tests of the decision modules: prepare a sample, run it in shards, report; by hand
    Mutants(mutants::Args),
    /// Feed the parsers with what libFuzzer makes of examples; two minutes and a build without arguments
    Fuzz(fuzz::Args),
    /// Take the picture of the page for the README, from the demo; needs Chromium
    Picture,
    /// Plans for generated clusters, judged by the real kube-scheduler; 150 without arguments
    #[command(disable_help_flag = true)]
    Oracle {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        // Without a backtrace: what failed is the change, not the task.
        Err(error) => {
            anstream::eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    match task {
        Task::Ci(args) => ci::run(&args),
        Task::Generate(args) => generate::run(args.check),
        Task::Tidy => tidy::run(),
        Task::Bench { args } => bench::run(&args),
        Task::Seeds { args } => seeds::run(&args),
        Task::Realized { args } => seeds::realized(&args),
        Task::E2e { args } => e2e::run(&args),
        Task::ProviderExample { e2e } => provider::check(e2e),
        Task::NewProvider { name, folder } => provider::create(&name, &folder),
        Task::Dashboards(args) => dashboards::live::run(&args),
        Task::Mutants(args) => mutants::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Picture => browser::picture(),
        Task::Oracle { args } => oracle::run(&args),
    }
}
