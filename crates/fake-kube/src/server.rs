//! The server as a value: cheap to clone, without threads, tasks or sockets of its own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Response, header};
use http_body_util::BodyExt as _;
use serde_json::Value;

use crate::body::{BoxError, ReplyBody};
use crate::config::Config;
use crate::dispatch::{self, Reply};
use crate::faults::{Answer, Fault};
use crate::registry::Resource;
use crate::request::{self, Asked, ResourceRequest};
use crate::status::ApiError;
use crate::view::table::{self, IncludeObject};
use crate::world::World;
use crate::{boot, info};

/// Requests by verb, `plural.group` and subresource.
pub type Counters = BTreeMap<(String, String, String), u64>;

/// An in-memory Kubernetes API server.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    world: Mutex<World>,
    lines: Mutex<VecDeque<Line>>,
    counters: Mutex<Counters>,
}

/// How many lines are remembered: watches of one kind are served one after the other.
const LINES: usize = 16;

/// A line that watches were sent, with what it was made from.
struct Line {
    kind: &'static str,
    object: Arc<Value>,
    bytes: Bytes,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

impl Server {
    /// A server that holds the system namespaces and priority classes, and nothing else.
    pub fn new(config: Config) -> Self {
        let mut world = World::new(config.clone());
        boot::fill(&mut world);
        let (lines, counters) = (Mutex::default(), Mutex::default());
        let inner = Inner { config, world: Mutex::new(world), lines, counters };
        Self { inner: Arc::new(inner) }
    }

    /// The tower service for `kube::Client::new(service, "default")`.
    pub fn service(&self) -> Service {
        Service { server: self.clone() }
    }

    /// Requests served so far.
    pub fn requests(&self) -> Counters {
        self.inner.counters.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets the history of changes, as a compaction does: running watches that lag and new ones from
    /// an old revision are told 410.
    pub fn compact(&self) {
        self.lock().compact();
    }

    /// The last revision given out.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// The line of a watch that shows an object: made once for all watches that show it at about the same time.
    pub(crate) fn line(&self, kind: &'static str, object: &Arc<Value>) -> Bytes {
        let mut lines = self.inner.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |line: &&Line| line.kind == kind && Arc::ptr_eq(&line.object, object);
        if let Some(line) = lines.iter().rev().find(same) {
            return line.bytes.clone();
        }
        let bytes = crate::watch::line(kind, object);
        if lines.len() >= LINES {
            lines.pop_front();
        }
        lines.push_back(Line { kind, object: object.clone(), bytes: bytes.clone() });
        bytes
    }

    /// The JSON of an object in an answer: made once with the line that watches are about to be sent.
    pub(crate) fn body(&self, code: u16, object: &Arc<Value>) -> Bytes {
        let kind = if code == 201 { "ADDED" } else { "MODIFIED" };
        crate::watch::object_of(kind, &self.line(kind, object))
    }

    pub(crate) fn config(&self) -> &Config {
        &self.inner.config
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.inner.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A table of objects.
    pub(crate) fn table(
        &self,
        resource: &Resource,
        objects: &[&Value],
        metadata: &Value,
        include: IncludeObject,
    ) -> Value {
        let definition = resource.custom.as_ref().map(|custom| &custom.definition);
        table::table(&resource.info, definition, objects, (self.inner.config.now)(), metadata, include)
    }

    /// Answers a request.
    ///
    /// # Errors
    /// Only by the fault hook: a broken connection.
    pub(crate) async fn respond(
        &self,
        parts: http::request::Parts,
        body: Bytes,
    ) -> Result<Response<ReplyBody>, BoxError> {
        match request::read(&parts, &body) {
            Ok(Asked::Resource(request)) => self.resource(&request).await,
            Ok(Asked::Other(route)) => Ok(render(info::serve(self, &parts, &route))),
            Err(error) => Ok(render(Err(error))),
        }
    }

    async fn resource(&self, request: &ResourceRequest) -> Result<Response<ReplyBody>, BoxError> {
        let summary = request.summary();
        self.count(request);
        let fault =
            self.inner.config.faults.as_ref().map(|faults| faults.decide(&summary)).unwrap_or_default();
        if !fault.before.is_zero() {
            tokio::time::sleep(fault.before).await;
        }
        let answer = self.answer(request, &fault);
        if !fault.after.is_zero() {
            tokio::time::sleep(fault.after).await;
        }
        let response = render(answer?);
        if let Some(audit) = &self.inner.config.audit {
            audit(&summary, response.status().as_u16());
        }
        Ok(response)
    }

    /// The answer under a fault; the outer error is a broken connection.
    fn answer(&self, request: &ResourceRequest, fault: &Fault) -> Result<Result<Reply, ApiError>, BoxError> {
        let apply = || dispatch::serve(self, request, fault);
        match &fault.answer {
            Answer::Normal => Ok(apply()),
            Answer::Refuse(error) => Ok(Err(error.clone())),
            Answer::ApplyThenRefuse(error) => {
                drop(apply());
                Ok(Err(error.clone()))
            }
            Answer::Drop => Err("connection refused by the fault hook".into()),
            Answer::ApplyThenDrop => {
                drop(apply());
                Err("connection reset by the fault hook".into())
            }
        }
    }

    fn count(&self, request: &ResourceRequest) {
        let path = &request.path;
        let resource = crate::status::qualified(&path.plural, &path.group);
        let key = (request.verb.to_owned(), resource, path.subresource.clone());
        let mut counters = self.inner.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let counter = counters.entry(key).or_default();
        *counter = counter.saturating_add(1);
    }
}

/// Turns an answer into HTTP.
fn render(answer: Result<Reply, ApiError>) -> Response<ReplyBody> {
    let (code, kind, body, retry) = match answer {
        Ok(Reply::Json(code, bytes)) => (code, "application/json", ReplyBody::once(bytes), None),
        Ok(Reply::Typed(kind, bytes)) => (200, kind, ReplyBody::once(bytes), None),
        Ok(Reply::Text(code, text)) => (code, "text/plain; charset=utf-8", ReplyBody::once(text), None),
        Ok(Reply::Watch(watch)) => (200, "application/json", ReplyBody::stream(watch.into_stream()), None),
        Err(error) => {
            let retry = error.details["retryAfterSeconds"].as_u64();
            let body = crate::view_of::bytes(&error.to_value());
            (error.code, "application/json", ReplyBody::once(body), retry)
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    if let Some(seconds) = retry {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// The server as a tower service over HTTP requests with any body.
#[derive(Clone, Debug)]
pub struct Service {
    server: Server,
}

impl<B> tower::Service<http::Request<B>> for Service
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<ReplyBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let server = self.server.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect().await.map_err(Into::into)?.to_bytes();
            server.respond(parts, bytes).await
        })
    }
}
