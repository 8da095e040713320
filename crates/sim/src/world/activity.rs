//! When something last happened that matters: what "settled" is judged by.

use std::sync::{Mutex, PoisonError};

use fleetwright_fake_kube::Request;
use jiff::Timestamp;

/// Kinds that are written to although nothing happens.
const CHATTER: [&str; 2] = ["leases", "events"];

/// The moment of the last change that matters.
#[derive(Debug)]
pub(super) struct Activity(Mutex<Timestamp>);

impl Activity {
    /// Nothing has happened since `now`.
    pub(super) fn new(now: Timestamp) -> Self {
        Self(Mutex::new(now))
    }

    /// Something happened.
    pub(super) fn note(&self, now: Timestamp) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Takes note of a request, if it is a write that was accepted and matters.
    pub(super) fn judge(&self, request: &Request, code: u16, now: Timestamp) {
        let writes = !matches!(request.verb.as_str(), "get" | "list" | "watch");
        // Kubelets and controllers confirm the state of nodes and pools now and then.
        let report = request.subresource == "status"
            && matches!(
                request.resource.as_str(),
                "nodes" | "nodepools" | "kwoknodeclasses" | "ec2nodeclasses"
            );
        let chatter = CHATTER.contains(&request.resource.as_str()) || report;
        if writes && !chatter && (200..300).contains(&code) {
            self.note(now);
        }
    }

    /// When something last happened.
    pub(super) fn last(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
