//! Faults of requests, injected by a simulation.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use crate::status::ApiError;

/// A request as the fault hook, the audit and the counters see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Plural of the resource.
    pub resource: String,
    /// Subresource; empty when there is none.
    pub subresource: String,
    /// Namespace; empty when there is none.
    pub namespace: String,
    /// Name; empty for collections.
    pub name: String,
    /// Name of the client: its User-Agent.
    pub user_agent: String,
    /// The body, null when there is none or it is not JSON.
    pub body: Arc<Value>,
}

/// The fault of one request. None by default.
#[derive(Clone, Debug, Default)]
pub struct Fault {
    /// Delay before the request is handled, in tokio's time.
    pub before: Duration,
    /// Delay between the request's execution and its answer.
    pub after: Duration,
    /// Answer this instead.
    pub answer: Answer,
    /// Lists, gets and new watches see the state this many revisions ago (within the history).
    pub stale: u64,
    /// Faults of a watch.
    pub watch: WatchFault,
}

/// How a request is answered.
#[derive(Clone, Debug, Default)]
pub enum Answer {
    /// The normal answer.
    #[default]
    Normal,
    /// With an error; nothing was applied.
    Refuse(ApiError),
    /// With an error although the request took effect.
    ApplyThenRefuse(ApiError),
    /// By a broken connection; nothing was applied.
    Drop,
    /// By a broken connection although the request took effect.
    ApplyThenDrop,
}

/// Faults of a watch stream.
#[derive(Clone, Debug, Default)]
pub struct WatchFault {
    /// The delay of each event, in tokio's time.
    pub lag: Duration,
    /// The stream ends after this many events, as a closed connection.
    pub end_after: Option<u64>,
    /// The stream fails with a transport error after this many events.
    pub break_after: Option<u64>,
    /// The stream reports 410 as an ERROR event after this many events.
    pub expire_after: Option<u64>,
    /// Every n-th event is sent twice (0: never).
    pub duplicate_every: u64,
}

/// Decides about faults. Called once per request, before it is handled, in the order of arrival.
pub trait Faults: Send + Sync {
    /// The fault of this request.
    fn decide(&self, request: &Request) -> Fault;
}
