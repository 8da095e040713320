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
        conformance::{self, Call, CallFault, Fault, GroundTruth, Harness, Operation, ConformanceReport},
        jiff::{SignedDuration, Timestamp},
    },
    model::{NodeClassRef, ProviderId, Str, Taint, TaintEffect},
};
use pebble_autoscaler::{
    Classes, PebbleApi, PebbleNodeClass, PebbleNodeClassSpec, PebbleProvider, api::Server,
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
        let classes = Classes::default();
        let provider = Mutex::new(start(&url, &classes, &clock).await);
        let pebble =
            Self { stub, url, clock, classes, first: Mutex::new(("one".to_owned(), true)), provider };
        pebble.set_classes();
        pebble
    }

    fn set_classes(&self) {
        let (image, ready) = self.first.lock().unwrap().clone();
        self.classes
            .replace(vec![class("first", &[], &image, ready), class("second", &["north"], "one", true)]);
    }

    fn fault(&self, call: stub::Call, status: StatusCode, after_effect: bool, skip: usize) {
        self.stub.inner().faults.push(stub::Fault { call, status, after_effect, skip });
    }

    fn adopt(&self, cluster: Option<&str>) -> ProviderId {
        let labels =
            cluster.map(|uid| ("fleetwright-cluster".to_owned(), uid.to_owned())).into_iter().collect();
        let (name, zone) = (format!("by-hand-{cluster:?}"), "north".to_owned());
        let server = self.stub.inner().add(Server { name, zone, labels, ..Server::default() });
        format!("pebble:///north/{}", server.id).into()
    }
}

async fn start(url: &str, classes: &Classes, clock: &Arc<ManualClock>) -> Arc<dyn CloudProvider> {
    let api = PebbleApi::new(url, "token").unwrap();
    let provider = PebbleProvider::connect(api, classes.clone(), clock.clone()).await.unwrap();
    provider.identify(UID).await.unwrap();
    Arc::new(provider)
}

fn truth(server: &Server) -> GroundTruth {
    let id = format!("pebble:///{}/{}", server.zone, server.id);
    let mut truth = GroundTruth::new(id, server.server_type.as_str(), server.zone.as_str());
    truth.cluster_uid = server.labels.get("fleetwright-cluster").map(|uid| uid.as_str().into());
    truth.terminating = server.deleting;
    let labels =
        stub::flag(&server.user_data, "node-labels").into_iter().filter_map(|label| label.split_once('='));
    truth.node_labels = labels.map(|(key, value)| (key.into(), value.into())).collect();
    let taint = |text: &str| {
        let (key, effect) = text.split_once(':')?;
        let (key, value) = key.split_once('=').unwrap_or((key, ""));
        Some(Taint::new(key, value, TaintEffect::parse(effect)?))
    };
    truth.node_taints =
        stub::flag(&server.user_data, "register-with-taints").into_iter().filter_map(taint).collect();
    truth
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
                let call = match operation {
                    Operation::Launch => stub::Call::Create,
                    Operation::Terminate => stub::Call::Delete,
                    Operation::Get => stub::Call::Get,
                    _ => stub::Call::List,
                };
                let (status, after_effect) = match fault {
                    CallFault::Throttle => (StatusCode::TOO_MANY_REQUESTS, false),
                    CallFault::Deny => (StatusCode::FORBIDDEN, false),
                    CallFault::LoseAnswer => (StatusCode::BAD_GATEWAY, true),
                    _ => (StatusCode::BAD_GATEWAY, false),
                };
                // The lost answer of a batch is that of each of its servers.
                let times = if operation == Operation::Launch && after_effect { 5 } else { 1 };
                (0..times).for_each(|_| self.fault(call, status, after_effect, 0));
            }
            Fault::BreakPage => self.fault(stub::Call::List, StatusCode::BAD_GATEWAY, false, 1),
            Fault::Hang { after } => self.stub.inner().hang = Some(after),
            Fault::Exhaust { zone } => drop(self.stub.inner().dry.insert(zone.map(|zone| zone.to_string()))),
            _ => return false,
        }
        true
    }
    async fn heal(&self) {
        let mut inner = self.stub.inner();
        (inner.hang, inner.faults) = (None, Vec::new());
        inner.dry.clear();
    }
    async fn abandon(&self, call: Call<'_>) {
        // An error means that the call waits.
        let _ = tokio::time::timeout(ABANDON_AFTER, call).await;
    }
    async fn restart(&self) {
        let provider = start(&self.url, &self.classes, &self.clock).await;
        *self.provider.lock().unwrap() = provider;
    }
    async fn foreign(&self) -> ProviderId {
        self.adopt(Some("another-cluster"))
    }
    async fn unowned(&self) -> ProviderId {
        self.adopt(None)
    }
    async fn ground_truth(&self) -> Vec<GroundTruth> {
        self.stub.inner().servers.values().map(truth).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_provider_keeps_its_contract() {
    assert_eq!(conformance::run_all(Pebble::new).await, ConformanceReport::default());
}
