//! A parsed HTTP request.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use serde_json::Value;

use crate::cluster::{Part, Write};
use crate::faults::Request;
use crate::patch::PatchKind;
use crate::protobuf;
use crate::route::{self, Query, ResourcePath, Route};
use crate::status::ApiError;
use crate::view_of::ResponseView;

/// A request for a resource.
#[derive(Clone, Debug)]
pub(crate) struct ResourceRequest {
    /// Verb of RBAC.
    pub(crate) verb: &'static str,
    /// Path.
    pub(crate) path: ResourcePath,
    /// Query parameters.
    pub(crate) query: Query,
    /// Format of the answer.
    pub(crate) view: ResponseView,
    /// Format of the patch, for patches.
    pub(crate) patch: Option<PatchKind>,
    /// Body; null when there is none.
    pub(crate) body: Arc<Value>,
    /// The client's User-Agent.
    pub(crate) user_agent: String,
}

/// The target of a request.
pub(crate) enum Asked {
    /// A resource.
    Resource(Box<ResourceRequest>),
    /// Anything else.
    Other(Route),
}

fn header<'a>(parts: &'a Parts, name: &http::HeaderName) -> &'a str {
    parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Parses a request.
///
/// # Errors
/// 400 for a body, 404 for a path, 405 for a method, 415 for a media type.
pub(crate) fn read(parts: &Parts, body: &Bytes) -> Result<Asked, ApiError> {
    let path = match Route::parse(parts.uri.path()).ok_or_else(ApiError::no_such_route)? {
        Route::Resource(path) => path,
        other => return Ok(Asked::Other(other)),
    };
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let verb = route::verb(&parts.method, &path, &query).ok_or_else(ApiError::method_not_allowed)?;
    let content_type = header(parts, &CONTENT_TYPE);
    let patch = match verb {
        "patch" => Some(PatchKind::parse(content_type).ok_or_else(|| {
            let supported = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml";
            ApiError::unsupported_media(content_type, supported)
        })?),
        _ => None,
    };
    let view = ResponseView::parse(header(parts, &ACCEPT), &query);
    let body = Arc::new(read_body(content_type, body)?);
    let user_agent = header(parts, &USER_AGENT).to_owned();
    Ok(Asked::Resource(Box::new(ResourceRequest { verb, path, query, view, patch, body, user_agent })))
}

/// JSON, or YAML if it is not JSON.
fn read_body(content_type: &str, body: &Bytes) -> Result<Value, ApiError> {
    if body.is_empty() {
        return Ok(Value::Null);
    }
    if content_type.starts_with("application/vnd.kubernetes.protobuf") {
        return protobuf::decode(body)
            .ok_or_else(|| ApiError::unsupported_media(content_type, "application/json, application/yaml"));
    }
    let error = match serde_json::from_slice(body) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if content_type.contains("yaml") {
        let text = std::str::from_utf8(body).unwrap_or_default();
        return serde_saphyr::from_str(text)
            .map_err(|error| ApiError::bad_request(format!("error converting YAML to JSON: {error}")));
    }
    let message = format!("couldn't get version/kind; json parse error: {error}");
    Err(ApiError::bad_request(message))
}

impl ResourceRequest {
    /// The request for the fault hook, the audit and the counters.
    pub(crate) fn summary(&self) -> Request {
        Request {
            verb: self.verb.to_owned(),
            group: self.path.group.clone(),
            resource: self.path.plural.clone(),
            subresource: self.path.subresource.clone(),
            namespace: self.path.namespace.clone(),
            name: self.path.name.clone(),
            user_agent: self.user_agent.clone(),
            body: self.body.clone(),
        }
    }

    /// Options of a write.
    ///
    /// # Errors
    /// 400 for an invalid parameter, 422 for an apply without a field manager.
    pub(crate) fn write(&self) -> Result<Write, ApiError> {
        let query = &self.query;
        let dry_run = match query.text("dryRun") {
            "" => false,
            "All" => true,
            other => {
                let message = format!("dryRun: Unsupported value: {other:?}: supported values: \"All\"");
                return Err(ApiError::new(422, "Invalid", format!("options are invalid: {message}")));
            }
        };
        let apply = self.patch == Some(PatchKind::Apply);
        let given = query.text("fieldManager");
        if apply && given.is_empty() {
            let message = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
            return Err(ApiError::new(422, "Invalid", message));
        }
        if given.chars().count() > 128 {
            let message = "fieldManager: Invalid value: may not be more than 128 bytes";
            return Err(ApiError::new(422, "Invalid", message));
        }
        let agent = self.user_agent.split('/').next().unwrap_or_default();
        let manager = match (given, agent) {
            ("", "") => "unknown",
            ("", agent) => agent,
            (given, _) => given,
        };
        let part = match self.path.subresource.as_str() {
            "status" => Part::Status,
            "finalize" => Part::Whole,
            _ => Part::Main,
        };
        Ok(Write {
            dry_run,
            manager: manager.to_owned(),
            strict: query.text("fieldValidation") == "Strict",
            force: query.flag("force"),
            part,
            applied: None,
        })
    }
}
