//! The server as a value: cheap to clone, without own threads, tasks or sockets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::Value;

use crate::boot;
use crate::cluster::ClusterState;
use crate::config::Config;
use crate::lines::{self, Lines};
use crate::registry::Resource;
use crate::route::ResourcePath;
use crate::view::table::{self, IncludeObject};

/// Requests by verb, `plural.group` and subresource.
pub type Counters = BTreeMap<(String, String, String), u64>;

/// An in-memory Kubernetes API server.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    cluster: Mutex<ClusterState>,
    lines: Mutex<Lines>,
    counters: Mutex<Counters>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

impl Server {
    /// A server with the system namespaces and priority classes only.
    pub fn new(config: Config) -> Self {
        let mut cluster = ClusterState::new(config.clone());
        boot::fill(&mut cluster);
        let (lines, counters) = (Mutex::default(), Mutex::default());
        let inner = Inner { config, cluster: Mutex::new(cluster), lines, counters };
        Self { inner: Arc::new(inner) }
    }

    /// The tower service for `kube::Client::new(service, "default")`.
    pub fn service(&self) -> Service {
        Service { server: self.clone() }
    }

    /// Requests served so far.
    pub fn requests(&self) -> Counters {
        self.inner.counters.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Drops the history of changes, as a compaction: running watches that lag and new ones from an old revision get 410.
    pub fn compact(&self) {
        self.lock().compact();
    }

    /// The last revision.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// The watch line of an object: serialized once for all watches that send it at about the same time.
    pub(crate) fn line(&self, kind: &'static str, object: &Arc<Value>) -> Bytes {
        self.inner.lines.lock().unwrap_or_else(PoisonError::into_inner).of(kind, object)
    }

    /// The JSON of an object in an answer: serialized once with the next watch lines.
    pub(crate) fn body(&self, code: u16, object: &Arc<Value>) -> Bytes {
        let kind = if code == 201 { "ADDED" } else { "MODIFIED" };
        lines::object_of(kind, &self.line(kind, object))
    }

    pub(crate) fn config(&self) -> &Config {
        &self.inner.config
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ClusterState> {
        self.inner.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A table of objects.
    pub(crate) fn table(
        &self,
        resource: &Resource,
        objects: &[&Value],
        metadata: &Value,
        include: IncludeObject,
    ) -> Value {
        let definition = resource.custom.as_ref().map(|custom| &custom.definition);
        table::table(&resource.info, definition, objects, (self.inner.config.now)(), metadata, include)
    }

    /// Counts a request.
    pub(crate) fn count(&self, verb: &str, path: &ResourcePath) {
        let resource = crate::status::qualified(&path.plural, &path.group);
        let key = (verb.to_owned(), resource, path.subresource.clone());
        let mut counters = self.inner.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let counter = counters.entry(key).or_default();
        *counter = counter.saturating_add(1);
    }
}

/// The server as a tower service over HTTP requests with any body.
#[derive(Clone, Debug)]
pub struct Service {
    pub(crate) server: Server,
}
