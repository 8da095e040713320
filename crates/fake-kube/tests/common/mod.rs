//! A server on virtual time and a real client.

use std::sync::Arc;

use fleetwright_fake_kube::{Config, Server};

/// Any failure of a test.
pub(crate) type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A configuration whose clock follows tokio's.
pub(crate) fn config() -> Config {
    let start = tokio::time::Instant::now();
    let epoch = jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(24 * 365 * 50);
    let now = move || {
        let passed = jiff::SignedDuration::try_from(start.elapsed()).unwrap_or_default();
        epoch + passed
    };
    Config::new(Arc::new(now), 7)
}

/// A server and a client of it.
pub(crate) fn start() -> (Server, kube::Client) {
    let server = Server::new(config());
    let client = kube::Client::new(server.service(), "default");
    (server, client)
}
