//! The instance types of the generated clusters: three families, four sizes, three zones.

use serde_json::{Value, json};

/// The zones.
pub(super) const ZONES: [&str; 3] = ["test-zone-a", "test-zone-b", "test-zone-c"];

/// The capacity types.
pub(super) const CAPACITY_TYPES: [&str; 2] = ["on-demand", "spot"];

/// CPU that a node keeps for itself, in millicores.
const RESERVED_CPU: u64 = 100;

/// Memory that a node keeps for itself, in MiB.
const RESERVED_MEMORY: u64 = 256;

/// An instance type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InstanceType {
    pub(super) name: String,
    pub(super) architecture: &'static str,
    /// Millicores.
    pub(super) cpu: u64,
    /// MiB.
    pub(super) memory: u64,
    pub(super) pods: u64,
}

impl InstanceType {
    /// What pods may use of it: CPU in millicores, memory in MiB.
    pub(super) fn room(&self) -> (u64, u64) {
        (self.cpu - RESERVED_CPU, self.memory - RESERVED_MEMORY)
    }

    /// `status.allocatable` of its nodes.
    pub(super) fn allocatable(&self) -> Value {
        let (cpu, memory) = self.room();
        json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi"), "pods": self.pods.to_string(),
            "ephemeral-storage": "100Gi"})
    }

    /// `status.capacity` of its nodes.
    pub(super) fn capacity(&self) -> Value {
        json!({"cpu": format!("{}m", self.cpu), "memory": format!("{}Mi", self.memory),
            "pods": self.pods.to_string(), "ephemeral-storage": "100Gi"})
    }

    /// Whether it is offered there: the memory family lacks one zone, and one size lacks spot.
    pub(super) fn is_offered(&self, zone: &str, capacity_type: &str) -> bool {
        let lacks_zone = self.name.starts_with('r') && zone == "test-zone-c";
        let lacks_spot = self.cpu == 16_000 && capacity_type == "spot";
        !lacks_zone && !lacks_spot
    }

    /// Dollars per hour.
    fn price(&self, zone: &str, capacity_type: &str) -> f64 {
        let cores = f64::from(u32::try_from(self.cpu / 1000).unwrap_or(u32::MAX));
        let gigabytes = f64::from(u32::try_from(self.memory / 1024).unwrap_or(u32::MAX));
        // A share per node: large nodes are a little cheaper, so that clusters keep to 30 nodes or so.
        let list = 0.05 + cores * 0.03 + gigabytes * 0.004;
        let of_architecture = if self.architecture == "arm64" { 0.8 } else { 1.0 };
        let of_zone = if zone == "test-zone-b" { 1.02 } else { 1.0 };
        let of_capacity_type = if capacity_type == "spot" { 0.4 } else { 1.0 };
        list * of_architecture * of_zone * of_capacity_type
    }
}

/// All instance types.
pub(super) fn instance_types() -> Vec<InstanceType> {
    let mut types = Vec::new();
    for (family, gigabytes, architecture) in
        [("c5", 2, "amd64"), ("m5", 4, "amd64"), ("r5", 8, "amd64"), ("m6g", 4, "arm64")]
    {
        for (size, cores) in [("large", 2), ("xlarge", 4), ("2xlarge", 8), ("4xlarge", 16)] {
            let pods = if cores == 2 { 12 } else { 40 };
            let (cpu, memory) = (cores * 1000, cores * gigabytes * 1024);
            types.push(InstanceType { name: format!("{family}.{size}"), architecture, cpu, memory, pods });
        }
    }
    types
}

/// The instance types as `INSTANCE_TYPES_FILE_PATH` takes them.
pub(super) fn file() -> Value {
    let one = |each: &InstanceType| {
        let mut offerings = Vec::new();
        for zone in ZONES {
            for capacity_type in CAPACITY_TYPES.into_iter().filter(|of| each.is_offered(zone, of)) {
                offerings.push(json!({
                    "Price": each.price(zone, capacity_type),
                    "Available": true,
                    "Requirements": [
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
                        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
                    ],
                }));
            }
        }
        json!({
            "name": each.name,
            "architecture": each.architecture,
            "operatingSystems": ["linux"],
            "resources": each.capacity(),
            "overhead": {"cpu": format!("{RESERVED_CPU}m"), "memory": format!("{RESERVED_MEMORY}Mi")},
            "offerings": offerings,
        })
    };
    Value::Array(instance_types().iter().map(one).collect())
}
