//! Custom resources: the printer columns of their definition.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{list, name, text, text_or};
use super::jsonpath::Path;
use super::{Column, Printer, age};

/// Builds the printer of one version of a CustomResourceDefinition. A version without columns shows the age; a
/// column whose path is malformed stays empty.
pub(super) fn printer(crd: &Value, version: &str) -> Printer {
    let found = list(crd, "/spec/versions").iter().find(|entry| text(entry, "/name") == version);
    let defined = found.map_or(&[][..], |version| list(version, "/additionalPrinterColumns"));
    let mut columns = vec![Column::new("Name", "string", 0)];
    let mut sources = Vec::with_capacity(defined.len());
    if defined.is_empty() {
        columns.push(Column::new("Age", "date", 0));
        sources.push((Path::parse(".metadata.creationTimestamp"), "date".to_owned()));
    }
    for column in defined {
        let path = text(column, "/jsonPath");
        let described = format!("Custom resource definition column (in JSONPath format): {path}");
        let kind = text(column, "/type").to_owned();
        columns.push(Column {
            name: text(column, "/name").to_owned(),
            kind: kind.clone(),
            format: text(column, "/format").to_owned(),
            description: text_or(column, "/description", &described).to_owned(),
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or_default(),
        });
        sources.push((Path::parse(path), kind));
    }
    let cells = move |object: &Value, now: Timestamp| {
        let values = sources.iter().map(|(path, kind)| {
            let found = path.as_ref().map(|path| path.find(object)).unwrap_or_default();
            found.first().map_or(Value::Null, |value| cell(kind, value, now))
        });
        std::iter::once(name(object)).chain(values).collect()
    };
    Printer { columns, cells: Box::new(cells) }
}

/// Only the first result of a path is shown, and only if it has the type of the column.
fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", Value::String(text)) => json!(text),
        ("string", Value::Null) => json!("<nil>"),
        ("string", other) => json!(other.to_string()),
        ("integer", Value::Number(number)) => number.as_i64().map_or(Value::Null, |int| json!(int)),
        ("number", Value::Number(number)) => json!(number),
        ("boolean", Value::Bool(flag)) => json!(flag),
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(_) => json!(age::since(Some(text), now)),
            Err(_) => json!("<invalid>"),
        },
        _ => Value::Null,
    }
}
