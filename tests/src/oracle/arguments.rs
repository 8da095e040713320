//! The command line.

use std::path::PathBuf;

use clap::Parser;

use super::file;
use super::generator::{self, Cluster};

/// The command line of `cargo xtask oracle`.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask oracle",
    about = "Judge plans for generated clusters by the real kube-scheduler"
)]
pub struct Arguments {
    /// Run the operator on a control plane with controllers, let the load go down, and judge what it disrupts
    #[arg(long, conflicts_with = "write")]
    pub disruption: bool,
    /// How many clusters: 150, or 20 with --disruption
    #[arg(long)]
    pub count: Option<u64>,
    /// The first seed
    #[arg(long, visible_alias = "seed", default_value_t = 0)]
    pub first: u64,
    /// How many control planes work side by side: 4, or 3 with --disruption
    #[arg(long)]
    pub lanes: Option<usize>,
    /// Hide a part of the clusters from the planner, until the first cluster that finds out; `all` for each fault in turn
    #[arg(long, value_name = "NAME")]
    pub plant: Option<String>,
    /// List the planted faults, and stop
    #[arg(long)]
    pub list_plants: bool,
    /// Judge the cluster of a file instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["count", "first"])]
    pub file: Option<PathBuf>,
    /// Nominate pods to the nodes that are launched for them, as NOMINATE_PODS does
    #[arg(long, conflicts_with = "disruption")]
    pub nominate: bool,
    /// Write the clusters to target/oracle/ without judging them
    #[arg(long)]
    pub write: bool,
    /// Do not shrink clusters that fail
    #[arg(long)]
    pub no_shrink: bool,
}

impl Arguments {
    /// The clusters to judge.
    pub(super) fn clusters(&self) -> anyhow::Result<Vec<Cluster>> {
        if let Some(path) = &self.file {
            return Ok(vec![file::read(path)?]);
        }
        let count = self.count.unwrap_or(if self.disruption { 20 } else { 150 });
        Ok((self.first..self.first.saturating_add(count)).map(generator::cluster).collect())
    }

    /// How many control planes work side by side.
    pub(super) fn lanes(&self) -> usize {
        self.lanes.unwrap_or(if self.disruption { 3 } else { 4 }).max(1)
    }
}
