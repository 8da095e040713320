//! Labels, annotations, tags and resources of the AWS provider, on nodes, objects and EC2 resources.

/// API group and label domain.
pub const GROUP: &str = "karpenter.k8s.aws";
/// Kind of the node class.
pub const NODE_CLASS_KIND: &str = "EC2NodeClass";
/// Finalizer on node classes.
pub const TERMINATION_FINALIZER: &str = "karpenter.k8s.aws/termination";

/// The node class of a node; also the tag key on EC2 resources.
pub const NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
/// Id of the capacity reservation of a node.
pub const CAPACITY_RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
/// `default` or `capacity-block`.
pub const CAPACITY_RESERVATION_TYPE: &str = "karpenter.k8s.aws/capacity-reservation-type";
/// Whether the reservation's owner may reclaim the capacity.
pub const CAPACITY_RESERVATION_INTERRUPTIBLE: &str = "karpenter.k8s.aws/capacity-reservation-interruptible";
/// `nitro`, `xen`; empty on bare metal.
pub const INSTANCE_HYPERVISOR: &str = "karpenter.k8s.aws/instance-hypervisor";
/// Whether traffic between instances is encrypted.
pub const INSTANCE_ENCRYPTION_IN_TRANSIT: &str = "karpenter.k8s.aws/instance-encryption-in-transit-supported";
/// The letters of the type's name: `m`, `c`, `inf`.
pub const INSTANCE_CATEGORY: &str = "karpenter.k8s.aws/instance-category";
/// Whether it is a flex instance type.
pub const INSTANCE_CAPABILITY_FLEX: &str = "karpenter.k8s.aws/instance-capability-flex";
/// The part of the type's name before the dot.
pub const INSTANCE_FAMILY: &str = "karpenter.k8s.aws/instance-family";
/// The number in the type's name.
pub const INSTANCE_GENERATION: &str = "karpenter.k8s.aws/instance-generation";
/// Local NVMe storage in GB.
pub const INSTANCE_LOCAL_NVME: &str = "karpenter.k8s.aws/instance-local-nvme";
/// The part of the type's name after the dot.
pub const INSTANCE_SIZE: &str = "karpenter.k8s.aws/instance-size";
/// Number of vCPUs.
pub const INSTANCE_CPU: &str = "karpenter.k8s.aws/instance-cpu";
/// `intel`, `amd`, `aws`.
pub const INSTANCE_CPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-cpu-manufacturer";
/// Sustained clock speed in MHz.
pub const INSTANCE_CPU_CLOCK: &str = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz";
/// Memory in MiB, as EC2 advertises it.
pub const INSTANCE_MEMORY: &str = "karpenter.k8s.aws/instance-memory";
/// Maximum EBS bandwidth in Mbit/s.
pub const INSTANCE_EBS_BANDWIDTH: &str = "karpenter.k8s.aws/instance-ebs-bandwidth";
/// Baseline network bandwidth in Mbit/s.
pub const INSTANCE_NETWORK_BANDWIDTH: &str = "karpenter.k8s.aws/instance-network-bandwidth";
/// The GPU's name, lower case with dashes.
pub const INSTANCE_GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";
/// The GPU's manufacturer.
pub const INSTANCE_GPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";
/// Number of GPUs.
pub const INSTANCE_GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
/// Memory of each GPU in MiB.
pub const INSTANCE_GPU_MEMORY: &str = "karpenter.k8s.aws/instance-gpu-memory";
/// The accelerator's name.
pub const INSTANCE_ACCELERATOR_NAME: &str = "karpenter.k8s.aws/instance-accelerator-name";
/// The accelerator's manufacturer.
pub const INSTANCE_ACCELERATOR_MANUFACTURER: &str = "karpenter.k8s.aws/instance-accelerator-manufacturer";
/// Number of accelerators.
pub const INSTANCE_ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";
/// `default` or `dedicated`.
pub const INSTANCE_TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";
/// The placement group of a node.
pub const PLACEMENT_GROUP_ID: &str = "karpenter.k8s.aws/placement-group-id";
/// The partition within it.
pub const PLACEMENT_GROUP_PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";
/// Zone by its account-independent id: `use1-az1`.
pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";
/// The Windows build of a node.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
/// The zone label of the EBS CSI driver, an alias of the well-known label.
pub const EBS_CSI_ZONE: &str = "topology.ebs.csi.aws.com/zone";

/// Every label that the provider sets on its nodes beside Karpenter's own.
pub const WELL_KNOWN: &[&str] = &[
    CAPACITY_RESERVATION_ID,
    CAPACITY_RESERVATION_TYPE,
    CAPACITY_RESERVATION_INTERRUPTIBLE,
    INSTANCE_HYPERVISOR,
    INSTANCE_ENCRYPTION_IN_TRANSIT,
    INSTANCE_CATEGORY,
    INSTANCE_CAPABILITY_FLEX,
    INSTANCE_FAMILY,
    INSTANCE_GENERATION,
    INSTANCE_SIZE,
    INSTANCE_LOCAL_NVME,
    INSTANCE_CPU,
    INSTANCE_CPU_MANUFACTURER,
    INSTANCE_CPU_CLOCK,
    INSTANCE_MEMORY,
    INSTANCE_EBS_BANDWIDTH,
    INSTANCE_NETWORK_BANDWIDTH,
    INSTANCE_GPU_NAME,
    INSTANCE_GPU_MANUFACTURER,
    INSTANCE_GPU_COUNT,
    INSTANCE_GPU_MEMORY,
    INSTANCE_ACCELERATOR_NAME,
    INSTANCE_ACCELERATOR_MANUFACTURER,
    INSTANCE_ACCELERATOR_COUNT,
    INSTANCE_TENANCY,
    ZONE_ID,
    WINDOWS_BUILD,
    PLACEMENT_GROUP_ID,
    PLACEMENT_GROUP_PARTITION,
];

/// Labels that only reservations, placement groups and tenancy have; NodeOverlays cannot select by them.
pub const NOT_FOR_OVERLAYS: &[&str] = &[
    CAPACITY_RESERVATION_ID,
    CAPACITY_RESERVATION_TYPE,
    CAPACITY_RESERVATION_INTERRUPTIBLE,
    INSTANCE_TENANCY,
    PLACEMENT_GROUP_ID,
    PLACEMENT_GROUP_PARTITION,
];

/// Drift hash of the node class, on node classes and NodeClaims.
pub const HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
/// Version of the algorithm behind [`HASH`].
pub const HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
/// The version that this crate computes.
pub const CURRENT_HASH_VERSION: &str = "v6";
/// The version of Karpenter 1.14, which can be computed too.
pub const HASH_VERSION_OF_1_14: &str = "v5";
/// Set on a NodeClaim once its instance has the tags of its node.
pub const TAGGED: &str = "karpenter.k8s.aws/tagged";
/// Set on a NodeClaim once its instance carries the tag [`TAG_CLUSTER_NAME`].
pub const CLUSTER_NAME_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";
/// The instance profile that a NodeClaim was launched with.
pub const INSTANCE_PROFILE_NAME: &str = "karpenter.k8s.aws/instance-profile-name";

/// Tag: the cluster's name.
pub const TAG_CLUSTER_NAME: &str = "eks:eks-cluster-name";
/// Tag: prefix of the key whose value `owned` marks the cluster's resources.
pub const TAG_CLUSTER_PREFIX: &str = "kubernetes.io/cluster/";
/// Tag: the NodePool.
pub const TAG_NODEPOOL: &str = "karpenter.sh/nodepool";
/// Tag: the NodeClaim.
pub const TAG_NODECLAIM: &str = "karpenter.sh/nodeclaim";
/// Tag: the node's name, as the console shows it.
pub const TAG_NAME: &str = "Name";
/// Tag of Fleetwright: UID of the owning cluster, set at creation.
pub const TAG_CLUSTER_UID: &str = "fleetwright.dev/cluster-uid";
/// Tag of Fleetwright: the batch that launched an instance.
pub const TAG_BATCH: &str = "fleetwright.dev/batch-id";
/// Tag of Fleetwright: the attempt of the batch.
pub const TAG_ATTEMPT: &str = "fleetwright.dev/attempt";
/// Tag of Fleetwright: the drift hash of the EC2NodeClass that an instance was launched with.
pub const TAG_CLASS_HASH: &str = "fleetwright.dev/nodeclass-hash";
/// Tag of instance profiles: the region.
pub const TAG_REGION: &str = "topology.kubernetes.io/region";

/// Annotation of Fleetwright on the first EC2NodeClass: AWS' last answers about prices.
pub const PRICES: &str = "fleetwright.dev/prices";

/// NVIDIA GPUs.
pub const RESOURCE_NVIDIA_GPU: &str = "nvidia.com/gpu";
/// AMD GPUs.
pub const RESOURCE_AMD_GPU: &str = "amd.com/gpu";
/// Neuron devices.
pub const RESOURCE_NEURON: &str = "aws.amazon.com/neuron";
/// Cores of Neuron devices.
pub const RESOURCE_NEURON_CORE: &str = "aws.amazon.com/neuroncore";
/// Gaudi accelerators.
pub const RESOURCE_GAUDI: &str = "habana.ai/gaudi";
/// Branch interfaces of pods with security groups of their own.
pub const RESOURCE_POD_ENI: &str = "vpc.amazonaws.com/pod-eni";
/// Addresses of Windows pods.
pub const RESOURCE_PRIVATE_IPV4: &str = "vpc.amazonaws.com/PrivateIPv4Address";
/// A sandbox of EKS in a Nitro enclave; requested by pods, never advertised by an instance type.
pub const RESOURCE_NITRO_SANDBOX: &str = "eks.amazonaws.com/nitro-sandbox";
/// EFA interfaces.
pub const RESOURCE_EFA: &str = "vpc.amazonaws.com/efa";
/// Devices that a launch avoids unless pods request them.
pub const EXOTIC_RESOURCES: [&str; 5] =
    [RESOURCE_NEURON, RESOURCE_NEURON_CORE, RESOURCE_AMD_GPU, RESOURCE_NVIDIA_GPU, RESOURCE_GAUDI];

/// The name of the instance profile that Karpenter's releases before profile paths created for an EC2NodeClass: equal for two clusters
/// with the same name.
#[must_use]
pub fn legacy_profile_name(cluster: &str, region: &str, class: &str) -> String {
    format!("{cluster}_{}", fleetwright_api::hash::text(&format!("{region}{class}")))
}

/// Tag keys that an EC2NodeClass may not set, because they identify the owner of a resource.
#[must_use]
pub fn is_restricted_tag(key: &str) -> bool {
    let ours = [TAG_CLUSTER_UID, TAG_BATCH, TAG_ATTEMPT, TAG_CLASS_HASH];
    let karpenters = [TAG_CLUSTER_NAME, TAG_NODEPOOL, TAG_NODECLAIM, NODE_CLASS];
    karpenters.contains(&key) || ours.contains(&key) || key.starts_with("kubernetes.io/cluster")
}

#[cfg(test)]
mod tests {
    use fleetwright_kube_semantics::fnv::fnv1_64;

    use super::*;

    /// FNV-1 with 64 bits of "us-west-2default", in decimal.
    #[test]
    fn legacy_profile_names_equal_karpenters() {
        let name = legacy_profile_name("prod", "us-west-2", "default");
        let digits = name.strip_prefix("prod_").unwrap();
        assert_eq!(digits.parse::<u64>().unwrap(), fnv1_64("us-west-2default".bytes()));
    }

    #[test]
    fn ownership_tags_are_restricted() {
        for (key, restricted) in [
            ("kubernetes.io/cluster/prod", true),
            ("kubernetes.io/clusterfoo", true),
            ("eks:eks-cluster-name", true),
            ("karpenter.sh/nodepool", true),
            ("karpenter.sh/nodeclaim", true),
            ("karpenter.k8s.aws/ec2nodeclass", true),
            ("fleetwright.dev/cluster-uid", true),
            ("Name", false),
            ("team", false),
        ] {
            assert_eq!(is_restricted_tag(key), restricted, "{key}");
        }
    }
}
