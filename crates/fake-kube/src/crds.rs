//! CustomResourceDefinitions: acceptance of names, registration of routes, removal of instances.

use serde_json::{Value, json};

use crate::cluster::{ClusterState, Place};
use crate::propagation::Propagation;
use crate::registry::{Resource, custom_resources};
use crate::status::{ApiError, Cause};
use crate::store::Key;
use crate::verbs::delete;
use crate::{finalizers, object};

/// The store of definitions.
pub(crate) const STORAGE: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// Finalizer that holds a definition until its instances are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Whether a resource is that of definitions.
pub(crate) fn is_definition(resource: &Resource) -> bool {
    &*resource.storage == STORAGE
}

/// Validates a definition and sets its status, as the API extensions server does.
///
/// # Errors
/// 422 with the field.
pub(crate) fn accept(cluster: &ClusterState, value: &mut Value) -> Result<(), ApiError> {
    default_names(value);
    let causes = check(value);
    if !causes.is_empty() {
        let name = object::name(value).to_owned();
        return Err(ApiError::invalid("apiextensions.k8s.io", "CustomResourceDefinition", &name, &causes));
    }
    if !object::deleting(value) && !object::finalizers(value).any(|name| name == CLEANUP) {
        let mut finalizers = object::list(value, &["metadata", "finalizers"]).to_vec();
        finalizers.push(CLEANUP.into());
        object::put(value, &["metadata", "finalizers"], finalizers);
    }
    let names = object::at(value, &["spec", "names"]).cloned().unwrap_or_default();
    object::put(value, &["status", "acceptedNames"], names);
    let storage: Vec<Value> = object::list(value, &["spec", "versions"])
        .iter()
        .filter(|version| version["storage"] == json!(true))
        .map(|version| version["name"].clone())
        .collect();
    let mut stored = object::list(value, &["status", "storedVersions"]).to_vec();
    stored.extend(
        storage.into_iter().filter(|name| !object::list(value, &["status", "storedVersions"]).contains(name)),
    );
    object::put(value, &["status", "storedVersions"], stored);
    if object::list(value, &["status", "conditions"]).is_empty() {
        let now = cluster.now();
        let condition = |kind: &str, reason: &str, message: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message });
        let conditions = json!([
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ]);
        object::put(value, &["status", "conditions"], conditions);
    }
    Ok(())
}

fn default_names(value: &mut Value) {
    let kind = object::text(value, &["spec", "names", "kind"]).to_owned();
    object::put_default(value, &["spec", "names", "singular"], kind.to_lowercase());
    object::put_default(value, &["spec", "names", "listKind"], format!("{kind}List"));
    object::put_default(value, &["spec", "conversion"], json!({ "strategy": "None" }));
}

fn check(value: &Value) -> Vec<Cause> {
    let text = |path: &[&str]| object::text(value, path);
    let mut causes = Vec::new();
    for path in [["spec", "group"].as_slice(), &["spec", "names", "plural"], &["spec", "names", "kind"]] {
        if text(path).is_empty() {
            causes.push(Cause::required(path.join("."), ""));
        }
    }
    let expected = format!("{}.{}", text(&["spec", "names", "plural"]), text(&["spec", "group"]));
    if causes.is_empty() && object::name(value) != expected {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &json!(object::name(value)), detail));
    }
    if !matches!(text(&["spec", "scope"]), "Namespaced" | "Cluster") {
        let scope = json!(text(&["spec", "scope"]));
        causes.push(Cause::not_supported("spec.scope", &scope, &["Cluster", "Namespaced"]));
    }
    let versions = object::list(value, &["spec", "versions"]);
    let stored = versions.iter().filter(|version| version["storage"] == json!(true)).count();
    if stored != 1 {
        let detail = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &json!(versions.len()), detail));
    }
    for (index, version) in versions.iter().enumerate() {
        if object::at(version, &["schema", "openAPIV3Schema"]).is_none_or(Value::is_null) {
            let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
            causes.push(Cause::required(field, "schemas are required"));
        }
    }
    if causes.is_empty()
        && let Err(error) = custom_resources(value)
    {
        let message = format!("Invalid value: {error}");
        let reason = "FieldValueInvalid".to_owned();
        causes.push(Cause { field: "spec.versions".to_owned(), reason, message });
    }
    causes
}

/// Registers the resources of a definition, and creates its store.
pub(crate) fn register(cluster: &mut ClusterState, definition: &Value) {
    if let Err(error) = cluster.registry.register(definition) {
        tracing::warn!(name = object::name(definition), %error, "definition is not served");
    }
    let storage = storage_of(definition);
    cluster.open(&storage.as_str().into());
}

fn storage_of(definition: &Value) -> String {
    let plural = object::text(definition, &["spec", "names", "plural"]);
    format!("{plural}.{}", object::text(definition, &["spec", "group"]))
}

/// Deletes the instances of a definition.
pub(crate) fn delete_instances(cluster: &mut ClusterState, definition: &Value) {
    let storage = storage_of(definition);
    let places: Vec<Place> = cluster
        .store(&storage)
        .into_iter()
        .flat_map(|store| store.scan(""))
        .map(|(key, _)| Place { storage: storage.as_str().into(), key: key.clone() })
        .collect();
    for place in places {
        delete::delete_place(cluster, &place, Propagation::Background);
    }
}

/// Removes a terminating definition whose instances are gone.
pub(crate) fn finish(cluster: &mut ClusterState, name: &str) {
    let place = Place { storage: STORAGE.into(), key: Key::new("", name) };
    let Some(definition) = cluster.get(&place).filter(|value| object::deleting(value)) else { return };
    if cluster.store(&storage_of(definition)).is_none_or(|store| store.len() == 0) {
        finalizers::drop(cluster, &place, CLEANUP);
    }
}
