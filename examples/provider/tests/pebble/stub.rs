//! The cloud Pebble in memory, behind its HTTP API: servers with unique names, pages, capacity, faults, and a clock of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use pebble_autoscaler::api::{Page, Server, ServerType};
use serde::Serialize;

/// Servers on a page.
pub const PAGE: usize = 50;
/// How long a deletion takes.
pub const DELETION: Duration = Duration::from_secs(30);

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
    /// The mutating call after this many others takes effect and never answers.
    pub hang: Option<u32>,
    /// Zones without capacity; `None` is all of them.
    pub dry: BTreeSet<Option<String>>,
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
    }

    /// Puts a server into the cloud.
    pub fn add(&mut self, mut server: Server) -> Server {
        self.number += 1;
        server.id = format!("srv-{:05}", self.number);
        self.servers.insert(server.id.clone(), server.clone());
        server
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
pub struct Stub(Arc<Mutex<Inner>>);

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
    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.0.lock().unwrap();
        inner.settle();
        inner
    }

    /// Serves the API on a free port, and returns its URL.
    pub async fn serve(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let routes = Router::new()
            .route("/types", get(|| async { Json(types()) }))
            .route("/servers", get(list).post(create))
            .route("/servers/{id}", get(read).delete(delete))
            .with_state(self.clone());
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
        let (answer, hangs) = {
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
            (answer, hangs)
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        answer.map_or_else(refuse, |body| Json(body).into_response())
    }
}

async fn create(State(stub): State<Stub>, Json(server): Json<Server>) -> Response {
    stub.call(Call::Create, |inner| {
        if inner.servers.values().any(|known| known.name == server.name) {
            return Err(StatusCode::CONFLICT);
        }
        if inner.dry.contains(&None) || inner.dry.contains(&Some(server.zone.clone())) {
            return Err(StatusCode::INSUFFICIENT_STORAGE);
        }
        Ok(inner.add(server))
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
        let servers = stub.inner().servers.values().filter(|server| server.name == *name).cloned().collect();
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
