//! A fake region in memory, behind [`crate::calls::AwsApi`]: instances start, age and terminate, tokens are honoured, capacity is
//! limited, tags are required as in Karpenter's IAM policy, and tests can inject lost answers.

mod api;
mod boot;
mod capacity;
mod overlap;
mod region;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fleetwright_core::clock::SharedClock;
use jiff::{SignedDuration, Timestamp};

pub use boot::BootedInstance;
pub use region::{CA, CLUSTER, OTHER_CA, REGION, class, cluster};

use crate::calls::{
    AwsError, ClusterInfo, FleetAnswer, FleetRequest, GroupInfo, Image, InstanceInfo, InstanceStatus,
    InstanceTypeDescription, LaunchTemplate, Message, PlacementGroup, ProfileInfo, ReservationInfo, SoldIn,
    SubnetInfo, TagSet, TemplateData, ZonalShift,
};
use fleetwright_core::model::Price;

/// How long an instance takes to terminate.
pub const ENDING: SignedDuration = SignedDuration::from_secs(30);
/// How long an instance takes to start.
pub const STARTING: SignedDuration = SignedDuration::from_secs(10);
/// How long a received message is invisible.
pub const INVISIBLE: SignedDuration = SignedDuration::from_secs(20);
/// An instance's share of its nominal memory in per cent, unless a test sets it: slightly more than the provider's estimate.
const MEMORY_PERCENT: i64 = 93;

/// A fault of the next call of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is refused.
    Refuse(AwsError),
    /// It has its effect, and the answer is lost.
    Lose,
}

/// A call in which faults can be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// `DescribeInstanceTypes`
    InstanceTypes,
    /// `DescribeInstanceTypeOfferings`
    SoldIn,
    /// `DescribeSubnets`
    Subnets,
    /// `DescribeSecurityGroups`
    Groups,
    /// `DescribePlacementGroups`
    PlacementGroups,
    /// `DescribeImages`
    Images,
    /// `DescribeCapacityReservations`
    Reservations,
    /// `GetParameter`
    Parameter,
    /// `CreateFleet`
    CreateFleet,
    /// `CreateFleet (dry run)`
    TryFleet,
    /// `RunInstances (dry run)`
    TryInstance,
    /// `DescribeInstances`
    Describe,
    /// `DescribeInstanceStatus`
    Statuses,
    /// `TerminateInstances`
    Terminate,
    /// `CreateTags`
    CreateTags,
    /// `DescribeLaunchTemplates`
    Templates,
    /// `CreateLaunchTemplate`
    CreateTemplate,
    /// `DeleteLaunchTemplate`
    DeleteTemplate,
    /// `GetProducts`
    OnDemandPrices,
    /// `DescribeSpotPriceHistory`
    SpotPrices,
    /// `DescribeCluster`
    Cluster,
    /// `GetManagedResource`
    Shifts,
    /// `ReceiveMessage`
    Receive,
    /// `DeleteMessageBatch`
    DeleteMessages,
    /// `GetInstanceProfile`
    Profile,
    /// `ListInstanceProfiles`
    Profiles,
    /// `CreateInstanceProfile`
    CreateProfile,
    /// `AddRoleToInstanceProfile`
    AddRole,
    /// `RemoveRoleFromInstanceProfile`
    RemoveRole,
    /// `DeleteInstanceProfile`
    DeleteProfile,
}

impl Call {
    /// The call's name at AWS.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InstanceTypes => "DescribeInstanceTypes",
            Self::SoldIn => "DescribeInstanceTypeOfferings",
            Self::Subnets => "DescribeSubnets",
            Self::Groups => "DescribeSecurityGroups",
            Self::PlacementGroups => "DescribePlacementGroups",
            Self::Images => "DescribeImages",
            Self::Reservations => "DescribeCapacityReservations",
            Self::Parameter => "GetParameter",
            Self::CreateFleet => "CreateFleet",
            Self::TryFleet => "CreateFleet (dry run)",
            Self::TryInstance => "RunInstances (dry run)",
            Self::Describe => "DescribeInstances",
            Self::Statuses => "DescribeInstanceStatus",
            Self::Terminate => "TerminateInstances",
            Self::CreateTags => "CreateTags",
            Self::Templates => "DescribeLaunchTemplates",
            Self::CreateTemplate => "CreateLaunchTemplate",
            Self::DeleteTemplate => "DeleteLaunchTemplate",
            Self::OnDemandPrices => "GetProducts",
            Self::SpotPrices => "DescribeSpotPriceHistory",
            Self::Cluster => "DescribeCluster",
            Self::Shifts => "GetManagedResource",
            Self::Receive => "ReceiveMessage",
            Self::DeleteMessages => "DeleteMessageBatch",
            Self::Profile => "GetInstanceProfile",
            Self::Profiles => "ListInstanceProfiles",
            Self::CreateProfile => "CreateInstanceProfile",
            Self::AddRole => "AddRoleToInstanceProfile",
            Self::RemoveRole => "RemoveRoleFromInstanceProfile",
            Self::DeleteProfile => "DeleteInstanceProfile",
        }
    }

    /// Whether it changes anything at AWS.
    #[must_use]
    pub fn mutates(self) -> bool {
        matches!(
            self,
            Self::CreateFleet
                | Self::Terminate
                | Self::CreateTags
                | Self::CreateTemplate
                | Self::DeleteTemplate
                | Self::DeleteMessages
                | Self::CreateProfile
                | Self::AddRole
                | Self::RemoveRole
                | Self::DeleteProfile
        )
    }
}

/// The region.
pub struct FakeAws {
    clock: SharedClock,
    inner: Mutex<Inner>,
}

/// An instance with the time of its termination call.
#[derive(Clone, Debug)]
struct RegionInstance {
    info: InstanceInfo,
    ended: Option<Timestamp>,
    /// The user data of its launch template at launch.
    user_data: String,
}

/// The content of the region.
#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) instance_types: Vec<InstanceTypeDescription>,
    pub(crate) sold_in: Vec<SoldIn>,
    pub(crate) subnets: Vec<SubnetInfo>,
    pub(crate) groups: Vec<GroupInfo>,
    pub(crate) images: Vec<Image>,
    pub(crate) parameters: BTreeMap<String, String>,
    /// The cluster in EKS.
    pub(crate) cluster: Option<ClusterInfo>,
    /// The share of memory of instances with an image, in per cent.
    memory: BTreeMap<String, i64>,
    templates: BTreeMap<String, LaunchTemplate>,
    instances: BTreeMap<String, RegionInstance>,
    tokens: BTreeMap<String, (FleetRequest, FleetAnswer)>,
    /// Instances that EC2 does not show yet, each with its time of appearance.
    hidden: BTreeMap<String, Timestamp>,
    /// Whether the account lacks the role for spot capacity.
    no_spot: bool,
    /// Whether a fleet with a missing launch template is refused as a whole, instead of per override.
    whole: bool,
    /// How many instances may be launched until EC2 throttles launches; `None` for no limit.
    launchable: Option<usize>,
    /// Zones without capacity; the empty name means all.
    dry: BTreeSet<String>,
    faults: BTreeMap<Call, VecDeque<Fault>>,
    denied: BTreeSet<Call>,
    /// Existing roles.
    pub(crate) roles: BTreeSet<String>,
    pub(crate) placement_groups: Vec<PlacementGroup>,
    pub(crate) reservations: Vec<ReservationInfo>,
    statuses: Vec<InstanceStatus>,
    /// Instances that every answer about instances contains in addition.
    intruders: Vec<InstanceInfo>,
    shifts: Vec<ZonalShift>,
    on_demand: Vec<(String, Price)>,
    spot: Vec<((String, String), Price)>,
    template_data: BTreeMap<String, TemplateData>,
    fleets: Vec<FleetRequest>,
    profiles: BTreeMap<String, ProfileInfo>,
    /// How long EC2 does not know a new profile, which IAM shows at once.
    profile_delay: SignedDuration,
    /// Profiles that EC2 does not know yet, each with the time when it will.
    unknown_profiles: BTreeMap<String, Timestamp>,
    /// Instance types of dry runs, in order.
    tried: Vec<String>,
    messages: VecDeque<Message>,
    /// Until when received messages are invisible, by receipt.
    received: BTreeMap<String, Timestamp>,
    /// How many of the next deletions of single messages fail.
    stubborn: usize,
    /// Instances with termination protection.
    protected: BTreeSet<String>,
    /// Instances that the policy does not allow to be terminated.
    untouchable: BTreeSet<String>,
    counts: BTreeMap<&'static str, u64>,
    mutations: u64,
    born: u64,
    overlap: overlap::Overlap,
}

impl Inner {
    /// Terminates instances. As at EC2, a protected one fails all others of its zone, and one that IAM denies fails all.
    fn end(&mut self, ids: &[String], now: Timestamp) -> Result<(), AwsError> {
        if let Some(id) = ids.iter().find(|id| !self.instances.contains_key(*id)) {
            return Err(AwsError::new("InvalidInstanceID.NotFound", id));
        }
        if ids.iter().any(|id| self.untouchable.contains(id)) {
            return Err(AwsError::new("UnauthorizedOperation", "you are not authorized to perform this"));
        }
        let protected = ids.iter().find(|id| self.protected.contains(*id));
        let zones: BTreeSet<String> = ids
            .iter()
            .filter(|id| self.protected.contains(*id))
            .filter_map(|id| self.instances.get(id))
            .map(|instance| instance.info.zone.clone())
            .collect();
        for id in ids {
            if let Some(instance) = self.instances.get_mut(id).filter(|one| !zones.contains(&one.info.zone)) {
                instance.info.state = "shutting-down".to_owned();
                instance.ended = Some(instance.ended.map_or(now, |ended| ended.min(now)));
            }
        }
        let refused = |id: &String| {
            AwsError::new("OperationNotPermitted", &format!("the instance {id} may not be terminated"))
        };
        protected.map_or(Ok(()), |id| Err(refused(id)))
    }
}

impl FakeAws {
    /// A region of three zones with a handful of instance types.
    #[must_use]
    pub fn new(clock: SharedClock) -> Self {
        Self { clock, inner: Mutex::new(region::inner()) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets EC2 know new profiles only after this long.
    pub fn delay_profiles(&self, delay: SignedDuration) {
        self.lock().profile_delay = delay;
    }

    /// The instance types of dry runs, in order.
    #[must_use]
    pub fn tried_types(&self) -> Vec<String> {
        self.lock().tried.clone()
    }

    /// Injects a fault into the next call of a kind.
    pub fn inject(&self, call: Call, fault: Fault) {
        self.lock().faults.entry(call).or_default().push_back(fault);
    }

    /// Drops the faults of a kind that were injected and not met.
    pub fn clear(&self, call: Call) {
        self.lock().faults.remove(&call);
    }

    /// Denies every call of a kind from now on, as IAM does.
    pub fn deny(&self, call: Call) {
        self.lock().denied.insert(call);
    }

    /// Allows calls of a kind again.
    pub fn allow(&self, call: Call) {
        self.lock().denied.remove(&call);
    }

    /// Enables termination protection of an instance.
    pub fn protect(&self, id: &str) {
        self.lock().protected.insert(id.to_owned());
    }

    /// Denies the termination of an instance, as if it lost the tag that the policy requires.
    pub fn forbid_end(&self, id: &str) {
        self.lock().untouchable.insert(id.to_owned());
    }

    /// Allows the termination of an instance again.
    pub fn free(&self, id: &str) {
        let mut inner = self.lock();
        inner.protected.remove(id);
        inner.untouchable.remove(id);
    }

    /// Changes the content of the region.
    #[cfg(test)]
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        change(&mut self.lock())
    }

    /// Sets the zonal shifts.
    pub fn set_shifts(&self, shifts: Vec<ZonalShift>) {
        self.lock().shifts = shifts;
    }

    /// Sets the statuses of impaired instances and those with events.
    pub fn set_statuses(&self, statuses: Vec<InstanceStatus>) {
        self.lock().statuses = statuses;
    }

    /// Sets the prices of the region.
    pub fn set_prices(&self, on_demand: Vec<(String, Price)>, spot: Vec<((String, String), Price)>) {
        let mut inner = self.lock();
        (inner.on_demand, inner.spot) = (on_demand, spot);
    }

    /// The instance profiles, by name.
    #[must_use]
    pub fn profiles_now(&self) -> BTreeMap<String, ProfileInfo> {
        self.lock().profiles.clone()
    }

    /// Adds an instance profile of another owner.
    pub fn adopt_profile(&self, profile: ProfileInfo) {
        self.lock().profiles.insert(profile.name.clone(), profile);
    }

    /// The launch templates, by name, with their content; `None` for adopted ones.
    #[must_use]
    pub fn templates_now(&self) -> BTreeMap<String, (LaunchTemplate, Option<TemplateData>)> {
        let inner = self.lock();
        let with_data = |(name, template): (&String, &LaunchTemplate)| {
            (name.clone(), (template.clone(), inner.template_data.get(name).cloned()))
        };
        inner.templates.iter().map(with_data).collect()
    }

    /// Adds a launch template of another owner.
    pub fn adopt_template(&self, template: LaunchTemplate) {
        self.lock().templates.insert(template.name.clone(), template);
    }

    /// Changes an instance.
    pub fn change_instance(&self, id: &str, change: impl FnOnce(&mut InstanceInfo)) {
        if let Some(instance) = self.lock().instances.get_mut(id) {
            change(&mut instance.info);
        }
    }

    /// Hides an instance for a time.
    pub fn hide(&self, id: &str, after: SignedDuration) {
        let until = self.clock.now() + after;
        self.lock().hidden.insert(id.to_owned(), until);
    }

    /// An instance by id.
    #[must_use]
    pub fn instance_now(&self, id: &str) -> Option<InstanceInfo> {
        self.lock().instances.get(id).map(|instance| instance.info.clone())
    }

    /// How many calls changed something at AWS.
    #[must_use]
    pub fn mutations(&self) -> u64 {
        self.lock().mutations
    }

    /// Removes the role for spot capacity, and forbids its creation.
    pub fn forbid_spot(&self) {
        self.lock().no_spot = true;
    }

    /// Adds these instances to every answer about instances.
    pub fn intrude(&self, instances: Vec<InstanceInfo>) {
        self.lock().intruders = instances;
    }

    /// Reclaims an instance after a time, as EC2 does with spot capacity.
    pub fn reclaim(&self, id: &str, after: SignedDuration) {
        let at = self.clock.now() + after - ENDING;
        if let Some(instance) = self.lock().instances.get_mut(id) {
            instance.ended = Some(instance.ended.map_or(at, |ended| ended.min(at)));
        }
    }

    /// Sets the capacity reservations.
    pub fn set_reservations(&self, reservations: Vec<ReservationInfo>) {
        self.lock().reservations = reservations;
    }

    /// Sets the placement groups.
    pub fn set_placement_groups(&self, groups: Vec<PlacementGroup>) {
        self.lock().placement_groups = groups;
    }

    /// Refuses fleets with a missing launch template as a whole; by default each override has its own error.
    pub fn refuse_whole(&self) {
        self.lock().whole = true;
    }

    /// Sets how many more instances can be launched. Each override beyond gets an error, as when EC2 throttles instances rather than
    /// calls; `None` for no limit.
    pub fn throttle_launches(&self, left: Option<usize>) {
        self.lock().launchable = left;
    }

    /// Removes all capacity from a zone, or from all zones if `zone` is empty.
    pub fn exhaust(&self, zone: &str) {
        self.lock().dry.insert(zone.to_owned());
    }

    /// Adds an instance with tags of another owner; returns its zone and id.
    pub fn adopt(&self, tags: TagSet) -> (String, String) {
        let mut inner = self.lock();
        inner.born += 1;
        let info = InstanceInfo {
            id: format!("i-{:017x}", inner.born),
            state: "running".to_owned(),
            instance_type: "m5.large".to_owned(),
            zone: "us-west-2a".to_owned(),
            launched: Some(self.clock.now()),
            tags,
            ..InstanceInfo::default()
        };
        let place = (info.zone.clone(), info.id.clone());
        inner
            .instances
            .insert(info.id.clone(), RegionInstance { info, ended: None, user_data: String::new() });
        place
    }

    /// The nodes on running instances, by id; an instance whose image and user data do not match has none.
    #[must_use]
    pub fn booted(&self) -> Vec<BootedInstance> {
        let mut booted = self.born();
        booted.retain(|booted| booted.instance.state == "running");
        booted
    }

    /// The nodes that instances boot as, by id, also those that have not booted yet or are terminating.
    #[must_use]
    pub fn born(&self) -> Vec<BootedInstance> {
        let mut inner = self.lock();
        self.age(&mut inner);
        let boot = |instance: &RegionInstance| {
            let info = &instance.info;
            let kind = inner.instance_types.iter().find(|kind| kind.name == info.instance_type)?;
            let image = inner.images.iter().find(|image| image.id == info.image)?;
            let percent = inner.memory.get(&image.id).copied().unwrap_or(MEMORY_PERCENT);
            boot::boot(info, &instance.user_data, kind, image, percent)
        };
        inner.instances.values().filter_map(boot).collect()
    }

    /// All instances that are not terminated, by id.
    #[must_use]
    pub fn instances_now(&self) -> Vec<InstanceInfo> {
        let mut inner = self.lock();
        self.age(&mut inner);
        let infos = inner.instances.values().map(|instance| &instance.info);
        infos.filter(|info| info.state != "terminated").cloned().collect()
    }

    /// The requested fleets, in order.
    #[must_use]
    pub fn fleets(&self) -> Vec<FleetRequest> {
        self.lock().fleets.clone()
    }

    /// The ids of all running instances.
    #[must_use]
    pub fn running(&self) -> BTreeSet<String> {
        let mut inner = self.lock();
        self.age(&mut inner);
        let running = inner.instances.iter().filter(|(_, instance)| instance.info.state == "running");
        running.map(|(id, _)| id.clone()).collect()
    }

    /// Instance types and the zones that offer them.
    #[must_use]
    pub fn sold_now(&self) -> Vec<SoldIn> {
        self.lock().sold_in.clone()
    }

    /// The subnets.
    #[must_use]
    pub fn subnets_now(&self) -> Vec<SubnetInfo> {
        self.lock().subnets.clone()
    }

    /// Sets the cluster that EKS returns, or none.
    pub fn set_cluster(&self, cluster: Option<ClusterInfo>) {
        self.lock().cluster = cluster;
    }

    /// Sets the share of nominal memory of instances with an image, in per cent.
    pub fn set_memory(&self, image: &str, percent: i64) {
        self.lock().memory.insert(image.to_owned(), percent);
    }

    /// Adds a message to the queue.
    pub fn push_message(&self, body: &str) {
        let mut inner = self.lock();
        inner.born += 1;
        let receipt = format!("receipt-{}", inner.born);
        inner.messages.push_back(Message { receipt, body: body.to_owned(), received: 0 });
    }

    /// Fails the next deletions of single messages, while others of their batch succeed.
    pub fn keep_messages(&self, count: usize) {
        self.lock().stubborn = count;
    }

    /// The number of messages in the queue.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.lock().messages.len()
    }

    /// Changes an SSM parameter; `None` removes it.
    pub fn set_parameter(&self, name: &str, value: Option<&str>) {
        let mut inner = self.lock();
        match value {
            Some(value) => inner.parameters.insert(name.to_owned(), value.to_owned()),
            None => inner.parameters.remove(name),
        };
    }

    /// The number of calls of a kind.
    #[must_use]
    pub fn count(&self, call: &str) -> u64 {
        self.lock().counts.get(call).copied().unwrap_or(0)
    }
}
