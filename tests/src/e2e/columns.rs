//! What a printer column should show, and what kubectl printed.

use serde_json::Value;

/// The cells of one row of `kubectl get`, by the positions of the header's names. Cells may hold single blanks.
pub(crate) fn cells(table: &str, row: &str) -> Option<Vec<(String, String)>> {
    let header = table.lines().next()?;
    let line = table.lines().skip(1).find(|line| line.split_whitespace().next() == Some(row))?;
    let starts = column_starts(header);
    let cells = starts.iter().enumerate().map(|(index, &start)| {
        let end = starts.get(index + 1).copied();
        (slice(header, start, end), slice(line, start, end))
    });
    Some(cells.collect())
}

/// Columns are at least three blanks apart; a name may hold single blanks.
fn column_starts(header: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut blanks = usize::MAX;
    for (index, character) in header.chars().enumerate() {
        if character == ' ' {
            blanks = blanks.saturating_add(1);
        } else {
            if blanks >= 2 {
                starts.push(index);
            }
            blanks = 0;
        }
    }
    starts
}

fn slice(line: &str, start: usize, end: Option<usize>) -> String {
    let length = end.map_or(usize::MAX, |end| end.saturating_sub(start));
    line.chars().skip(start).take(length).collect::<String>().trim().to_owned()
}

/// The value of a printer column's JSON path, as far as CRDs use them: fields, escaped dots, and a filter on `type`
/// such as `.status.conditions[?(@.type=="Ready")].status`. Absent is the empty string, as kubectl prints it.
pub(crate) fn evaluate(object: &Value, path: &str) -> String {
    let mut value = object;
    for step in steps(path) {
        let next = match &step {
            PathStep::Field(name) => value.get(name.as_str()),
            PathStep::First => value.get(0),
            PathStep::OfType(kind) => {
                value.as_array().and_then(|items| items.iter().find(|item| item["type"] == kind.as_str()))
            }
        };
        match next {
            Some(next) => value = next,
            None => return String::new(),
        }
    }
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum PathStep {
    Field(String),
    OfType(String),
    /// `[*]`: a printer column shows only the first match.
    First,
}

fn steps(path: &str) -> Vec<PathStep> {
    let mut steps = Vec::new();
    let mut field = String::new();
    let mut characters = path.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => field.extend(characters.next()),
            '.' => push_field(&mut steps, &mut field),
            '[' => {
                push_field(&mut steps, &mut field);
                let inside: String = characters.by_ref().take_while(|character| *character != ']').collect();
                let quoted = inside.split(['"', '\'']).nth(1).unwrap_or_default().replace("\\.", ".");
                steps.push(match inside.chars().next() {
                    Some('*') => PathStep::First,
                    Some('?') => PathStep::OfType(quoted),
                    _ => PathStep::Field(quoted),
                });
            }
            other => field.push(other),
        }
    }
    push_field(&mut steps, &mut field);
    steps
}

fn push_field(steps: &mut Vec<PathStep>, field: &mut String) {
    if !field.is_empty() {
        steps.push(PathStep::Field(std::mem::take(field)));
    }
}

/// Whether `cell` is an age such as `7s`, `5m10s` or `2d3h`.
pub(crate) fn is_age(cell: &str) -> bool {
    cell.ends_with(['s', 'm', 'h', 'd', 'y'])
        && cell.starts_with(|first: char| first.is_ascii_digit())
        && cell.chars().all(|character| character.is_ascii_digit() || "smhdy".contains(character))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_real_columns() {
        let object = json!({
            "metadata": {"labels": {"karpenter.sh/capacity-type": "spot"}},
            "spec": {"weight": 7, "nodeClassRef": {"name": "default"}},
            "status": {"conditions": [{"type": "Drifted", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        for (path, expected) in [
            (r".metadata.labels.karpenter\.sh/capacity-type", "spot"),
            (".metadata.labels['karpenter\\.sh/zone']", ""),
            (".spec.weight", "7"),
            (".spec.nodeClassRef.name", "default"),
            (r#".status.conditions[?(@.type=="Ready")].status"#, "True"),
            (r#".status.conditions[?(@.type=="Initialized")].status"#, ""),
            (".status.nodes", ""),
            (".status.conditions[*].type", "Drifted"),
            (".metadata.labels['karpenter\\.sh/capacity-type']", "spot"),
        ] {
            assert_eq!(evaluate(&object, path), expected, "{path}");
        }
    }

    #[test]
    fn cells_follow_the_header() {
        let table = "NAME   NODECLASS   NODES   READY   AGE\n\
                     a      default             True    3s\n\
                     ab     x y         12      False   4m\n";
        let row = |name: &str| cells(table, name).unwrap().into_iter().map(|cell| cell.1).collect::<Vec<_>>();
        assert_eq!(row("a"), ["a", "default", "", "True", "3s"]);
        assert_eq!(row("ab"), ["ab", "x y", "12", "False", "4m"]);
        assert_eq!(cells(table, "b"), None);
        assert_eq!(cells("", "a"), None);
    }

    #[test]
    fn ages() {
        for age in ["7s", "5m10s", "2d3h", "364d", "3y17d"] {
            assert!(is_age(age), "{age}");
        }
        for other in ["", "s", "True", "<unknown>", "<invalid>", "7", "3 s"] {
            assert!(!is_age(other), "{other}");
        }
    }
}
