//! `cargo xtask e2e --tier aws-live`: the trial of `fleetwright-aws-tools` in the account of the environment. Off unless it is asked for, never
//! part of CI but against the emulator, and nobody has run it on AWS yet. `docs/aws.md` says what it needs.

mod guard;
mod recording;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use fleetwright_aws::calls::AwsApi;
use fleetwright_aws::{Settings, SharedClock};
use fleetwright_aws_client::SdkClient;
use fleetwright_aws_tools::live::{self, Trial, TrialResult};
use fleetwright_core::model::Price;

use crate::clock::Forward;
use guard::Guard;
use recording::Recording;

/// The command line of `cargo xtask e2e --tier aws-live`.
#[derive(Debug, clap::Parser)]
#[command(name = "cargo xtask e2e --tier aws-live", about = "A trial of the AWS provider in a real account")]
pub(crate) struct LiveArguments {
    /// Look-ups and dry runs: launches nothing, and removes the launch templates and instance profiles that it creates
    #[arg(long, conflicts_with_all = ["cleanup", "spend"])]
    dry_run: bool,
    /// The same, and launches a node per family and feature, which is terminated once it runs: as many as AMOUNT pays for an hour of each, as 1usd
    #[arg(long, value_name = "AMOUNT", value_parser = amount, conflicts_with = "cleanup")]
    spend: Option<Price>,
    /// Terminate and remove what all trials in this cluster's name created, and stop
    #[arg(long)]
    cleanup: bool,
    /// Write calls, answers and results to this file, for a test that replays them
    #[arg(long, value_name = "FILE", conflicts_with = "cleanup")]
    record: Option<PathBuf>,
    /// Remove what the trial that expires at this second created, once standard input ends without a word
    #[arg(long, hide = true)]
    guard: Option<i64>,
    /// Name of an EKS cluster of the account
    #[arg(long, value_name = "NAME")]
    cluster: String,
    /// Role of Linux nodes
    #[arg(long, value_name = "NAME", required_unless_present_any = ["cleanup", "guard"], default_value = "")]
    role: String,
    /// Role of Windows nodes; without it, Windows is not tried
    #[arg(long, value_name = "NAME")]
    windows_role: Option<String>,
    /// Tag of the subnets and security groups to use, as KEY=VALUE; karpenter.sh/discovery with the cluster's name when absent
    #[arg(long, value_name = "KEY=VALUE")]
    discovery: Option<String>,
}

/// Dollars, as `1usd` or `0.50usd`.
fn amount(text: &str) -> Result<Price, String> {
    let dollars = text.strip_suffix("usd").and_then(|number| number.parse().ok());
    let price = dollars.and_then(|dollars| Price::from_dollars(dollars).ok());
    price.ok_or_else(|| "give an amount of US dollars, as 1usd".to_owned())
}

/// Runs a trial, or removes what trials left. True when AWS refused nothing.
///
/// # Errors
/// Where there is no account to try, or the arguments do not say what to do.
pub(crate) async fn run(arguments: &LiveArguments, out: &mut dyn Write) -> anyhow::Result<bool> {
    let clock: SharedClock = Arc::new(Forward::default());
    if arguments.cleanup || arguments.guard.is_some() {
        return remove(arguments, clock, out).await;
    }
    ensure!(
        arguments.dry_run || arguments.spend.is_some(),
        "say what to do: --dry-run, --spend or --cleanup"
    );
    let recording = Arc::new(Recording::default());
    let sdk = if arguments.record.is_some() {
        SdkClient::recorded(clock.clone(), recording.listener()).await?
    } else {
        SdkClient::connect(false, clock.clone()).await?
    };
    let trial = Trial {
        begins: clock.now(),
        spend: arguments.spend,
        settings: Settings::new(&arguments.cluster, sdk.region()),
        discovery: discovery(arguments)?,
        role: arguments.role.clone(),
        windows_role: arguments.windows_role.clone(),
    };
    let guard = trial.spend.map(|_| Guard::start(&trial)).transpose()?;
    if let Some(guard) = &guard {
        writeln!(out, "guard: process {}", guard.id())?;
    }
    let results = live::run(Arc::new(sdk), clock, &trial).await;
    if let Some(guard) = guard {
        let all_known = |results: &Vec<TrialResult>| !results.iter().any(is_unclear);
        guard.end(results.as_ref().is_ok_and(all_known)).await?;
    }
    let results = results?;
    for TrialResult { name, result } in &results {
        match result {
            Ok(said) => writeln!(out, "{name:<40} ok       {said}")?,
            Err(why) => writeln!(out, "{name:<40} REFUSED  {why}")?,
        }
    }
    if let Some(path) = &arguments.record {
        let text = recording.document(&trial, &results);
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(results.iter().all(|result| result.result.is_ok()))
}

/// Whether something that costs may be left: a launch without a good end, or a clean-up.
fn is_unclear(result: &TrialResult) -> bool {
    result.result.is_err() && (result.name == "cleanup" || result.name.starts_with("launch "))
}

fn discovery(arguments: &LiveArguments) -> anyhow::Result<(String, String)> {
    let Some(tag) = &arguments.discovery else {
        return Ok(("karpenter.sh/discovery".to_owned(), arguments.cluster.clone()));
    };
    let (key, value) = tag.split_once('=').context("--discovery: give KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Removes what trials created: that of a guard, or all in the cluster's name.
async fn remove(arguments: &LiveArguments, clock: SharedClock, out: &mut dyn Write) -> anyhow::Result<bool> {
    if arguments.guard.is_some() && guard::is_dismissed().await? {
        return Ok(true);
    }
    let sdk = SdkClient::connect(false, clock.clone()).await?;
    let settings = Settings::new(&arguments.cluster, sdk.region());
    let api: Arc<dyn AwsApi> = Arc::new(sdk);
    let chosen = |expires: jiff::Timestamp| arguments.guard.is_none_or(|own| own == expires.as_second());
    // The terminal may be gone by now, which ends no clean-up.
    let say = |name: &str| drop(writeln!(out, "removed {name}"));
    live::sweep(&*api, &clock, &settings, chosen, say).await?;
    drop(writeln!(out, "nothing of a trial is left"));
    Ok(true)
}

#[cfg(test)]
mod tests;
