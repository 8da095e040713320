//! Evaluates policies without a call: denials, actions, resources, and conditions on keys that are known before the call.

use serde_json::Value;

use super::glob::{covers, overlap};
use super::request::{AuthorizationRequest, KeyValue, Place};

/// Variables of `deploy/iam` that users fill in; they match the correct value.
const BLANKS: [&str; 6] =
    ["AWS_PARTITION", "AWS_REGION", "AWS_ACCOUNT_ID", "CLUSTER_NAME", "CLUSTER_UID", "NODE_ROLE_NAME"];

/// Whether a statement or condition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// It holds.
    Yes,
    /// Undecided without a real call, for this reason.
    Perhaps(String),
    /// It does not hold, for this reason.
    No(String),
}

/// The conjunction of two results.
fn both(a: Holds, b: impl FnOnce() -> Holds) -> Holds {
    match a {
        Holds::No(_) => a,
        Holds::Yes => b(),
        Holds::Perhaps(_) => match b() {
            no @ Holds::No(_) => no,
            Holds::Yes | Holds::Perhaps(_) => a,
        },
    }
}

/// The disjunction of two results; the first of equal ones.
fn either(a: Holds, b: Holds) -> Holds {
    match (&a, &b) {
        (Holds::Yes, _)
        | (Holds::Perhaps(_), Holds::Perhaps(_) | Holds::No(_))
        | (Holds::No(_), Holds::No(_)) => a,
        _ => b,
    }
}

/// The answer of the policies to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// Whether the request is allowed.
    pub(super) allowed: Holds,
    /// Denials that may apply nevertheless.
    pub(super) doubts: Vec<String>,
}

/// The statements of a document.
pub(super) fn statements(document: &Value) -> Vec<Value> {
    many(&document["Statement"])
}

fn many(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(all) => all.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    }
}

/// The values of a field with one or several values; numbers and booleans as text, as in IAM.
pub(super) fn texts(value: &Value) -> Vec<String> {
    let text = |value: Value| match value {
        Value::String(text) => Some(text),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    };
    many(value).into_iter().filter_map(text).collect()
}

fn name(statement: &Value) -> String {
    match statement["Sid"].as_str().filter(|sid| !sid.is_empty()) {
        Some(sid) => format!("the statement {sid}"),
        None => "a statement without Sid".to_owned(),
    }
}

/// Evaluates all statements: a denial overrides any grant. If nothing allows the request, the statement `meant` to grant it supplies
/// the reason.
pub(super) fn answer(
    statements: &[Value],
    request: &AuthorizationRequest,
    place: &Place,
    meant: &str,
) -> Answer {
    let mut allowed = Holds::No("no statement allows it".to_owned());
    let mut doubts = Vec::new();
    let mut matched = false;
    for statement in statements.iter().filter(|statement| of_action(statement, request.action)) {
        let applies = both(of_resource(statement, request), || conditions(statement, request, place));
        let name = name(statement);
        match (statement["Effect"].as_str(), applies) {
            (Some("Deny"), Holds::Yes) => {
                return Answer { allowed: Holds::No(format!("{name} denies it")), doubts: Vec::new() };
            }
            (Some("Deny"), Holds::Perhaps(why)) => doubts.push(format!("{name} denies it, {why}")),
            (Some("Allow"), applies) => {
                let result = match applies {
                    Holds::Yes => Holds::Yes,
                    Holds::Perhaps(why) => Holds::Perhaps(format!("{name} allows it, {why}")),
                    Holds::No(why) => Holds::No(format!("{name} allows it, {why}")),
                };
                // A statement about the action explains more than the absence of one.
                let replaces = !matched || (statement["Sid"] == meant && matches!(allowed, Holds::No(_)));
                allowed = if replaces { result } else { either(allowed, result) };
                matched = true;
            }
            _ => {}
        }
    }
    Answer { allowed, doubts }
}

fn of_action(statement: &Value, action: &str) -> bool {
    let action = action.to_ascii_lowercase();
    let any = |field: &str| {
        texts(&statement[field]).iter().any(|pattern| covers(&pattern.to_ascii_lowercase(), &action))
    };
    any("Action") || (!statement["NotAction"].is_null() && !any("NotAction"))
}

fn of_resource(statement: &Value, request: &AuthorizationRequest) -> Holds {
    let of = |pattern: &String| resource(&blank(pattern).0, &request.resource);
    let others = || Holds::No(format!("not for {}", request.resource));
    if !statement["NotResource"].is_null() {
        let listed = texts(&statement["NotResource"]).iter().map(of).fold(others(), either);
        return match listed {
            Holds::Yes => others(),
            Holds::No(_) => Holds::Yes,
            perhaps @ Holds::Perhaps(_) => perhaps,
        };
    }
    texts(&statement["Resource"]).iter().map(of).fold(others(), either)
}

/// Whether a pattern covers a resource. An unknown partition, region or account matches the pattern.
fn resource(pattern: &str, resource: &str) -> Holds {
    let others = || Holds::No(format!("not for {resource}"));
    let requested: Vec<&str> = resource.splitn(6, ':').collect();
    let own: Vec<&str> = pattern.splitn(6, ':').collect();
    let (mut pattern_rest, mut resource_rest) = (pattern, resource);
    if let ([requested @ .., requested_end], [own @ .., pattern_end]) = (requested.as_slice(), own.as_slice())
        && requested.len() == 5
        && own.len() == 5
    {
        let fits = |(requested, own): (&&str, &&str)| match *requested {
            "*" => !own.is_empty(),
            requested => covers(own, requested),
        };
        if !requested.iter().zip(own).all(fits) {
            return others();
        }
        (pattern_rest, resource_rest) = (pattern_end, requested_end);
    }
    if covers(pattern_rest, resource_rest) {
        Holds::Yes
    } else if resource != "*" && overlap(pattern_rest, resource_rest) {
        Holds::Perhaps(format!("for {pattern} only"))
    } else {
        others()
    }
}

/// Replaces variables by `*`, and returns whether any of them is known only in a real call.
fn blank(text: &str) -> (String, bool) {
    let mut out = String::new();
    let (mut rest, mut open) = (text, false);
    while let Some((before, after)) = rest.split_once("${") {
        let Some((variable, behind)) = after.split_once('}') else { break };
        out.push_str(before);
        out.push('*');
        open |= !BLANKS.contains(&variable);
        rest = behind;
    }
    out.push_str(rest);
    (out, open)
}

/// Evaluates all conditions of a statement: every key of every operator must hold.
fn conditions(statement: &Value, request: &AuthorizationRequest, place: &Place) -> Holds {
    let operators = statement["Condition"].as_object().into_iter().flatten();
    let keys = operators.flat_map(|(operator, keys)| {
        keys.as_object().into_iter().flatten().map(move |(key, values)| (operator, key, values))
    });
    keys.fold(Holds::Yes, |known, (operator, key, values)| {
        both(known, || {
            let key = key.replace("${CLUSTER_NAME}", place.cluster.as_deref().unwrap_or("*"));
            let known = request.get(&key);
            match Operator::of(operator).and_then(|test| test.holds(&known?, &texts(values))) {
                Some(true) => Holds::Yes,
                Some(false) => Holds::No(format!("but {operator} of {key} does not hold")),
                None => Holds::Perhaps(format!("depending on {operator} of {key}")),
            }
        })
    })
}

/// A condition operator.
#[derive(Clone, Copy, Debug)]
struct Operator {
    how: How,
    negated: bool,
    if_exists: bool,
    /// Whether all values of a key must match, any of them, or its single value.
    set: Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    All,
    Any,
    Single,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Equals,
    EqualsAnyCase,
    Like,
    Null,
}

impl Operator {
    /// Parses an operator; `None` for one that is not evaluated.
    fn of(name: &str) -> Option<Self> {
        let (set, rest) = match name.split_once(':') {
            Some((set, rest)) if set.eq_ignore_ascii_case("ForAllValues") => (Set::All, rest),
            Some((set, rest)) if set.eq_ignore_ascii_case("ForAnyValue") => (Set::Any, rest),
            Some(_) => return None,
            None => (Set::Single, name),
        };
        let lower = rest.to_ascii_lowercase();
        let (base, if_exists) = match lower.strip_suffix("ifexists") {
            Some(base) => (base, true),
            None => (lower.as_str(), false),
        };
        let (how, negated) = match base {
            "stringequals" | "bool" => (How::Equals, false),
            "stringnotequals" => (How::Equals, true),
            "stringequalsignorecase" => (How::EqualsAnyCase, false),
            "stringnotequalsignorecase" => (How::EqualsAnyCase, true),
            "stringlike" | "arnlike" | "arnequals" => (How::Like, false),
            "stringnotlike" | "arnnotlike" | "arnnotequals" => (How::Like, true),
            "null" => (How::Null, false),
            _ => return None,
        };
        Some(Self { how, negated, if_exists, set })
    }

    /// Whether the operator holds for a key value; `None` if undecided without a real call.
    fn holds(self, known: &KeyValue, wanted: &[String]) -> Option<bool> {
        if self.how == How::Null {
            let absent = *known == KeyValue::Absent;
            return Some(wanted.iter().any(|value| value.eq_ignore_ascii_case("true") == absent));
        }
        match known {
            KeyValue::Absent => Some(match self.set {
                Set::All => true,
                Set::Any => self.if_exists,
                Set::Single => self.if_exists || self.negated,
            }),
            KeyValue::OfAnother => self.allows_another(wanted),
            KeyValue::Present if wanted.iter().any(|pattern| self.fits_anything(pattern)) => {
                Some(!self.negated)
            }
            KeyValue::Present => None,
            KeyValue::Is(values) => {
                let one = |value: &String| self.one(value, wanted).map(|fits| fits != self.negated);
                let all: Vec<Option<bool>> = values.iter().map(one).collect();
                let decisive = self.set == Set::Any || (self.set == Set::Single && !self.negated);
                match (all.contains(&Some(decisive)), all.contains(&None)) {
                    (true, _) => Some(decisive),
                    (false, true) => None,
                    (false, false) => Some(!decisive),
                }
            }
        }
    }

    /// Whether the operator holds for the value of a cluster that the patterns do not name; `None` where a wildcard may name it.
    fn allows_another(self, wanted: &[String]) -> Option<bool> {
        let is_open = |pattern: &String| self.how == How::Like && pattern.contains(['*', '?']);
        match wanted.iter().find(|pattern| is_open(pattern)) {
            Some(pattern) if pattern != "*" => None,
            found => Some(found.is_some() != self.negated),
        }
    }

    /// Whether a pattern matches any value.
    fn fits_anything(self, pattern: &str) -> bool {
        let (blanked, open) = blank(pattern);
        blanked == "*" && !open && (self.how == How::Like || blanked != pattern)
    }

    /// Whether a value matches any of the patterns.
    fn one(self, value: &str, wanted: &[String]) -> Option<bool> {
        let mut unclear = false;
        for pattern in wanted {
            let (blanked, open) = blank(pattern);
            let variable = blanked != *pattern;
            let fits = match self.how {
                _ if variable => covers(&blanked, value),
                How::Equals => pattern == value,
                How::EqualsAnyCase => pattern.eq_ignore_ascii_case(value),
                How::Like | How::Null => covers(pattern, value),
            };
            if fits && !open {
                return Some(true);
            }
            unclear |= fits;
        }
        (!unclear).then_some(false)
    }
}
