//! Configuration of a server: clock, seed, bounds, faults and audit.

use std::sync::Arc;
use std::time::Duration;

use crate::faults::{Faults, Request};

/// The server's clock.
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

/// Called after every request with its HTTP status code.
pub type Audit = Arc<dyn Fn(&Request, u16) + Send + Sync>;

/// Configuration of a [`crate::Server`].
#[derive(Clone)]
pub struct Config {
    /// The clock for timestamps and ages in tables.
    pub now: Clock,
    /// Seed of UIDs and generated names.
    pub seed: u64,
    /// Version that `/version` reports.
    pub version: String,
    /// The number of stored changes per resource; a request for an older resourceVersion fails with 410.
    pub history: usize,
    /// Time between two bookmarks of an idle watch, in tokio's time.
    pub bookmark_interval: Duration,
    /// Duration of a watch without a timeout, in tokio's time.
    pub watch_timeout: Duration,
    /// Record field managers of plain updates too, not only of server-side apply.
    pub track_updates: bool,
    /// Bearer token for requests over a port.
    pub token: Option<String>,
    /// Decides about faults of requests.
    pub faults: Option<Arc<dyn Faults>>,
    /// Receives every request with the status of its answer.
    pub audit: Option<Audit>,
}

impl Config {
    /// A configuration with the defaults of a real server.
    pub fn new(now: Clock, seed: u64) -> Self {
        Self {
            now,
            seed,
            version: "v1.35.4".to_owned(),
            history: 20_000,
            bookmark_interval: Duration::from_secs(60),
            watch_timeout: Duration::from_secs(45 * 60),
            track_updates: true,
            token: None,
            faults: None,
            audit: None,
        }
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Config")
            .field("seed", &self.seed)
            .field("version", &self.version)
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}
