//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// The command line of `cargo xtask oracle`.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask oracle",
    about = "Judge plans for generated clusters by the real kube-scheduler"
)]
pub struct Arguments {
    /// How many clusters
    #[arg(long, default_value_t = 150)]
    pub count: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    pub first: u64,
    /// How many control planes work side by side
    #[arg(long, default_value_t = 4)]
    pub lanes: usize,
    /// Hide a part of the clusters from the planner, until the first cluster that finds out; `all` for each fault in turn
    #[arg(long, value_name = "NAME")]
    pub plant: Option<String>,
    /// List the planted faults, and stop
    #[arg(long)]
    pub list_plants: bool,
    /// Judge the cluster of a file instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["count", "first"])]
    pub file: Option<PathBuf>,
    /// Write the clusters to target/oracle/ without judging them
    #[arg(long)]
    pub write: bool,
    /// Do not shrink clusters that fail
    #[arg(long)]
    pub no_shrink: bool,
}
