//! Fleetwright's conformance suite against the provider, over the API in memory.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::http::StatusCode;
use fleetwright_core::{
    clock::Clock,
    cloud::{
        CloudProvider, async_trait,
        conformance::{self, Call, CallFault, ConformanceReport, Fault, GroundTruth, Harness, Operation},
        jiff::{SignedDuration, Timestamp},
    },
    model::{NodeClassRef, ProviderId, Str},
};
use pebble_autoscaler::{
    Classes, PebbleApi, PebbleNodeClass, PebbleNodeClassSpec, PebbleProvider, api::Server, node_classes,
};

use crate::stub::{self, Stub};

const UID: &str = "7f1c-uid";
/// How long an abandoned call may take until it waits for its hanging call.
const ABANDON_AFTER: Duration = Duration::from_millis(300);

/// A clock that the suite moves.
struct ManualClock(Mutex<Timestamp>);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

fn class(name: &str, zones: &[&str], image: &str, ready: bool) -> PebbleNodeClass {
    let zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
    let mut class = PebbleNodeClass::new(name, PebbleNodeClassSpec { image: image.to_owned(), zones });
    let status = if ready { "True" } else { "False" };
    let ready = serde_json::json!({"conditions": [
        {"type": "Ready", "status": status, "reason": "Ready", "message": ""}]});
    class.status = serde_json::from_value(ready).unwrap();
    class
}

struct Pebble {
    stub: Stub,
    url: String,
    clock: Arc<ManualClock>,
    classes: Classes,
    first: Mutex<(String, bool)>,
    provider: Mutex<Arc<dyn CloudProvider>>,
}

impl Pebble {
    async fn new() -> Self {
        let stub = Stub::default();
        let url = stub.serve().await;
        let clock = Arc::new(ManualClock(Mutex::new("2026-01-01T00:00:00Z".parse().unwrap())));
        let classes = node_classes();
        let provider = Mutex::new(start(UID, &url, &classes, &clock).await);
        let pebble =
            Self { stub, url, clock, classes, first: Mutex::new(("one".to_owned(), true)), provider };
        pebble.set_classes();
        pebble
    }

    fn set_classes(&self) {
        let (image, ready) = self.first.lock().unwrap().clone();
        self.classes.set("first", class("first", &[], &image, ready));
        self.classes.set("second", class("second", &["north"], "one", true));
    }

    fn adopt(&self, cluster: Option<&str>) -> ProviderId {
        let labels =
            cluster.map(|uid| ("fleetwright-cluster".to_owned(), uid.to_owned())).into_iter().collect();
        let (name, zone) = (format!("by-hand-{cluster:?}"), "north".to_owned());
        let server = self.stub.inner().add(Server { name, zone, labels, ..Server::default() });
        format!("pebble:///north/{}", server.id).into()
    }
}

async fn start(
    uid: &str,
    url: &str,
    classes: &Classes,
    clock: &Arc<ManualClock>,
) -> Arc<dyn CloudProvider> {
    let api = PebbleApi::new(url, "token").unwrap();
    let provider = PebbleProvider::connect(api, classes.clone(), clock.clone()).await.unwrap();
    provider.identify(uid).await.unwrap();
    Arc::new(provider)
}

#[async_trait]
impl Harness for Pebble {
    fn provider(&self) -> Arc<dyn CloudProvider> {
        self.provider.lock().unwrap().clone()
    }
    fn cluster_uid(&self) -> Str {
        UID.into()
    }
    fn class(&self) -> NodeClassRef {
        NodeClassRef { group: "pebble.example".into(), kind: "PebbleNodeClass".into(), name: "first".into() }
    }
    fn second_class(&self) -> NodeClassRef {
        NodeClassRef { name: "second".into(), ..self.class() }
    }
    fn second_class_zones(&self) -> Option<Vec<Str>> {
        Some(vec!["north".into()])
    }
    fn unknown_id(&self) -> ProviderId {
        "pebble:///north/srv-99999".into()
    }
    fn page_size(&self) -> usize {
        stub::PAGE
    }
    fn now(&self) -> Timestamp {
        self.clock.now()
    }
    fn consistency(&self) -> Duration {
        Duration::ZERO
    }
    fn termination(&self) -> Duration {
        stub::DELETION
    }
    async fn advance(&self, by: Duration) {
        self.stub.inner().now += by;
        let mut now = self.clock.0.lock().unwrap();
        *now = now.checked_add(SignedDuration::try_from(by).unwrap()).unwrap();
    }
    async fn set_class_ready(&self, ready: bool) {
        self.first.lock().unwrap().1 = ready;
        self.set_classes();
    }
    async fn change_class(&self) -> bool {
        self.first.lock().unwrap().0 = "two".to_owned();
        self.set_classes();
        true
    }
    async fn inject(&self, fault: Fault) -> bool {
        match fault {
            Fault::Call(operation, fault) => {
                // The lost answer of a batch is that of each of its servers.
                let batch = operation == Operation::Launch && fault == CallFault::LoseAnswer;
                (0..if batch { 5 } else { 1 }).for_each(|_| self.stub.break_call(operation, fault));
            }
            Fault::BreakPage => {
                let (call, status) = (stub::Call::List, StatusCode::BAD_GATEWAY);
                let fault = stub::Fault { call, status, after_effect: false, skip: 1 };
                self.stub.inner().faults.push(fault);
            }
            Fault::Hang { after } => self.stub.inner().hang = Some(after),
            Fault::Exhaust { zone } => drop(self.stub.inner().dry.insert(zone.map(|zone| zone.to_string()))),
            Fault::SlowLaunch => self.stub.inner().is_slow = true,
            Fault::Quota => self.stub.inner().is_full = true,
            _ => return false,
        }
        true
    }
    async fn heal(&self) {
        let mut inner = self.stub.inner();
        (inner.hang, inner.faults, inner.is_full) = (None, Vec::new(), false);
        inner.dry.clear();
    }
    async fn abandon(&self, call: Call<'_>) {
        // An error means that the call waits.
        let _ = tokio::time::timeout(ABANDON_AFTER, call).await;
    }
    async fn restart(&self) {
        let provider = start(UID, &self.url, &self.classes, &self.clock).await;
        *self.provider.lock().unwrap() = provider;
    }
    async fn foreign(&self) -> ProviderId {
        self.adopt(Some("another-cluster"))
    }
    async fn unowned(&self) -> ProviderId {
        self.adopt(None)
    }
    async fn namesake(&self) -> Option<Arc<dyn CloudProvider>> {
        Some(start("0b93-uid", &self.url, &self.classes, &self.clock).await)
    }
    async fn ground_truth(&self) -> Vec<GroundTruth> {
        self.stub.ground_truth()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_provider_keeps_its_contract() {
    let mut expected = ConformanceReport::default();
    // Pebble sells without end, and reserves nothing.
    expected.not_applicable.extend([
        "what instance types share is counted once",
        "a reserved offering tells its reservation and what is left",
        "reserved capacity is launched as reserved, as far as it goes",
    ]);
    assert_eq!(conformance::run_all(Pebble::new).await, expected);
}
