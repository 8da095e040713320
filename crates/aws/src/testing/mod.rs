//! A region in memory that behaves, behind [`crate::calls::AwsApi`]: instances are born, age and end, tokens are honoured, capacity runs out,
//! tags are demanded as Karpenter's IAM policy demands them, and answers get lost where a test says so.

mod api;
mod guest;
mod region;
mod room;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fleetwright_core::clock::SharedClock;
use jiff::{SignedDuration, Timestamp};

pub use guest::Guest;
pub use region::{CA, CLUSTER, OTHER_CA, REGION, class, cluster};

use crate::calls::{
    AwsError, ClusterInfo, FleetAnswer, FleetRequest, GroupInfo, Image, InstanceInfo, InstanceStatus,
    InstanceTypeDescription, LaunchTemplate, Message, PlacementGroup, ProfileInfo, ReservationInfo, SoldIn,
    SubnetInfo, TagSet, TemplateData, ZonalShift,
};
use fleetwright_core::model::Price;

/// How long an instance takes to end.
pub const ENDING: SignedDuration = SignedDuration::from_secs(30);
/// How long an instance takes to begin to run.
pub const STARTING: SignedDuration = SignedDuration::from_secs(10);
/// For how long a message that was received is not handed out again.
pub const INVISIBLE: SignedDuration = SignedDuration::from_secs(20);
/// How much of the memory that it is sold with an instance has, in per cent, where nobody says otherwise: a little more than the
/// provider's first guess.
const MEMORY_PERCENT: i64 = 93;

/// What goes wrong at the next call of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is refused.
    Refuse(AwsError),
    /// It has its effect, and the answer is lost.
    Lose,
}

/// A call that faults are for.
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
    /// The call as AWS names it.
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

/// An instance and when its end was ordered.
#[derive(Clone, Debug)]
struct RegionInstance {
    info: InstanceInfo,
    ended: Option<Timestamp>,
    /// As its launch template had them at its birth.
    user_data: String,
}

/// Everything that the region has.
#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) instance_types: Vec<InstanceTypeDescription>,
    pub(crate) sold_in: Vec<SoldIn>,
    pub(crate) subnets: Vec<SubnetInfo>,
    pub(crate) groups: Vec<GroupInfo>,
    pub(crate) images: Vec<Image>,
    pub(crate) parameters: BTreeMap<String, String>,
    /// What EKS knows.
    pub(crate) cluster: Option<ClusterInfo>,
    /// How much memory instances with an image have, in per cent.
    memory: BTreeMap<String, i64>,
    templates: BTreeMap<String, LaunchTemplate>,
    instances: BTreeMap<String, RegionInstance>,
    tokens: BTreeMap<String, (FleetRequest, FleetAnswer)>,
    /// Instances that EC2 does not show yet, and until when.
    hidden: BTreeMap<String, Timestamp>,
    /// Whether the account has no role for spot capacity.
    no_spot: bool,
    /// Whether a fleet with a launch template that is not there is refused as a whole, instead of override by override.
    whole: bool,
    /// How many instances may be launched until EC2 throttles launches, where it does.
    launchable: Option<usize>,
    /// Zones without any capacity; the empty name stands for all.
    dry: BTreeSet<String>,
    faults: BTreeMap<Call, VecDeque<Fault>>,
    denied: BTreeSet<Call>,
    /// Roles that profiles can take.
    pub(crate) roles: BTreeSet<String>,
    pub(crate) placement_groups: Vec<PlacementGroup>,
    pub(crate) reservations: Vec<ReservationInfo>,
    statuses: Vec<InstanceStatus>,
    /// What every answer about instances has besides what was asked for.
    intruders: Vec<InstanceInfo>,
    shifts: Vec<ZonalShift>,
    on_demand: Vec<(String, Price)>,
    spot: Vec<((String, String), Price)>,
    template_data: BTreeMap<String, TemplateData>,
    fleets: Vec<FleetRequest>,
    profiles: BTreeMap<String, ProfileInfo>,
    messages: VecDeque<Message>,
    /// Until when messages that were received are not handed out again, by receipt.
    received: BTreeMap<String, Timestamp>,
    /// So many of the next messages that are to be deleted stay, each by itself.
    stubborn: usize,
    /// Instances with termination protection.
    protected: BTreeSet<String>,
    /// Instances that the policy lets nobody end.
    untouchable: BTreeSet<String>,
    counts: BTreeMap<&'static str, u64>,
    mutations: u64,
    born: u64,
}

impl Inner {
    /// Orders the end of instances. As at EC2, one that is protected keeps all others of its zone, and one that IAM refuses keeps all.
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

    /// Lets the next call of a kind go wrong.
    pub fn inject(&self, call: Call, fault: Fault) {
        self.lock().faults.entry(call).or_default().push_back(fault);
    }

    /// Refuses every call of a kind from now on, as IAM does.
    pub fn deny(&self, call: Call) {
        self.lock().denied.insert(call);
    }

    /// Allows calls of a kind again.
    pub fn allow(&self, call: Call) {
        self.lock().denied.remove(&call);
    }

    /// Protects an instance against its end, as its owner can.
    pub fn protect(&self, id: &str) {
        self.lock().protected.insert(id.to_owned());
    }

    /// Lets the policy allow nobody to end an instance, as where it lost the tag that the policy goes by.
    pub fn forbid_end(&self, id: &str) {
        self.lock().untouchable.insert(id.to_owned());
    }

    /// Lets an instance be ended again, whatever was in the way.
    pub fn free(&self, id: &str) {
        let mut inner = self.lock();
        inner.protected.remove(id);
        inner.untouchable.remove(id);
    }

    /// Changes what there is besides instances.
    #[cfg(test)]
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        change(&mut self.lock())
    }

    /// Lets the region's shifts of traffic be these.
    pub fn set_shifts(&self, shifts: Vec<ZonalShift>) {
        self.lock().shifts = shifts;
    }

    /// Lets these instances be impaired or have events.
    pub fn set_statuses(&self, statuses: Vec<InstanceStatus>) {
        self.lock().statuses = statuses;
    }

    /// Lets these be the prices of the region.
    pub fn set_prices(&self, on_demand: Vec<(String, Price)>, spot: Vec<((String, String), Price)>) {
        let mut inner = self.lock();
        (inner.on_demand, inner.spot) = (on_demand, spot);
    }

    /// The instance profiles, by name.
    #[must_use]
    pub fn profiles_now(&self) -> BTreeMap<String, ProfileInfo> {
        self.lock().profiles.clone()
    }

    /// Puts an instance profile of somebody else's into the account.
    pub fn adopt_profile(&self, profile: ProfileInfo) {
        self.lock().profiles.insert(profile.name.clone(), profile);
    }

    /// The launch templates, by name, with what they say; those that were adopted say nothing.
    #[must_use]
    pub fn templates_now(&self) -> BTreeMap<String, (LaunchTemplate, Option<TemplateData>)> {
        let inner = self.lock();
        let with_data = |(name, template): (&String, &LaunchTemplate)| {
            (name.clone(), (template.clone(), inner.template_data.get(name).cloned()))
        };
        inner.templates.iter().map(with_data).collect()
    }

    /// Puts a launch template of somebody else's into the account.
    pub fn adopt_template(&self, template: LaunchTemplate) {
        self.lock().templates.insert(template.name.clone(), template);
    }

    /// Changes an instance as EC2 has it.
    pub fn change_instance(&self, id: &str, change: impl FnOnce(&mut InstanceInfo)) {
        if let Some(instance) = self.lock().instances.get_mut(id) {
            change(&mut instance.info);
        }
    }

    /// Lets EC2 show an instance only after so long.
    pub fn hide(&self, id: &str, after: SignedDuration) {
        let until = self.clock.now() + after;
        self.lock().hidden.insert(id.to_owned(), until);
    }

    /// An instance as EC2 has it.
    #[must_use]
    pub fn instance_now(&self, id: &str) -> Option<InstanceInfo> {
        self.lock().instances.get(id).map(|instance| instance.info.clone())
    }

    /// How many calls changed something at AWS.
    #[must_use]
    pub fn mutations(&self) -> u64 {
        self.lock().mutations
    }

    /// Takes the role for spot capacity from the account, and forbids to create it.
    pub fn forbid_spot(&self) {
        self.lock().no_spot = true;
    }

    /// Lets every answer about instances have these as well, whatever is asked for.
    pub fn intrude(&self, instances: Vec<InstanceInfo>) {
        self.lock().intruders = instances;
    }

    /// Takes back an instance after so long, whatever becomes of it until then, as EC2 does with spot capacity.
    pub fn reclaim(&self, id: &str, after: SignedDuration) {
        let at = self.clock.now() + after - ENDING;
        if let Some(instance) = self.lock().instances.get_mut(id) {
            instance.ended = Some(instance.ended.map_or(at, |ended| ended.min(at)));
        }
    }

    /// Lets the region have these capacity reservations.
    pub fn set_reservations(&self, reservations: Vec<ReservationInfo>) {
        self.lock().reservations = reservations;
    }

    /// Lets the region have these placement groups.
    pub fn set_placement_groups(&self, groups: Vec<PlacementGroup>) {
        self.lock().placement_groups = groups;
    }

    /// Refuses fleets with a launch template that is not there as a whole; otherwise each override has an error of its own.
    pub fn refuse_whole(&self) {
        self.lock().whole = true;
    }

    /// Lets so many more instances be launched, and has an error for each override of a fleet beyond, which is what EC2 does where
    /// it throttles instances and not calls; `None` for no bound.
    pub fn throttle_launches(&self, left: Option<usize>) {
        self.lock().launchable = left;
    }

    /// Takes all capacity from a zone, from all of them where it is empty.
    pub fn exhaust(&self, zone: &str) {
        self.lock().dry.insert(zone.to_owned());
    }

    /// Puts an instance with tags of somebody else's into the region; returns its zone and id.
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

    /// What runs on each instance that runs, by id: those whose image and user data do not go together are missing.
    #[must_use]
    pub fn guests(&self) -> Vec<Guest> {
        let mut inner = self.lock();
        self.age(&mut inner);
        let running = inner.instances.values().filter(|instance| instance.info.state == "running");
        let boot = |instance: &RegionInstance| {
            let info = &instance.info;
            let kind = inner.instance_types.iter().find(|kind| kind.name == info.instance_type)?;
            let image = inner.images.iter().find(|image| image.id == info.image)?;
            let percent = inner.memory.get(&image.id).copied().unwrap_or(MEMORY_PERCENT);
            guest::boot(info, &instance.user_data, kind, image, percent)
        };
        running.filter_map(boot).collect()
    }

    /// The fleets that were asked for, in order.
    #[must_use]
    pub fn fleets(&self) -> Vec<FleetRequest> {
        self.lock().fleets.clone()
    }

    /// The ids of all instances that run.
    #[must_use]
    pub fn running(&self) -> BTreeSet<String> {
        let mut inner = self.lock();
        self.age(&mut inner);
        let running = inner.instances.iter().filter(|(_, instance)| instance.info.state == "running");
        running.map(|(id, _)| id.clone()).collect()
    }

    /// Instance types and the zones that sell them.
    #[must_use]
    pub fn sold_now(&self) -> Vec<SoldIn> {
        self.lock().sold_in.clone()
    }

    /// The subnets.
    #[must_use]
    pub fn subnets_now(&self) -> Vec<SubnetInfo> {
        self.lock().subnets.clone()
    }

    /// Lets EKS know this cluster, or none.
    pub fn set_cluster(&self, cluster: Option<ClusterInfo>) {
        self.lock().cluster = cluster;
    }

    /// Lets instances with an image have this much of the memory that they are sold with, in per cent.
    pub fn set_memory(&self, image: &str, percent: i64) {
        self.lock().memory.insert(image.to_owned(), percent);
    }

    /// Puts a message into the queue.
    pub fn push_message(&self, body: &str) {
        let mut inner = self.lock();
        inner.born += 1;
        let receipt = format!("receipt-{}", inner.born);
        inner.messages.push_back(Message { receipt, body: body.to_owned(), received: 0 });
    }

    /// Lets so many of the next deletions of messages fail, each by itself, while others of their batch do not.
    pub fn keep_messages(&self, count: usize) {
        self.lock().stubborn = count;
    }

    /// How many messages the queue has.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.lock().messages.len()
    }

    /// Changes a parameter of SSM; `None` takes it away.
    pub fn set_parameter(&self, name: &str, value: Option<&str>) {
        let mut inner = self.lock();
        match value {
            Some(value) => inner.parameters.insert(name.to_owned(), value.to_owned()),
            None => inner.parameters.remove(name),
        };
    }

    /// How often a call was made.
    #[must_use]
    pub fn count(&self, call: &str) -> u64 {
        self.lock().counts.get(call).copied().unwrap_or(0)
    }
}
