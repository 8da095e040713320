//! Reads `/decisions` of a running controller.

use anyhow::{Context as _, anyhow};
use futures::{AsyncBufRead, AsyncBufReadExt as _};
use kube::Client;

/// How to get at the endpoint.
const HINT: &str = "The controller serves decisions with DECISIONS_ENDPOINT=true (chart: --set-string \
                    fleetwright.settings.DECISIONS_ENDPOINT=true). From outside the cluster, forward its port: \
                    kubectl --namespace kube-system port-forward deployment/karpenter 8080";

/// A running controller.
pub(crate) struct Endpoint {
    client: Client,
    url: String,
    /// The path, up to the query.
    path: String,
}

/// An event of the stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Its id, if it has one.
    pub(super) id: Option<String>,
    /// `decision`, `gap`, or a name that this version does not know.
    pub(super) name: String,
    /// Its data.
    pub(super) data: String,
}

impl Endpoint {
    /// The controller at `url`; the path is `/decisions` if the URL has none.
    ///
    /// # Errors
    /// The URL is not one.
    pub(super) fn new(url: &str) -> anyhow::Result<Self> {
        let wrong = || format!("--url {url}: give http://HOST:PORT");
        let uri: http::Uri = url.parse().with_context(wrong)?;
        let mut base = http::uri::Parts::default();
        base.scheme = uri.scheme().cloned().or(Some(http::uri::Scheme::HTTP));
        base.authority = uri.authority().cloned();
        base.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
        let base = http::Uri::from_parts(base).with_context(wrong)?;
        let path = if uri.path() == "/" { "/decisions" } else { uri.path() };
        let mut config = kube::Config::new(base);
        // An answer such as "too many clients" is for the user.
        config.default_retry = false;
        let client = Client::try_from(config)?;
        Ok(Self { client, url: url.to_owned(), path: path.to_owned() })
    }

    /// The list, as JSON.
    ///
    /// # Errors
    /// It cannot be read; says how to make it readable.
    pub(super) async fn list(&self, query: &str) -> anyhow::Result<String> {
        let request = http::Request::get(format!("{}?{query}", self.path)).body(Vec::new())?;
        self.client.request_text(request).await.map_err(|error| self.explained(error))
    }

    /// The stream of events after `last`.
    ///
    /// # Errors
    /// It cannot be read; says how to make it readable.
    pub(super) async fn watch(
        &self,
        query: &str,
        last: Option<&str>,
    ) -> anyhow::Result<impl AsyncBufRead + Unpin + use<>> {
        let mut request =
            http::Request::get(format!("{}?{query}", self.path)).header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let stream = self.client.request_stream(request.body(Vec::new())?).await;
        stream.map(Box::pin).map_err(|error| self.explained(error))
    }

    /// An error with what to do about it.
    fn explained(&self, error: kube::Error) -> anyhow::Error {
        let url = format!(
            "{}{}",
            self.url.trim_end_matches('/'),
            if self.url.ends_with(&self.path) { "" } else { &self.path }
        );
        match error {
            kube::Error::Api(status) if status.code == 404 => {
                anyhow!("{url}: the endpoint is off. {HINT}")
            }
            kube::Error::Api(status) => anyhow!("{url}: {}", status.message),
            other => anyhow::Error::new(other).context(format!("{url} cannot be read. {HINT}")),
        }
    }
}

/// Reads the next event; `None` at the end of the stream.
///
/// # Errors
/// The connection breaks.
pub(super) async fn next_event(stream: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<Event>> {
    let mut event = Event::default();
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let text = line.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            if !event.data.is_empty() {
                return Ok(Some(event));
            }
            continue;
        }
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => event.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut event.name),
            "data" => event.data.push_str(value),
            // Comments keep the connection alive.
            _ => {}
        }
    }
}
