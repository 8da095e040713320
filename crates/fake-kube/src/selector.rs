//! Label and field selectors, in the text form of query parameters and in the form of `LabelSelector`.

use fleetwright_kube_semantics::selector::SetOperator;
use serde_json::Value;

use crate::object;
use crate::registry::Resource;
use crate::status::ApiError;

/// One label requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    key: String,
    operator: SetOperator,
    values: Vec<String>,
}

impl Rule {
    fn new(key: &str, operator: SetOperator, values: Vec<String>) -> Self {
        Self { key: key.to_owned(), operator, values }
    }
}

/// A conjunction of label requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labels(Vec<Rule>);

impl Labels {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
    ///
    /// # Errors
    /// 400 with the invalid part.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        split_top_level(text).into_iter().map(parse_rule).collect::<Result<_, _>>().map(Self)
    }

    /// Parses a `LabelSelector`; `None` selects nothing, an empty one everything.
    pub(crate) fn of_value(selector: Option<&Value>) -> Option<Self> {
        let selector = selector.filter(|value| value.is_object())?;
        let mut rules: Vec<Rule> = selector
            .get("matchLabels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(key, value)| {
                Rule::new(key, SetOperator::In, vec![value.as_str().unwrap_or_default().to_owned()])
            })
            .collect();
        for expression in object::list(selector, &["matchExpressions"]) {
            let values = object::list(expression, &["values"])
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            let operator = SetOperator::parse(object::text(expression, &["operator"]))?;
            rules.push(Rule::new(object::text(expression, &["key"]), operator, values));
        }
        Some(Self(rules))
    }

    /// Whether the labels satisfy every requirement.
    pub(crate) fn matches(&self, labels: Option<&Value>) -> bool {
        let get = |key: &str| labels.and_then(|map| map.get(key)).and_then(Value::as_str);
        self.0.iter().all(|rule| {
            rule.operator.admits(get(&rule.key), |value| rule.values.iter().any(|listed| listed == value))
        })
    }

    /// Text form of a `LabelSelector`, as in Scale.
    pub(crate) fn render(&self) -> String {
        let parts: Vec<String> = self
            .0
            .iter()
            .map(|Rule { key, operator, values }| match operator {
                SetOperator::In if values.len() == 1 => format!("{key}={}", values[0]),
                SetOperator::In => format!("{key} in ({})", values.join(",")),
                SetOperator::NotIn => format!("{key} notin ({})", values.join(",")),
                SetOperator::Exists => key.clone(),
                SetOperator::DoesNotExist => format!("!{key}"),
            })
            .collect();
        parts.join(",")
    }
}

/// Splits at commas outside parentheses.
fn split_top_level(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_i32, 0, Vec::new());
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn parse_rule(part: &str) -> Result<Rule, ApiError> {
    let bad = || ApiError::bad_request(format!("unable to parse requirement: {part:?} cannot be read"));
    let set = |text: &str| -> Option<Vec<String>> {
        let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(inner.split(',').map(|value| value.trim().to_owned()).collect())
    };
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(Rule::new(key.trim(), SetOperator::NotIn, vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Rule::new(key.trim(), SetOperator::In, vec![value.trim().to_owned()]));
    }
    if let Some((key, values)) = part.split_once(" notin ") {
        return Ok(Rule::new(key.trim(), SetOperator::NotIn, set(values).ok_or_else(bad)?));
    }
    if let Some((key, values)) = part.split_once(" in ") {
        return Ok(Rule::new(key.trim(), SetOperator::In, set(values).ok_or_else(bad)?));
    }
    let (key, operator) = match part.strip_prefix('!') {
        Some(rest) => (rest.trim(), SetOperator::DoesNotExist),
        None => (part, SetOperator::Exists),
    };
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(bad());
    }
    Ok(Rule::new(key, operator, Vec::new()))
}

/// A conjunction of field requirements: path, value, whether equality is required.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<(String, String, bool)>);

/// Selectable fields of a built-in kind, besides name and namespace.
fn selectable(kind: &str) -> &'static [&'static str] {
    match kind {
        "Pod" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "Node" => &["spec.unschedulable"],
        "Namespace" => &["status.phase"],
        "Event" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.fieldPath",
        ],
        "Secret" => &["type"],
        "ReplicaSet" | "ReplicationController" => &["status.replicas"],
        "Job" => &["status.successful"],
        "ResourceSlice" => &["spec.nodeName", "spec.driver"],
        _ => &[],
    }
}

impl Fields {
    /// Parses `spec.nodeName=a,status.phase!=Failed` and checks that the resource supports the fields.
    ///
    /// # Errors
    /// 400 with the field that is not selectable.
    pub(crate) fn parse(text: &str, resource: &Resource) -> Result<Self, ApiError> {
        let mut fields = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let split =
                |sign: &str| part.split_once(sign).map(|(path, value)| (path.to_owned(), unescape(value)));
            let (path, value, equal) = if let Some((path, value)) = split("!=") {
                (path, value, false)
            } else if let Some((path, value)) = split("==").or_else(|| split("=")) {
                (path, value, true)
            } else {
                let message = format!("invalid selector: {text:?}; can't understand {part:?}");
                return Err(ApiError::bad_request(message));
            };
            if !supported(resource, &path) {
                let message = match &resource.custom {
                    Some(_) => format!("field label not supported: {path}"),
                    None => format!(
                        "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                    ),
                };
                return Err(ApiError::bad_request(message));
            }
            fields.push((path, value, equal));
        }
        Ok(Self(fields))
    }

    /// Whether the object satisfies every requirement.
    pub(crate) fn matches(&self, value: &Value) -> bool {
        self.0.iter().all(|(path, wanted, equal)| (field(value, path) == *wanted) == *equal)
    }

    /// The name in `metadata.name=…`, for a direct look-up.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0
            .iter()
            .find(|(path, _, equal)| *equal && path == "metadata.name")
            .map(|(_, name, _)| name.as_str())
    }
}

fn unescape(value: &str) -> String {
    value.replace("\\,", ",").replace("\\=", "=").replace("\\\\", "\\")
}

fn supported(resource: &Resource, path: &str) -> bool {
    path == "metadata.name"
        || (path == "metadata.namespace" && (resource.info.namespaced || resource.custom.is_none()))
        || match &resource.custom {
            Some(custom) => custom.selectable.iter().any(|field| field.trim_start_matches('.') == path),
            None => selectable(&resource.info.kind).contains(&path),
        }
}

/// The value that a field selector compares.
fn field(value: &Value, path: &str) -> String {
    let found = match path {
        // Stored in the core form, whichever group it is read through.
        "source" => object::at(value, &["source", "component"]),
        "reportingComponent" => {
            let reporter =
                object::at(value, &["reportingComponent"]).filter(|found| found.as_str() != Some(""));
            reporter.or_else(|| object::at(value, &["source", "component"]))
        }
        "status.successful" => object::at(value, &["status", "succeeded"]),
        path => {
            let path = match path.strip_prefix("regarding.") {
                Some(rest) => format!("involvedObject.{rest}"),
                None => path.to_owned(),
            };
            let parts: Vec<&str> = path.split('.').collect();
            object::at(value, &parts)
        }
    };
    match found {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None if path == "spec.unschedulable" || path == "spec.hostNetwork" => {
            "false".to_owned()
        }
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

/// Both selectors of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    /// Label requirements.
    pub(crate) labels: Labels,
    /// Field requirements.
    pub(crate) fields: Fields,
}

impl Selector {
    /// Whether an object is selected.
    pub(crate) fn matches(&self, value: &Value) -> bool {
        self.labels.matches(object::at(value, &["metadata", "labels"])) && self.fields.matches(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn label_selectors_select_as_kubernetes_does() {
        let labels = json!({ "app": "web", "tier": "front" });
        for (text, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier=front", true),
            ("app=db", false),
            ("app!=db", true),
            ("zone!=a", true),
            ("app in (web, db)", true),
            ("app in (db)", false),
            ("app notin (db),tier", true),
            ("!zone", true),
            ("!app", false),
            ("zone", false),
        ] {
            let selector = Labels::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(selector.matches(Some(&labels)), expected, "{text}");
        }
        for bad in ["app in web", "a b", "!"] {
            assert!(Labels::parse(bad).is_err(), "{bad}");
        }
    }
}
