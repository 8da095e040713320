//! Texts of policies: one or several, patterns with `*` and `?`, and policy variables.

use std::collections::BTreeMap;

use anyhow::bail;
use serde_json::Value;

/// One text or a list of texts.
pub(super) fn texts(value: &Value) -> anyhow::Result<Vec<String>> {
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        other => bail!("{other} is no text"),
    };
    match value {
        Value::Array(all) => all.iter().map(text).collect(),
        one => Ok(vec![text(one)?]),
    }
}

/// Whether a pattern with `*` and `?` covers a text as a whole.
pub(super) fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&own) if own == '?' || Some(&own) == text.get(t) => (p, t) = (p + 1, t + 1),
            _ => match star {
                // The last star takes one more character.
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, t) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|rest| *rest == '*')
}

/// A text with its policy variables filled in; `None` where the request has no value, because then "the variable cannot be resolved" and
/// the statement does not match.
pub(super) fn variables(text: &str, context: &BTreeMap<String, Vec<String>>) -> Option<String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let (name, behind) = after.split_once('}')?;
        out.push_str(before);
        match context.get(&name.to_ascii_lowercase()).map(Vec::as_slice) {
            Some([value]) => out.push_str(value),
            _ => return None,
        }
        rest = behind;
    }
    out.push_str(rest);
    Some(out)
}
