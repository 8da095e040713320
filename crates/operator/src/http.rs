//! What the controller serves: `/metrics` on one port, `/healthz` and `/readyz` on another.

use std::{net::SocketAddr, sync::Arc};

use axum::{Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use tokio::net::TcpListener;

/// What the endpoints ask.
pub(crate) trait Probe: Send + Sync + 'static {
    /// Whether the process is alive: its loops move.
    ///
    /// # Errors
    /// What does not.
    fn healthy(&self) -> Result<(), String>;

    /// Whether it does its work: caches are filled, resources are served.
    ///
    /// # Errors
    /// What is missing.
    fn ready(&self) -> Result<(), String>;

    /// The metrics in Prometheus' text format.
    fn metrics(&self) -> String;
}

type Shared = Arc<dyn Probe>;

/// Serves `/healthz` and `/readyz` on `port` until the process ends; zero switches it off.
///
/// # Errors
/// Where the port cannot be had, naming it.
pub(crate) async fn serve_probes(port: u16, probe: Shared) -> anyhow::Result<()> {
    let routes = Router::new()
        .route("/healthz", get(|State(probe): State<Shared>| async move { answer(probe.healthy()) }))
        .route("/readyz", get(|State(probe): State<Shared>| async move { answer(probe.ready()) }));
    serve(port, "HEALTH_PROBE_PORT", routes.with_state(probe)).await
}

/// Serves `/metrics` on `port` until the process ends; zero switches it off.
///
/// # Errors
/// Where the port cannot be had, naming it.
pub(crate) async fn serve_metrics(port: u16, probe: Shared) -> anyhow::Result<()> {
    let text = |State(probe): State<Shared>| async move {
        ([("content-type", "text/plain; version=0.0.4; charset=utf-8")], probe.metrics())
    };
    serve(port, "METRICS_PORT", Router::new().route("/metrics", get(text)).with_state(probe)).await
}

fn answer(state: Result<(), String>) -> impl IntoResponse {
    match state {
        Ok(()) => (StatusCode::OK, "ok".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
    }
}

async fn serve(port: u16, setting: &str, routes: Router) -> anyhow::Result<()> {
    if port == 0 {
        return Ok(());
    }
    let address = SocketAddr::from(([0, 0, 0, 0], port));
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| anyhow::anyhow!("{setting}: cannot listen on port {port}: {error}"))?;
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!(%error, "serving http");
        }
    });
    Ok(())
}
