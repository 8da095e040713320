//! The tools that read the AWS account: `audit`, `iam check` and `prices export`. Their logic is in `fleetwright-aws-tools`.

mod audit;
mod iam_check;
mod live;
mod prices_export;

use std::io::Write as _;
use std::sync::Arc;

use fleetwright_aws_client::SdkClient;
use fleetwright_aws_tools::iam::IamReport;
use fleetwright_core::clock::SharedClock;

pub(crate) use audit::run as audit;
pub(crate) use iam_check::run as iam_check;
pub(crate) use live::{live_catalogue, live_reservations, unclaimed};
pub(crate) use prices_export::run as prices_export;

use crate::{clock::SystemClock, settings::Values};

/// The actions that the settings require and `policies` do not grant; regions are not compared.
///
/// # Errors
/// A policy is not JSON.
pub(crate) fn iam_report(policies: &[&str], values: &Values) -> anyhow::Result<IamReport> {
    iam_check::report(policies, values, None)
}

/// Runs a tool to completion.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

fn clock() -> SharedClock {
    Arc::new(SystemClock)
}

/// Connects to AWS with the region and credentials of the environment.
async fn connect(values: &Values) -> anyhow::Result<SdkClient> {
    Ok(SdkClient::connect(values.bool("ISOLATED_VPC"), clock()).await?)
}

/// Prints a note beside the result.
fn note(text: &str) -> anyhow::Result<()> {
    Ok(writeln!(anstream::stderr(), "note: {text}")?)
}
