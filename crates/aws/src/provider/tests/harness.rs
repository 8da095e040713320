//! The provider on the in-memory region, as the conformance tests see it.

use fleetwright_core::cloud::conformance::{CallFault, Fault as Wrong, GroundTruth, Operation};

use fleetwright_aws_api::ec2nodeclass::CapacityReservation;
use fleetwright_core::model::labels::{ON_DEMAND, RESERVED, SPOT};

use super::*;
use crate::{
    calls::{InstanceInfo, ReservationInfo},
    testing::BootedInstance,
};

/// The second class: in two of the three zones.
const SECOND_CLASS: &str = "second";
/// A reservation for two instances.
const RESERVATION: &str = "cr-0123456789abcdef0";
/// How long an abandoned call may take until it waits for its hanging call.
const ABANDON_AFTER: Duration = Duration::from_millis(100);

pub(crate) struct Aws {
    pub(crate) cloud: Arc<FakeAws>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) classes: Classes,
    pub(crate) settings: Settings,
    pub(crate) provider: Mutex<Arc<AwsProvider>>,
}

pub(crate) fn settings() -> Settings {
    Settings {
        cluster_endpoint: "https://test-cluster".to_owned(),
        ca_bundle: CA.to_owned(),
        ..Settings::new(CLUSTER, REGION)
    }
}

impl Aws {
    pub(crate) async fn new(settings: Settings) -> Self {
        let clock = Arc::new(ManualClock(Mutex::new("2026-06-01T00:00:00Z".parse().unwrap())));
        let shared: SharedClock = clock.clone();
        let cloud = Arc::new(FakeAws::new(shared.clone()));
        let classes = node_classes();
        set_class(&classes, class("default", true));
        let provider = Self::provider(&cloud, &classes, &settings, shared).await;
        Self { cloud, clock, classes, settings, provider: Mutex::new(provider) }
    }

    /// As the conformance tests need it: with a second class, a reservation, and calls that overlap.
    pub(super) async fn under_contract() -> Self {
        let aws = Self::new(settings()).await;
        aws.cloud.set_reservations(vec![ReservationInfo {
            id: RESERVATION.to_owned(),
            zone: "us-west-2a".to_owned(),
            instance_type: "m5.large".to_owned(),
            match_criteria: "targeted".to_owned(),
            available: 2,
            ..ReservationInfo::default()
        }]);
        set_class(&aws.classes, aws.default_class(true));
        aws.restart().await;
        let mut second = class(SECOND_CLASS, true);
        if let Some(status) = &mut second.status {
            status.subnets.pop();
        }
        set_class(&aws.classes, second);
        aws.cloud.interleave();
        aws
    }

    pub(crate) async fn provider(
        cloud: &Arc<FakeAws>,
        classes: &Classes,
        settings: &Settings,
        clock: SharedClock,
    ) -> Arc<AwsProvider> {
        Self::of_cluster(UID, cloud, classes, settings, clock).await
    }

    /// The provider of the cluster with this UID.
    async fn of_cluster(
        uid: &str,
        cloud: &Arc<FakeAws>,
        classes: &Classes,
        settings: &Settings,
        clock: SharedClock,
    ) -> Arc<AwsProvider> {
        let provider =
            AwsProvider::new(cloud.clone(), classes.clone(), settings.clone(), clock).await.unwrap();
        let reservations = cloud.with(|inner| inner.reservations.clone());
        let left = reservations.into_iter().map(|known| (known.id, known.available));
        provider.catalogs.with_reservations(|counts| counts.sync(left, provider.clock.now()));
        provider.identify(uid).await.unwrap();
        // The steps start with the process.
        let names = provider.steps().into_iter().find(|step| step.name() == "nodeclaim.tagging").unwrap();
        names.run(&Outlook::at(provider.clock.now())).await.unwrap_or_default();
        Arc::new(provider)
    }
}

#[async_trait]
impl Harness for Aws {
    fn provider(&self) -> Arc<dyn CloudProvider> {
        self.provider.lock().unwrap().clone()
    }
    fn cluster_uid(&self) -> Str {
        UID.into()
    }
    fn class(&self) -> NodeClassRef {
        NodeClassRef {
            group: "karpenter.k8s.aws".into(),
            kind: "EC2NodeClass".into(),
            name: "default".into(),
        }
    }
    fn second_class(&self) -> NodeClassRef {
        NodeClassRef { name: SECOND_CLASS.into(), ..self.class() }
    }
    fn second_class_zones(&self) -> Option<Vec<Str>> {
        Some(vec!["us-west-2a".into(), "us-west-2b".into()])
    }
    fn unknown_id(&self) -> ProviderId {
        "aws:///us-west-2a/i-0123456789abcdef0".into()
    }
    fn page_size(&self) -> usize {
        1
    }
    fn now(&self) -> Timestamp {
        self.clock.now()
    }
    fn consistency(&self) -> Duration {
        Duration::ZERO
    }
    fn termination(&self) -> Duration {
        Duration::from_secs(30)
    }
    async fn advance(&self, by: Duration) {
        *self.clock.0.lock().unwrap() += SignedDuration::try_from(by).unwrap();
    }
    async fn set_class_ready(&self, ready: bool) {
        set_class(&self.classes, self.default_class(ready));
    }
    async fn change_class(&self) -> bool {
        let mut changed = self.default_class(true);
        for ami in changed.status.iter_mut().flat_map(|status| &mut status.amis) {
            ami.id.push_str("-new");
        }
        set_class(&self.classes, changed);
        true
    }
    async fn inject(&self, fault: Wrong) -> bool {
        match fault {
            Wrong::Call(operation, fault) => {
                let call = match operation {
                    Operation::Launch => Call::CreateFleet,
                    Operation::Terminate => Call::Terminate,
                    Operation::Get | Operation::List => Call::Describe,
                    _ => return false,
                };
                self.cloud.inject(call, call_fault(fault));
            }
            Wrong::Hang { after } => self.cloud.hang(Some(after)),
            Wrong::Exhaust { zone } => self.cloud.exhaust(zone.as_deref().unwrap_or("")),
            // The adapter over the SDK reads pages.
            _ => return false,
        }
        true
    }
    async fn heal(&self) {
        self.cloud.hang(None);
        for call in [Call::CreateFleet, Call::Terminate, Call::Describe] {
            self.cloud.clear(call);
        }
    }
    async fn abandon(&self, call: conformance::Call<'_>) {
        // An error means that the call waits.
        let _ = tokio::time::timeout(ABANDON_AFTER, call).await;
    }
    async fn restart(&self) {
        let fresh = Self::provider(&self.cloud, &self.classes, &self.settings, self.clock.clone()).await;
        *self.provider.lock().unwrap() = fresh;
    }
    async fn foreign(&self) -> ProviderId {
        // Another cluster of the same name in the same account.
        let tags = [
            ("eks:eks-cluster-name", CLUSTER),
            ("karpenter.sh/nodepool", "conformance"),
            ("karpenter.k8s.aws/ec2nodeclass", "default"),
            ("fleetwright.dev/cluster-uid", "another-cluster"),
        ];
        self.adopted(&tags)
    }
    async fn unowned(&self) -> ProviderId {
        self.adopted(&[])
    }
    async fn namesake(&self) -> Option<Arc<dyn CloudProvider>> {
        let clock = self.clock.clone();
        Some(Self::of_cluster("0b93-namesake-uid", &self.cloud, &self.classes, &self.settings, clock).await)
    }
    async fn ground_truth(&self) -> Vec<GroundTruth> {
        let nodes = self.cloud.born();
        self.cloud.instances_now().iter().map(|info| truth(info, &nodes)).collect()
    }
}

impl Aws {
    /// The class, with the reservations of the region in its status.
    fn default_class(&self, ready: bool) -> Ec2NodeClass {
        let reservations = self.cloud.with(|inner| inner.reservations.clone());
        let of_status = |info: ReservationInfo| CapacityReservation {
            availability_zone: info.zone,
            end_time: None,
            id: info.id,
            instance_match_criteria: info.match_criteria,
            instance_type: info.instance_type,
            interruptible: info.interruptible,
            owner_id: info.owner,
            reservation_type: "default".to_owned(),
            state: "active".to_owned(),
        };
        let mut class = class("default", ready);
        if let Some(status) = &mut class.status {
            status.capacity_reservations = reservations.into_iter().map(of_status).collect();
        }
        class
    }

    fn adopted(&self, tags: &[(&str, &str)]) -> ProviderId {
        let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let (zone, id) = self.cloud.adopt(tags);
        provider_id(&zone, &id)
    }
}

fn call_fault(fault: CallFault) -> Fault {
    Fault::Refuse(match fault {
        CallFault::Fail => AwsError::new(AwsError::NO_ANSWER, "connection reset"),
        CallFault::Throttle => AwsError::new("RequestLimitExceeded", "Request limit exceeded."),
        CallFault::Deny => AwsError::new("UnauthorizedOperation", "You are not authorized."),
        CallFault::LoseAnswer => return Fault::Lose,
        other => unreachable!("{other:?}"),
    })
}

fn truth(info: &InstanceInfo, nodes: &[BootedInstance]) -> GroundTruth {
    let node = nodes.iter().find(|node| node.instance.id == info.id);
    let labels = node.map(|node| node.labels.clone()).unwrap_or_default();
    let mut truth =
        GroundTruth::new(provider_id(&info.zone, &info.id), info.instance_type.as_str(), info.zone.as_str());
    truth.cluster_uid = info.tags.get("fleetwright.dev/cluster-uid").map(|uid| uid.as_str().into());
    truth.capacity_type = match (&info.reservation, info.spot) {
        (Some(_), _) => RESERVED,
        (None, true) => SPOT,
        (None, false) => ON_DEMAND,
    }
    .into();
    truth.terminating = info.state == "shutting-down";
    truth.node_labels =
        labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
    truth.node_taints = node.map(|node| node.taints.clone()).unwrap_or_default();
    truth
}
