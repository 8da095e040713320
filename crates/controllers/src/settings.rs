//! Settings: Karpenter's options as values. Flags and variables are read by the binary.

use std::time::Duration;

use fleetwright_core::{
    model::{Currency, Objective, TopologySpread},
    scheduling::{Compatible, LeastCost, MinValuesPolicy, Packer, PreferencePolicy, Rules},
};

/// The settings of the controllers.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `CPU_REQUESTS` in milli-CPUs: concurrency scales with it.
    pub cpu_requests: u32,
    /// `BATCH_MAX_DURATION`: a batch of pods is closed after this long.
    pub batch_max: Duration,
    /// `BATCH_IDLE_DURATION`: a batch of pods is closed after this long without a new one.
    pub batch_idle: Duration,
    /// `INITIALIZATION_TIMEOUT`: maximum time from registration to initialization; `None` is unlimited.
    pub initialization_timeout: Option<Duration>,
    /// `PREFERENCE_POLICY`.
    pub preference_policy: PreferencePolicy,
    /// `MIN_VALUES_POLICY`.
    pub min_values_policy: MinValuesPolicy,
    /// `IGNORE_DRA_REQUESTS`.
    pub ignore_dra_requests: bool,
    /// `SCHEDULER_CONFIG`: default topology spread constraints of pods without any.
    pub default_spread: Vec<TopologySpread>,
    /// `DISABLE_CLUSTER_STATE_OBSERVABILITY`: omits metrics by object.
    pub disable_observability: bool,
    /// `LIMIT_RANGE_DEFAULTS`: pods of DaemonSets that do not exist yet get the defaults of LimitRanges.
    pub limit_range_defaults: bool,
    /// `NOMINATE_PODS`: kube-scheduler is asked to bind pods to the nodes that are launched for them.
    pub nominate_pods: bool,
    /// `FEATURE_GATES`.
    pub gates: FeatureGates,
    /// `PACKER`: how pods are packed on new NodeClaims.
    pub packing: Packing,
    /// `N_TO_M_CONSOLIDATION`: nodes may be replaced by several.
    pub n_to_m: bool,
    /// `NODE_OVERHEAD_PRICE`: what plans minimize.
    pub objective: Objective,
    /// What the prices of the cloud are in.
    pub currency: Currency,
    /// How long the solver may improve a plan after its first one.
    pub solve_effort: SolveEffort,
    /// Timing of disruption.
    pub disruption: DisruptionTiming,
}

/// Timing of disruption. The defaults are Karpenter's constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisruptionTiming {
    /// `STARTUP_DISRUPTION_DELAY`: how long nodes are neither disrupted nor expired after the process has begun to act.
    pub startup_delay: Duration,
    /// `DISRUPTION_PERIOD`: interval between passes while nothing is disrupted.
    pub period: Duration,
    /// `DISRUPTION_VALIDATION_DELAY`: how long a decision must hold before it is acted on.
    pub validation_delay: Duration,
    /// `DISRUPTION_TIMEOUT`: minimum time that a command waits for its replacements.
    pub timeout: Duration,
}

impl Default for DisruptionTiming {
    fn default() -> Self {
        Self {
            startup_delay: Duration::ZERO,
            period: Duration::from_secs(10),
            validation_delay: Duration::from_secs(15),
            timeout: Duration::from_secs(600),
        }
    }
}

/// `PACKER`: how pods are packed on new NodeClaims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// Keeps the cheapest plan that it finds.
    #[default]
    LeastCost,
    /// Karpenter's placement order.
    Compatible,
}

impl Packing {
    /// The placement algorithm.
    #[must_use]
    pub fn packer(self) -> &'static dyn Packer {
        match self {
            Self::LeastCost => &LeastCost,
            Self::Compatible => &Compatible,
        }
    }
}

/// How long the solver may improve a plan after its first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SolveEffort {
    /// A duration.
    Time(Duration),
    /// A number of iterations: reproducible.
    Iterations(u32),
}

/// `FEATURE_GATES`, with Karpenter's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    /// Use reserved capacity.
    pub reserved_capacity: bool,
    /// Replace nodes that match a repair policy.
    pub node_repair: bool,
    /// Replace spot nodes by cheaper spot nodes.
    pub spot_to_spot: bool,
    /// Evaluate NodeOverlays.
    pub node_overlay: bool,
    /// Scale NodePools with replicas to that number.
    pub static_capacity: bool,
    /// Evaluate CapacityBuffers.
    pub capacity_buffer: bool,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self {
            reserved_capacity: true,
            node_repair: false,
            spot_to_spot: false,
            node_overlay: false,
            static_capacity: false,
            capacity_buffer: false,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cpu_requests: 1000,
            batch_max: Duration::from_secs(10),
            batch_idle: Duration::from_secs(1),
            initialization_timeout: None,
            preference_policy: PreferencePolicy::Respect,
            min_values_policy: MinValuesPolicy::Strict,
            ignore_dra_requests: true,
            default_spread: Vec::new(),
            disable_observability: false,
            limit_range_defaults: false,
            nominate_pods: false,
            gates: FeatureGates::default(),
            packing: Packing::default(),
            n_to_m: true,
            objective: Objective::default(),
            currency: Currency::default(),
            solve_effort: SolveEffort::Time(Duration::from_millis(500)),
            disruption: DisruptionTiming::default(),
        }
    }
}

impl Settings {
    /// Karpenter's linear scaling of concurrency with the CPUs: `low` at one CPU, `high` at sixty.
    #[must_use]
    pub fn scaled(&self, low: usize, high: usize) -> usize {
        let more = usize::try_from(self.cpu_requests.div_ceil(1000).saturating_sub(1)).unwrap_or(usize::MAX);
        let step = high.saturating_sub(low).saturating_mul(more) / 59;
        step.saturating_add(low).clamp(low, high)
    }

    /// How long a nomination lasts: twice the longest batch, ten seconds at least.
    #[must_use]
    pub fn nomination_window(&self) -> Duration {
        self.batch_max.saturating_mul(2).max(Duration::from_secs(10))
    }

    /// The settings that scheduling reads.
    #[must_use]
    pub fn rules(&self) -> Rules {
        Rules {
            preferences: self.preference_policy,
            min_values: self.min_values_policy,
            reserved_capacity: self.gates.reserved_capacity,
            ignore_dra: self.ignore_dra_requests,
            default_spread: self.default_spread.clone(),
            ..Rules::default()
        }
    }
}

#[cfg(test)]
mod tests {
    //! Scaling of concurrency.
    use super::*;

    #[test]
    fn concurrency_scales_with_the_cpus() {
        for (milli, expected) in
            [(0, 10), (1000, 10), (1001, 26), (30_000, 496), (60_000, 1000), (90_000, 1000)]
        {
            let settings = Settings { cpu_requests: milli, ..Settings::default() };
            assert_eq!(settings.scaled(10, 1000), expected, "{milli}m");
        }
        assert_eq!(Settings::default().nomination_window(), Duration::from_secs(20));
    }
}
