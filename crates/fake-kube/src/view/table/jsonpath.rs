//! The JSONPath that printer columns use: fields, quoted fields, indexes, wildcards, and filters on equality.

use serde_json::Value;

/// A parsed path.
pub(super) struct Path {
    steps: Vec<PathStep>,
}

enum PathStep {
    Field(String),
    Index(i64),
    All,
    /// Entries in which a relative path has (or, negated, has not) a value.
    Where {
        path: Path,
        equals: bool,
        value: Value,
    },
    /// Entries in which a relative path exists.
    Has(Path),
}

impl Path {
    /// Parses a path such as `.status.conditions[?(@.type=="Ready")].status`; `None` if it is malformed.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim().trim_start_matches('{').trim_end_matches('}').trim();
        rest = rest.strip_prefix('$').unwrap_or(rest);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = if let Some(inner) = rest.strip_prefix('[') {
                let end = closing(inner)?;
                (bracket(inner[..end].trim())?, &inner[end + 1..])
            } else {
                field(rest.strip_prefix('.')?)?
            };
            steps.push(step);
            rest = after;
        }
        Some(Self { steps })
    }

    /// All values at the path; missing fields give nothing.
    pub(super) fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![root];
        for step in &self.steps {
            found = found.into_iter().flat_map(|value| step.apply(value)).collect();
        }
        found
    }
}

impl PathStep {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name.as_str()).into_iter().collect(),
            Self::Index(index) => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
                let at = if *index < 0 { length.saturating_add(*index) } else { *index };
                usize::try_from(at).ok().and_then(|at| items.get(at)).into_iter().collect()
            }
            Self::All => children(value),
            Self::Where { path, equals, value: wanted } => children(value)
                .into_iter()
                .filter(|entry| path.find(entry).first().is_some_and(|found| (*found == wanted) == *equals))
                .collect(),
            Self::Has(path) => {
                children(value).into_iter().filter(|entry| !path.find(entry).is_empty()).collect()
            }
        }
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// A plain field up to the next dot or bracket; a backslash takes the next character as it is.
fn field(text: &str) -> Option<(PathStep, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            '.' | '[' => return Some((named(name)?, &text[at..])),
            c => name.push(c),
        }
    }
    Some((named(name)?, ""))
}

fn named(name: String) -> Option<PathStep> {
    match name.as_str() {
        "" => None,
        "*" => Some(PathStep::All),
        _ => Some(PathStep::Field(name)),
    }
}

/// The place of the bracket that closes, past quotes and nested brackets.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

fn bracket(text: &str) -> Option<PathStep> {
    if text == "*" {
        return Some(PathStep::All);
    }
    if let Some(name) = quoted(text) {
        return Some(PathStep::Field(name.to_owned()));
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return condition(filter.trim());
    }
    text.parse().ok().map(PathStep::Index)
}

fn condition(filter: &str) -> Option<PathStep> {
    let split = |operator| filter.split_once(operator);
    let Some((left, right, equals)) =
        split("==").map(|(l, r)| (l, r, true)).or_else(|| split("!=").map(|(l, r)| (l, r, false)))
    else {
        return Some(PathStep::Has(relative(filter)?));
    };
    let right = right.trim();
    let value = match quoted(right) {
        Some(text) => Value::from(text),
        None => serde_json::from_str(right).ok()?,
    };
    Some(PathStep::Where { path: relative(left)?, equals, value })
}

fn relative(text: &str) -> Option<Path> {
    Path::parse(text.trim().strip_prefix('@')?)
}

fn quoted(text: &str) -> Option<&str> {
    let inner = |quote| text.strip_prefix(quote).and_then(|rest: &str| rest.strip_suffix(quote));
    inner('\'').or_else(|| inner('"'))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::Path;

    #[rstest]
    #[case(".metadata.name", json!(["a"]))]
    #[case("{.metadata.name}", json!(["a"]))]
    #[case("$.metadata.name", json!(["a"]))]
    #[case(".metadata.labels.node\\.kubernetes\\.io/instance-type", json!(["m5"]))]
    #[case(".metadata.labels['node.kubernetes.io/instance-type']", json!(["m5"]))]
    #[case(r#".metadata.labels["node.kubernetes.io/instance-type"]"#, json!(["m5"]))]
    #[case(r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"]))]
    #[case(".status.conditions[?(@.type == 'Ready')].status", json!(["True"]))]
    #[case(".status.conditions[?(@.type!='Ready')].type", json!(["Drifted"]))]
    #[case(".status.conditions[?(@.status)].type", json!(["Ready"]))]
    #[case(".status.conditions[*].type", json!(["Ready", "Drifted"]))]
    #[case(".status.conditions[1].type", json!(["Drifted"]))]
    #[case(".status.conditions[-1].type", json!(["Drifted"]))]
    #[case(".status.conditions[7].type", json!([]))]
    #[case(".status.nope.deeper", json!([]))]
    fn paths(#[case] path: &str, #[case] expected: Value) {
        let object = json!({
            "metadata": {"name": "a", "labels": {"node.kubernetes.io/instance-type": "m5"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Drifted"}]}
        });
        assert_eq!(json!(Path::parse(path).unwrap().find(&object)), expected);
    }

    #[rstest]
    #[case("name")]
    #[case(".a[")]
    #[case(".a[x]")]
    #[case(".a..b")]
    #[case(".a[?(b==1)]")]
    fn malformed(#[case] path: &str) {
        assert!(Path::parse(path).is_none());
    }
}
