//! The cloud Pebble in memory, behind its HTTP API: servers with unique names, pages, capacity, faults, and a clock of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use fleetwright_core::{
    clock::SharedClock,
    cloud::{CallFault, GroundTruth, Operation},
    model::{Price, Resources, Taint, TaintEffect},
};
use futures::FutureExt as _;
use pebble_autoscaler::api::{Page, Server, ServerType, Transport};
use serde::Serialize;
use tower::ServiceExt as _;

/// Servers on a page.
pub const PAGE: usize = 50;
/// How long a deletion takes.
pub const DELETION: Duration = Duration::from_secs(30);

/// How long a server takes that cannot be used at once.
const BUILDING: Duration = Duration::from_secs(12);

/// A call, as faults name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Create,
    Delete,
    Get,
    List,
}

/// A fault of the next matching call.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub call: Call,
    pub status: StatusCode,
    /// Whether the call takes effect before it fails.
    pub after_effect: bool,
    /// How many matching calls are answered before.
    pub skip: usize,
}

#[derive(Default)]
pub struct Inner {
    pub servers: BTreeMap<String, Server>,
    pub now: Duration,
    deleted_at: BTreeMap<String, Duration>,
    number: usize,
    pub faults: Vec<Fault>,
    /// How long the next servers take to be created.
    pub delays: Vec<Duration>,
    /// The mutating call after this many others takes effect and never answers.
    pub hang: Option<u32>,
    /// Zones without capacity; `None` is all of them.
    pub dry: BTreeSet<Option<String>>,
    /// Whether the next server takes a while until it can be used.
    pub is_slow: bool,
    /// When servers can be used that could not at once.
    built_at: BTreeMap<String, Duration>,
    /// Whether the account may not have more servers.
    pub is_full: bool,
    /// A planted bug: the cloud takes a name twice, and does not find servers by it.
    pub forgets_names: bool,
}

impl Inner {
    /// The deletions whose time has come.
    fn settle(&mut self) {
        let gone: Vec<String> = self
            .deleted_at
            .iter()
            .filter(|(_, at)| **at + DELETION <= self.now)
            .map(|(id, _)| id.clone())
            .collect();
        for id in gone {
            self.deleted_at.remove(&id);
            self.servers.remove(&id);
        }
        let built = |id: &String| self.built_at.get(id).is_none_or(|at| *at <= self.now);
        self.servers.iter_mut().for_each(|(id, server)| server.building = !built(id));
    }

    /// Puts a server into the cloud.
    pub fn add(&mut self, mut server: Server) -> Server {
        self.number += 1;
        server.id = format!("srv-{:05}", self.number);
        self.servers.insert(server.id.clone(), server.clone());
        server
    }

    /// How many servers there have been.
    pub fn launched(&self) -> usize {
        self.number
    }

    fn fault(&mut self, call: Call) -> Option<Fault> {
        let position = self.faults.iter().position(|fault| fault.call == call)?;
        if self.faults[position].skip > 0 {
            self.faults[position].skip -= 1;
            return None;
        }
        Some(self.faults.remove(position))
    }
}

/// The cloud.
#[derive(Clone, Default)]
pub struct Stub {
    inner: Arc<Mutex<Inner>>,
    /// The clock that its time follows, if it is not moved by hand.
    clock: Option<SharedClock>,
}

/// What is sold.
pub fn types() -> Vec<ServerType> {
    let kind = |name: &str, cpus: i64, price: f64| ServerType {
        name: name.to_owned(),
        cpus,
        memory_gib: cpus * 4,
        prices: [("north", price), ("south", price * 1.1), ("west", price * 1.2)]
            .map(|(zone, price)| (zone.to_owned(), price))
            .into(),
    };
    vec![kind("p2", 2, 0.05), kind("p4", 4, 0.1), kind("p8", 8, 0.2)]
}

impl Stub {
    /// A cloud in the time of a clock.
    pub fn at(clock: SharedClock) -> Self {
        Self { clock: Some(clock), ..Self::default() }
    }

    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner.lock().unwrap();
        if let Some(clock) = &self.clock {
            inner.now = Duration::from_secs(clock.now().as_second().unsigned_abs());
        }
        inner.settle();
        inner
    }

    /// What the cloud runs.
    pub fn ground_truth(&self) -> Vec<GroundTruth> {
        self.inner().servers.values().map(truth).collect()
    }

    /// The API without a socket, for virtual time.
    pub fn transport(&self) -> Transport {
        let stub = self.clone();
        Arc::new(move |request| stub.clone().answer(request).boxed())
    }

    async fn answer(self, request: reqwest::Request) -> reqwest::Result<reqwest::Response> {
        tokio::time::sleep(LATENCY).await;
        let request: axum::http::Request<reqwest::Body> = request.try_into()?;
        let answer =
            self.routes().oneshot(request.map(Body::new)).await.unwrap_or_else(|never| match never {});
        tokio::time::sleep(LATENCY).await;
        let (head, body) = answer.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Ok(axum::http::Response::from_parts(head, body).into())
    }

    /// The next call of an operation goes wrong.
    pub fn break_call(&self, operation: Operation, fault: CallFault) {
        let call = match operation {
            Operation::Launch => Call::Create,
            Operation::Terminate => Call::Delete,
            Operation::Get => Call::Get,
            _ => Call::List,
        };
        let (status, after_effect) = match fault {
            CallFault::Throttle => (StatusCode::TOO_MANY_REQUESTS, false),
            CallFault::Deny => (StatusCode::FORBIDDEN, false),
            CallFault::LoseAnswer => (StatusCode::BAD_GATEWAY, true),
            _ => (StatusCode::BAD_GATEWAY, false),
        };
        self.inner().faults.push(Fault { call, status, after_effect, skip: 0 });
    }

    fn routes(&self) -> Router {
        Router::new()
            .route("/types", get(|| async { Json(types()) }))
            .route("/servers", get(list).post(create))
            .route("/servers/{id}", get(read).delete(delete))
            .with_state(self.clone())
    }

    /// Serves the API on a free port, and returns its URL.
    pub async fn serve(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let routes = self.routes();
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        url
    }

    /// A call: a fault before its effect, the effect, a fault or a hang after it.
    async fn call<T: Serialize>(
        &self,
        call: Call,
        effect: impl FnOnce(&mut Inner) -> Result<T, StatusCode>,
    ) -> Response {
        let refuse = |status: StatusCode| (status, [("retry-after", "2")], Json(())).into_response();
        // Calls overlap.
        tokio::task::yield_now().await;
        let (answer, hangs, delay) = {
            let mut inner = self.inner();
            let fault = inner.fault(call);
            if let Some(fault) = fault.filter(|fault| !fault.after_effect) {
                return refuse(fault.status);
            }
            let answer = effect(&mut inner);
            if let Some(fault) = fault {
                return refuse(fault.status);
            }
            let mutates = matches!(call, Call::Create | Call::Delete);
            let hangs = mutates && inner.hang == Some(0);
            if mutates {
                inner.hang = inner.hang.and_then(|left| left.checked_sub(1));
            }
            let delay = if call == Call::Create { inner.delays.pop() } else { None };
            (answer, hangs, delay)
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        answer.map_or_else(refuse, |body| Json(body).into_response())
    }
}

/// How long a call takes in virtual time.
const LATENCY: Duration = Duration::from_millis(200);

/// A server as the cloud has it.
fn truth(server: &Server) -> GroundTruth {
    let id = format!("pebble:///{}/{}", server.zone, server.id);
    let mut truth = GroundTruth::new(id, server.server_type.as_str(), server.zone.as_str());
    let label = |key: &str| server.labels.get(key).map(String::as_str);
    truth.cluster_uid = label("fleetwright-cluster").map(Into::into);
    truth.claim = label("fleetwright-nodeclaim").map(Into::into);
    let attempt = label("fleetwright-attempt").and_then(|attempt| attempt.parse().ok());
    truth.launched_by = label("fleetwright-batch").map(Into::into).zip(attempt);
    truth.terminating = server.deleting;
    if let Some(sold) = types().iter().find(|sold| sold.name == server.server_type) {
        let capacity = Resources::of(sold.cpus * 1000, sold.memory_gib << 30).with("pods", 110);
        let allocatable = Resources::of(sold.cpus * 1000 - 100, (sold.memory_gib << 30) - (512 << 20));
        truth = truth.with_resources(capacity, allocatable.with("pods", 110));
        truth.price = Price::from_dollars(sold.prices[&server.zone]).unwrap();
    }
    let labels = flag(&server.user_data, "node-labels").into_iter();
    let labels = labels.filter_map(|label| label.split_once('='));
    truth.node_labels = labels.map(|(key, value)| (key.into(), value.into())).collect();
    let taint = |text: &str| {
        let (key, effect) = text.split_once(':')?;
        let (key, value) = key.split_once('=').unwrap_or((key, ""));
        Some(Taint::new(key, value, TaintEffect::parse(effect)?))
    };
    let taints = flag(&server.user_data, "register-with-taints").into_iter();
    truth.node_taints = taints.filter_map(taint).collect();
    truth
}

async fn create(State(stub): State<Stub>, Json(server): Json<Server>) -> Response {
    stub.call(Call::Create, |inner| {
        if !inner.forgets_names && inner.servers.values().any(|known| known.name == server.name) {
            return Err(StatusCode::CONFLICT);
        }
        if inner.dry.contains(&None) || inner.dry.contains(&Some(server.zone.clone())) {
            return Err(StatusCode::INSUFFICIENT_STORAGE);
        }
        if inner.is_full {
            return Err(StatusCode::PAYMENT_REQUIRED);
        }
        let mut server = inner.add(server);
        if std::mem::take(&mut inner.is_slow) {
            let at = inner.now + BUILDING;
            inner.built_at.insert(server.id.clone(), at);
            server.building = true;
        }
        Ok(server)
    })
    .await
}

async fn read(State(stub): State<Stub>, Path(id): Path<String>) -> Response {
    stub.call(Call::Get, |inner| inner.servers.get(&id).cloned().ok_or(StatusCode::NOT_FOUND)).await
}

async fn delete(State(stub): State<Stub>, Path(id): Path<String>) -> Response {
    stub.call(Call::Delete, |inner| {
        let now = inner.now;
        let server = inner.servers.get_mut(&id).ok_or(StatusCode::NOT_FOUND)?;
        server.deleting = true;
        inner.deleted_at.entry(id).or_insert(now);
        Ok(())
    })
    .await
}

async fn list(State(stub): State<Stub>, Query(query): Query<BTreeMap<String, String>>) -> Response {
    if let Some(name) = query.get("name") {
        // A search by name is no list: faults of lists do not concern it.
        let inner = stub.inner();
        let named = inner.servers.values().filter(|server| server.name == *name && !inner.forgets_names);
        let servers = named.cloned().collect();
        return Json(Page { servers, next: None }).into_response();
    }
    stub.call(Call::List, |inner| {
        let wanted = query.get("label").and_then(|label| label.split_once('='));
        let after = query.get("after").map_or("", String::as_str);
        let mut servers: Vec<Server> = inner
            .servers
            .range(after.to_owned()..)
            .map(|(_, server)| server.clone())
            .filter(|server| *server.id != *after)
            .filter(|server| {
                wanted.is_none_or(|(key, value)| server.labels.get(key).is_some_and(|has| has == value))
            })
            .collect();
        let more = servers.len() > PAGE;
        servers.truncate(PAGE);
        let next = more.then(|| servers.last().map(|last| last.id.clone())).flatten();
        Ok(Page { servers, next })
    })
    .await
}

/// The values of `--FLAG=a,b,c` in user data.
pub fn flag<'a>(user_data: &'a str, flag: &str) -> Vec<&'a str> {
    let marked = format!("--{flag}=");
    let found = user_data.split_whitespace().find_map(|word| word.strip_prefix(&*marked));
    found.into_iter().flat_map(|list| list.split(',')).filter(|item| !item.is_empty()).collect()
}
