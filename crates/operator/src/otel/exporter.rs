//! Sends stages as spans, in batches, by a thread of the SDK.

use std::{fmt, time::Duration};

use anyhow::Context as _;
use async_trait::async_trait;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry::{
    Context, Key, KeyValue,
    trace::{SpanKind, TraceContextExt as _, Tracer as _, TracerProvider as _},
};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, hyper::HyperClient};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{SdkTracer, SdkTracerProvider},
};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};

use super::timeline::Stage;

/// The name of the service where `OTEL_SERVICE_NAME` does not give another one.
const SERVICE: &str = "fleetwright";
/// How long an export may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Spans on their way to the collector. What waits is sent when it is dropped, and lost if that takes longer than the SDK allows.
pub(super) struct Exporter {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Exporter {
    /// An exporter to the collector of the environment, whose requests run on the caller's runtime.
    ///
    /// # Errors
    /// If there are no root certificates, or a variable cannot be used.
    pub(super) fn new(version: &str) -> anyhow::Result<Self> {
        Self::to(None, version)
    }

    /// The same to an endpoint, if given.
    fn to(endpoint: Option<String>, version: &str) -> anyhow::Result<Self> {
        let mut exporter = SpanExporter::builder().with_http().with_http_client(Client::new()?);
        if let Some(endpoint) = endpoint {
            exporter = exporter.with_endpoint(endpoint);
        }
        let exporter = exporter.build().context("OTEL_EXPORTER_OTLP_*")?;
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource(version));
        let provider = provider.build();
        Ok(Self { tracer: provider.tracer(SERVICE), provider })
    }

    /// Sends a stage and those within it as one trace. It does not wait: what does not fit into the SDK's queue is lost.
    pub(super) fn send(&self, stage: &Stage) {
        self.span(stage, &Context::new());
    }

    fn span(&self, stage: &Stage, parent: &Context) {
        let attributes = stage.attributes.iter().map(|(name, value)| KeyValue::new(*name, value.clone()));
        let builder = self.tracer.span_builder(stage.name).with_kind(SpanKind::Internal);
        let builder = builder.with_start_time(stage.start).with_attributes(attributes);
        let own = parent.with_span(self.tracer.build_with_context(builder, parent));
        for child in &stage.children {
            self.span(child, &own);
        }
        own.span().end_with_timestamp(stage.end.into());
    }
}

/// This process, by the environment where that names it.
fn resource(version: &str) -> Resource {
    let builder = || Resource::builder().with_attribute(KeyValue::new("service.version", version.to_owned()));
    let detected = builder().build();
    let name = detected.get(&Key::from_static_str("service.name"));
    let is_named = name.is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    if is_named { detected } else { builder().with_service_name(SERVICE).build() }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let end = || {
            if let Err(error) = self.provider.shutdown_with_timeout(TIMEOUT) {
                tracing::warn!(%error, "some traces were not sent");
            }
        };
        // The requests run on the runtime: its thread must not wait for them.
        match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => block_in_place(end),
            _ => end(),
        }
    }
}

/// A client whose requests run on a tokio runtime: the SDK's thread has none.
struct Client {
    inner: HyperClient<HttpsConnector<HttpConnector>>,
    runtime: Handle,
}

impl Client {
    fn new() -> anyhow::Result<Self> {
        let connector = HttpsConnectorBuilder::new().with_native_roots().context("root certificates")?;
        let connector = connector.https_or_http().enable_http1().build();
        Ok(Self { inner: HyperClient::new(connector, TIMEOUT, None), runtime: Handle::current() })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").finish_non_exhaustive()
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.inner.clone();
        self.runtime.spawn(async move { client.send_bytes(request).await }).await?
    }
}

#[cfg(test)]
mod tests {
    //! A collector that keeps what it is sent.
    use std::sync::{Arc, Mutex};

    use axum::{Router, body::Bytes as Body, routing::post};
    use jiff::Timestamp;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn spans_arrive_when_the_process_ends() {
        let received = Arc::new(Mutex::new(Vec::<u8>::new()));
        let kept = received.clone();
        let collect = move |body: Body| async move { kept.lock().unwrap().extend_from_slice(&body) };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let routes = Router::new().route("/v1/traces", post(collect));
        tokio::spawn(async move { axum::serve(listener, routes).await });

        let exporter = Exporter::to(Some(endpoint), "1.2.3").unwrap();
        let stage = |name: &'static str, children| Stage {
            name,
            start: Timestamp::UNIX_EPOCH,
            end: Timestamp::from_second(7).unwrap(),
            attributes: vec![("k8s.pod.name", "web-1".to_owned())],
            children,
        };
        exporter.send(&stage("pod", vec![stage("bind", Vec::new())]));
        drop(exporter);
        let body = received.lock().unwrap();
        let has = |text: &[u8]| body.windows(text.len()).any(|window| window == text);
        for text in ["pod", "bind", "k8s.pod.name", "web-1", "service.version", "1.2.3", SERVICE] {
            assert!(has(text.as_bytes()), "{text} in {}", String::from_utf8_lossy(&body));
        }
        // The end, in nanoseconds (`fixed64`).
        assert!(has(&7_000_000_000_u64.to_le_bytes()));
    }
}
