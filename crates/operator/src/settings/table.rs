//! The settings as a table: one row each, from which flags, environment variables, help and documentation follow.

/// A setting of the controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// The environment variable; the flag is the same in lower case with dashes.
    pub(crate) env: &'static str,
    /// What it takes.
    pub(crate) kind: Kind,
    /// Its value where neither flag nor variable is set.
    pub(crate) default: &'static str,
    /// What it does, in one line.
    pub(crate) help: &'static str,
}

/// What a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// A whole number.
    Integer,
    /// A number from zero to below one.
    Fraction,
    /// `true` or `false`, nothing else.
    Bool,
    /// A Go duration such as `10s`.
    Duration,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// kube-scheduler's default constraints, as JSON or YAML.
    SchedulerConfig,
}

impl Setting {
    /// The flag's name, without dashes in front.
    pub(crate) fn flag(&self) -> String {
        self.env.to_ascii_lowercase().replace('_', "-")
    }
}

const fn setting(env: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Setting {
    Setting { env, kind, default, help }
}

/// Karpenter's settings that apply, with its names and defaults; then our own.
pub(crate) const SETTINGS: &[Setting] = &[
    setting("KARPENTER_SERVICE", Kind::Text, "", "Name of the Service in front of the controller"),
    setting("METRICS_PORT", Kind::Integer, "8080", "Port of /metrics; 0 switches it off"),
    setting("HEALTH_PROBE_PORT", Kind::Integer, "8081", "Port of /healthz and /readyz; 0 switches it off"),
    setting("KUBE_CLIENT_QPS", Kind::Integer, "200", "Requests per second to the API server, sustained"),
    setting("KUBE_CLIENT_BURST", Kind::Integer, "300", "Requests to the API server in one burst"),
    setting(
        "ENABLE_PROFILING",
        Kind::Bool,
        "false",
        "Accepted for compatibility; there is no profiling endpoint",
    ),
    setting(
        "DISABLE_CONTROLLER_WARMUP",
        Kind::Bool,
        "true",
        "Accepted for compatibility; caches are always filled first",
    ),
    setting(
        "DISABLE_LEADER_ELECTION",
        Kind::Bool,
        "false",
        "Run without a lease; only one replica may then run",
    ),
    setting(
        "DISABLE_CLUSTER_STATE_OBSERVABILITY",
        Kind::Bool,
        "false",
        "Leave out the metrics of single objects",
    ),
    setting(
        "LEADER_ELECTION_NAME",
        Kind::Text,
        "karpenter-leader-election",
        "Name of the leader election lease",
    ),
    setting(
        "LEADER_ELECTION_NAMESPACE",
        Kind::Text,
        "",
        "Namespace of the lease; empty is the controller's own",
    ),
    setting("MEMORY_LIMIT", Kind::Integer, "-1", "Memory limit of the container in bytes; -1 is none"),
    setting("CPU_REQUESTS", Kind::Integer, "1000", "CPU request of the container in milli-CPUs"),
    setting("LOG_LEVEL", Kind::OneOf(&["debug", "info", "error"]), "info", "What is logged"),
    setting(
        "LOG_OUTPUT_PATHS",
        Kind::Text,
        "stdout",
        "Where logs go: stdout, stderr or files, separated by commas",
    ),
    setting("LOG_ERROR_OUTPUT_PATHS", Kind::Text, "stderr", "Where the logger's own errors go"),
    setting(
        "BATCH_MAX_DURATION",
        Kind::Duration,
        "10s",
        "How long pods are collected at most before scheduling",
    ),
    setting(
        "BATCH_IDLE_DURATION",
        Kind::Duration,
        "1s",
        "How long no pod may arrive before scheduling begins",
    ),
    setting(
        "PREFERENCE_POLICY",
        Kind::OneOf(&["Respect", "Ignore"]),
        "Respect",
        "Whether preferences of pods count",
    ),
    setting(
        "MIN_VALUES_POLICY",
        Kind::OneOf(&["Strict", "BestEffort"]),
        "Strict",
        "What happens where minValues cannot be met",
    ),
    setting("IGNORE_DRA_REQUESTS", Kind::Bool, "true", "Leave pods with resource claims alone"),
    setting("FEATURE_GATES", Kind::Text, "", "Gates as name=true|false, separated by commas"),
    setting(
        "SCHEDULER_CONFIG",
        Kind::SchedulerConfig,
        "",
        "Default constraints of kube-scheduler, as JSON or YAML",
    ),
    setting(
        "INITIALIZATION_TIMEOUT",
        Kind::Duration,
        "0s",
        "How long a node may take from joining to being initialized; 0s is for ever",
    ),
    setting(
        "INSTANCE_TYPES_FILE_PATH",
        Kind::Text,
        "",
        "Fake cloud: instance types as Karpenter's kwok provider reads them",
    ),
    setting("CLUSTER_NAME", Kind::Text, "", "AWS: the cluster's name, in tags and user data; required there"),
    setting(
        "CLUSTER_ENDPOINT",
        Kind::Text,
        "",
        "AWS: the API server's address for nodes; EKS is asked where it is empty",
    ),
    setting(
        "CLUSTER_CA_BUNDLE",
        Kind::Text,
        "",
        "AWS: the API server's certificate authority for nodes, base64",
    ),
    setting("ISOLATED_VPC", Kind::Bool, "false", "AWS: there is no way to the endpoints of IAM and Pricing"),
    setting("EKS_CONTROL_PLANE", Kind::Bool, "false", "AWS: ask EKS for the control plane's version"),
    setting(
        "VM_MEMORY_OVERHEAD_PERCENT",
        Kind::Fraction,
        "0.075",
        "AWS: share of memory that virtualisation takes",
    ),
    setting("INTERRUPTION_QUEUE", Kind::Text, "", "AWS: SQS queue of interruptions; empty switches them off"),
    setting("RESERVED_ENIS", Kind::Integer, "0", "AWS: network interfaces that are not for pods"),
    setting("DISABLE_DRY_RUN", Kind::Bool, "false", "AWS: node classes are ready without a launch tried out"),
    setting("ENABLE_ZONAL_SHIFT", Kind::Bool, "false", "AWS: heed zonal shifts of the cluster"),
    setting("AMI_REFRESH_INTERVAL", Kind::Duration, "1m", "AWS: how often images are looked up; at least 1m"),
    setting(
        "SUBNET_REFRESH_INTERVAL",
        Kind::Duration,
        "1m",
        "AWS: how often subnets are looked up; at least 1m",
    ),
    setting("PRICES_FILE", Kind::Text, "", "AWS: prices that `fleetwright prices export` has written"),
    setting("AWS_FEATURE_GATES", Kind::Text, "", "AWS: gates as name=true|false; NodeClassCEL is one"),
    setting(
        "DISRUPTION_PERIOD",
        Kind::Duration,
        "10s",
        "How often nodes are looked at that could be disrupted, while there is nothing to do",
    ),
    setting(
        "DISRUPTION_VALIDATION_DELAY",
        Kind::Duration,
        "15s",
        "How long a decision to consolidate must hold before it is acted on",
    ),
    setting(
        "DISRUPTION_TIMEOUT",
        Kind::Duration,
        "10m",
        "How long replacements may take until what they replace is kept; more where many wait",
    ),
    setting("CLOUD", Kind::Text, "", "The cloud: fake, or aws where compiled in"),
    setting("FAKE_CLOUD", Kind::Text, "", "Fake cloud: URL of a `fleetwright fake-cloud`; empty embeds one"),
    setting(
        "CATALOG",
        Kind::OneOf(&["kwok", "realistic"]),
        "kwok",
        "Fake cloud: which built-in instance types it has",
    ),
    setting("LAUNCH_LATENCY", Kind::Duration, "1s", "Fake cloud: how long a launch call takes"),
    setting(
        "BOOT_LATENCY",
        Kind::Duration,
        "30s",
        "Fake cloud: how long a node takes from launch to joining",
    ),
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
