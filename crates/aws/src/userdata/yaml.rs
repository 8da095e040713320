//! YAML in the format of Go programs: keys sorted, lists at their key's depth, quotes only if needed.

use std::collections::BTreeMap;

use serde_json::Value;

/// A document; ends with a newline.
pub(super) fn write(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

/// A value on lines of its own.
fn block(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            for (key, value) in sorted {
                indent(depth, out);
                out.push_str(&scalar(key));
                out.push(':');
                after_key(value, depth, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                indent(depth, out);
                out.push_str("- ");
                // The first line of an item is beside its dash.
                let mut inner = String::new();
                block(item, depth + 1, &mut inner);
                out.push_str(inner.trim_start_matches(' '));
            }
        }
        flat => {
            indent(depth, out);
            out.push_str(&inline(flat));
            out.push('\n');
        }
    }
}

fn after_key(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            block(value, depth + 1, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            block(value, depth, out);
        }
        flat => {
            out.push(' ');
            out.push_str(&inline(flat));
            out.push('\n');
        }
    }
}

fn indent(depth: usize, out: &mut String) {
    out.push_str(&"  ".repeat(depth));
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

/// A string, in quotes if it could be read as another type. JSON's quoting is valid YAML.
fn scalar(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { Value::from(text).to_string() }
}

fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 11] = ["null", "~", "true", "false", "yes", "no", "on", "off", "y", "n", "<<"];
    let lower = text.to_lowercase();
    let first = text.chars().next();
    let starts_well = first.is_some_and(|c| c.is_ascii_alphanumeric() || "/._+-(".contains(c));
    let number = lower.trim_start_matches(['+', '-', '.']).starts_with(|c: char| c.is_ascii_digit())
        && lower.chars().all(|c| c.is_ascii_hexdigit() || "._+-:xoe".contains(c))
        && lower.matches('.').count() <= 1;
    let special = ["inf", "nan"].contains(&lower.trim_start_matches(['+', '-', '.']));
    let dash = text == "-" || text.starts_with("- ") || text.starts_with("---");
    starts_well
        && !WORDS.contains(&lower.as_str())
        && !number
        && !special
        && !dash
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with([':', ' '])
        && !text.chars().any(char::is_control)
}
