//! Instance types as EC2 describes them: the fields of `DescribeInstanceTypes` that decisions read.

/// An instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceTypeDescription {
    /// Name, such as `m5.large`.
    pub name: String,
    /// `on-demand`, `spot`, `capacity-block`.
    pub usage_classes: Vec<String>,
    /// `x86_64`, `arm64`; the first one is used.
    pub architectures: Vec<String>,
    /// Manufacturer of the processor.
    pub cpu_manufacturer: Option<String>,
    /// Sustained clock speed in MHz.
    pub clock_mhz: Option<i64>,
    /// Further features of the processor, such as `nested-virtualization`.
    pub processor_features: Vec<String>,
    /// Default number of vCPUs.
    pub vcpus: i64,
    /// Memory in MiB.
    pub memory_mib: i64,
    /// `nitro` or `xen`; empty on bare metal.
    pub hypervisor: String,
    /// Whether Nitro enclaves are supported.
    pub enclaves: bool,
    /// Its instance store.
    pub storage: Option<Storage>,
    /// Maximum EBS bandwidth in Mbit/s, if EBS optimization is on by default.
    pub ebs_mbps: Option<i64>,
    /// Its network.
    pub network: Network,
    /// Its GPUs.
    pub gpus: Vec<Gpu>,
    /// Its Neuron devices; `None` if it has none.
    pub neuron: Option<Vec<NeuronDevice>>,
    /// Its inference accelerators.
    pub accelerators: Vec<Accelerator>,
    /// Placement strategies: `cluster`, `partition`, `spread`.
    pub placement_strategies: Vec<String>,
}

/// An instance store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Total size in GB.
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
    /// Maximum number of EFA interfaces.
    pub efa_max: Option<i64>,
}

/// A network card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// Its index.
    pub index: i64,
    /// Maximum number of interfaces.
    pub interfaces_max: i64,
}

impl Network {
    /// The maximum number of interfaces of the card that pods use.
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
    /// Manufacturer.
    pub manufacturer: String,
    /// Number of GPUs.
    pub count: i64,
    /// Memory of each in MiB.
    pub memory_mib: i64,
}

/// Neuron devices of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeuronDevice {
    /// Name.
    pub name: String,
    /// Number of devices.
    pub count: i64,
    /// Cores of each.
    pub cores: i64,
}

/// Inference accelerators of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accelerator {
    /// Name.
    pub name: String,
    /// Manufacturer.
    pub manufacturer: String,
    /// Number of accelerators.
    pub count: i64,
}

/// An instance type that is offered in a zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SoldIn {
    /// The instance type.
    pub instance_type: String,
    /// The zone's name.
    pub zone: String,
}
