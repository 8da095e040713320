//! The server.

use std::{future::Future, sync::Arc};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    api::{
        ApiError, CloudApi, CloudInstance, InstancePage, InterruptionNotice, Launch, LaunchReply, Lifecycle,
        SpotPrices, TagClaim, Terminate,
    },
    catalogue::dump,
    cloud::{Cloud, Fault},
};

/// Maximum size of a body: a launch of thousands of instances.
const MAX_BODY: usize = 64 << 20;

/// The routes of the cloud's calls.
pub fn router(cloud: Arc<Cloud>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/catalog", get(catalog))
        .route("/instances", get(list))
        .route("/instances/{id}", get(one))
        .route("/spot-prices", get(spot_prices))
        .route("/notices", get(notices))
        .route("/launch", post(launch))
        .route("/tag", post(tag))
        .route("/terminate", post(terminate))
        .route("/faults", post(inject).delete(heal))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(cloud)
}

/// Serves the cloud's calls until `shutdown`.
///
/// # Errors
/// If the listener fails.
pub async fn serve(
    listener: tokio::net::TcpListener,
    cloud: Arc<Cloud>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router(cloud)).with_graceful_shutdown(shutdown).await
}

type Answer<T> = Result<Json<T>, ApiError>;

async fn catalog(State(cloud): State<Arc<Cloud>>) -> Json<Value> {
    let sold = cloud.sells();
    Json(json!({"vocabulary": sold.vocabulary.as_str(), "instanceTypes": dump(sold)}))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    #[serde(default)]
    cluster_uid: String,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    after: Option<String>,
}

async fn list(
    State(cloud): State<Arc<Cloud>>,
    Query(owner): Query<Owner>,
    Query(page): Query<Page>,
) -> Answer<InstancePage> {
    cloud.list(&owner.cluster_uid, page.after.as_deref()).await.map(Json)
}

async fn spot_prices(State(cloud): State<Arc<Cloud>>) -> Answer<SpotPrices> {
    cloud.spot_prices().await.map(Json)
}

async fn notices(
    State(cloud): State<Arc<Cloud>>,
    Query(owner): Query<Owner>,
) -> Answer<Vec<InterruptionNotice>> {
    cloud.notices(&owner.cluster_uid).await.map(Json)
}

async fn one(State(cloud): State<Arc<Cloud>>, Path(id): Path<String>) -> Answer<CloudInstance> {
    cloud.get(&id).await.map(Json)
}

async fn launch(State(cloud): State<Arc<Cloud>>, Json(call): Json<Launch>) -> Answer<LaunchReply> {
    cloud.launch(&call).await.map(Json)
}

async fn tag(State(cloud): State<Arc<Cloud>>, Json(call): Json<TagClaim>) -> Answer<()> {
    cloud.tag(&call).await.map(Json)
}

async fn terminate(State(cloud): State<Arc<Cloud>>, Json(call): Json<Terminate>) -> Answer<Lifecycle> {
    cloud.terminate(&call).await.map(Json)
}

async fn inject(State(cloud): State<Arc<Cloud>>, Json(faults): Json<Vec<Fault>>) -> StatusCode {
    for fault in faults {
        cloud.inject(fault);
    }
    StatusCode::NO_CONTENT
}

async fn heal(State(cloud): State<Arc<Cloud>>) -> StatusCode {
    cloud.heal();
    StatusCode::NO_CONTENT
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::NotOwned { .. } | Self::Unauthorized { .. } => StatusCode::FORBIDDEN,
            Self::Throttled { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Invalid { .. } => StatusCode::BAD_REQUEST,
            Self::Failed { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, Json(self)).into_response()
    }
}
