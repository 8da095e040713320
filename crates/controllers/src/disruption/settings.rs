//! The settings of disruption.

use fleetwright_core::disruption::{METHODS, Method, Rules};

use crate::{runtime::Ctx, settings::Settings};

/// The rules that the settings give.
#[must_use]
pub fn rules(settings: &Settings) -> Rules {
    Rules { scheduling: settings.rules(), spot_to_spot: settings.gates.spot_to_spot, ..Rules::default() }
}

/// [`rules`], with the age of the prices of the cloud.
pub(super) fn rules_now(ctx: &Ctx) -> Rules {
    Rules { prices_as_of: ctx.cloud.prices_as_of(), ..rules(&ctx.settings) }
}

/// The methods that the settings allow.
#[must_use]
pub fn methods(settings: &Settings) -> Vec<&'static dyn Method> {
    let allowed =
        |method: &&dyn Method| settings.gates.static_capacity || method.spec().name != "static-drift";
    METHODS.iter().copied().filter(allowed).collect()
}
