//! `fleetwright prices export`: writes the prices of a region for networks without access to the pricing API (`PRICES_FILE`).

use std::io::Write as _;

use anyhow::Context as _;
use fleetwright_aws_tools::prices::export;

use super::{block_on, connect, note};
use crate::{ec2::options::PricesExportOptions, settings::Values};

/// Reads the prices and writes the file.
///
/// # Errors
/// If AWS returns no prices, or the file cannot be written.
pub(crate) fn run(options: &PricesExportOptions, values: &Values) -> anyhow::Result<()> {
    let exported = block_on(async {
        let sdk = connect(values).await?;
        let region = sdk.region().to_owned();
        Ok(export(&sdk, &region).await?)
    })?;
    for missing in &exported.missing {
        note(missing)?;
    }
    match &options.file {
        Some(file) => std::fs::write(file, &exported.text).with_context(|| file.display().to_string()),
        None => Ok(anstream::stdout().lock().write_all(exported.text.as_bytes())?),
    }
}
