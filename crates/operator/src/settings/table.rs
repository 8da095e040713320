//! The settings as a table: one row each, from which flags, environment variables, help and documentation follow.

/// A setting of the controller.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Setting {
    /// The environment variable; the flag is the same in lower case with dashes.
    pub env: &'static str,
    /// Its valid values.
    pub kind: SettingKind,
    /// Its default.
    pub default: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// Whether decisions depend on it: the help of the tools that decide shows it.
    pub decides: bool,
}

/// The valid values of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingKind {
    /// Any text.
    Text,
    /// A whole number.
    Integer,
    /// A number from zero to below one.
    Fraction,
    /// Dollars per hour.
    Price,
    /// A switch: a flag takes `true` or `false`, a variable what Go's `strconv.ParseBool` takes.
    Bool,
    /// Feature gates as `name=true|false`, separated by commas.
    Gates,
    /// A Go duration such as `10s`.
    Duration,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// kube-scheduler's default constraints, as JSON or YAML.
    SchedulerConfig,
}

impl Setting {
    /// A setting with the variable `env`. An empty default is no default.
    #[must_use]
    pub const fn new(
        env: &'static str,
        kind: SettingKind,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self { env, kind, default, help, decides: false }
    }

    /// The same setting, on which decisions depend.
    #[must_use]
    pub const fn deciding(self) -> Self {
        Self { decides: true, ..self }
    }

    /// The flag's name, without dashes in front.
    pub(crate) fn flag(&self) -> String {
        self.env.to_ascii_lowercase().replace('_', "-")
    }

    /// Whether the setting has an effect; others are accepted because Karpenter has them.
    pub(crate) fn has_effect(&self) -> bool {
        !self.help.starts_with("Accepted for compatibility")
    }
}

const fn setting(env: &'static str, kind: SettingKind, default: &'static str, help: &'static str) -> Setting {
    Setting::new(env, kind, default, help)
}

/// Karpenter's settings that apply, with its names and defaults; then our own. Clouds have theirs beside them.
pub(crate) const SETTINGS: &[Setting] = &[
    setting(
        "KARPENTER_SERVICE",
        SettingKind::Text,
        "",
        "Accepted for compatibility; there are no webhooks that would need a Service",
    ),
    setting("METRICS_PORT", SettingKind::Integer, "8080", "Port of /metrics; 0 switches it off"),
    setting(
        "HEALTH_PROBE_PORT",
        SettingKind::Integer,
        "8081",
        "Port of /healthz and /readyz; 0 switches it off",
    ),
    setting(
        "KUBE_CLIENT_QPS",
        SettingKind::Integer,
        "200",
        "Accepted for compatibility; the API server's priority and fairness limits requests",
    ),
    setting(
        "KUBE_CLIENT_BURST",
        SettingKind::Integer,
        "300",
        "Accepted for compatibility; the API server's priority and fairness limits requests",
    ),
    setting(
        "ENABLE_PROFILING",
        SettingKind::Bool,
        "false",
        "Accepted for compatibility; there is no profiling endpoint",
    ),
    setting(
        "DISABLE_CONTROLLER_WARMUP",
        SettingKind::Bool,
        "true",
        "Accepted for compatibility; caches are always filled first",
    ),
    setting(
        "DISABLE_LEADER_ELECTION",
        SettingKind::Bool,
        "false",
        "Run without a lease; only one replica may then run",
    ),
    setting(
        "DISABLE_CLUSTER_STATE_OBSERVABILITY",
        SettingKind::Bool,
        "false",
        "Omit the metrics of individual objects",
    ),
    setting(
        "LEADER_ELECTION_NAME",
        SettingKind::Text,
        "karpenter-leader-election",
        "Name of the leader election lease",
    ),
    setting(
        "LEADER_ELECTION_NAMESPACE",
        SettingKind::Text,
        "",
        "Namespace of the lease; empty is the controller's own",
    ),
    setting(
        "MEMORY_LIMIT",
        SettingKind::Integer,
        "-1",
        "Accepted for compatibility; there is no garbage collector to tune",
    ),
    setting("CPU_REQUESTS", SettingKind::Integer, "1000", "CPU request of the container in milli-CPUs"),
    setting("LOG_LEVEL", SettingKind::OneOf(&["debug", "info", "error"]), "info", "What is logged"),
    setting(
        "LOG_OUTPUT_PATHS",
        SettingKind::Text,
        "stdout",
        "Where logs go: stdout, stderr or files, separated by commas",
    ),
    setting(
        "LOG_ERROR_OUTPUT_PATHS",
        SettingKind::Text,
        "stderr",
        "Accepted for compatibility; the logger's own errors go to stderr",
    ),
    setting(
        "BATCH_MAX_DURATION",
        SettingKind::Duration,
        "10s",
        "How long pending pods are batched at most before scheduling",
    ),
    setting(
        "BATCH_IDLE_DURATION",
        SettingKind::Duration,
        "1s",
        "How long no new pending pod must arrive before a batch ends",
    ),
    setting(
        "PREFERENCE_POLICY",
        SettingKind::OneOf(&["Respect", "Ignore"]),
        "Respect",
        "Whether preferences of pods are respected",
    )
    .deciding(),
    setting(
        "MIN_VALUES_POLICY",
        SettingKind::OneOf(&["Strict", "BestEffort"]),
        "Strict",
        "What happens if minValues cannot be met",
    )
    .deciding(),
    setting("IGNORE_DRA_REQUESTS", SettingKind::Bool, "true", "Ignore pods with resource claims").deciding(),
    setting("FEATURE_GATES", SettingKind::Gates, "", "Gates as name=true|false, separated by commas")
        .deciding(),
    setting(
        "SCHEDULER_CONFIG",
        SettingKind::SchedulerConfig,
        "",
        "Default constraints of kube-scheduler, as JSON or YAML",
    )
    .deciding(),
    setting(
        "PACKER",
        SettingKind::OneOf(&["least-cost", "compatible"]),
        "least-cost",
        "How pods are packed on new NodeClaims: least-cost is the cheapest plan, compatible Karpenter's order",
    ),
    setting(
        "NODE_OVERHEAD_PRICE",
        SettingKind::Price,
        "0.006",
        "What a node costs beside its instance, per hour in the currency of the cloud; above 0, burstable instance types count by their baseline. 0 lets list prices alone decide, as in Karpenter",
    ),
    setting(
        "N_TO_M_CONSOLIDATION",
        SettingKind::Bool,
        "true",
        "Whether consolidation may replace nodes by several; Karpenter replaces them by at most one",
    ),
    setting(
        "LIMIT_RANGE_DEFAULTS",
        SettingKind::Bool,
        "false",
        "Whether DaemonSets without pods, and CapacityBuffers, are expected to get the defaults of LimitRanges, which the controller has to be allowed to read",
    ),
    setting(
        "NOMINATE_PODS",
        SettingKind::Bool,
        "false",
        "Whether pods are nominated to the nodes that are launched for them (status.nominatedNodeName), so that kube-scheduler follows the plan; the controller has to be allowed to patch pods/status",
    ),
    setting(
        "STARTUP_DISRUPTION_DELAY",
        SettingKind::Duration,
        "0s",
        "How long no node is disrupted or expires after each start of the controller",
    ),
    setting(
        "INITIALIZATION_TIMEOUT",
        SettingKind::Duration,
        "0s",
        "How long a node may take from registration to initialization; 0s is unlimited",
    ),
    setting(
        "INSTANCE_TYPES_FILE_PATH",
        SettingKind::Text,
        "",
        "Instance types of the tools and the fake cloud, as Karpenter's kwok provider reads them",
    )
    .deciding(),
    setting(
        "DISRUPTION_PERIOD",
        SettingKind::Duration,
        "10s",
        "How often nodes are evaluated for disruption while there is nothing to disrupt",
    ),
    setting(
        "DISRUPTION_VALIDATION_DELAY",
        SettingKind::Duration,
        "15s",
        "How long a consolidation decision must remain valid before it is executed",
    ),
    setting(
        "DISRUPTION_TIMEOUT",
        SettingKind::Duration,
        "10m",
        "How long to wait for replacement nodes to initialize before rolling back; longer when many commands are in progress",
    ),
    setting(
        "DECISIONS_ENDPOINT",
        SettingKind::Bool,
        "false",
        "Serve the last decisions as /decisions on the metrics port, to everybody who reaches it",
    ),
    setting(
        "UI_ENDPOINT",
        SettingKind::Bool,
        "false",
        "Serve a page of the fleet, its cost and its decisions as /ui on the metrics port, to everybody who reaches it",
    ),
    setting(
        "SHADOW",
        SettingKind::Bool,
        "false",
        "Decide beside a live Karpenter and compare, without any write, lease or cloud; see /shadow on the metrics port",
    ),
    setting(
        "SHADOW_FILE",
        SettingKind::Text,
        "",
        "Shadow mode: file to which the report is written every minute and at the end",
    ),
    setting(
        "RECORD_DIR",
        SettingKind::Text,
        "",
        "Folder in which the objects that decisions read are recorded with times, for `fleetwright replay`; empty records nothing",
    ),
    setting(
        "RECORD_MAX_MIB",
        SettingKind::Integer,
        "1024",
        "Recording: maximum size of all files in MiB; the oldest are removed",
    ),
    setting(
        "CLOUD",
        SettingKind::Text,
        "",
        "The cloud, by the name under which this build has it; empty is its default, if it has one",
    ),
    setting(
        "CATALOG",
        SettingKind::Text,
        "",
        "Built-in instance types, by the name that their cloud has for them; empty are its first ones",
    )
    .deciding(),
];

/// The feature gates, with their defaults.
pub(crate) const GATES: &[(&str, bool)] = &[
    ("ReservedCapacity", true),
    ("NodeRepair", false),
    ("SpotToSpotConsolidation", false),
    ("NodeOverlay", false),
    ("StaticCapacity", false),
    ("CapacityBuffer", false),
];
