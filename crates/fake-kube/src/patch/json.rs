//! JSON Patch (RFC 6902) with the API server's one deviation: a test for null passes on an absent path.

use json_patch::PatchOperation;
use serde_json::Value;

use crate::status::ApiError;

/// Most operations in one patch, as in the API server.
const MOST_OPERATIONS: usize = 10_000;

/// Applies the operations in order.
///
/// # Errors
/// 400 for a patch that cannot be read, 422 for one that cannot be applied.
pub(crate) fn apply(object: &Value, patch: &Value) -> Result<Value, ApiError> {
    let operations: Vec<PatchOperation> = serde::Deserialize::deserialize(patch)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    if operations.len() > MOST_OPERATIONS {
        let message = format!(
            "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
            operations.len()
        );
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    let mut patched = object.clone();
    for operation in &operations {
        if passes_on_absence(&patched, operation) {
            continue;
        }
        json_patch::patch_unsafe(&mut patched, std::slice::from_ref(operation))
            .map_err(|error| ApiError::unprocessable(&error.to_string()))?;
    }
    Ok(patched)
}

fn passes_on_absence(object: &Value, operation: &PatchOperation) -> bool {
    match operation {
        PatchOperation::Test(test) => {
            test.value.is_null() && object.pointer(test.path.as_str()).is_none_or(Value::is_null)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn operations_apply_as_the_server_applies_them() {
        let object = json!({ "metadata": { "name": "a" }, "list": [1] });
        let test = |value: Value| json!([{ "op": "test", "path": "/metadata/finalizers", "value": value }]);
        let add = json!([{ "op": "add", "path": "/list/-", "value": 2 }]);
        assert_eq!(apply(&object, &test(Value::Null)), Ok(object.clone()));
        assert_eq!(apply(&object, &test(json!([]))).map_err(|error| error.code), Err(422));
        assert_eq!(apply(&object, &add).map(|new| new["list"].clone()), Ok(json!([1, 2])));
        let gone = json!([{ "op": "remove", "path": "/nothing" }]);
        assert_eq!(apply(&object, &gone).map_err(|error| error.code), Err(422));
        assert_eq!(apply(&object, &json!({})).map_err(|error| error.code), Err(400));
    }
}
