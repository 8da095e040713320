//! Finalizers of terminating objects.

use serde_json::{Value, json};

use crate::cluster::{ClusterState, Place};
use crate::object;
use crate::registry::Resource;

/// Whether nothing holds a terminating object any more.
pub(crate) fn is_deletion_over(resource: &Resource, value: &Value) -> bool {
    object::deleting(value)
        && object::finalizers(value).next().is_none()
        && object::integer(value, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0
        && (!resource.is("", "Namespace") || object::list(value, &["spec", "finalizers"]).is_empty())
}

/// Removes a finalizer, and the object with the last one.
pub(crate) fn drop(cluster: &mut ClusterState, place: &Place, finalizer: &str) {
    let (Some(value), Some(resource)) = (cluster.get(place), cluster.registry.of_storage(&place.storage))
    else {
        return;
    };
    if !object::finalizers(value).any(|name| name == finalizer) {
        return;
    }
    let kept: Vec<Value> =
        object::finalizers(value).filter(|name| *name != finalizer).map(|name| json!(name)).collect();
    let mut new = Value::clone(value);
    if kept.is_empty() {
        object::remove(&mut new, &["metadata", "finalizers"]);
    } else {
        object::put(&mut new, &["metadata", "finalizers"], kept);
    }
    if is_deletion_over(&resource, &new) {
        cluster.erase(place);
    } else {
        cluster.put(place, new);
    }
}
