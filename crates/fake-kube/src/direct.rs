//! A synchronous handle for tests and tools: no request, no fault, no counter.

use std::sync::Arc;

use serde_json::Value;

use crate::object;
use crate::server::Server;
use crate::status::ApiError;
use crate::verbs::delete::DeleteOptions;
use crate::world::{Target, World, Write};

impl Server {
    /// The object of a kind, if there is one; `namespace` is empty for cluster-scoped kinds.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use fleetwright_fake_kube::{Config, Server};
    /// let server = Server::new(Config::new(Arc::new(|| jiff::Timestamp::UNIX_EPOCH), 7));
    /// assert!(server.get("v1", "Namespace", "", "kube-system").is_some());
    /// ```
    pub fn get(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let world = self.lock();
        let resource = world.registry.find_kind(api_version, kind)?;
        let target = Target { resource, namespace: namespace.to_owned(), name: name.to_owned() };
        let found = world.get(&target.place())?;
        Some(crate::events::present(&target.resource, found))
    }

    /// All objects of a kind in a namespace, or in all when it is empty; in order of namespace and name.
    pub fn list(&self, api_version: &str, kind: &str, namespace: &str) -> Vec<Arc<Value>> {
        let world = self.lock();
        let Some(resource) = world.registry.find_kind(api_version, kind) else { return Vec::new() };
        world
            .scan(&resource.storage, namespace)
            .map(|value| crate::events::present(&resource, value))
            .collect()
    }

    /// Creates an object, or replaces everything of it that the given one names, status included (a merge:
    /// lists are replaced). Admission, defaults and validation apply. An object whose last finalizer goes is returned as it
    /// was at its end.
    ///
    /// # Errors
    /// As for the requests that this stands for; 404 for a kind that is not served.
    pub fn apply(&self, value: Value) -> Result<Arc<Value>, ApiError> {
        let mut world = self.lock();
        let target = target(&world, &value)?;
        let write = Write::internal("direct");
        let old = match world.get(&target.place()) {
            Some(old) => Some(old.clone()),
            None => {
                let created = world.create(&target, value.clone(), &write)?;
                // The status that creation drops is written as its own controller would write it.
                value.get("status").is_some().then_some(created)
            }
        };
        let mut last = None;
        if let Some(old) = old {
            let shown = crate::events::present(&target.resource, &old);
            let merged = crate::patch::merge::apply(&shown, &value)?;
            last = Some(world.save(&target, &old, merged, &write)?);
        }
        world.settle();
        world.find(&target).or_else(|error| last.ok_or(error))
    }

    /// Deletes an object as a request without options does; absence is fine.
    ///
    /// # Errors
    /// As for the request.
    pub fn delete(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<(), ApiError> {
        let mut world = self.lock();
        let resource = world.registry.find_kind(api_version, kind).ok_or_else(ApiError::no_such_route)?;
        let target = Target { resource, namespace: namespace.to_owned(), name: name.to_owned() };
        let outcome = world.delete(&target, &DeleteOptions::default());
        world.settle();
        match outcome {
            Err(error) if error.code != 404 => Err(error),
            _ => Ok(()),
        }
    }
}

fn target(world: &World, value: &Value) -> Result<Target, ApiError> {
    let (version, kind) = (object::text(value, &["apiVersion"]), object::text(value, &["kind"]));
    let resource = world.registry.find_kind(version, kind).ok_or_else(|| {
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
