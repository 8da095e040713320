//! The fake cloud passes the conformance tests of a cloud provider, in process and over HTTP.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

mod support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_core::{
    clock::{Clock, SharedClock},
    cloud::{
        CloudProvider, Interruption, InterruptionKind, Outlook,
        conformance::{self, Fault as Wrong, Harness},
    },
    model::{Catalog, NodeClassRef, Offering, ProviderId, Str},
};
use fleetwright_fake::{
    Catalogue, Cloud, CloudConfig, FakeProvider, Latency, NodeClass, NodeClasses,
    api::{ApiError, CloudApi, Tags},
    catalogue::{kwok, realistic},
    cloud::{Adopted, Fault, Occasion, Op},
    http::{HttpCloud, serve},
};
use jiff::Timestamp;
use support::ManualClock;
use tokio::task::JoinHandle;

const UID: &str = "7f1c0a52-cluster-uid";
const CLASS: &str = "default";

struct Fake {
    cloud: Arc<Cloud>,
    api: Arc<dyn CloudApi>,
    classes: NodeClasses,
    clock: Arc<ManualClock>,
    provider: Mutex<Arc<FakeProvider>>,
    server: Option<JoinHandle<()>>,
}

impl Fake {
    async fn new(catalogue: Catalogue, over_http: bool, names_claims: bool) -> Self {
        let clock = Arc::new(ManualClock::new());
        let shared: SharedClock = clock.clone();
        let call_latency = Latency::between(0, 0);
        let config = CloudConfig { call_latency, names_claims, ..CloudConfig::default() };
        let cloud = Arc::new(Cloud::new(catalogue, config, shared.clone()));
        let (api, server): (Arc<dyn CloudApi>, _) = if over_http {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let serving = cloud.clone();
            let task =
                tokio::spawn(async move { serve(listener, serving, std::future::pending()).await.unwrap() });
            (Arc::new(HttpCloud::new(&url, shared.clone()).unwrap()), Some(task))
        } else {
            (cloud.clone(), None)
        };
        let classes = NodeClasses::with([(CLASS.to_owned(), NodeClass::ready())]);
        let provider = Self::provider(&api, &classes, shared).await;
        Self { cloud, api, classes, clock, provider: Mutex::new(provider), server }
    }

    async fn provider(
        api: &Arc<dyn CloudApi>,
        classes: &NodeClasses,
        clock: SharedClock,
    ) -> Arc<FakeProvider> {
        let provider = FakeProvider::new(api.clone(), classes.clone(), clock).await.unwrap();
        provider.identify(UID).await.unwrap();
        Arc::new(provider)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            server.abort();
        }
    }
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
        self.classes.set(CLASS, NodeClass { ready, ..NodeClass::default() });
    }
    async fn inject(&self, fault: Wrong) {
        let fail = |op, after_effect, error| Fault::FailCall {
            op,
            occasion: Occasion::next(1),
            after_effect,
            error,
        };
        let unknown = || ApiError::Failed { message: "connection reset".to_owned() };
        self.cloud.inject(match fault {
            Wrong::ThrottleLaunch => fail(Op::Launch, false, ApiError::Throttled { after_ms: 1500 }),
            Wrong::FailLaunch => fail(Op::Launch, false, unknown()),
            Wrong::LoseLaunchAnswer => fail(Op::Launch, true, unknown()),
            Wrong::LoseTerminateAnswer => fail(Op::Terminate, true, unknown()),
            Wrong::Exhaust { zone } => Fault::InsufficientCapacity {
                instance_type: None,
                zone: zone.map(|zone| zone.to_string()),
                capacity_type: None,
                for_seconds: None,
            },
        });
    }
    async fn restart(&self) {
        let fresh = Self::provider(&self.api, &self.classes, self.clock.clone()).await;
        *self.provider.lock().unwrap() = fresh;
    }
    async fn foreign(&self) -> ProviderId {
        let id = "fake://elsewhere/i-foreign";
        let tags = Tags { cluster_uid: Some("another-cluster".to_owned()), ..Tags::default() };
        self.cloud.adopt(Adopted { provider_id: id.to_owned(), tags, ..Adopted::default() });
        id.into()
    }
}

async fn conforms(catalogue: Catalogue, over_http: bool, names_claims: bool) {
    let mut failures = Vec::new();
    for case in conformance::cases() {
        let fake = Fake::new(catalogue.clone(), over_http, names_claims).await;
        if let Err(failure) = case.run(&fake).await {
            failures.push(failure.to_string());
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn in_process_with_the_generic_types() {
    conforms(kwok(), false, true).await;
}

#[tokio::test]
async fn in_process_with_the_realistic_catalogue() {
    conforms(realistic(11), false, true).await;
}

#[tokio::test]
async fn over_http() {
    conforms(kwok(), true, true).await;
}

/// In a cloud whose instances carry batch and attempt from launch, and no claim.
#[tokio::test]
async fn fleets_in_process() {
    conforms(kwok(), false, false).await;
}

#[tokio::test]
async fn fleets_over_http() {
    conforms(realistic(11), true, false).await;
}

/// The provider's steps keep its catalogue current and report interruption notices until the interruption.
async fn check_steps(over_http: bool) {
    let fake = Fake::new(realistic(1), over_http, true).await;
    let provider = fake.provider.lock().unwrap().clone();
    let pool = conformance::any_pool(&fake);
    let shown = provider.catalog(&pool).await.unwrap();
    let [pricing, notices] = <[_; 2]>::try_from(provider.steps()).ok().unwrap();
    let round = pricing.run(&Outlook::at(fake.now())).await.unwrap();
    assert!(round.again <= Duration::from_secs(300) && round.interruptions.is_empty());
    let moved = provider.catalog(&pool).await.unwrap();
    assert!(Arc::ptr_eq(&moved, &provider.catalog(&pool).await.unwrap()), "shared while nothing changes");
    assert_ne!(*shown, *moved);
    // An instance has the price of its launch.
    let request = conformance::launch_request(&fake, "a", "spot");
    let instance = provider.launch(&[request]).await.pop().unwrap().unwrap();
    let label = |key: &str| instance.labels.get(key).unwrap().to_string();
    let (kind, zone) = (label("node.kubernetes.io/instance-type"), label("topology.kubernetes.io/zone"));
    let real = fake.cloud.instances().pop().unwrap();
    assert_eq!(moved.price(&kind, &zone, "spot").unwrap().nanos(), real.price_nanos);
    assert!(notices.run(&Outlook::at(fake.now())).await.unwrap().interruptions.is_empty());
    assert!(fake.cloud.interrupt(&real.id));
    for _ in 0..2 {
        let reported = notices.run(&Outlook::at(fake.now())).await.unwrap().interruptions;
        assert_eq!(
            reported,
            [Interruption { id: instance.provider_id.clone(), kind: InterruptionKind::Spot }]
        );
    }
    let dry = provider.catalog(&pool).await.unwrap();
    let offering = |catalog: &Catalog| {
        let offerings = catalog.get(&kind).unwrap().offerings.clone();
        let spot = |offering: &&Offering| {
            offering.zone().is_some_and(|of| **of == *zone)
                && offering.capacity_type().is_some_and(|of| &**of == "spot")
        };
        offerings.iter().find(spot).unwrap().available
    };
    assert_eq!((offering(&moved), offering(&dry)), (true, false));
    fake.clock.advance(Duration::from_secs(300));
    assert!(
        notices.run(&Outlook::at(fake.now())).await.unwrap().interruptions.is_empty(),
        "it is terminated"
    );
    assert!(offering(&provider.catalog(&pool).await.unwrap()), "available again after three minutes");
}

#[tokio::test]
async fn steps_in_process() {
    check_steps(false).await;
}

#[tokio::test]
async fn steps_over_http() {
    check_steps(true).await;
}
