//! The settings of disruption.

use fleetwright_core::cloud::CloudProvider;
use fleetwright_core::disruption::{METHODS, Method, Rules};

use crate::settings::Settings;

/// The rules of disruption that follow from the settings.
#[must_use]
pub fn rules(settings: &Settings) -> Rules {
    Rules { scheduling: settings.rules(), spot_to_spot: settings.gates.spot_to_spot, ..Rules::default() }
}

/// [`rules`], and the age of the provider's prices.
pub(super) fn rules_now(cloud: &dyn CloudProvider, settings: &Settings) -> Rules {
    Rules { prices_as_of: cloud.prices_as_of(), ..rules(settings) }
}

/// The methods that the settings enable.
#[must_use]
pub fn methods(settings: &Settings) -> Vec<&'static dyn Method> {
    let allowed = |method: &&dyn Method| match method.spec().name {
        "static-drift" => settings.gates.static_capacity,
        "n-to-m-consolidation" => settings.n_to_m,
        _ => true,
    };
    METHODS.iter().copied().filter(allowed).collect()
}
