//! A synchronous handle for tests and tools: no request, no fault, no counter.

use std::sync::Arc;

use serde_json::Value;

use crate::cluster::{ClusterState, Target, Write};
use crate::server::Server;
use crate::status::ApiError;
use crate::verbs::delete::DeleteOptions;
use crate::verbs::{create, delete, update};
use crate::{gc, object};

impl Server {
    /// Returns an object; `namespace` is empty for cluster-scoped kinds.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use fleetwright_fake_kube::{Config, Server};
    /// let server = Server::new(Config::new(Arc::new(|| jiff::Timestamp::UNIX_EPOCH), 7));
    /// assert!(server.get("v1", "Namespace", "", "kube-system").is_some());
    /// ```
    pub fn get(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let cluster = self.lock();
        let resource = cluster.registry.find_kind(api_version, kind)?;
        let target = Target { resource, namespace: namespace.to_owned(), name: name.to_owned() };
        let found = cluster.get(&target.place())?;
        Some(crate::events::present(&target.resource, found))
    }

    /// All objects of a kind in a namespace, or in all if it is empty; ordered by namespace and name.
    pub fn list(&self, api_version: &str, kind: &str, namespace: &str) -> Vec<Arc<Value>> {
        let cluster = self.lock();
        let Some(resource) = cluster.registry.find_kind(api_version, kind) else { return Vec::new() };
        cluster
            .scan(&resource.storage, namespace)
            .map(|value| crate::events::present(&resource, value))
            .collect()
    }

    /// Creates an object, or merges all given fields into it, including the status (lists are replaced). Admission, defaults and
    /// validation apply. An object whose last finalizer is removed is returned in its last version.
    ///
    /// # Errors
    /// As for the corresponding requests; 404 for a kind that is not served.
    pub fn apply(&self, value: Value) -> Result<Arc<Value>, ApiError> {
        let mut cluster = self.lock();
        let target = target(&cluster, &value)?;
        let write = Write::internal("direct");
        let old = match cluster.get(&target.place()) {
            Some(old) => Some(old.clone()),
            None => {
                let created = create::create(&mut cluster, &target, value.clone(), &write)?;
                // The status, which creation drops, is written as its controller would.
                value.get("status").is_some().then_some(created)
            }
        };
        let mut last = None;
        if let Some(old) = old {
            let shown = crate::events::present(&target.resource, &old);
            let merged = crate::patch::merge::apply(&shown, &value)?;
            last = Some(update::save(&mut cluster, &target, &old, merged, &write)?);
        }
        gc::run_chores(&mut cluster);
        cluster.find(&target).or_else(|error| last.ok_or(error))
    }

    /// Deletes an object, as a request without options; a missing object is no error.
    ///
    /// # Errors
    /// As for the request.
    pub fn delete(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<(), ApiError> {
        let mut cluster = self.lock();
        let resource = cluster.registry.find_kind(api_version, kind).ok_or_else(ApiError::no_such_route)?;
        let target = Target { resource, namespace: namespace.to_owned(), name: name.to_owned() };
        let outcome = delete::delete(&mut cluster, &target, &DeleteOptions::default());
        gc::run_chores(&mut cluster);
        match outcome {
            Err(error) if error.code != 404 => Err(error),
            _ => Ok(()),
        }
    }
}

fn target(cluster: &ClusterState, value: &Value) -> Result<Target, ApiError> {
    let (version, kind) = (object::text(value, &["apiVersion"]), object::text(value, &["kind"]));
    let resource = cluster.registry.find_kind(version, kind).ok_or_else(|| {
        let mut error = ApiError::no_such_route();
        error.message = format!("no resource serves {version} {kind}");
        error
    })?;
    let mut target = Target::of(&resource, value);
    if !resource.info.namespaced {
        target.namespace = String::new();
    } else if target.namespace.is_empty() {
        target.namespace = "default".to_owned();
    }
    Ok(target)
}
