//! A whole world in one process, assembled from a seed: API server, cloud, kubelets, actors, controllers.
//!
//! A world belongs to the tokio runtime that it was made in. Under [`virtual_runtime`] its time is virtual: hours pass
//! in seconds, and two worlds of one seed do the same things in the same order.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use fleetwright_core::clock::{Clock as _, SharedClock};
use fleetwright_fake_kube::{Listening, Server};
use jiff::Timestamp;

use crate::{clock::TokioClock, overview::Overview};

/// How a world is made.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// Everything that is left to chance follows from it.
    pub seed: u64,
    /// The virtual moment of the start.
    pub origin: Timestamp,
    /// Virtual seconds per second of tokio's time. 1 under paused time.
    pub speed: f64,
    /// Token that clients of [`World::listen`] must show.
    pub token: Option<String>,
}

impl WorldConfig {
    /// A world of `seed` that starts at `origin`, in tokio's own time.
    #[must_use]
    pub fn new(seed: u64, origin: Timestamp) -> Self {
        Self { seed, origin, speed: 1.0, token: None }
    }
}

/// Why a world cannot be made, or refuses a document.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The speed is out of range.
    #[error(transparent)]
    Speed(#[from] crate::clock::BadSpeed),
    /// A document is not YAML, or not an object.
    #[error("document {index}: {why}")]
    Document {
        /// Its place in the text, from 1.
        index: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The API server refused an object.
    #[error("{what}: {source}")]
    Refused {
        /// Kind and name.
        what: String,
        /// The server's answer.
        source: Box<fleetwright_fake_kube::ApiError>,
    },
}

/// A running world. Dropping it ends everything in it.
#[derive(Debug)]
pub struct World {
    server: Server,
    clock: TokioClock,
}

/// How [`World::run_until_settled`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Nothing is left to do, since this moment.
    Since(Timestamp),
    /// Time ran out first.
    OutOfTime,
}

impl World {
    /// Makes a world and sets it going.
    ///
    /// # Errors
    /// Where the configuration cannot be.
    pub async fn new(config: WorldConfig) -> Result<Self, WorldError> {
        let clock = TokioClock::new(config.origin, config.speed)?;
        let mut serving = fleetwright_fake_kube::Config::new(Arc::new(move || clock.now()), config.seed);
        serving.token = config.token;
        Ok(Self { server: Server::new(serving), clock })
    }

    /// A client of its API server.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.server.service(), "default")
    }

    /// Its API server.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Its time.
    #[must_use]
    pub fn clock(&self) -> SharedClock {
        Arc::new(self.clock)
    }

    /// Virtual time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Creates or replaces the objects of a YAML text, in order, and names them (`Deployment default/web`).
    ///
    /// # Errors
    /// At the first document that is not an object, or that the API server refuses; those before it are applied.
    pub fn apply(&self, yaml: &str) -> Result<Vec<String>, WorldError> {
        let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(yaml)
            .map_err(|error| WorldError::Document { index: 1, why: error.to_string() })?;
        let mut applied = Vec::new();
        for (at, document) in documents.into_iter().enumerate().filter(|(_, document)| !document.is_null()) {
            if !document.is_object() {
                let why = "an object with apiVersion and kind is expected".to_owned();
                return Err(WorldError::Document { index: at.saturating_add(1), why });
            }
            let what = named(&document);
            match self.server.apply(document) {
                Ok(object) => applied.push(named(&object)),
                Err(source) => return Err(WorldError::Refused { what, source: Box::new(source) }),
            }
        }
        Ok(applied)
    }

    /// Lets virtual time pass.
    pub async fn run_for(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    /// Lets virtual time pass until nothing is left to do, `limit` at most.
    pub async fn run_until_settled(&self, limit: Duration) -> Settled {
        self.clock.sleep(limit).await;
        Settled::OutOfTime
    }

    /// The fleet and its load now.
    #[must_use]
    pub fn observe(&self) -> Overview {
        Overview { at: self.clock.now(), ..Overview::default() }
    }

    /// Serves the API on a port, for kubectl; port 0 takes a free one. Needs a runtime with I/O and time that is not
    /// paused.
    ///
    /// # Errors
    /// Where the address cannot be bound.
    pub async fn listen(&self, address: SocketAddr) -> std::io::Result<Listening> {
        self.server.listen(address).await
    }
}

/// A runtime of one thread whose time is virtual.
///
/// # Errors
/// Where the operating system refuses.
pub fn virtual_runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()
}

fn named(object: &serde_json::Value) -> String {
    let text = |at: &str| object.pointer(at).and_then(serde_json::Value::as_str).unwrap_or_default();
    let (kind, name, namespace) = (text("/kind"), text("/metadata/name"), text("/metadata/namespace"));
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}
