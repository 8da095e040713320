//! Quantities as the API server stores them: in canonical form.

use fleetwright_kube_semantics::Quantity;
use serde_json::Value;

/// Reads a quantity such as `100m`, `1.5Gi` or `1e3`.
pub(crate) fn parse(text: &str) -> Option<Quantity> {
    Quantity::capped(text).ok()
}

/// Fields whose value is a map from resource names to quantities.
const LISTS: &[&str] = &[
    "allocatable",
    "capacity",
    "default",
    "defaultRequest",
    "hard",
    "limits",
    "max",
    "min",
    "overhead",
    "requests",
    "used",
    "allocatedResources",
];

/// Converts all quantities of a built-in object to canonical form.
///
/// # Errors
/// The decoder's message for an invalid quantity.
pub(crate) fn canonicalise(value: &mut Value) -> Result<(), String> {
    match value {
        Value::Object(map) => map.iter_mut().try_for_each(|(key, field)| match field {
            Value::Object(entries) if LISTS.contains(&key.as_str()) => entries.values_mut().try_for_each(one),
            Value::String(_) | Value::Number(_) if key == "sizeLimit" || key == "divisor" => one(field),
            field => canonicalise(field),
        }),
        Value::Array(list) => list.iter_mut().try_for_each(canonicalise),
        _ => Ok(()),
    }
}

fn one(value: &mut Value) -> Result<(), String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Ok(()),
    };
    let parsed = parse(&text).ok_or_else(|| {
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            .to_owned()
    })?;
    *value = Value::String(parsed.to_string());
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_have_one_canonical_text() {
        for (text, canonical) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("1024Ki", "1Mi"),
            ("1e3", "1e3"),
            ("1e400", "9223372036854775807"),
            ("9E9", "9e9"),
            ("0", "0"),
            ("-1", "-1"),
            ("1000000k", "1G"),
            ("100u", "100u"),
            ("1.0000000001", "1000000001n"),
        ] {
            let mut object = json!({"spec": {"limits": {"cpu": text}}});
            canonicalise(&mut object).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(object["spec"]["limits"]["cpu"], canonical, "{text}");
        }
        for bad in ["", "abc", "9E9E", "1 ", "1..2", "-", "1e", "Gi", "1mi"] {
            assert!(canonicalise(&mut json!({"limits": {"cpu": bad}})).is_err(), "{bad}");
        }
    }
}
