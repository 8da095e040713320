//! Converts an incoming object to its stored form: identity, version, types, pruning and defaults.

use serde_json::{Value, json};

use crate::cluster::Target;
use crate::registry::{Resource, ResourceInfo};
use crate::status::ApiError;
use crate::{admission, events, object, quantity, typed};

/// Checks `apiVersion` and `kind` against the route, and sets them on a built-in object without them.
///
/// # Errors
/// 400 with the decoder's message.
pub(crate) fn check_type(resource: &Resource, value: &mut Value) -> Result<(), ApiError> {
    let info = &resource.info;
    if !value.is_object() {
        return Err(ApiError::bad_request("the body of the request is not an object"));
    }
    let (kind, version) =
        (object::text(value, &["kind"]).to_owned(), object::text(value, &["apiVersion"]).to_owned());
    if resource.custom.is_some() && (kind.is_empty() || version.is_empty()) {
        let missing = if kind.is_empty() { "Kind" } else { "apiVersion" };
        return Err(ApiError::bad_request(format!("Object '{missing}' is missing in '{value}'")));
    }
    let expected = info.api_version();
    if !version.is_empty() && version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    if !kind.is_empty() && kind != info.kind {
        return Err(ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {}: converting ({kind}) to ({}): unknown conversion",
            info.kind, info.kind
        )));
    }
    object::put(value, &["apiVersion"], expected);
    object::put(value, &["kind"], info.kind.as_str());
    Ok(())
}

/// Checks that namespace and name match the path, and sets them.
///
/// # Errors
/// 400 if they differ.
pub(crate) fn check_identity(target: &Target, value: &mut Value) -> Result<(), ApiError> {
    if object::at(value, &["metadata"]).is_none_or(Value::is_null) {
        object::put(value, &["metadata"], serde_json::Map::new());
    }
    let namespace = object::namespace(value);
    if !namespace.is_empty() && namespace != target.namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(message));
    }
    if !target.namespace.is_empty() {
        object::put(value, &["metadata", "namespace"], target.namespace.as_str());
    }
    if !target.name.is_empty() {
        let name = object::name(value);
        if !name.is_empty() && name != target.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                target.name
            )));
        }
        object::put(value, &["metadata", "name"], target.name.as_str());
    }
    Ok(())
}

/// Decodes an object: checks types, prunes unknown fields (or rejects them if `strict`), sets defaults.
///
/// # Errors
/// 400 for a body that cannot be decoded or, when strict, has unknown fields.
pub(crate) fn decode(resource: &Resource, mut value: Value, strict: bool) -> Result<Value, ApiError> {
    let info = &resource.info;
    events::to_storage(resource, &mut value);
    if resource.custom.is_none() && !crate::crds::is_definition(resource) {
        quantity::canonicalise(&mut value).map_err(|error| undecodable(info, error))?;
    }
    let group = if info.plural == "events" { "" } else { &info.group };
    match typed::normalise(group, &info.kind, &value) {
        Some(normalised) => {
            let mut normalised = normalised.map_err(|error| undecodable(info, error))?;
            if strict {
                let mut unknown = Vec::new();
                typed::unknown(&value, &normalised, "", &mut unknown);
                refuse_unknown(&unknown)?;
            }
            typed::omit_empty(&mut normalised);
            value = normalised;
        }
        None => {
            let metadata = typed::metadata(&value["metadata"]).map_err(|error| undecodable(info, error))?;
            object::put(&mut value, &["metadata"], metadata);
            if let Some(metadata) = object::at_mut(&mut value, &["metadata"]) {
                typed::omit_empty(metadata);
            }
            custom(resource, &mut value, strict)?;
        }
    }
    admission::default(resource, &mut value);
    Ok(value)
}

/// Decodes a write of the status: the status, and the metadata if it differs from that of `old`. The rest of `value` is that of `old`,
/// which was decoded before.
///
/// # Errors
/// As [`decode`].
pub(crate) fn decode_status(
    resource: &Resource,
    mut value: Value,
    old: &Value,
    strict: bool,
) -> Result<Value, ApiError> {
    let mut changed = json!({ "apiVersion": value["apiVersion"], "kind": value["kind"], "metadata": {} });
    let fields = ["metadata", "status"].into_iter().filter(|field| value[*field] != old[*field]);
    let fields: Vec<&str> = fields.collect();
    for field in &fields {
        if let Some(given) = object::remove(&mut value, &[field]) {
            object::put(&mut changed, &[field], given);
        }
    }
    let mut changed = decode(resource, changed, strict)?;
    for field in &fields {
        if let Some(decoded) = object::remove(&mut changed, &[field]) {
            object::put(&mut value, &[field], decoded);
        }
    }
    Ok(value)
}

/// Prunes (or rejects) unknown fields of a custom object and sets the schema's defaults.
fn custom(resource: &Resource, value: &mut Value, strict: bool) -> Result<(), ApiError> {
    let Some(custom) = &resource.custom else { return Ok(()) };
    if strict {
        refuse_unknown(&custom.structural.unknown_fields(value))?;
    }
    custom.structural.prune(value);
    custom.structural.default(value);
    Ok(())
}

fn undecodable(info: &ResourceInfo, error: String) -> ApiError {
    let version = info.api_version();
    ApiError::bad_request(format!(
        "{} in version {version:?} cannot be handled as a {}: {error}",
        info.kind, info.kind
    ))
}

fn refuse_unknown(unknown: &[String]) -> Result<(), ApiError> {
    if unknown.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    Err(ApiError::bad_request(format!("strict decoding error: {}", list.join(", "))))
}
