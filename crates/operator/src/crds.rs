//! `fleetwright crds`: the custom resource definitions, for `kubectl apply -f -`.

use std::io::Write as _;

use fleetwright_api::{Provider, crds, to_yaml};

use crate::cli::Cloud;

/// Prints them, one YAML document each.
///
/// # Errors
/// Where standard output is closed.
pub(crate) fn print(cloud: Cloud) -> anyhow::Result<()> {
    let definitions = match cloud {
        Cloud::Fake => crds(Provider::Fake),
        Cloud::Aws => fleetwright_aws_api::crds(),
    };
    let mut out = std::io::stdout().lock();
    for crd in definitions {
        out.write_all(to_yaml(&crd)?.as_bytes())?;
    }
    Ok(())
}
