//! Faults per request: what a simulation may do to a client.

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

/// What happens to one request. The default is that nothing does.
#[derive(Clone, Debug, Default)]
pub struct Fault {
    /// Wait before the request is handled, in the time of tokio.
    pub before: Duration,
    /// Wait after it was handled and before it is answered.
    pub after: Duration,
    /// Answer this instead.
    pub answer: Answer,
    /// Lists, gets and new watches see the state this many revisions ago (as far as the history goes).
    pub stale: u64,
    /// For watches: how the stream misbehaves.
    pub watch: WatchFault,
}

/// How a request is answered.
#[derive(Clone, Debug, Default)]
pub enum Answer {
    /// As it should be.
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

/// How a watch stream misbehaves.
#[derive(Clone, Debug, Default)]
pub struct WatchFault {
    /// Each event is held back this long, in the time of tokio.
    pub lag: Duration,
    /// The stream ends, as if the connection was closed, after this many events.
    pub end_after: Option<u64>,
    /// The stream breaks with a transport error after this many events.
    pub break_after: Option<u64>,
    /// The stream reports 410 as an ERROR event after this many events.
    pub expire_after: Option<u64>,
    /// Every n-th event is sent twice (0: never).
    pub duplicate_every: u64,
}

/// Decides about faults. Called once per request, before it is handled, in the order of arrival.
pub trait Faults: Send + Sync {
    /// What happens to this request.
    fn decide(&self, request: &Request) -> Fault;
}
