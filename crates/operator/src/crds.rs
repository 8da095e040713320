//! `fleetwright crds`: the custom resource definitions, for `kubectl apply -f -`.

use std::io::Write as _;

use fleetwright_api::{Provider, crds, to_yaml};

use crate::cli::Cloud;

/// Prints them, one YAML document each.
///
/// # Errors
/// Where standard output is closed.
pub(crate) fn print(cloud: Cloud) -> anyhow::Result<()> {
    let provider = match cloud {
        Cloud::Fake => Provider::Fake,
        Cloud::Aws => Provider::Aws,
    };
    let mut out = std::io::stdout().lock();
    for crd in crds(provider) {
        out.write_all(to_yaml(&crd)?.as_bytes())?;
    }
    Ok(())
}
