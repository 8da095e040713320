//! A proxy between an operator and one of its servers. It notes every call that changes something, and a trap can hold
//! such a call, before it has an effect or after, so that the operator can be killed exactly there.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, Method, StatusCode, header};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::change::Change;
use super::trap::{Fate, Side, Traps};
use super::view::{self, ReadView};

/// The largest body that an operator sends.
const BODY_MAX: usize = 16 << 20;

/// A running proxy; it ends with this value.
pub(crate) struct Proxy {
    /// `http://host:port`
    pub(crate) url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// One call that was to change something.
#[derive(Debug, Clone)]
pub(crate) struct Noted {
    /// The time of the request.
    pub(crate) at: Instant,
    pub(crate) change: Change,
    pub(crate) path: String,
    /// The answer; `None` if the caller was gone before, or the request was not forwarded.
    pub(crate) answer: Option<(StatusCode, Value)>,
}

struct Shared {
    upstream: Upstream,
    traps: Traps,
    /// What becomes of objects that are read; `None` where they stay as they are.
    view: Option<ReadView>,
    noted: Mutex<Vec<Noted>>,
}

/// Where calls go.
pub(crate) enum Upstream {
    /// An API server, with the rights that the client has.
    Kube(kube::Client),
    /// A fake cloud at a URL.
    Cloud(String),
}

impl Proxy {
    /// Starts a proxy to `upstream` whose calls meet `traps`.
    pub(crate) async fn start(upstream: Upstream, traps: Traps) -> anyhow::Result<Self> {
        Self::serve(upstream, traps, None).await
    }

    /// Starts a proxy to `upstream` behind which objects look as `view` makes them.
    pub(crate) async fn with_view(upstream: Upstream, view: ReadView) -> anyhow::Result<Self> {
        Self::serve(upstream, Traps::default(), Some(view)).await
    }

    async fn serve(upstream: Upstream, traps: Traps, view: Option<ReadView>) -> anyhow::Result<Self> {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared { upstream, traps, view, noted: Mutex::default() });
        let router = Router::new().fallback(handle).with_state(shared.clone());
        let task = tokio::spawn(async move {
            // Only a broken listener ends it, and then every call of the operator fails.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, shared, task })
    }

    /// All that was noted so far.
    pub(crate) fn noted(&self) -> Vec<Noted> {
        self.shared.noted().clone()
    }

    /// Writes a kubeconfig for this proxy, which needs no credentials.
    pub(crate) fn write_kubeconfig(&self, path: &Path) -> anyhow::Result<()> {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": self.url}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        });
        std::fs::write(path, config.to_string()).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn noted(&self) -> MutexGuard<'_, Vec<Noted>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, change: Change, path: &str) -> usize {
        let mut noted = self.noted();
        noted.push(Noted { at: Instant::now(), change, path: path.to_owned(), answer: None });
        noted.len() - 1
    }

    fn answered(&self, place: usize, status: StatusCode, body: &[u8]) {
        if let Some(noted) = self.noted().get_mut(place) {
            noted.answer = Some((status, serde_json::from_slice(body).unwrap_or_default()));
        }
    }

    /// Passes a call on. Without a change the answer streams through, since it may be a watch.
    async fn call(&self, call: Call, place: Option<usize>) -> anyhow::Result<Response> {
        let (status, content_type, body) = match &self.upstream {
            Upstream::Kube(client) => {
                let mut request = http::Request::builder().method(call.method).uri(&call.target);
                for name in [header::CONTENT_TYPE, header::ACCEPT] {
                    if let Some(value) = call.headers.get(&name) {
                        request = request.header(name, value);
                    }
                }
                let answer = client.send(request.body(call.body.into())?).await?;
                let (parts, body) = answer.into_parts();
                (parts.status, parts.headers.get(header::CONTENT_TYPE).cloned(), Body::new(body))
            }
            Upstream::Cloud(base) => {
                let url = format!("{base}{}", call.target);
                let mut request = reqwest::Client::new().request(call.method, url).body(call.body);
                if let Some(value) = call.headers.get(header::CONTENT_TYPE) {
                    request = request.header(header::CONTENT_TYPE, value);
                }
                let answer = request.send().await?;
                let content_type = answer.headers().get(header::CONTENT_TYPE).cloned();
                (answer.status(), content_type, Body::from(answer.bytes().await?))
            }
        };
        let body = match (place, &self.view) {
            (Some(place), _) => {
                let bytes = to_bytes(body, BODY_MAX).await?;
                self.answered(place, status, &bytes);
                Body::from(bytes)
            }
            (None, Some(view)) if status.is_success() => view::changed(body, view.clone()),
            (None, _) => body,
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        if let Some(value) = content_type {
            response.headers_mut().insert(header::CONTENT_TYPE, value);
        }
        Ok(response)
    }
}

/// A call on its way.
struct Call {
    method: Method,
    /// Path and query.
    target: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    match pass(&shared, request).await {
        Ok(response) => response,
        Err(error) => {
            let mut response = Response::new(Body::from(format!("{error:#}")));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        }
    }
}

async fn pass(shared: &Shared, request: Request) -> anyhow::Result<Response> {
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let body = to_bytes(body, BODY_MAX).await?.to_vec();
    let parsed = serde_json::from_slice(&body).unwrap_or_default();
    let change = Change::of(&parts.method, parts.uri.path(), &parsed);
    let call = Call { method: parts.method, target, headers: parts.headers, body };
    let Some(change) = change else { return shared.call(call, None).await };
    let place = shared.note(change.clone(), parts.uri.path());
    match shared.traps.meet(&change) {
        Fate::Passes => shared.call(call, Some(place)).await,
        Fate::Waits => std::future::pending().await,
        Fate::Held(Side::Before) => shared.traps.close().await,
        Fate::Held(Side::After) => {
            // The caller is gone, so the answer is dropped.
            let _ = shared.call(call, Some(place)).await;
            shared.traps.close().await
        }
    }
}
