//! The AWS provider keeps the contract of a cloud, on a region in memory; and what only AWS has.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_aws::{
    AwsProvider, Classes, Settings,
    calls::AwsError,
    provider::provider_id,
    testing::{CA, CLUSTER, Call, FakeAws, Fault, REGION, class},
};
use fleetwright_core::{
    clock::{Clock, SharedClock},
    cloud::{
        CloudProvider, Identity,
        conformance::{self, Fault as Wrong, Harness},
    },
    model::{NodeClassRef, ProviderId, Str},
};
use jiff::{SignedDuration, Timestamp};

const UID: &str = "7f1c0a52-cluster-uid";

/// Time that passes when a test says so.
struct ManualClock(Mutex<Timestamp>);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

struct Aws {
    cloud: Arc<FakeAws>,
    clock: Arc<ManualClock>,
    classes: Classes,
    settings: Settings,
    provider: Mutex<Arc<AwsProvider>>,
}

fn settings() -> Settings {
    Settings {
        cluster_endpoint: "https://test-cluster".to_owned(),
        ca_bundle: CA.to_owned(),
        ..Settings::new(CLUSTER, REGION)
    }
}

impl Aws {
    async fn new(settings: Settings) -> Self {
        let clock = Arc::new(ManualClock(Mutex::new("2026-06-01T00:00:00Z".parse().unwrap())));
        let shared: SharedClock = clock.clone();
        let cloud = Arc::new(FakeAws::new(shared.clone()));
        let classes = Classes::default();
        classes.set(class("default", true));
        let provider = Self::provider(&cloud, &classes, &settings, shared).await;
        Self { cloud, clock, classes, settings, provider: Mutex::new(provider) }
    }

    async fn provider(
        cloud: &Arc<FakeAws>,
        classes: &Classes,
        settings: &Settings,
        clock: SharedClock,
    ) -> Arc<AwsProvider> {
        let provider =
            AwsProvider::new(cloud.clone(), classes.clone(), settings.clone(), clock).await.unwrap();
        provider.identify(UID).await.unwrap();
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
        self.classes.set(class("default", ready));
    }
    async fn inject(&self, fault: Wrong) {
        let unknown = || Fault::Refuse(AwsError::new(AwsError::NO_ANSWER, "connection reset"));
        match fault {
            Wrong::ThrottleLaunch => {
                let refusal = AwsError::new("RequestLimitExceeded", "Request limit exceeded.");
                self.cloud.inject(Call::CreateFleet, Fault::Refuse(refusal));
            }
            Wrong::FailLaunch => self.cloud.inject(Call::CreateFleet, unknown()),
            Wrong::LoseLaunchAnswer => self.cloud.inject(Call::CreateFleet, Fault::Lose),
            Wrong::LoseTerminateAnswer => self.cloud.inject(Call::Terminate, Fault::Lose),
            Wrong::Exhaust { zone } => self.cloud.exhaust(zone.as_deref().unwrap_or("")),
        }
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
        let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let (zone, id) = self.cloud.adopt(tags);
        provider_id(&zone, &id)
    }
}

#[tokio::test]
async fn the_contract() {
    let mut failures = Vec::new();
    for case in conformance::cases() {
        let aws = Aws::new(settings()).await;
        if let Err(failure) = case.run(&aws).await {
            failures.push(failure.to_string());
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The certificate authority that EKS reports proves which cluster this is.
#[tokio::test]
async fn identity_is_the_certificate_authority() {
    let aws = Aws::new(settings()).await;
    assert_eq!(aws.provider().identify(UID).await.unwrap(), Identity::Proven);
    let other = Aws::new(Settings { ca_bundle: "b3RoZXI=".to_owned(), ..settings() }).await;
    assert!(matches!(other.provider().identify(UID).await.unwrap(), Identity::Mismatch(_)));
    let unknown = Settings { ca_bundle: CA.to_owned(), ..Settings::new("self-made", REGION) };
    assert!(matches!(Aws::new(unknown).await.provider().identify(UID).await.unwrap(), Identity::Unproven(_)));
}
