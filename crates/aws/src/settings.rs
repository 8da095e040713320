//! The provider's settings.

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
    /// Whether the control plane's version is read from EKS rather than from the API server: EKS reports a new one only after its update
    /// is complete.
    pub eks_control_plane: bool,
    /// The hypervisor's share of memory, in millionths.
    pub memory_overhead_ppm: i64,
    /// Interfaces that are reserved and not used for pods.
    pub reserved_enis: i64,
    /// Whether kubelet values may be expressions.
    pub node_class_cel: bool,
    /// Whether capacity reservations are used.
    pub reserved_capacity: bool,
    /// Whether the network has no access to the global endpoints.
    pub isolated_vpc: bool,
    /// Name of the interruption queue, if there is one.
    pub interruption_queue: Option<String>,
    /// Whether a launch is dry-run before a class becomes ready.
    pub dry_runs: bool,
    /// How often images are looked up.
    pub ami_refresh: Duration,
    /// How often subnets are looked up.
    pub subnet_refresh: Duration,
    /// The policy if a launch, which tries at most 60 types, leaves less variety than minValues requires.
    pub min_values: MinValuesPolicy,
    /// Whether zones that traffic is shifted away from are avoided.
    pub zonal_shift: bool,
}

impl Settings {
    /// The hypervisor's default share of memory: 7.5 %.
    pub const MEMORY_OVERHEAD_PPM: i64 = 75_000;

    /// Karpenter's defaults for a cluster.
    #[must_use]
    pub fn new(cluster_name: &str, region: &str) -> Self {
        Self {
            cluster_name: cluster_name.into(),
            cluster_endpoint: String::new(),
            ca_bundle: String::new(),
            region: region.into(),
            eks_control_plane: false,
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
