//! A region in memory that behaves, behind [`crate::calls::AwsApi`]: instances are born, age and end, tokens are honoured, capacity runs out,
//! tags are demanded as Karpenter's IAM policy demands them, and answers get lost where a test says so.

mod api;
mod region;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fleetwright_core::clock::SharedClock;
use jiff::{SignedDuration, Timestamp};

pub use region::{CA, CLUSTER, REGION, class};

use crate::calls::{
    AwsError, FleetAnswer, GroupInfo, Image, InstanceInfo, LaunchTemplate, MachineInfo, Message, ProfileInfo,
    SoldIn, SubnetInfo, TagSet,
};

/// How long an instance takes to end.
pub const ENDING: SignedDuration = SignedDuration::from_secs(30);

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
    /// `CreateFleet`
    CreateFleet,
    /// `TerminateInstances`
    Terminate,
    /// `DescribeInstances`
    Describe,
    /// `GetParameter`
    Parameter,
}

/// The region.
pub struct FakeAws {
    clock: SharedClock,
    inner: Mutex<Inner>,
}

/// An instance and when its end was ordered.
#[derive(Clone, Debug)]
struct Machine {
    info: InstanceInfo,
    ended: Option<Timestamp>,
}

/// Everything that the region has.
#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) machines: Vec<MachineInfo>,
    pub(crate) sold_in: Vec<SoldIn>,
    pub(crate) subnets: Vec<SubnetInfo>,
    pub(crate) groups: Vec<GroupInfo>,
    pub(crate) images: Vec<Image>,
    pub(crate) parameters: BTreeMap<String, String>,
    templates: BTreeMap<String, LaunchTemplate>,
    instances: BTreeMap<String, Machine>,
    tokens: BTreeMap<String, FleetAnswer>,
    /// Zones without any capacity; the empty name stands for all.
    dry: BTreeSet<String>,
    faults: BTreeMap<Call, VecDeque<Fault>>,
    profiles: BTreeMap<String, ProfileInfo>,
    messages: VecDeque<Message>,
    counts: BTreeMap<&'static str, u64>,
    born: u64,
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
        inner.instances.insert(info.id.clone(), Machine { info, ended: None });
        place
    }

    /// Puts a message into the queue.
    pub fn push_message(&self, body: &str) {
        let mut inner = self.lock();
        inner.born += 1;
        let receipt = format!("receipt-{}", inner.born);
        inner.messages.push_back(Message { receipt, body: body.to_owned() });
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
