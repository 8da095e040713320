//! `fleetwright --shadow`: decides beside a live Karpenter, compares, and changes nothing; `fleetwright shadow report` shows it.
//!
//! The process has a client that cannot write ([`ReadOnlyClient`]) and the catalogues of the tools instead of a cloud
//! ([`source::CatalogueSource`]): no cloud is connected, and no lease is asked for.

mod html;
mod report;
mod source;
mod table;
#[cfg(test)]
mod tests;
mod tool;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::Context as _;
use axum::{Json, Router, extract::State, http::StatusCode, response::Html, routing::get};
use fleetwright_controllers::{
    runtime::{Offload, ReadOnlyClient, client, shutdown},
    shadow::{Shadow, ShadowParts},
};
use fleetwright_core::clock::{Clock as _, SharedClock};

pub(crate) use self::tool::run as run_tool;
use self::{report::ShadowReport, source::CatalogueSource};
use crate::{
    Operator,
    clock::SystemClock,
    controller::with_retries,
    http, kube_client, logging,
    process::ProcessCollector,
    settings::{self, Values},
    signals,
};

/// How often the report is written to `SHADOW_FILE`.
const WRITE_EVERY: Duration = Duration::from_secs(60);
/// How long loops may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// Runs until SIGTERM.
///
/// # Errors
/// A setting, a port or the cluster cannot be used.
pub(crate) fn run(operator: &Operator, values: Values) -> anyhow::Result<()> {
    let clock: SharedClock = Arc::new(SystemClock);
    logging::install(values.text("LOG_LEVEL"), values.text("LOG_OUTPUT_PATHS"), clock.clone())?;
    for warning in values.all_warnings() {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(serve(operator, values, clock));
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

async fn serve(operator: &Operator, values: Values, clock: SharedClock) -> anyhow::Result<()> {
    let running = Arc::new(Running::default());
    http::serve_probes(values.port("HEALTH_PROBE_PORT"), running.clone()).await?;
    http::serve_metrics(values.port("METRICS_PORT"), running.clone(), routes(running.clone())).await?;
    let file = Some(values.text("SHADOW_FILE")).filter(|path| !path.is_empty()).map(PathBuf::from);
    tokio::select! {
        biased;
        () = signals::terminated() => Ok(()),
        prepared = prepare(operator, values, clock) => {
            let prepared = running.begin(prepared?);
            prepared.shadow.metrics().register(Box::new(ProcessCollector::new())).context("metrics of the process")?;
            observe(operator, prepared, file.as_deref()).await
        }
    }
}

/// Observes until SIGTERM.
async fn observe(operator: &Operator, prepared: &Prepared, file: Option<&Path>) -> anyhow::Result<()> {
    let (trigger, stop) = shutdown();
    let mut observing = std::pin::pin!(prepared.shadow.clone().run(stop));
    tracing::info!(version = operator.version(), "starting shadow mode: nothing is written to the cluster");
    let mut writes = tokio::time::interval(WRITE_EVERY);
    loop {
        tokio::select! {
            biased;
            () = signals::terminated() => break,
            ended = &mut observing => return ended.context("the controllers ended"),
            _ = writes.tick() => write(file, prepared),
        }
    }
    trigger.fire();
    write(file, prepared);
    match tokio::time::timeout(GRACE, observing).await {
        Ok(ended) => ended.context("the controllers ended"),
        Err(_) => Ok(()),
    }
}

/// Connects to the cluster and reads its NodePools.
async fn prepare(operator: &Operator, values: Values, clock: SharedClock) -> anyhow::Result<Prepared> {
    let config = kube_client::configure(None).await?;
    let api_server = kube_client::host(&config);
    let client = ReadOnlyClient::new(client(config)?);
    let connect = || {
        CatalogueSource::connect(client.clone(), operator.catalogues().clone(), values.clone(), clock.clone())
    };
    let source = Arc::new(with_retries("the NodePools and their catalogue", connect).await?);
    let settings = settings::controllers(&values);
    let shadow = Shadow::new(ShadowParts {
        api_server,
        client,
        clock,
        instance_types: source.clone(),
        settings,
        offload: Offload::Thread,
    });
    Ok(Prepared { shadow, source })
}

/// A shadow and where its instance types come from.
struct Prepared {
    shadow: Shadow,
    source: Arc<CatalogueSource>,
}

impl Prepared {
    fn report(&self) -> ShadowReport {
        let journal = self.shadow.journal().lock();
        ShadowReport::new(&journal, SystemClock.now(), self.source.provenance(), self.source.currency())
    }
}

/// Writes the report in one step, so that a reader never sees half of it. A failure is logged: the endpoint still has the report.
fn write(file: Option<&Path>, prepared: &Prepared) {
    let Some(path) = file else { return };
    let written =
        serde_json::to_vec_pretty(&prepared.report()).map_err(std::io::Error::from).and_then(|text| {
            let draft = path.with_extension("tmp");
            std::fs::write(&draft, text)?;
            std::fs::rename(&draft, path)
        });
    if let Err(error) = written {
        tracing::warn!(path = %path.display(), %error, "SHADOW_FILE: cannot write the report");
    }
}

/// What the endpoints show, once the cluster is reached.
#[derive(Default)]
struct Running(OnceLock<Prepared>);

impl Running {
    fn begin(&self, prepared: Prepared) -> &Prepared {
        self.0.get_or_init(|| prepared)
    }
}

/// `/shadow` is the report as JSON, `/shadow.html` as a page.
fn routes(running: Arc<Running>) -> Router {
    type Answer<T> = Result<T, (StatusCode, &'static str)>;
    fn report(running: &Running) -> Answer<ShadowReport> {
        let missing = (StatusCode::SERVICE_UNAVAILABLE, "the cluster is not reached yet");
        running.0.get().map(Prepared::report).ok_or(missing)
    }
    let json = |State(running): State<Arc<Running>>| async move { report(&running).map(Json) };
    let page = |State(running): State<Arc<Running>>| async move {
        report(&running).map(|report| Html(html::Page(&report).to_string()))
    };
    Router::new().route("/shadow", get(json)).route("/shadow.html", get(page)).with_state(running)
}

impl http::Probe for Running {
    fn healthy(&self) -> Result<(), String> {
        self.0.get().map_or(Ok(()), |running| running.shadow.alive().map_err(|stuck| stuck.to_string()))
    }

    fn ready(&self) -> Result<(), String> {
        let running = self.0.get().ok_or("the cluster is not reached yet")?;
        running.shadow.ready().map_err(|passive| passive.to_string())
    }

    fn metrics(&self) -> String {
        self.0.get().and_then(|running| running.shadow.metrics().encode().ok()).unwrap_or_default()
    }
}
