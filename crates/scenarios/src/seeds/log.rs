//! What was asked of the API server, in order: the checks' own record; and, for people, all of it as text.

use std::sync::{Arc, Mutex, PoisonError};

use fleetwright_fake_kube::{Audit, Request};
use tokio::time::Instant;

/// Hears every change that is asked for, and how it was answered, as a line of text.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// An entry.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    /// An operator's change arrived.
    Asked(Request),
    /// An operator's change was refused as wrong in itself.
    Refused(Request, u16),
    /// An operator's list was answered.
    Listed {
        /// The operator.
        agent: String,
        /// Plural of the resource.
        resource: String,
    },
}

/// The record since the last look.
#[derive(Clone)]
pub(super) struct Log {
    entries: Arc<Mutex<Vec<Entry>>>,
    tell: Option<Tell>,
    begun: Instant,
}

/// Whether a request comes from an operator.
pub(super) fn is_operators(request: &Request) -> bool {
    request.user_agent.starts_with("operator-")
}

/// Who asks for what.
fn named(request: &Request) -> String {
    let Request { user_agent, verb, resource, subresource, namespace, name, .. } = request;
    format!("{user_agent} {verb} {resource}/{subresource} {namespace}/{name}")
}

impl Log {
    /// An empty record, of a life that begins now.
    pub(super) fn new(tell: Option<Tell>) -> Self {
        Self { entries: Arc::default(), tell, begun: Instant::now() }
    }

    /// Says something to whoever listens.
    pub(super) fn say(&self, what: impl FnOnce() -> String) {
        if let Some(tell) = &self.tell {
            tell(&format!("{:8.3} {}", self.begun.elapsed().as_secs_f64(), what()));
        }
    }

    fn push(&self, entry: Entry) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    /// Notes a request that arrives.
    pub(super) fn asked(&self, request: &Request) {
        let reads = matches!(request.verb.as_str(), "get" | "list" | "watch");
        if !reads {
            self.say(|| format!("-> {} {}", named(request), request.body));
        }
        if is_operators(request) && !reads {
            self.push(Entry::Asked(request.clone()));
        }
    }

    /// Notes lists that were answered.
    pub(super) fn audit(&self) -> Audit {
        let log = self.clone();
        Arc::new(move |request, code| {
            log.say(|| format!("<- {code} {}", named(request)));
            if matches!(code, 400 | 422) && is_operators(request) {
                log.push(Entry::Refused(request.clone(), code));
            }
            if code == 200 && is_operators(request) && matches!(request.verb.as_str(), "list" | "watch") {
                let (agent, resource) = (request.user_agent.clone(), request.resource.clone());
                log.push(Entry::Listed { agent, resource });
            }
        })
    }

    /// The record since the last call.
    pub(super) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
