//! Errors of the API server: a `metav1.Status` with code, reason, details and the server's message.

use serde_json::{Map, Value, json};

/// One entry of `details.causes`: a problem with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Path of the field, such as `spec.containers[0].image`; empty if the cause is not a field.
    pub field: String,
    /// Machine-readable reason, such as `FieldValueRequired`.
    pub reason: String,
    /// Text such as `Required value` or `Invalid value: "x": must be …`.
    pub message: String,
}

impl Cause {
    /// A missing required field.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::new(field, "FieldValueRequired", joined("Required value", detail))
    }

    /// A field with an invalid value.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let shown = format!("Invalid value: {}", show(value));
        Self::new(field, "FieldValueInvalid", joined(&shown, detail))
    }

    /// A field whose value is not one of `supported`.
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let mut sorted: Vec<String> = supported.iter().map(|entry| format!("{entry:?}")).collect();
        sorted.sort();
        let message = format!("Unsupported value: {}: supported values: {}", show(value), sorted.join(", "));
        Self::new(field, "FieldValueNotSupported", message)
    }

    /// A field that may not be set or changed.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new(field, "FieldValueForbidden", joined("Forbidden", detail))
    }

    /// A duplicate entry.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(field, "FieldValueDuplicate", format!("Duplicate value: {}", show(value)))
    }

    fn new(field: impl Into<String>, reason: &str, message: String) -> Self {
        Self { field: field.into(), reason: reason.to_owned(), message }
    }

    fn to_value(&self) -> Value {
        json!({ "reason": self.reason, "message": self.message, "field": self.field })
    }
}

fn joined(head: &str, detail: &str) -> String {
    if detail.is_empty() { head.to_owned() } else { format!("{head}: {detail}") }
}

/// Formats a value as Go's field errors do: strings quoted, the rest as JSON.
fn show(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

/// An error answer of the server.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// `metav1.StatusReason`, such as `NotFound`; empty for an unknown reason.
    pub reason: String,
    /// The server's message.
    pub message: String,
    /// `metav1.StatusDetails`, or null.
    pub details: Value,
}

impl ApiError {
    /// An error without details.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self { code, reason: reason.to_owned(), message: message.into(), details: Value::Null }
    }

    /// Adds `details` (group, kind as plural, name) as the server does.
    #[must_use]
    pub fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        let mut details = Map::new();
        for (key, text) in [("name", name), ("group", group), ("kind", kind)] {
            if !text.is_empty() {
                details.insert(key.to_owned(), text.into());
            }
        }
        self.details = Value::Object(details);
        self
    }

    /// Adds one cause to the details.
    #[must_use]
    pub fn cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        let mut cause = Map::new();
        for (key, text) in [("reason", reason), ("message", message), ("field", field)] {
            if !text.is_empty() {
                cause.insert(key.to_owned(), text.into());
            }
        }
        self.push_cause(Value::Object(cause));
        self
    }

    fn push_cause(&mut self, cause: Value) {
        let details = self.details_mut();
        if let Value::Array(causes) = details.entry("causes").or_insert_with(|| json!([])) {
            causes.push(cause);
        }
    }

    fn details_mut(&mut self) -> &mut Map<String, Value> {
        if !self.details.is_object() {
            self.details = json!({});
        }
        match &mut self.details {
            Value::Object(details) => details,
            // The line above made it an object.
            _ => unreachable!("details are an object"),
        }
    }

    /// Asks the client to retry after `seconds`.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details_mut().insert("retryAfterSeconds".to_owned(), seconds.into());
        self
    }

    /// 404 for an object.
    pub fn not_found(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} {name:?} not found", qualified(plural, group));
        Self::new(404, "NotFound", message).about(group, plural, name)
    }

    /// 404 for a route that is not served.
    pub fn no_such_route() -> Self {
        let mut error = Self::new(404, "NotFound", "the server could not find the requested resource");
        error.details = json!({});
        error
    }

    /// 409 on creation.
    pub fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", qualified(plural, group));
        Self::new(409, "AlreadyExists", message).about(group, plural, name)
    }

    /// 409 on a write that lost a race or failed a precondition.
    pub fn conflict(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let what = qualified(plural, group);
        let message = format!("Operation cannot be fulfilled on {what} {name:?}: {why}");
        Self::new(409, "Conflict", message).about(group, plural, name)
    }

    /// 409 because the given resourceVersion is not the current one.
    pub fn modified(group: &str, plural: &str, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, plural, name, why)
    }

    /// 422 with one cause per field.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let rendered: Vec<String> = causes
            .iter()
            .map(|cause| match cause.field.as_str() {
                "" => cause.message.clone(),
                field => format!("{field}: {}", cause.message),
            })
            .collect();
        let list = match rendered.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} {name:?} is invalid: {list}", qualified(kind, group));
        let mut error = Self::new(422, "Invalid", message).about(group, kind, name);
        for cause in causes {
            error.push_cause(cause.to_value());
        }
        error
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 403 by admission or by a rule of the resource.
    pub fn forbidden(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let what = qualified(plural, group);
        let message = match name {
            "" => format!("{what} is forbidden: {why}"),
            name => format!("{what} {name:?} is forbidden: {why}"),
        };
        Self::new(403, "Forbidden", message).about(group, plural, name)
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let mut error = Self::new(405, "MethodNotAllowed", message);
        error.details = json!({});
        error
    }

    /// 410: the requested revision is no longer in the history.
    pub fn expired(asked: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {asked} ({oldest})"))
    }

    /// 410 for a continue token older than the history.
    pub fn continue_expired() -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. \
                       You can start a new list without the continue parameter.";
        Self::new(410, "Expired", message)
    }

    /// 415 for a body in an unsupported format.
    pub fn unsupported_media(content_type: &str, supported: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format ({content_type}) - accepted media types include: {supported}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 422 for a patch that cannot be applied.
    pub fn unprocessable(detail: &str) -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message).about("", "", "").cause("", detail, "")
    }

    /// 500.
    pub fn internal(message: &str) -> Self {
        let mut error = Self::new(500, "InternalError", format!("Internal error occurred: {message}"));
        error.details = json!({ "causes": [{ "message": message }] });
        error
    }

    /// 429 with the server's reason.
    pub fn too_many_requests(message: &str) -> Self {
        let mut error = Self::new(429, "TooManyRequests", message);
        error.details = json!({});
        error
    }

    /// The serialized `Status` object.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.as_str().into();
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}

/// The `Status` object of success.
pub(crate) fn success(code: u16, details: Option<Value>) -> Value {
    let mut status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" });
    match details {
        Some(details) => status["details"] = details,
        None => status["code"] = code.into(),
    }
    status
}

/// `plural.group`, or the plural alone in the core group.
pub(crate) fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}
