//! What the operator's settings say to the provider.

use std::time::Duration;

use fleetwright_core::model::Str;
use fleetwright_core::scheduling::MinValuesPolicy;

/// Settings of the provider, fixed for the life of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of the cluster: in tags and user data.
    pub cluster_name: Str,
    /// Address of the API server, for nodes.
    pub cluster_endpoint: String,
    /// The API server's certificate authority, base64.
    pub ca_bundle: String,
    /// The region.
    pub region: Str,
    /// Share of the memory that virtualisation takes, in millionths.
    pub memory_overhead_ppm: i64,
    /// Interfaces that are not for pods.
    pub reserved_enis: i64,
    /// Whether kubelet values may be expressions.
    pub node_class_cel: bool,
    /// Whether capacity reservations are used.
    pub reserved_capacity: bool,
    /// Whether the network has no way to the global endpoints.
    pub isolated_vpc: bool,
    /// Name of the interruption queue, where there is one.
    pub interruption_queue: Option<String>,
    /// Whether launches are tried out before a class is ready.
    pub dry_runs: bool,
    /// How often images are looked up.
    pub ami_refresh: Duration,
    /// How often subnets are looked up.
    pub subnet_refresh: Duration,
    /// What happens where a launch, which tries sixty types at most, leaves less variety than a claim asks for.
    pub min_values: MinValuesPolicy,
    /// Whether zones that traffic is shifted away from are avoided.
    pub zonal_shift: bool,
}

impl Settings {
    /// The share of memory that virtualisation takes by default: 7.5 %.
    pub const MEMORY_OVERHEAD_PPM: i64 = 75_000;

    /// Karpenter's defaults for a cluster.
    #[must_use]
    pub fn new(cluster_name: &str, region: &str) -> Self {
        Self {
            cluster_name: cluster_name.into(),
            cluster_endpoint: String::new(),
            ca_bundle: String::new(),
            region: region.into(),
            memory_overhead_ppm: Self::MEMORY_OVERHEAD_PPM,
            reserved_enis: 0,
            node_class_cel: false,
            reserved_capacity: true,
            isolated_vpc: false,
            interruption_queue: None,
            dry_runs: true,
            ami_refresh: Duration::from_secs(60),
            subnet_refresh: Duration::from_secs(60),
            min_values: MinValuesPolicy::Strict,
            zonal_shift: false,
        }
    }
}
