//! Instance types as EC2 describes them: what decisions read of `DescribeInstanceTypes`.

/// An instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceTypeDescription {
    /// Name, such as `m5.large`.
    pub name: String,
    /// `on-demand`, `spot`, `capacity-block`.
    pub usage_classes: Vec<String>,
    /// `x86_64`, `arm64`; the first counts.
    pub architectures: Vec<String>,
    /// Maker of the processor.
    pub cpu_manufacturer: Option<String>,
    /// Sustained clock speed in MHz.
    pub clock_mhz: Option<i64>,
    /// What the processor can do besides, such as `nested-virtualization`.
    pub processor_features: Vec<String>,
    /// Default number of vCPUs.
    pub vcpus: i64,
    /// Memory in MiB.
    pub memory_mib: i64,
    /// `nitro` or `xen`; empty on bare metal.
    pub hypervisor: String,
    /// Whether Nitro enclaves are supported.
    pub enclaves: bool,
    /// Disks of its own.
    pub storage: Option<Storage>,
    /// Most EBS bandwidth in Mbit/s, where EBS optimisation is on by default.
    pub ebs_mbps: Option<i64>,
    /// Its network.
    pub network: Network,
    /// Its GPUs.
    pub gpus: Vec<Gpu>,
    /// Its Neuron devices; `None` where it has none at all.
    pub neuron: Option<Vec<NeuronDevice>>,
    /// Its inference accelerators.
    pub accelerators: Vec<Accelerator>,
    /// Placement strategies: `cluster`, `partition`, `spread`.
    pub placement_strategies: Vec<String>,
}

/// Disks of an instance's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// All of them in GB.
    pub total_gb: Option<i64>,
    /// Whether they are NVMe.
    pub nvme: bool,
}

/// An instance's network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Its cards, by index.
    pub cards: Vec<Card>,
    /// The index of the card that pods use.
    pub default_card: i64,
    /// IPv4 addresses of each interface.
    pub ipv4_per_interface: i64,
    /// Whether traffic between instances is encrypted.
    pub encrypts_in_transit: bool,
    /// Whether it has ENA interfaces.
    pub ena: bool,
    /// How many EFA interfaces there can be.
    pub efa_max: Option<i64>,
}

/// A network card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// Its index.
    pub index: i64,
    /// How many interfaces it carries.
    pub interfaces_max: i64,
}

impl Network {
    /// How many interfaces the card that pods use can carry.
    #[must_use]
    pub fn default_interfaces(&self) -> i64 {
        let card = self.cards.iter().find(|card| card.index == self.default_card);
        card.map_or(0, |card| card.interfaces_max)
    }
}

/// GPUs of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpu {
    /// Name.
    pub name: String,
    /// Maker.
    pub manufacturer: String,
    /// How many.
    pub count: i64,
    /// Memory of each in MiB.
    pub memory_mib: i64,
}

/// Neuron devices of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeuronDevice {
    /// Name.
    pub name: String,
    /// How many.
    pub count: i64,
    /// Cores of each.
    pub cores: i64,
}

/// Inference accelerators of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accelerator {
    /// Name.
    pub name: String,
    /// Maker.
    pub manufacturer: String,
    /// How many.
    pub count: i64,
}

/// That an instance type is sold in a zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SoldIn {
    /// The instance type.
    pub instance_type: String,
    /// The zone's name.
    pub zone: String,
}
