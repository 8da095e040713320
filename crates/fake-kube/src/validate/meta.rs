//! Metadata: names, labels, annotations, finalizers, owners.

use serde_json::{Value, json};

use crate::object;
use crate::registry::Resource;
use crate::status::Cause;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
/// Maximum total bytes of an object's annotations.
const ANNOTATIONS: usize = 256 * 1024;

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    let outer = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-');
    bytes.iter().all(inner) && outer(bytes.first()) && outer(bytes.last())
}

/// The error of a DNS subdomain, if any.
pub(super) fn subdomain(text: &str) -> Option<&'static str> {
    if text.len() > 253 {
        return Some("must be no more than 253 bytes");
    }
    (!text.split('.').all(is_label)).then_some(SUBDOMAIN)
}

/// The error of a DNS label, if any.
pub(super) fn dns_label(text: &str) -> Option<&'static str> {
    if text.len() > 63 {
        return Some("must be no more than 63 bytes");
    }
    (!is_label(text)).then_some(LABEL)
}

fn is_word(text: &str) -> bool {
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.bytes().all(inner) && outer(text.as_bytes().first()) && outer(text.as_bytes().last())
}

/// The error of a qualified name, such as the key of a label, if any.
pub(super) fn qualified_name(text: &str) -> Option<String> {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    if name.contains('/') {
        return Some(format!(
            "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
            NAME_PART.trim_start_matches("name part ")
        ));
    }
    match prefix {
        Some("") => return Some("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            if let Some(problem) = subdomain(prefix) {
                return Some(format!("prefix part {problem}"));
            }
        }
        None => {}
    }
    if name.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    if name.len() > 63 {
        return Some("name part must be no more than 63 bytes".to_owned());
    }
    (!is_word(name)).then(|| NAME_PART.to_owned())
}

/// The error of a label value, if any.
pub(super) fn label_value(text: &str) -> Option<&'static str> {
    if text.len() > 63 {
        return Some("must be no more than 63 bytes");
    }
    (!text.is_empty() && !is_word(text)).then_some(LABEL_VALUE)
}

/// Checks a map of labels.
pub(super) fn labels(value: Option<&Value>, field: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in value.and_then(Value::as_object).into_iter().flatten() {
        if let Some(problem) = qualified_name(key) {
            causes.push(Cause::invalid(field, &json!(key), &problem));
        }
        if let Some(problem) = label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid(field, value, problem));
        }
    }
    causes
}

fn name_problem(resource: &Resource, name: &str) -> Option<&'static str> {
    let group = resource.info.group.as_str();
    match resource.info.kind.as_str() {
        "Namespace" if group.is_empty() => dns_label(name),
        "Service" if group.is_empty() => dns_label(name)
            .or_else(|| name.starts_with(|first: char| first.is_ascii_digit()).then_some(LABEL_1035)),
        _ if group == "rbac.authorization.k8s.io" => match name {
            "." => Some("may not be '.'"),
            ".." => Some("may not be '..'"),
            name if name.contains('/') => Some("may not contain '/'"),
            name if name.contains('%') => Some("may not contain '%'"),
            _ => None,
        },
        _ => subdomain(name),
    }
}

/// Checks the metadata of an object.
pub(super) fn check(resource: &Resource, value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = object::name(value);
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else if let Some(problem) = name_problem(resource, name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), problem));
    }
    causes.extend(labels(object::at(value, &["metadata", "labels"]), "metadata.labels"));
    let annotations = object::at(value, &["metadata", "annotations"]).and_then(Value::as_object);
    let mut size = 0_usize;
    for (key, text) in annotations.into_iter().flatten() {
        size = size.saturating_add(key.len()).saturating_add(text.as_str().map_or(0, str::len));
        if let Some(problem) = qualified_name(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &json!(key), &problem));
        }
    }
    if size > ANNOTATIONS {
        causes.push(Cause {
            field: "metadata.annotations".to_owned(),
            reason: "FieldValueTooLong".to_owned(),
            message: format!("Too long: may not be more than {ANNOTATIONS} bytes"),
        });
    }
    causes.extend(finalizers(resource, value));
    causes.extend(owners(value));
    causes
}

fn finalizers(resource: &Resource, value: &Value) -> Vec<Cause> {
    const STANDARD: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];
    let mut causes = Vec::new();
    for (index, name) in object::finalizers(value).enumerate() {
        let field = || format!("metadata.finalizers[{index}]");
        if let Some(problem) = qualified_name(name) {
            causes.push(Cause::invalid("metadata.finalizers", &json!(name), &problem));
        } else if resource.custom.is_none()
            && !name.contains('/')
            && !STANDARD.contains(&name)
            && !name.contains('.')
        {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(field(), &json!(name), detail));
        }
    }
    causes
}

fn owners(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut controller: Option<&str> = None;
    for (index, owner) in object::owners(value).iter().enumerate() {
        for (field, what) in [("apiVersion", "version"), ("kind", "kind"), ("name", "name"), ("uid", "uid")] {
            if object::text(owner, &[field]).is_empty() {
                let detail = format!("{what} must not be empty");
                let field = format!("metadata.ownerReferences[{index}].{field}");
                causes.push(Cause::invalid(field, &json!(""), &detail));
            }
        }
        if owner["controller"] == json!(true) {
            let name = object::text(owner, &["name"]);
            if let Some(first) = controller {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                );
                let list = value["metadata"]["ownerReferences"].clone();
                causes.push(Cause::invalid("metadata.ownerReferences", &list, &detail));
            }
            controller = controller.or(Some(name));
        }
    }
    causes
}
