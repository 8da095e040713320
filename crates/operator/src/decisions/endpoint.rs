//! `GET /decisions`: a list as JSON, or a stream of server-sent events.
//!
//! A stream has no queue of its own beyond [`QUEUED`] events: each client has a position in the ring. A client that takes no event for
//! [`SLOW`], or whose next record was dropped from the ring, is disconnected; it continues with the header `Last-Event-ID`.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use fleetwright_controllers::runtime::decisions::{DecisionQuery, Decisions};
use fleetwright_core::decisions::{Choice, DecisionRecord};
use jiff::Timestamp;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::document::{DecisionList, event_id};

/// Clients that may follow at a time: each has a task and at most [`QUEUED`] events, some 12 KiB each.
pub(super) const CLIENTS: usize = 16;
/// Events that wait for a client.
const QUEUED: usize = 32;
/// How long a client may take no event.
const SLOW: Duration = Duration::from_secs(10);
/// How often a stream without events has a comment, so that its end is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Records of a list without `limit`.
const LISTED: usize = 500;

/// Where the decisions are, once the cluster is reached.
type Source = Arc<dyn Fn() -> Option<Decisions> + Send + Sync>;

#[derive(Clone)]
struct Endpoint {
    source: Source,
    clients: Arc<Semaphore>,
}

/// The route `/decisions`.
pub(crate) fn routes(source: impl Fn() -> Option<Decisions> + Send + Sync + 'static) -> Router {
    let endpoint = Endpoint { source: Arc::new(source), clients: Arc::new(Semaphore::new(CLIENTS)) };
    Router::new().route("/decisions", get(answer)).with_state(endpoint)
}

/// The query of a request.
#[derive(Debug, Default, Deserialize)]
struct Params {
    since: Option<String>,
    kind: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    watch: bool,
}

type Refusal = (StatusCode, String);

async fn answer(
    State(endpoint): State<Endpoint>,
    Query(params): Query<Params>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let decisions = (endpoint.source)()
        .ok_or_else(|| (StatusCode::SERVICE_UNAVAILABLE, "the cluster is not reached yet".to_owned()))?;
    let query = query(&params, decisions.now()).map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    let accepts_events = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.contains("text/event-stream"));
    let mut response = if params.watch || accepts_events {
        let permit = endpoint.clients.try_acquire_owned().map_err(|_| {
            (StatusCode::SERVICE_UNAVAILABLE, format!("{CLIENTS} clients follow the decisions already"))
        })?;
        let last = headers.get("last-event-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
        stream(decisions, query, last, permit)
    } else {
        let query = DecisionQuery { limit: query.limit.or(Some(LISTED)), ..query };
        let list = DecisionList::new(&decisions.ring().lock(), &query);
        Json(list).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    Ok(response)
}

/// The query of a request's parameters.
fn query(params: &Params, now: Timestamp) -> Result<DecisionQuery, String> {
    let kinds: Vec<String> = match params.kind.as_deref() {
        None | Some("") => Vec::new(),
        Some(kinds) => kinds.split(',').map(str::to_owned).collect(),
    };
    if let Some(unknown) = kinds.iter().find(|kind| !Choice::KINDS.contains(&kind.as_str())) {
        return Err(format!("kind {unknown:?}: give some of {}", Choice::KINDS.join(", ")));
    }
    let since = params.since.as_deref().map(|since| moment(since, now)).transpose()?;
    Ok(DecisionQuery { since, kinds, limit: params.limit })
}

/// A time, or a duration before `now`.
fn moment(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let before = fleetwright_api::duration::parse(text).ok().and_then(|age| now.checked_sub(age).ok());
    before.ok_or_else(|| format!("since {text:?}: give a time such as {now:.0}, or a duration such as 10m"))
}

/// A stream of events: what `query` selects now, then each change.
fn stream(
    decisions: Decisions,
    query: DecisionQuery,
    last: Option<String>,
    permit: OwnedSemaphorePermit,
) -> Response {
    let (events, mut received) = mpsc::channel(QUEUED);
    tokio::spawn(async move {
        // It holds the permit until the client is gone or too slow.
        let _permit = permit;
        follow(&decisions, &query, last.as_deref(), &events).await;
    });
    let body = futures::stream::poll_fn(move |context| received.poll_recv(context));
    let body = futures::StreamExt::map(body, Ok::<String, Infallible>);
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(body)).into_response()
}

/// Sends events until the client is gone or too slow.
async fn follow(
    decisions: &Decisions,
    query: &DecisionQuery,
    last: Option<&str>,
    events: &mpsc::Sender<String>,
) {
    let mut changes = decisions.changes();
    let (mut revision, first) = begin(decisions, query, last);
    let mut pending = first;
    loop {
        for event in pending {
            if events.send_timeout(event, SLOW).await.is_err() {
                return;
            }
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = events.closed() => return,
            () = tokio::time::sleep(KEEP_ALIVE) => {
                pending = vec![":\n\n".to_owned()];
                continue;
            }
        }
        let ring = decisions.ring().lock();
        if ring.has_dropped_since(revision) {
            return;
        }
        pending = ring.changes(revision, query).iter().map(|record| event(ring.process(), record)).collect();
        revision = ring.revision();
    }
}

/// The position of a new client, and its first events: those after `last`, if that is of this process.
fn begin(decisions: &Decisions, query: &DecisionQuery, last: Option<&str>) -> (u64, Vec<String>) {
    let ring = decisions.ring().lock();
    let Some(last) = last else {
        let mut records = ring.read(query);
        records.sort_by_key(|record| record.revision);
        let events = records.iter().map(|record| event(ring.process(), record));
        return (ring.revision(), events.collect());
    };
    let known = last
        .rsplit_once('-')
        .filter(|(process, _)| *process == ring.process())
        .and_then(|(_, revision)| revision.parse::<u64>().ok());
    let revision = known.unwrap_or(0);
    let mut events = Vec::new();
    if known.is_none() || ring.has_dropped_since(revision) {
        // Without an id: a client that is cut off here asks for the same again.
        events.push(
            "event: gap\ndata: {\"message\":\"records may be missing before the next one\"}\n\n".to_owned(),
        );
    }
    events.extend(ring.changes(revision, query).iter().map(|record| event(ring.process(), record)));
    (ring.revision(), events)
}

/// A record as an event. JSON escapes line feeds, so that no name ends a line.
fn event(process: &str, record: &DecisionRecord) -> String {
    let id = event_id(process, record.revision);
    let data = serde_json::to_string(record).unwrap_or_default();
    format!("id: {id}\nevent: decision\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    //! Clients that do not read.
    use futures::StreamExt as _;

    use super::{
        super::tests::{held, none},
        *,
    };

    /// A stream whose events nobody takes, and whether it is still followed.
    fn unread(decisions: &Decisions) -> (Response, Arc<Semaphore>) {
        let clients = Arc::new(Semaphore::new(1));
        let permit = clients.clone().try_acquire_owned().unwrap();
        (stream(decisions.clone(), DecisionQuery::default(), None, permit), clients)
    }

    /// The events of a stream that has ended.
    async fn events(response: Response) -> usize {
        let all: Vec<_> = response.into_body().into_data_stream().collect().await;
        all.len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_no_event_is_disconnected() {
        let decisions = none();
        for at in 0..QUEUED + 8 {
            held(&decisions, &at.to_string());
        }
        let (response, clients) = unread(&decisions);
        tokio::time::sleep(SLOW - Duration::from_secs(1)).await;
        assert_eq!(clients.available_permits(), 0, "it has {SLOW:?} to take the next one");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(clients.available_permits(), 1, "another client may follow");
        assert_eq!(events(response).await, QUEUED, "what was sent before arrives, then the stream ends");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_whose_next_record_was_dropped_is_disconnected() {
        let decisions = none();
        let (response, clients) = unread(&decisions);
        tokio::time::sleep(Duration::from_secs(1)).await;
        // More than are kept, at once.
        for at in 0..3000 {
            held(&decisions, &at.to_string());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!((clients.available_permits(), events(response).await), (1, 0));
    }
}
