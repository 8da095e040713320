//! Go's text forms in messages of the API server: `%q`, `%v` of floats, and `encoding/json`.

use serde_json::{Number, Value};

/// A string in the form of Go's `%q`.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A JSON number as `%v` of Go's `int64` or `float64`.
pub(crate) fn number(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (Some(int), _) => int.to_string(),
        (None, Some(float)) => self::float(float),
        (None, None) => number.to_string(),
    }
}

/// A float in the form of Go's `%v`: shortest digits, with an exponent below 1e-4 and from 1e21.
pub(crate) fn float(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{value}")
}

/// The invalid value in a field error: numbers and booleans plain, strings quoted, all others as JSON.
pub(crate) fn bad_value(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Number(n) => number(n),
        other => json(other),
    }
}

/// `encoding/json`: sorted keys, and `<`, `>`, `&` escaped.
pub(crate) fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => write_json_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (index, (key, item)) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json_string(key, out);
                out.push(':');
                write_json(item, out);
            }
            out.push('}');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

fn write_json_string(text: &str, out: &mut String) {
    let plain = Value::from(text).to_string();
    for c in plain.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
}
