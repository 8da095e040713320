//! `GET /ui`: the page, its parts and its data.
//!
//! The data is made at most once at a time and kept for [`KEPT`], or ten times as long as it took: whoever asks, and however often, takes at most
//! a tenth of one core.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::get,
};
use fleetwright_controllers::runtime::Ctx;
use tokio::time::{Instant, sleep};

use super::{
    document::{CostSample, FleetPage},
    html,
    pods::NodePods,
};
use crate::{decisions, fleet::read};

/// How long data is kept at least.
const KEPT: Duration = Duration::from_secs(2);
/// How many times as long as its making took data is kept.
const KEPT_TIMES: u32 = 10;
/// How often the cost is sampled.
const SAMPLED_EVERY: Duration = Duration::from_secs(30);
/// Samples that are kept: 24 hours, some 100 bytes each.
const MAX_SAMPLES: usize = 24 * 120;
/// How long to wait for the cluster to be reached.
const NOT_REACHED: Duration = Duration::from_secs(1);

/// The answer until the cluster is reached.
const NOT_YET: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "the cluster is not reached yet");

/// The controller, once the cluster is reached.
type Source = Arc<dyn Fn() -> Option<Ctx> + Send + Sync>;
/// The cost over time.
type Costs = Mutex<VecDeque<CostSample>>;

#[derive(Clone)]
struct Endpoint {
    source: Source,
    costs: Arc<Costs>,
    /// The lock is held while data is made.
    made: Arc<tokio::sync::Mutex<Option<Made>>>,
}

/// Data, and until when it is kept.
struct Made {
    body: Bytes,
    until: Instant,
}

/// The routes `/ui` and below. The cost is sampled from now on.
pub(crate) fn routes(source: impl Fn() -> Option<Ctx> + Clone + Send + Sync + 'static) -> Router {
    let of_decisions = source.clone();
    let endpoint = Endpoint { source: Arc::new(source), costs: Arc::default(), made: Arc::default() };
    tokio::spawn(sample(endpoint.clone()));
    let asset = |kind: &'static str, text: &'static str| {
        get(move || async move { ([(header::CONTENT_TYPE, kind)], text) })
    };
    let page = get(|| async { ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], html::endpoint()) });
    Router::new()
        .route("/ui", page)
        .route("/ui/page.js", asset("text/javascript; charset=utf-8", html::SCRIPT))
        .route("/ui/style.css", asset("text/css; charset=utf-8", html::STYLE))
        .route("/ui/fleet.json", get(fleet))
        .route("/ui/nodes/{name}/pods", get(pods))
        .with_state(endpoint)
        .nest("/ui", decisions::routes(move || of_decisions().map(|ctx| ctx.decisions)))
        .layer(map_response(secured))
}

/// Adds what browsers enforce.
async fn secured(mut response: Response) -> Response {
    let policy = HeaderValue::from_str(&html::endpoint_policy()).ok();
    let fixed = [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    let headers = response.headers_mut();
    headers.extend(policy.map(|policy| (header::CONTENT_SECURITY_POLICY, policy)));
    headers.extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}

/// The data of the page.
async fn fleet(State(endpoint): State<Endpoint>) -> Result<Response, (StatusCode, &'static str)> {
    let mut made = endpoint.made.lock().await;
    let body = match made.as_ref().filter(|made| Instant::now() < made.until) {
        Some(made) => made.body.clone(),
        None => {
            let ctx = (endpoint.source)().ok_or(NOT_YET)?;
            let costs = endpoint.costs.clone();
            let started = Instant::now();
            let failed = (StatusCode::INTERNAL_SERVER_ERROR, "the fleet cannot be described");
            let body = tokio::task::spawn_blocking(move || describe(&ctx, &costs)).await;
            let body = Bytes::from(body.map_err(|_| failed)?.map_err(|_| failed)?);
            let until = Instant::now() + KEPT.max(started.elapsed() * KEPT_TIMES);
            *made = Some(Made { body: body.clone(), until });
            body
        }
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// The pods of a node.
async fn pods(
    State(endpoint): State<Endpoint>,
    Path(name): Path<String>,
) -> Result<Response, (StatusCode, &'static str)> {
    let ctx = (endpoint.source)().ok_or(NOT_YET)?;
    let body = pods_of(&ctx, &name).ok_or((StatusCode::NOT_FOUND, "there is no such node"))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// The pods of a node of a controller, as JSON. The snapshot is shared with the decisions: nothing is made for a request but its rows.
pub(super) fn pods_of(ctx: &Ctx, name: &str) -> Option<Vec<u8>> {
    let snapshot = ctx.cluster.index().snapshot(ctx.clocks.now());
    let node = snapshot.nodes.iter().find(|node| node.node_name().is_some_and(|known| **known == *name))?;
    serde_json::to_vec(&NodePods::of(node)).ok()
}

/// The fleet of a controller, as JSON.
pub(super) fn describe(ctx: &Ctx, costs: &Costs) -> serde_json::Result<Vec<u8>> {
    let (report, snapshot) = read::of_controller(ctx, ctx.clocks.now());
    let funnels = super::funnels(&report, &snapshot, &ctx.settings.rules());
    let costs = costs.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
    serde_json::to_vec(&FleetPage { funnels, costs, ..FleetPage::new("live", report) })
}

/// Samples the cost until the process ends.
async fn sample(endpoint: Endpoint) {
    loop {
        match (endpoint.source)() {
            Some(ctx) => {
                add_sample(&ctx, &endpoint.costs);
                ctx.clocks.sleep(SAMPLED_EVERY).await;
            }
            None => sleep(NOT_REACHED).await,
        }
    }
}

/// Adds the cost of now.
pub(super) fn add_sample(ctx: &Ctx, costs: &Costs) {
    let now = ctx.clocks.now();
    let hourly = read::hourly(&ctx.cluster.index().snapshot(now));
    let mut costs = costs.lock().unwrap_or_else(PoisonError::into_inner);
    costs.push_back(CostSample::new(now, hourly));
    let surplus = costs.len().saturating_sub(MAX_SAMPLES);
    costs.drain(..surplus);
}
