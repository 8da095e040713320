//! Field errors with the messages of the API server (`k8s.io/apimachinery/pkg/util/validation/field`, 1.35).

use std::fmt;

use serde_json::Value;

use super::gotext;

/// Why a field is invalid; each kind maps to one cause type of a `Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    /// A required value is missing.
    Required,
    /// The value is malformed or violates a rule.
    Invalid,
    /// The value is not in the enumeration.
    NotSupported,
    /// A string is too long.
    TooLong,
    /// A list or a map has too many entries.
    TooMany,
    /// An entry that must be unique occurs twice.
    Duplicate,
    /// The value has another JSON type than the schema.
    TypeInvalid,
    /// The value is not permitted here.
    Forbidden,
}

impl FieldErrorKind {
    /// The `reason` of a cause in `Status.details.causes`.
    #[must_use]
    pub const fn cause(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Forbidden => "FieldValueForbidden",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
        }
    }

    /// Whether an error of this kind prevents the evaluation of CEL rules for the object.
    pub(crate) const fn blocks_rules(self) -> bool {
        matches!(
            self,
            Self::NotSupported | Self::Required | Self::TooLong | Self::TooMany | Self::TypeInvalid
        )
    }
}

/// An invalid field. `Display` prints `path: message`, as in a `Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path as the API server prints it (`spec.taints[0].key`); `<nil>` for the object itself.
    pub path: String,
    /// Kind of the error.
    pub kind: FieldErrorKind,
    /// The text after the path: title, invalid value if it is shown, and detail.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// The invalid value in a message.
pub(crate) enum ShownValue<'a> {
    /// Not shown.
    Nothing,
    /// Shown as JSON; scalars in the form of Go.
    Value(&'a Value),
    /// Shown as a quoted string.
    Text(&'a str),
    /// Shown as a number.
    Count(usize),
}

impl FieldError {
    /// Composes the message; an empty path is the object itself.
    pub(crate) fn new(path: &str, kind: FieldErrorKind, shown: ShownValue<'_>, detail: &str) -> Self {
        let mut message = kind.title().to_owned();
        match shown {
            ShownValue::Nothing => {}
            ShownValue::Value(value) => message.push_str(&format!(": {}", gotext::bad_value(value))),
            ShownValue::Text(text) => message.push_str(&format!(": {}", gotext::quote(text))),
            ShownValue::Count(count) => message.push_str(&format!(": {count}")),
        }
        if !detail.is_empty() {
            message.push_str(": ");
            message.push_str(detail);
        }
        Self { path: shown_path(path).to_owned(), kind, message }
    }

    /// A missing field.
    pub(crate) fn required(path: &str) -> Self {
        Self::new(path, FieldErrorKind::Required, ShownValue::Nothing, "")
    }

    /// A string over its limit; the message does not contain the value.
    pub(crate) fn too_long(path: &str, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(
            path,
            FieldErrorKind::TooLong,
            ShownValue::Nothing,
            &format!("may not be more than {max} {unit}"),
        )
    }

    /// A list or map over its limit.
    pub(crate) fn too_many(path: &str, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(
            path,
            FieldErrorKind::TooMany,
            ShownValue::Count(actual),
            &format!("must have at most {max} {unit}"),
        )
    }

    /// A value that is not in the enumeration; values other than strings are shown as JSON.
    pub(crate) fn not_supported(path: &str, value: &Value, supported: &[Value]) -> Self {
        let listed: Vec<String> = supported
            .iter()
            .map(|v| v.as_str().map_or_else(|| gotext::quote(&gotext::json(v)), gotext::quote))
            .collect();
        let detail = format!("supported values: {}", listed.join(", "));
        Self::new(path, FieldErrorKind::NotSupported, ShownValue::Value(value), &detail)
    }
}

/// The API server prints the path of the object itself as a nil path.
fn shown_path(path: &str) -> &str {
    let path = path.strip_prefix('.').unwrap_or(path);
    if path.is_empty() { "<nil>" } else { path }
}
