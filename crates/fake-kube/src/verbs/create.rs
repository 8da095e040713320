//! Creation.

use std::sync::Arc;

use serde_json::Value;

use super::shape;
use crate::cluster::{ClusterState, Place, Target, Write};
use crate::status::ApiError;
use crate::store::Key;
use crate::{admission, crds, gc, managed, object, validate};

/// Maximum length of a generated name's prefix.
const LONGEST_BASE: usize = 58;

/// Creates an object.
///
/// # Errors
/// 400, 403, 404 (namespace), 409 AlreadyExists or 422, with the API server's messages.
pub(crate) fn create(
    cluster: &mut ClusterState,
    target: &Target,
    body: Value,
    write: &Write,
) -> Result<Arc<Value>, ApiError> {
    let resource = target.resource.clone();
    let info = &resource.info;
    let mut value = body;
    shape::check_type(&resource, &mut value)?;
    shape::check_identity(target, &mut value)?;
    require_namespace(cluster, target, object::name(&value))?;
    let mut value = shape::decode(&resource, value, write.strict)?;
    if object::revision(&value) != 0 {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(ApiError::new(500, "InternalError", message));
    }
    set_name(cluster, &mut value);
    let name = object::name(&value).to_owned();
    stamp(cluster, &resource.info.namespaced, &mut value);
    admission::prepare_create(&resource, &mut value);
    // An object read from storage has the schema's defaults, including those of the dropped status.
    if let Some(custom) = &resource.custom {
        custom.structural.default(&mut value);
    }
    admission::admit_create(cluster, &resource, &mut value)?;
    if admission::has_generation(&resource) {
        object::put(&mut value, &["metadata", "generation"], 1);
    }
    let causes = validate::create(&resource, &value);
    if !causes.is_empty() {
        return Err(ApiError::invalid(&info.group, &info.kind, &name, &causes));
    }
    let place = Place { storage: resource.storage.clone(), key: Key::new(object::namespace(&value), &name) };
    if cluster.get(&place).is_some() {
        return Err(ApiError::already_exists(&info.group, &info.plural, &name));
    }
    managed::on_write(cluster, &resource, None, &mut value, write);
    if crds::is_definition(&resource) {
        crds::accept(cluster, &mut value)?;
    }
    if write.dry_run {
        return Ok(Arc::new(value));
    }
    let stored = cluster.put(&place, value);
    gc::after_create(cluster, &resource, &place, &stored);
    Ok(cluster.get(&place).cloned().unwrap_or(stored))
}

fn set_name(cluster: &mut ClusterState, value: &mut Value) {
    let base = object::text(value, &["metadata", "generateName"]);
    if object::name(value).is_empty() && !base.is_empty() {
        let kept: String = base.chars().take(LONGEST_BASE).collect();
        let name = format!("{kept}{}", cluster.seeded.suffix());
        object::put(value, &["metadata", "name"], name);
    }
}

fn stamp(cluster: &mut ClusterState, namespaced: &bool, value: &mut Value) {
    for field in
        ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation", "resourceVersion"]
    {
        object::remove(value, &["metadata", field]);
    }
    if !namespaced {
        object::remove(value, &["metadata", "namespace"]);
    }
    let uid = cluster.seeded.uid();
    object::put(value, &["metadata", "uid"], uid);
    object::put(value, &["metadata", "creationTimestamp"], cluster.now());
}

/// Checks that the namespace exists and is not terminating.
pub(crate) fn require_namespace(cluster: &ClusterState, target: &Target, name: &str) -> Result<(), ApiError> {
    let info = &target.resource.info;
    if !info.namespaced {
        return Ok(());
    }
    let Some(namespace) = cluster.lookup("namespaces.", "", &target.namespace) else {
        return Err(ApiError::not_found("", "namespaces", &target.namespace));
    };
    if object::deleting(namespace) {
        let why = format!(
            "unable to create new content in namespace {} because it is being terminated",
            target.namespace
        );
        return Err(ApiError::forbidden(&info.group, &info.plural, name, &why).cause(
            "NamespaceTerminating",
            &format!("namespace {} is being terminated", target.namespace),
            "metadata.namespace",
        ));
    }
    Ok(())
}
