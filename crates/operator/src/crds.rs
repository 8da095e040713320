//! `fleetwright crds`: the custom resource definitions, for `kubectl apply -f -`.

use std::io::Write as _;

use fleetwright_api::to_yaml;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Prints one YAML document for each definition.
///
/// # Errors
/// Standard output is closed.
pub(crate) fn print(definitions: Vec<CustomResourceDefinition>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for definition in definitions {
        out.write_all(to_yaml(&definition)?.as_bytes())?;
    }
    Ok(())
}
