//! `anyOf`, `oneOf`, `allOf` and `not`.

use serde_json::Value;

use super::Outcome;
use crate::error::ShownValue;
use crate::node::Node;

/// Checks the combinations of a node.
pub(super) fn check(node: &Node, path: &str, new: &Value, old: Option<&Value>) -> Outcome {
    let mut outcome = Outcome::default();
    any_of(node, path, new, old, &mut outcome);
    one_of(node, path, new, old, &mut outcome);
    all_of(node, path, new, old, &mut outcome);
    if let Some(not) = &node.not
        && super::value(not, path, new, old).is_valid()
    {
        refuse(path, "must not validate the schema (not)", &mut outcome);
    }
    outcome.matched += 1;
    outcome
}

fn any_of(node: &Node, path: &str, new: &Value, old: Option<&Value>, outcome: &mut Outcome) {
    let mut closest: Option<Outcome> = None;
    for branch in &node.any_of {
        let result = super::value(branch, path, new, old);
        if result.is_valid() {
            outcome.merge(result);
            return;
        }
        if closest.as_ref().is_none_or(|best| result.matched > best.matched) {
            closest = Some(result);
        }
    }
    if let Some(closest) = closest {
        refuse(path, "must validate at least one schema (anyOf)", outcome);
        outcome.merge(closest);
    }
}

fn one_of(node: &Node, path: &str, new: &Value, old: Option<&Value>, outcome: &mut Outcome) {
    if node.one_of.is_empty() {
        return;
    }
    let mut closest: Option<Outcome> = None;
    let mut first: Option<Outcome> = None;
    let mut valid = 0_usize;
    for branch in &node.one_of {
        let result = super::value(branch, path, new, old);
        if result.is_valid() {
            valid += 1;
            first.get_or_insert(result);
        } else if valid == 0 && closest.as_ref().is_none_or(|best| result.matched > best.matched) {
            closest = Some(result);
        }
    }
    match (valid, first) {
        (1, Some(first)) => outcome.merge(first),
        (0, _) => {
            refuse(path, "must validate one and only one schema (oneOf). Found none valid", outcome);
            outcome.merge(closest.unwrap_or_default());
        }
        (found, _) => {
            let what =
                format!("must validate one and only one schema (oneOf). Found {found} valid alternatives");
            refuse(path, &what, outcome);
        }
    }
}

fn all_of(node: &Node, path: &str, new: &Value, old: Option<&Value>, outcome: &mut Outcome) {
    let mut valid = 0_usize;
    for branch in &node.all_of {
        let result = super::value(branch, path, new, old);
        valid += usize::from(result.is_valid());
        outcome.merge(result);
    }
    if valid != node.all_of.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        refuse(path, &format!("must validate all the schemas (allOf){none}"), outcome);
    }
}

/// The server reports combinations without a path; its message contains the field.
fn refuse(path: &str, what: &str, outcome: &mut Outcome) {
    outcome.invalid("", ShownValue::Text(""), &format!("\"{path}\" {what}"));
}
