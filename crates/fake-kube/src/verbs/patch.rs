//! Patches in all formats, for existing objects and, with server-side apply, for new ones.

use std::sync::Arc;

use serde_json::Value;

use super::update;
use crate::cluster::{ClusterState, Target, Write};
use crate::patch::{self, PatchKind};
use crate::registry::Resource;
use crate::status::ApiError;
use crate::{events, object};

/// Patches an object. The flag is true if it was created.
///
/// # Errors
/// 400, 404, 409, 415 or 422, with the API server's messages.
pub(crate) fn patch(
    cluster: &mut ClusterState,
    target: &Target,
    kind: PatchKind,
    body: &Value,
    write: &Write,
) -> Result<(Arc<Value>, bool), ApiError> {
    if kind == PatchKind::Apply {
        return patch::apply::apply(cluster, target, body, write);
    }
    let old = cluster.find(target)?;
    let shown = events::present(&target.resource, &old);
    let new = patched(&target.resource, kind, &shown, body)?;
    check_identity(target, &old, &new)?;
    update::save(cluster, target, &old, new, write).map(|stored| (stored, false))
}

/// Applies a patch to an object.
///
/// # Errors
/// 400, 415 or 422.
pub(crate) fn patched(
    resource: &Resource,
    kind: PatchKind,
    shown: &Value,
    body: &Value,
) -> Result<Value, ApiError> {
    match kind {
        PatchKind::Json => patch::json::apply(shown, body),
        PatchKind::Merge => patch::merge::apply(shown, body),
        PatchKind::Strategic if resource.custom.is_none() => {
            patch::strategic::apply(&resource.info.kind, shown, body)
        }
        PatchKind::Strategic | PatchKind::Apply => {
            let supported =
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
            Err(ApiError::unsupported_media("application/strategic-merge-patch+json", supported))
        }
    }
}

/// A patch may not change the identity of an object.
fn check_identity(target: &Target, old: &Value, new: &Value) -> Result<(), ApiError> {
    let name = object::name(new);
    if name != target.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    let uid = object::uid(new);
    if uid != object::uid(old) {
        return Err(target.conflict(&format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            object::uid(old)
        )));
    }
    for field in ["apiVersion", "kind"] {
        if object::text(new, &[field]).is_empty() {
            return Err(ApiError::bad_request(format!("Object '{field}' is missing after the patch")));
        }
    }
    Ok(())
}
