//! Evaluates policy documents for one request, as the [IAM user guide] says. It shares no code with `fleetwright iam check`, which evaluates the
//! same documents without a request.
//!
//! [IAM user guide]: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::condition::Condition;
use super::text::{glob, texts, variables};

/// What is asked of IAM: one action on one resource, with the request's context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizationRequest {
    /// The action, such as `ec2:CreateFleet`.
    pub action: String,
    /// The ARN of the resource, `*` where the action has none.
    pub resource: String,
    /// Values by key; keys are in lower case, because "context key names are not case-sensitive".
    pub context: BTreeMap<String, Vec<String>>,
}

impl AuthorizationRequest {
    /// A request without context.
    #[must_use]
    pub fn new(action: &str, resource: &str) -> Self {
        Self { action: action.to_owned(), resource: resource.to_owned(), context: BTreeMap::new() }
    }

    /// The request with one more value of a key.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.context.entry(key.to_ascii_lowercase()).or_default().push(value.to_owned());
        self
    }
}

/// The kind of a policy, as access denied messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// Attached to the caller's role.
    Identity,
    /// The role's permissions boundary.
    Boundary,
    /// Of the organization.
    ServiceControl,
}

impl PolicyKind {
    fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity-based policy",
            Self::Boundary => "permissions boundary",
            Self::ServiceControl => "service control policy",
        }
    }

    fn article(self) -> &'static str {
        if self == Self::Identity { "an" } else { "a" }
    }
}

/// Why a request is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The kind of policy that denies it.
    pub kind: PolicyKind,
    /// Whether a statement denies it; else no statement allows it.
    pub explicit: bool,
}

impl Denial {
    /// The end of the message: "When a policy explicitly denies access […] AWS includes the phrase `with an explicit deny in a type policy`
    /// […]. When the policy implicitly denies access, then AWS includes the phrase `because no type policy allows the action action`"
    /// (<https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html>).
    #[must_use]
    pub fn reason(&self, action: &str) -> String {
        let (kind, article) = (self.kind.name(), self.kind.article());
        if self.explicit {
            format!("with an explicit deny in {article} {kind}")
        } else {
            format!("because no {kind} allows the {action} action")
        }
    }
}

/// The policies that apply to a caller.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    identity: Vec<Statement>,
    boundary: Option<Vec<Statement>>,
    service_control: Option<Vec<Statement>>,
}

impl Policies {
    /// Identity policies alone.
    ///
    /// # Errors
    /// If a document is one that IAM would not store.
    pub fn of(documents: &[&str]) -> anyhow::Result<Self> {
        let mut identity = Vec::new();
        for document in documents {
            identity.extend(statements(document)?);
        }
        Ok(Self { identity, ..Self::default() })
    }

    /// The same with a permissions boundary.
    ///
    /// # Errors
    /// If the document is one that IAM would not store.
    pub fn bounded_by(mut self, document: &str) -> anyhow::Result<Self> {
        self.boundary = Some(statements(document)?);
        Ok(self)
    }

    /// The same with a service control policy.
    ///
    /// # Errors
    /// If the document is one that IAM would not store.
    pub fn controlled_by(mut self, document: &str) -> anyhow::Result<Self> {
        self.service_control = Some(statements(document)?);
        Ok(self)
    }

    /// Decides. "An explicit deny in any of these policies overrides the allow"; without one, each kind of policy that exists has to
    /// allow the request.
    ///
    /// # Errors
    /// Why the request is denied.
    pub fn decide(&self, request: &AuthorizationRequest) -> Result<(), Denial> {
        let of = |kind, statements: &Option<Vec<Statement>>| statements.clone().map(|all| (kind, all));
        let kinds: Vec<(PolicyKind, Vec<Statement>)> = [
            of(PolicyKind::ServiceControl, &self.service_control),
            of(PolicyKind::Boundary, &self.boundary),
            Some((PolicyKind::Identity, self.identity.clone())),
        ]
        .into_iter()
        .flatten()
        .collect();
        let has = |all: &[Statement], allow| all.iter().any(|own| own.allow == allow && own.covers(request));
        if let Some((kind, _)) = kinds.iter().find(|(_, all)| has(all, false)) {
            return Err(Denial { kind: *kind, explicit: true });
        }
        match kinds.iter().find(|(_, all)| !has(all, true)) {
            Some((kind, _)) => Err(Denial { kind: *kind, explicit: false }),
            None => Ok(()),
        }
    }
}

/// A list of patterns, or everything but them.
#[derive(Clone, Debug)]
struct Patterns {
    patterns: Vec<String>,
    except: bool,
}

#[derive(Clone, Debug)]
struct Statement {
    allow: bool,
    actions: Patterns,
    resources: Patterns,
    conditions: Vec<Condition>,
}

/// The statements of a document.
fn statements(document: &str) -> anyhow::Result<Vec<Statement>> {
    let document: Value = serde_json::from_str(document).context("a policy that is no JSON")?;
    let all = match &document["Statement"] {
        Value::Array(all) => all.clone(),
        one @ Value::Object(_) => vec![one.clone()],
        other => bail!("Statement is {other}"),
    };
    all.iter().map(Statement::parse).collect()
}

impl Patterns {
    fn parse(statement: &Value, name: &str) -> anyhow::Result<Self> {
        let (own, except) = (&statement[name], &statement[format!("Not{name}")]);
        match (own.is_null(), except.is_null()) {
            (false, true) => Ok(Self { patterns: texts(own)?, except: false }),
            (true, false) => Ok(Self { patterns: texts(except)?, except: true }),
            _ => bail!("a statement has either {name} or Not{name}"),
        }
    }

    fn covers(&self, fits: impl Fn(&str) -> bool) -> bool {
        self.patterns.iter().any(|pattern| fits(pattern)) != self.except
    }
}

impl Statement {
    fn parse(statement: &Value) -> anyhow::Result<Self> {
        let allow = match statement["Effect"].as_str() {
            Some("Allow") => true,
            Some("Deny") => false,
            other => bail!("Effect is {other:?}"),
        };
        let mut conditions = Vec::new();
        for (operator, keys) in statement["Condition"].as_object().into_iter().flatten() {
            for (key, values) in keys.as_object().with_context(|| format!("{operator} has no keys"))? {
                conditions.push(Condition::parse(operator, key, values)?);
            }
        }
        let (actions, resources) =
            (Patterns::parse(statement, "Action")?, Patterns::parse(statement, "Resource")?);
        Ok(Self { allow, actions, resources, conditions })
    }

    /// "The prefix and the action name are case insensitive"; resources are compared as they are.
    fn covers(&self, request: &AuthorizationRequest) -> bool {
        let action = request.action.to_ascii_lowercase();
        self.actions.covers(|pattern| glob(&pattern.to_ascii_lowercase(), &action))
            && self.resources.covers(|pattern| {
                variables(pattern, &request.context).is_some_and(|pattern| glob(&pattern, &request.resource))
            })
            && self.conditions.iter().all(|condition| condition.holds(&request.context))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("*", "", true)]
    #[case("a*c", "abbc", true)]
    #[case("a*c", "abbd", false)]
    #[case("a?c", "abc", true)]
    #[case("a?c", "ac", false)]
    #[case("*b*b", "abab", true)]
    #[case("abc", "abcd", false)]
    #[case("arn:aws:ec2:*:*:instance/*", "arn:aws:ec2:us-west-2:1:instance/i-1", true)]
    fn globs(#[case] pattern: &str, #[case] text: &str, #[case] expected: bool) {
        assert_eq!(glob(pattern, text), expected);
    }

    const ALL: &str = r#"{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}"#;
    const NONE: &str = r#"{"Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}"#;
    const NO_FLEET: &str = r#"{"Statement": [{"Effect": "Deny", "Action": "EC2:createfleet", "Resource": "*"},
        {"Effect": "Allow", "Action": "*", "Resource": "*"}]}"#;

    #[test]
    fn a_denial_names_the_kind_of_policy() {
        let fleet = AuthorizationRequest::new("ec2:CreateFleet", "*");
        let why =
            |policies: &Policies| policies.decide(&fleet).err().map(|why| why.reason("ec2:CreateFleet"));
        let all = || Policies::of(&[ALL]).unwrap();
        assert_eq!(why(&all()), None);
        for (policies, expected) in [
            (
                Policies::of(&[NONE]).unwrap(),
                "because no identity-based policy allows the ec2:CreateFleet action",
            ),
            (Policies::of(&[ALL, NO_FLEET]).unwrap(), "with an explicit deny in an identity-based policy"),
            (
                all().bounded_by(NONE).unwrap(),
                "because no permissions boundary allows the ec2:CreateFleet action",
            ),
            (all().bounded_by(NO_FLEET).unwrap(), "with an explicit deny in a permissions boundary"),
            (
                all().controlled_by(NONE).unwrap(),
                "because no service control policy allows the ec2:CreateFleet action",
            ),
            (all().controlled_by(NO_FLEET).unwrap(), "with an explicit deny in a service control policy"),
            // A boundary grants nothing by itself, and a denial outweighs what is missing elsewhere.
            (
                Policies::of(&[NONE]).unwrap().bounded_by(ALL).unwrap(),
                "because no identity-based policy allows the ec2:CreateFleet action",
            ),
            (
                Policies::of(&[NONE]).unwrap().controlled_by(NO_FLEET).unwrap(),
                "with an explicit deny in a service control policy",
            ),
        ] {
            assert_eq!(why(&policies).as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_iam_would_not_store_is_refused() {
        for document in [
            "{",
            "{}",
            r#"{"Statement": [{"Effect": "Permit", "Action": "*", "Resource": "*"}]}"#,
            r#"{"Statement": [{"Effect": "Allow", "Action": "*"}]}"#,
            r#"{"Statement": [{"Effect": "Allow", "Action": "*", "NotAction": "*", "Resource": "*"}]}"#,
            r#"{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"StringSimilar": {"a": "b"}}}]}"#,
        ] {
            assert!(Policies::of(&[document]).is_err(), "{document}");
        }
    }

    #[test]
    fn variables_without_a_value_match_nothing() {
        let context = AuthorizationRequest::new("", "").with("aws:PrincipalTag/team", "a").context;
        assert_eq!(variables("x/${aws:principaltag/TEAM}/*", &context).as_deref(), Some("x/a/*"));
        assert_eq!(variables("x/${aws:username}", &context), None);
    }
}
