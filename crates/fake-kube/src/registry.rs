//! The served resources: built-in ones and those of CustomResourceDefinitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use fleetwright_kube_schema::SchemaError;

mod builtin;
mod custom;

pub(crate) use custom::{Custom, resources as custom_resources};

/// A resource in discovery.
#[derive(Clone, Debug)]
pub struct ResourceInfo {
    /// API group; empty for the core group.
    pub group: String,
    /// Version within the group.
    pub version: String,
    /// Kind of the objects.
    pub kind: String,
    /// Plural name, as in paths.
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// Short names of kubectl.
    pub short_names: Vec<String>,
    /// Categories such as `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Verbs that are served.
    pub verbs: Vec<String>,
    /// Subresources: `status`, `scale`, `eviction`, `binding`, …
    pub subresources: Vec<String>,
}

impl ResourceInfo {
    /// `group/version`, or the version alone in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Kind of a list of these objects.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// Whether the subresource is served.
    pub fn has(&self, subresource: &str) -> bool {
        self.subresources.iter().any(|entry| entry == subresource)
    }

    /// Whether the verb is served.
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|entry| entry == verb)
    }
}

/// A served resource with its storage data.
#[derive(Debug)]
pub(crate) struct Resource {
    /// The discovery data.
    pub(crate) info: ResourceInfo,
    /// Name of the store; versions and aliases of one resource share it.
    pub(crate) storage: Arc<str>,
    /// For custom resources: schema and rules of this version.
    pub(crate) custom: Option<Custom>,
}

impl Resource {
    /// Whether `kind` of `group` names this resource.
    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        self.info.group == group && self.info.kind == kind
    }
}

/// Group, version, plural.
type Route = (String, String, String);

/// All resources by route, ordered.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    routes: BTreeMap<Route, Arc<Resource>>,
}

impl Registry {
    /// The built-in resources.
    pub(crate) fn builtin() -> Self {
        let mut registry = Self::default();
        for resource in builtin::resources() {
            registry.add(resource);
        }
        registry
    }

    fn add(&mut self, resource: Resource) {
        let info = &resource.info;
        let route = (info.group.clone(), info.version.clone(), info.plural.clone());
        self.routes.insert(route, Arc::new(resource));
    }

    /// The resource behind a path.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.routes.get(&(group.to_owned(), version.to_owned(), plural.to_owned())).cloned()
    }

    /// The resource of an `apiVersion` and `kind`.
    pub(crate) fn find_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.routes
            .values()
            .find(|entry| {
                entry.info.group == group && entry.info.version == version && entry.info.kind == kind
            })
            .cloned()
    }

    /// One resource of a store.
    pub(crate) fn of_storage(&self, storage: &str) -> Option<Arc<Resource>> {
        self.routes.values().find(|entry| &*entry.storage == storage).cloned()
    }

    /// All resources in discovery.
    pub(crate) fn infos(&self) -> Vec<ResourceInfo> {
        self.routes.values().map(|entry| entry.info.clone()).collect()
    }

    /// All resources in order of group, version and plural.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.routes.values()
    }

    /// Replaces the resources of a CustomResourceDefinition.
    ///
    /// # Errors
    /// The part of a schema that is not supported.
    pub(crate) fn register(&mut self, definition: &Value) -> Result<(), SchemaError> {
        let added = custom::resources(definition)?;
        self.unregister(definition);
        for resource in added {
            self.add(resource);
        }
        Ok(())
    }

    /// Removes the resources of a CustomResourceDefinition.
    pub(crate) fn unregister(&mut self, definition: &Value) {
        let (group, plural) = custom::group_and_plural(definition);
        self.routes
            .retain(|route, resource| resource.custom.is_none() || route.0 != group || route.2 != plural);
    }
}
