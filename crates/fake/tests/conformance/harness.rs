//! The fake cloud as the suite sees it.

use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_core::{
    clock::{Clock, SharedClock},
    cloud::{
        CloudProvider, NodeClasses,
        conformance::{Call, CallFault, Fault as Wrong, GroundTruth, Harness, Operation},
    },
    model::{
        InstanceType, NodeClassRef, Offering, Price, ProviderId, Requirement, Str,
        labels::{CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT},
    },
};
use fleetwright_fake::{
    Catalogue, Cloud, CloudConfig, FakeProvider, Latency, NodeClass,
    api::{ApiError, CloudApi, Lifecycle, Tags},
    cloud::{Adopted, Fault, Occasion, Op},
    http::{HttpCloud, serve},
    node_classes,
};
use jiff::Timestamp;
use tokio::task::JoinHandle;

use crate::{
    bugs::{Bug, BuggyProvider},
    classes::{CLASS, ClassRules, Revisions, SECOND_CLASS, restricted_zones},
    hosts::Hosts,
    support::ManualClock,
    wire::Wire,
};

const UID: &str = "7f1c0a52-cluster-uid";
/// The label of reservations.
const RESERVATION: &str = "example.com/reservation-id";
/// The UID of the other cluster.
const NAMESAKE_UID: &str = "0b93d7e1-cluster-uid";
/// Instances on a page: the suite lists three pages.
const PAGE_SIZE: usize = 50;
/// How long an abandoned call may take until it waits for its hanging call.
const ABANDON_AFTER: Duration = Duration::from_millis(100);

/// What a harness is made of.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) catalogue: Catalogue,
    pub(crate) over_http: bool,
    pub(crate) tags_node_claims: bool,
    /// Whether classes restrict zones and drift, the account has a quota, launches may be slow, and instance types share hosts.
    pub(crate) class_rules: bool,
    pub(crate) bug: Option<Bug>,
}

impl Options {
    pub(crate) fn of(catalogue: Catalogue) -> Self {
        Self { catalogue, over_http: false, tags_node_claims: true, class_rules: false, bug: None }
    }
}

pub(crate) struct Fake {
    pub(crate) cloud: Arc<Cloud>,
    pub(crate) clock: Arc<ManualClock>,
    process: Process,
    provider: Mutex<Arc<dyn CloudProvider>>,
    server: Option<JoinHandle<()>>,
}

impl Fake {
    pub(crate) async fn new(options: Options) -> Self {
        let Options { catalogue, over_http, tags_node_claims, class_rules, bug } = options;
        let clock = Arc::new(ManualClock::new());
        let shared: SharedClock = clock.clone();
        let call_latency = Latency::between(0, 0);
        let config =
            CloudConfig { call_latency, tags_node_claims, page_size: PAGE_SIZE, ..CloudConfig::default() };
        let catalogue = if class_rules { with_reservation(catalogue) } else { catalogue };
        let zones = restricted_zones(&catalogue.types);
        let cloud = Arc::new(Cloud::new(catalogue, config, shared.clone()));
        let (api, server): (Arc<dyn CloudApi>, _) = if over_http {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let serving = cloud.clone();
            let task =
                tokio::spawn(async move { serve(listener, serving, std::future::pending()).await.unwrap() });
            (Arc::new(HttpCloud::new(&url, shared).unwrap()), Some(task))
        } else {
            (cloud.clone(), None)
        };
        let classes = node_classes();
        classes.replace([CLASS, SECOND_CLASS].map(|name| (name.into(), NodeClass::ready())));
        let process = Process {
            wire: Arc::new(Wire::new(api, bug)),
            classes,
            revisions: class_rules.then(|| Arc::new(Revisions::new(zones))),
            cloud: cloud.clone(),
            clock: clock.clone(),
            bug,
        };
        let provider = Mutex::new(process.start(UID).await);
        Self { cloud, clock, process, provider, server }
    }

    /// Whether the account may not have more. `false` if it has no quota.
    fn set_full(&self, is_full: bool) -> bool {
        let revisions = self.process.revisions.as_ref();
        revisions.inspect(|rules| rules.is_full.store(is_full, Ordering::SeqCst)).is_some()
    }

    fn adopted(&self, id: &str, cluster_uid: Option<&str>) -> ProviderId {
        let tags = Tags { cluster_uid: cluster_uid.map(str::to_owned), ..Tags::default() };
        self.cloud.adopt(Adopted { provider_id: id.to_owned(), tags, ..Adopted::default() });
        id.into()
    }
}

/// What a process starts from.
struct Process {
    wire: Arc<Wire>,
    classes: NodeClasses<NodeClass>,
    revisions: Option<Arc<Revisions>>,
    cloud: Arc<Cloud>,
    clock: Arc<ManualClock>,
    bug: Option<Bug>,
}

impl Process {
    /// The provider, the rules of classes on it, and a bug on top.
    async fn start(&self, uid: &str) -> Arc<dyn CloudProvider> {
        let api: Arc<dyn CloudApi> = self.wire.clone();
        let provider = FakeProvider::new(api, self.classes.clone(), self.clock.clone()).await.unwrap();
        let mut provider: Arc<dyn CloudProvider> = Arc::new(provider);
        if let Some(revisions) = &self.revisions {
            provider = Arc::new(ClassRules::new(provider, revisions.clone(), self.clock.clone()));
            provider = Arc::new(Hosts::new(provider, self.cloud.clone(), self.bug));
        }
        if let Some(bug) = self.bug {
            provider = Arc::new(BuggyProvider::new(provider, bug, self.cloud.clone()));
        }
        provider.identify(uid).await.unwrap();
        provider
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            server.abort();
        }
    }
}

/// The same types; the first one also has a reservation of three instances in the zone of its first offering.
fn with_reservation(catalogue: Catalogue) -> Catalogue {
    let mut types: Vec<InstanceType> =
        catalogue.types.instance_types.iter().map(|known| (**known).clone()).collect();
    let first = types.first_mut().unwrap();
    let offered = first.offerings.first().unwrap();
    let mut offering = Offering::new(offered.zone().unwrap(), RESERVED, Price::from_nanos(1));
    offering.requirements.add(Requirement::is_in(RESERVATION, ["r-1"]));
    offering.reservation_capacity = Some(3);
    first.offerings.push(offering);
    first.requirements.replace(Requirement::is_in(CAPACITY_TYPE, [ON_DEMAND, RESERVED, SPOT]));
    Catalogue::new(catalogue.vocabulary, types)
}

fn call_fault(operation: Operation, fault: CallFault) -> Fault {
    let op = match operation {
        Operation::Launch => Op::Launch,
        Operation::Terminate => Op::Terminate,
        Operation::Get => Op::Get,
        Operation::List => Op::List,
        other => unreachable!("{other:?}"),
    };
    let unknown = || ApiError::Failed { message: "connection reset".to_owned() };
    let (after_effect, error) = match fault {
        CallFault::Fail => (false, unknown()),
        CallFault::Throttle => (false, ApiError::Throttled { after_ms: 1500 }),
        CallFault::Deny => (false, ApiError::Unauthorized { action: format!("{operation:?}") }),
        CallFault::LoseAnswer => (true, unknown()),
        other => unreachable!("{other:?}"),
    };
    Fault::FailCall { op, occasion: Occasion::next(1), after_effect, error }
}

#[async_trait]
impl Harness for Fake {
    fn provider(&self) -> Arc<dyn CloudProvider> {
        self.provider.lock().unwrap().clone()
    }
    fn cluster_uid(&self) -> Str {
        UID.into()
    }
    fn class(&self) -> NodeClassRef {
        NodeClassRef { group: "karpenter.kwok.sh".into(), kind: "KWOKNodeClass".into(), name: CLASS.into() }
    }
    fn second_class(&self) -> NodeClassRef {
        NodeClassRef { name: SECOND_CLASS.into(), ..self.class() }
    }
    fn second_class_zones(&self) -> Option<Vec<Str>> {
        self.process.revisions.as_ref().map(|revisions| revisions.zones.clone())
    }
    fn unknown_id(&self) -> ProviderId {
        "fake://zone/i-0123456789abcdef0".into()
    }
    fn page_size(&self) -> usize {
        PAGE_SIZE
    }
    fn now(&self) -> Timestamp {
        self.clock.now()
    }
    fn consistency(&self) -> Duration {
        Duration::from_millis(self.cloud.config().consistency.max_ms)
    }
    fn termination(&self) -> Duration {
        Duration::from_millis(self.cloud.config().terminate_latency.max_ms)
    }
    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
        tokio::task::yield_now().await;
    }
    async fn set_class_ready(&self, ready: bool) {
        self.process.classes.set(CLASS, NodeClass { ready, ..NodeClass::default() });
    }
    async fn change_class(&self) -> bool {
        self.process.revisions.as_ref().is_some_and(|revisions| revisions.change())
    }
    async fn inject(&self, fault: Wrong) -> bool {
        match fault {
            Wrong::Call(operation, fault) => self.cloud.inject(call_fault(operation, fault)),
            Wrong::BreakPage => {
                let error = ApiError::Failed { message: "connection reset".to_owned() };
                let occasion = Occasion { skip: 1, times: 1 };
                self.cloud.inject(Fault::FailCall { op: Op::List, occasion, after_effect: false, error });
            }
            Wrong::Hang { after } => self.process.wire.hang(after),
            Wrong::Exhaust { zone } => self.cloud.inject(Fault::InsufficientCapacity {
                instance_type: None,
                zone: zone.map(|zone| zone.to_string()),
                capacity_type: None,
                for_seconds: None,
            }),
            Wrong::Quota => return self.set_full(true),
            Wrong::SlowLaunch => {
                let revisions = self.process.revisions.as_ref();
                return revisions.inspect(|rules| rules.is_slow.store(true, Ordering::SeqCst)).is_some();
            }
            _ => return false,
        }
        true
    }
    async fn heal(&self) {
        self.cloud.heal();
        self.set_full(false);
        self.process.wire.heal();
    }
    async fn abandon(&self, call: Call<'_>) {
        // An error means that the call waits.
        let _ = tokio::time::timeout(ABANDON_AFTER, call).await;
    }
    async fn restart(&self) {
        let provider = self.process.start(UID).await;
        *self.provider.lock().unwrap() = provider;
    }
    async fn foreign(&self) -> ProviderId {
        self.adopted("fake://elsewhere/i-foreign", Some("another-cluster"))
    }
    async fn unowned(&self) -> ProviderId {
        self.adopted("fake://elsewhere/i-unowned", None)
    }
    async fn namesake(&self) -> Option<Arc<dyn CloudProvider>> {
        let by_name = self.process.bug == Some(Bug::IdentifiesByName);
        Some(self.process.start(if by_name { UID } else { NAMESAKE_UID }).await)
    }
    async fn ground_truth(&self) -> Vec<GroundTruth> {
        let instances = self.cloud.instances();
        instances
            .iter()
            .filter(|one| one.state != Lifecycle::Terminated)
            .map(|one| one.ground_truth())
            .collect()
    }
}
