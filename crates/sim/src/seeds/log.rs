//! What was asked of the API server, in order: the checks' own record.

use std::sync::{Arc, Mutex, PoisonError};

use fleetwright_fake_kube::{Audit, Request};

/// An entry.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    /// An operator's change arrived.
    Asked(Request),
    /// An operator's list was answered.
    Listed {
        /// The operator.
        agent: String,
        /// Plural of the resource.
        resource: String,
    },
}

/// The record since the last look.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<Entry>>>);

/// Whether a request comes from an operator.
pub(super) fn is_operators(request: &Request) -> bool {
    request.user_agent.starts_with("operator-")
}

impl Log {
    fn push(&self, entry: Entry) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    /// Notes a request that arrives.
    pub(super) fn asked(&self, request: &Request) {
        let reads = matches!(request.verb.as_str(), "get" | "list" | "watch");
        if is_operators(request) && !reads {
            self.push(Entry::Asked(request.clone()));
        }
    }

    /// Notes lists that were answered.
    pub(super) fn audit(&self) -> Audit {
        let log = self.clone();
        Arc::new(move |request, code| {
            if code == 200 && is_operators(request) && matches!(request.verb.as_str(), "list" | "watch") {
                let (agent, resource) = (request.user_agent.clone(), request.resource.clone());
                log.push(Entry::Listed { agent, resource });
            }
        })
    }

    /// The record since the last call.
    pub(super) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
