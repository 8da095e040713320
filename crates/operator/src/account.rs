//! The tools that look into the AWS account: `audit`, `iam check` and `prices export`. They change nothing.

mod audit;
mod iam;
mod prices;

use std::io::Write as _;
use std::sync::Arc;

use fleetwright_aws_client::SdkClient;
use fleetwright_core::clock::SharedClock;

pub(crate) use audit::run as audit;
pub(crate) use iam::run as iam;
pub(crate) use prices::run as prices;

use crate::{clock::SystemClock, settings::Values};

/// Runs a tool to its end.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

fn clock() -> SharedClock {
    Arc::new(SystemClock)
}

/// AWS, as the environment names region and credentials.
async fn connect(values: &Values) -> anyhow::Result<SdkClient> {
    Ok(SdkClient::connect(values.bool("ISOLATED_VPC"), clock()).await?)
}

/// Tells people something that is no part of the result.
fn note(text: &str) -> anyhow::Result<()> {
    Ok(writeln!(anstream::stderr(), "note: {text}")?)
}
