//! The time of the last relevant change, from which stability is judged.

use std::sync::{Mutex, PoisonError};

use fleetwright_fake_kube::Request;
use jiff::Timestamp;

/// Kinds that are written periodically.
const PERIODIC: [&str; 2] = ["leases", "events"];

/// The time of the last relevant change.
#[derive(Debug)]
pub(super) struct Activity(Mutex<Timestamp>);

impl Activity {
    /// No change since `now`.
    pub(super) fn new(now: Timestamp) -> Self {
        Self(Mutex::new(now))
    }

    /// Records a change.
    pub(super) fn note(&self, now: Timestamp) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Records a request, if it is a successful and relevant write.
    pub(super) fn observe(&self, request: &Request, code: u16, now: Timestamp) {
        let writes = !matches!(request.verb.as_str(), "get" | "list" | "watch");
        // Kubelets and controllers confirm the status of nodes and NodePools periodically.
        let report = request.subresource == "status"
            && matches!(
                request.resource.as_str(),
                "nodes" | "nodepools" | "kwoknodeclasses" | "ec2nodeclasses"
            );
        let chatter = PERIODIC.contains(&request.resource.as_str()) || report;
        if writes && !chatter && (200..300).contains(&code) {
            self.note(now);
        }
    }

    /// The time of the last change.
    pub(super) fn last(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
