//! Launching: launch templates, fleets, and their instances.

use std::collections::BTreeMap;

use fleetwright_core::model::Price;
use jiff::Timestamp;

/// Tags by key.
pub type TagSet = BTreeMap<String, String>;

/// The capacity that a fleet is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FleetKind {
    /// Spare capacity.
    Spot,
    /// On-demand capacity; ordinary reservations are used through it.
    OnDemand,
    /// A capacity block.
    CapacityBlock,
    /// A reservation that its owner may reclaim.
    InterruptibleReservation,
}

/// How a fleet chooses among overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// Spot: balances price and capacity.
    PriceCapacityOptimized,
    /// Spot: capacity first, then our priorities.
    CapacityOptimizedPrioritized,
    /// On demand: the cheapest.
    LowestPrice,
    /// On demand: our priorities.
    Prioritized,
    /// Capacity blocks and interruptible reservations have no strategy.
    None,
}

/// One instance type in one subnet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Override {
    /// The launch template.
    pub template: String,
    /// The instance type.
    pub instance_type: String,
    /// The subnet.
    pub subnet: String,
    /// The zone.
    pub zone: String,
    /// The image.
    pub image: String,
    /// Its price, which is the fleet's priority.
    pub price: Price,
}

/// A fleet of equal instances, launched at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FleetRequest {
    /// A repeated request with the same token gives the same instances.
    pub token: String,
    /// The number of instances.
    pub count: usize,
    /// The kind of capacity.
    pub kind: FleetKind,
    /// The allocation strategy.
    pub strategy: Strategy,
    /// The overrides to choose from.
    pub overrides: Vec<Override>,
    /// Tags of instances, volumes and the fleet at creation.
    pub tags: TagSet,
    /// Reserved by EC2.
    pub context: Option<String>,
}

/// The result of a fleet request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetAnswer {
    /// The instances.
    pub instances: Vec<FleetInstance>,
    /// Failures; there may be instances all the same.
    pub errors: Vec<FleetError>,
}

/// An instance of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetInstance {
    /// Its id.
    pub id: String,
    /// Its type.
    pub instance_type: String,
    /// Its zone.
    pub zone: String,
    /// Its subnet.
    pub subnet: String,
    /// Its image.
    pub image: String,
}

/// A failure of one override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetError {
    /// The code.
    pub code: String,
    /// The message.
    pub message: String,
    /// The override's instance type; empty if the whole fleet failed.
    pub instance_type: String,
    /// The override's zone.
    pub zone: String,
    /// The override's subnet.
    pub subnet: String,
}

/// An instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceInfo {
    /// Its id.
    pub id: String,
    /// `pending`, `running`, `shutting-down`, `stopping`, `stopped`, `terminated`.
    pub state: String,
    /// Its type.
    pub instance_type: String,
    /// Its zone.
    pub zone: String,
    /// Its zone's id.
    pub zone_id: String,
    /// Its image.
    pub image: String,
    /// Its subnet.
    pub subnet: String,
    /// Its security groups.
    pub security_groups: Vec<String>,
    /// Whether it is a spot instance.
    pub spot: bool,
    /// The reservation that it was launched for. An instance that EC2 placed into an open reservation has none.
    pub reservation: Option<String>,
    /// `default` or `dedicated`.
    pub tenancy: String,
    /// Its placement group and partition.
    pub placement: Option<(String, Option<u32>)>,
    /// Name of its instance profile.
    pub profile: Option<String>,
    /// How many of its interfaces are for EFA.
    pub efa_interfaces: i64,
    /// When it was launched.
    pub launched: Option<Timestamp>,
    /// Its tags.
    pub tags: TagSet,
}

/// A launch template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchTemplate {
    /// Its name.
    pub name: String,
    /// Its tags.
    pub tags: TagSet,
    /// When it was created.
    pub created: Option<Timestamp>,
}

/// The content of a launch template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TemplateData {
    /// Volumes.
    pub volumes: Vec<TemplateVolume>,
    /// Whether nested virtualisation is switched on or off.
    pub nested_virtualization: Option<bool>,
    /// Name of the instance profile.
    pub instance_profile: String,
    /// Whether CloudWatch measures every minute.
    pub detailed_monitoring: Option<bool>,
    /// User data, base64.
    pub user_data: String,
    /// The image.
    pub image: String,
    /// Metadata service: endpoint, protocol over IPv6, hop limit, tokens.
    pub metadata: [Option<String>; 4],
    /// Whether enclaves are switched on.
    pub enclaves: bool,
    /// `default` or `dedicated`.
    pub tenancy: Option<String>,
    /// Placement group and partition.
    pub placement: Option<(String, Option<u32>)>,
    /// Network interfaces.
    pub interfaces: Vec<TemplateInterface>,
    /// How reservations are used; `None` leaves it to the account's settings.
    pub reservation: Option<TemplateReservation>,
    /// Capacity blocks and interruptible reservations have a market type of their own.
    pub market: Option<Market>,
    /// Whether its instances are spot instances. EC2 refuses tags of spot requests for other templates.
    pub spot: bool,
    /// Tags of network interfaces and, with [`Self::spot`], of spot requests.
    pub tags: TagSet,
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TemplateVolume {
    /// Device.
    pub device: String,
    /// Whether it is deleted with the instance.
    pub delete_on_termination: Option<bool>,
    /// Whether it is encrypted.
    pub encrypted: Option<bool>,
    /// I/O operations per second.
    pub iops: Option<i64>,
    /// Key of the encryption.
    pub kms_key: Option<String>,
    /// Snapshot.
    pub snapshot: Option<String>,
    /// Throughput in MiB/s.
    pub throughput: Option<i64>,
    /// Initialization rate in MiB/s.
    pub initialization_rate: Option<i32>,
    /// Size in GiB, rounded up.
    pub size_gib: Option<i64>,
    /// Type.
    pub volume_type: Option<String>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TemplateInterface {
    /// Index of the network card.
    pub card: i32,
    /// Index of the device.
    pub device: i32,
    /// `interface`, `efa` or `efa-only`.
    pub kind: String,
    /// Security groups.
    pub security_groups: Vec<String>,
    /// Whether it gets a public address.
    pub public_address: Option<bool>,
    /// IPv4 prefixes.
    pub ipv4_prefixes: Option<i32>,
    /// IPv6 prefixes.
    pub ipv6_prefixes: Option<i32>,
    /// Whether it has an IPv6 address, its primary one.
    pub ipv6: bool,
    /// Idle timeouts: established TCP, UDP streams, UDP.
    pub connection_tracking: Option<[Option<i32>; 3]>,
}

/// What a dry run of `RunInstances` tries. An interface that names a subnet replaces the template's interfaces, so all of them are sent,
/// and so are the metadata options: a policy of the organization may demand them.
#[derive(Clone, Copy, Debug)]
pub struct InstanceTrial<'a> {
    /// The name of the launch template.
    pub template: &'a str,
    /// Its content.
    pub data: &'a TemplateData,
    /// The instance type.
    pub instance_type: &'a str,
    /// The subnet of every interface.
    pub subnet: &'a str,
    /// The tags at creation.
    pub tags: &'a TagSet,
}

/// How capacity reservations are used.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TemplateReservation {
    /// No reservation is used, not even an open one.
    Never,
    /// Only this one; without it the launch fails.
    Only(String),
}

/// A market type of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Market {
    /// Capacity blocks.
    CapacityBlock,
    /// Reservations that their owner may reclaim.
    InterruptibleReservation,
}
