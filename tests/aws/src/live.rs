//! `cargo xtask e2e --tier aws-live`: the trial of `fleetwright-aws-tools` in the account of the environment. Off unless it is asked for, never
//! part of CI, and nobody has run it on AWS yet. `docs/aws.md` says what it needs.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use fleetwright_aws::calls::AwsApi;
use fleetwright_aws::{Settings, SharedClock};
use fleetwright_aws_client::SdkClient;
use fleetwright_aws_tools::live::{self, Trial};

use crate::clock::Forward;

/// The command line of `cargo xtask e2e --tier aws-live`.
#[derive(Debug, clap::Parser)]
#[command(name = "cargo xtask e2e --tier aws-live", about = "A trial of the AWS provider in a real account")]
pub(crate) struct LiveArguments {
    /// Look-ups and dry runs: launches nothing, and removes the launch templates and instance profiles that it creates
    #[arg(long, conflicts_with = "cleanup")]
    dry_run: bool,
    /// Remove what all trials in this cluster's name created, and stop
    #[arg(long)]
    cleanup: bool,
    /// Name of an EKS cluster of the account
    #[arg(long, value_name = "NAME")]
    cluster: String,
    /// Role of Linux nodes
    #[arg(long, value_name = "NAME", required_unless_present = "cleanup", default_value = "")]
    role: String,
    /// Role of Windows nodes; without it, Windows is not tried
    #[arg(long, value_name = "NAME")]
    windows_role: Option<String>,
    /// Tag of the subnets and security groups to use, as KEY=VALUE; karpenter.sh/discovery with the cluster's name when absent
    #[arg(long, value_name = "KEY=VALUE")]
    discovery: Option<String>,
}

/// Runs a trial, or removes what trials left. True when AWS refused nothing.
///
/// # Errors
/// Where there is no account to try, or the arguments do not say what to do.
pub(crate) async fn run(arguments: &LiveArguments, out: &mut dyn Write) -> anyhow::Result<bool> {
    ensure!(arguments.dry_run || arguments.cleanup, "say what to do: --dry-run or --cleanup");
    let clock: SharedClock = Arc::new(Forward::default());
    let sdk = SdkClient::connect(false, clock.clone()).await?;
    let settings = Settings::new(&arguments.cluster, sdk.region());
    let api: Arc<dyn AwsApi> = Arc::new(sdk);
    if arguments.cleanup {
        for name in live::clean(&*api, &settings, |_| true).await? {
            writeln!(out, "removed {name}")?;
        }
        return Ok(true);
    }
    let discovery = match &arguments.discovery {
        None => ("karpenter.sh/discovery".to_owned(), arguments.cluster.clone()),
        Some(tag) => {
            let (key, value) = tag.split_once('=').context("--discovery: give KEY=VALUE")?;
            (key.to_owned(), value.to_owned())
        }
    };
    let (role, windows_role) = (arguments.role.clone(), arguments.windows_role.clone());
    let results = live::dry_run(api, clock, &Trial { settings, discovery, role, windows_role }).await?;
    for result in &results {
        match &result.result {
            Ok(said) => writeln!(out, "{:<40} ok       {said}", result.name)?,
            Err(why) => writeln!(out, "{:<40} REFUSED  {why}", result.name)?,
        }
    }
    Ok(results.iter().all(|result| result.result.is_ok()))
}
