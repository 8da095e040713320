//! JSON Merge Patch (RFC 7386).

use serde_json::Value;

use crate::status::ApiError;

/// Merges a patch into an object; null removes.
///
/// # Errors
/// 400 when the patch is not an object.
pub(crate) fn apply(object: &Value, patch: &Value) -> Result<Value, ApiError> {
    if !patch.is_object() {
        return Err(ApiError::bad_request("error decoding patch: the merge patch is not an object"));
    }
    let mut merged = object.clone();
    json_patch::merge(&mut merged, patch);
    Ok(merged)
}
