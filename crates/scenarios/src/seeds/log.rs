//! Requests to the API server, in order: for the checks, and optionally as text.

use std::sync::{Arc, Mutex, PoisonError};

use fleetwright_fake_kube::{Audit, Request};
use tokio::time::Instant;

/// Receives a line of text for every requested change and its answer.
pub type LineSink = Arc<dyn Fn(&str) + Send + Sync>;

/// An entry.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    /// An operator requested a change.
    Asked(Request),
    /// An operator's change was rejected as invalid.
    Refused(Request, u16),
    /// An operator's list was answered.
    Listed {
        /// The operator.
        agent: String,
        /// Plural of the resource.
        resource: String,
    },
}

/// The requests since the last check.
#[derive(Clone)]
pub(super) struct Log {
    entries: Arc<Mutex<Vec<Entry>>>,
    sink: Option<LineSink>,
    begun: Instant,
}

/// Whether a request comes from an operator.
pub(super) fn is_operators(request: &Request) -> bool {
    request.user_agent.starts_with("operator-")
}

/// The client and its request.
fn named(request: &Request) -> String {
    let Request { user_agent, verb, resource, subresource, namespace, name, .. } = request;
    format!("{user_agent} {verb} {resource}/{subresource} {namespace}/{name}")
}

impl Log {
    /// An empty log.
    pub(super) fn new(sink: Option<LineSink>) -> Self {
        Self { entries: Arc::default(), sink, begun: Instant::now() }
    }

    /// Prints a line, if requested.
    pub(super) fn print(&self, what: impl FnOnce() -> String) {
        if let Some(sink) = &self.sink {
            sink(&format!("{:8.3} {}", self.begun.elapsed().as_secs_f64(), what()));
        }
    }

    fn push(&self, entry: Entry) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    /// Records a request.
    pub(super) fn asked(&self, request: &Request) {
        let reads = matches!(request.verb.as_str(), "get" | "list" | "watch");
        if !reads {
            self.print(|| format!("-> {} {}", named(request), request.body));
        }
        if is_operators(request) && !reads {
            self.push(Entry::Asked(request.clone()));
        }
    }

    /// Records answered lists.
    pub(super) fn audit(&self) -> Audit {
        let log = self.clone();
        Arc::new(move |request, code| {
            log.print(|| format!("<- {code} {}", named(request)));
            if matches!(code, 400 | 422) && is_operators(request) {
                log.push(Entry::Refused(request.clone(), code));
            }
            if code == 200 && is_operators(request) && matches!(request.verb.as_str(), "list" | "watch") {
                let (agent, resource) = (request.user_agent.clone(), request.resource.clone());
                log.push(Entry::Listed { agent, resource });
            }
        })
    }

    /// Takes the requests since the last call.
    pub(super) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
