//! Converts settings from text to those of the controllers.

use std::time::Duration;

use fleetwright_controllers::settings::{DisruptionTiming, FeatureGates, Packing, Settings, SolveEffort};
use fleetwright_core::{
    model::Objective,
    scheduling::{MinValuesPolicy, PreferencePolicy},
};

use super::Values;

impl Values {
    /// What happens if minValues cannot be met: `MIN_VALUES_POLICY`.
    pub(crate) fn min_values_policy(&self) -> MinValuesPolicy {
        match self.text("MIN_VALUES_POLICY") {
            "BestEffort" => MinValuesPolicy::BestEffort,
            _ => MinValuesPolicy::Strict,
        }
    }

    /// How pods are packed on new NodeClaims: `PACKER`.
    pub(crate) fn packing(&self) -> Packing {
        match self.text("PACKER") {
            "compatible" => Packing::Compatible,
            _ => Packing::LeastCost,
        }
    }
}

/// The settings of the controllers.
pub(crate) fn controllers(values: &Values) -> Settings {
    let ignore = values.text("PREFERENCE_POLICY") == "Ignore";
    Settings {
        cpu_requests: u32::try_from(values.integer("CPU_REQUESTS"))
            .ok()
            .filter(|cpus| *cpus > 0)
            .unwrap_or(1000),
        batch_max: values.duration("BATCH_MAX_DURATION"),
        initialization_timeout: Some(values.duration("INITIALIZATION_TIMEOUT"))
            .filter(|time| !time.is_zero()),
        batch_idle: values.duration("BATCH_IDLE_DURATION"),
        preference_policy: if ignore { PreferencePolicy::Ignore } else { PreferencePolicy::Respect },
        min_values_policy: values.min_values_policy(),
        ignore_dra_requests: values.bool("IGNORE_DRA_REQUESTS"),
        default_spread: values.default_spread(),
        disable_observability: values.bool("DISABLE_CLUSTER_STATE_OBSERVABILITY"),
        gates: FeatureGates {
            reserved_capacity: values.gate("ReservedCapacity"),
            node_repair: values.gate("NodeRepair"),
            spot_to_spot: values.gate("SpotToSpotConsolidation"),
            node_overlay: values.gate("NodeOverlay"),
            static_capacity: values.gate("StaticCapacity"),
            capacity_buffer: values.gate("CapacityBuffer"),
        },
        limit_range_defaults: values.bool("LIMIT_RANGE_DEFAULTS"),
        nominate_pods: values.bool("NOMINATE_PODS"),
        packing: values.packing(),
        n_to_m: values.bool("N_TO_M_CONSOLIDATION"),
        currency: values.currency,
        objective: Objective { node_overhead: values.price("NODE_OVERHEAD_PRICE") },
        solve_effort: SolveEffort::Time(Duration::from_millis(500)),
        disruption: DisruptionTiming {
            startup_delay: values.duration("STARTUP_DISRUPTION_DELAY"),
            // Passes without a pause would leave no time for other work.
            period: values.duration("DISRUPTION_PERIOD").max(Duration::from_millis(100)),
            validation_delay: values.duration("DISRUPTION_VALIDATION_DELAY"),
            timeout: values.duration("DISRUPTION_TIMEOUT"),
        },
    }
}
