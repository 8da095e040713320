//! Condition operators ([IAM user guide]).
//!
//! [IAM user guide]: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html

use std::collections::BTreeMap;

use anyhow::bail;
use serde_json::Value;

use super::text::{glob, texts, variables};

/// How a value of the request is compared with one of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equals,
    EqualsIgnoreCase,
    Like,
    Arn,
    Bool,
    Number(std::cmp::Ordering, bool),
}

/// Over which values of the request a comparison goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// A key with one value.
    One,
    All,
    Any,
}

/// One key of one operator.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    key: String,
    values: Vec<String>,
    test: Test,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    /// Whether the key is absent.
    Null,
    Compare {
        how: Comparison,
        negated: bool,
        if_exists: bool,
        over: Over,
    },
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// If there is no such operator.
    pub(super) fn parse(operator: &str, key: &str, values: &Value) -> anyhow::Result<Self> {
        Ok(Self { key: key.to_ascii_lowercase(), values: texts(values)?, test: Test::parse(operator)? })
    }

    /// "If you specify multiple values for a single condition key, AWS evaluates the condition using a logical OR operation."
    pub(super) fn holds(&self, context: &BTreeMap<String, Vec<String>>) -> bool {
        let present = context.get(&self.key).map(Vec::as_slice).unwrap_or_default();
        let wanted: Vec<String> = self.values.iter().filter_map(|value| variables(value, context)).collect();
        let Test::Compare { how, negated, if_exists, over } = self.test else {
            return wanted.iter().any(|value| (value == "true") == present.is_empty());
        };
        if present.is_empty() {
            // "If the key that you specify in a policy condition is not present in the request context, the values do not match and the
            // condition is false. If the policy condition requires that the key is not matched, […] the condition is true."
            // "The ForAllValues set operator also returns true if there are no context keys in the request."
            return if_exists || over == Over::All || (negated && over == Over::One);
        }
        let one = |value: &String| wanted.iter().any(|wanted| how.fits(wanted, value)) != negated;
        match over {
            Over::All => present.iter().all(one),
            Over::Any => present.iter().any(one),
            // A negated operator holds if no value matches.
            Over::One if negated => present.iter().all(one),
            Over::One => present.iter().any(one),
        }
    }
}

impl Test {
    fn parse(operator: &str) -> anyhow::Result<Self> {
        if operator == "Null" {
            return Ok(Self::Null);
        }
        let (over, rest) = match operator.split_once(':') {
            Some(("ForAllValues", rest)) => (Over::All, rest),
            Some(("ForAnyValue", rest)) => (Over::Any, rest),
            Some(_) => bail!("there is no operator {operator}"),
            None => (Over::One, operator),
        };
        let (rest, if_exists) = match rest.strip_suffix("IfExists") {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        use std::cmp::Ordering::{Equal, Greater, Less};
        let (how, negated) = match rest {
            "StringEquals" => (Comparison::Equals, false),
            "StringNotEquals" => (Comparison::Equals, true),
            "StringEqualsIgnoreCase" => (Comparison::EqualsIgnoreCase, false),
            "StringNotEqualsIgnoreCase" => (Comparison::EqualsIgnoreCase, true),
            "StringLike" => (Comparison::Like, false),
            "StringNotLike" => (Comparison::Like, true),
            // "ArnEquals and ArnLike behave identically."
            "ArnEquals" | "ArnLike" => (Comparison::Arn, false),
            "ArnNotEquals" | "ArnNotLike" => (Comparison::Arn, true),
            "Bool" => (Comparison::Bool, false),
            "NumericEquals" => (Comparison::Number(Equal, true), false),
            "NumericNotEquals" => (Comparison::Number(Equal, true), true),
            "NumericLessThan" => (Comparison::Number(Less, false), false),
            "NumericLessThanEquals" => (Comparison::Number(Less, true), false),
            "NumericGreaterThan" => (Comparison::Number(Greater, false), false),
            "NumericGreaterThanEquals" => (Comparison::Number(Greater, true), false),
            _ => bail!("there is no operator {operator}"),
        };
        Ok(Self::Compare { how, negated, if_exists, over })
    }
}

impl Comparison {
    fn fits(self, wanted: &str, value: &str) -> bool {
        match self {
            Self::Equals => wanted == value,
            Self::EqualsIgnoreCase | Self::Bool => wanted.eq_ignore_ascii_case(value),
            Self::Like => glob(wanted, value),
            // "Each of the six colon-delimited components of the ARN is checked separately and each can include multi-character match
            // wildcards (*) or single-character match wildcards (?)."
            Self::Arn => {
                let (wanted, value): (Vec<&str>, Vec<&str>) =
                    (wanted.splitn(6, ':').collect(), value.splitn(6, ':').collect());
                wanted.len() == value.len()
                    && wanted.iter().zip(&value).all(|(wanted, value)| glob(wanted, value))
            }
            Self::Number(ordering, or_equal) => match (wanted.parse::<f64>(), value.parse::<f64>()) {
                (Ok(wanted), Ok(value)) => value
                    .partial_cmp(&wanted)
                    .is_some_and(|own| own == ordering || (or_equal && own == std::cmp::Ordering::Equal)),
                _ => false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::super::policy::AuthorizationRequest;
    use super::*;

    /// Rows of the documentation: operator, policy values, request values (none: the key is absent), whether it holds.
    #[rstest]
    #[case("StringEquals", &["a", "b"], &["b"], true)]
    #[case("StringEquals", &["a"], &["A"], false)]
    #[case("StringEquals", &["a"], &[], false)]
    #[case("StringEqualsIfExists", &["a"], &[], true)]
    #[case("StringEqualsIfExists", &["a"], &["b"], false)]
    #[case("StringNotEquals", &["a"], &[], true)]
    #[case("StringNotEquals", &["a", "b"], &["b"], false)]
    #[case("StringEqualsIgnoreCase", &["a"], &["A"], true)]
    #[case("StringLike", &["*"], &[""], true)]
    #[case("StringLike", &["*"], &[], false)]
    #[case("StringNotLike", &["a*"], &["abc"], false)]
    #[case("Null", &["true"], &[], true)]
    #[case("Null", &["true"], &["x"], false)]
    #[case("Null", &["false"], &["x"], true)]
    #[case("ForAllValues:StringEquals", &["a", "b"], &["a", "b"], true)]
    #[case("ForAllValues:StringEquals", &["a", "b"], &["a", "c"], false)]
    #[case("ForAllValues:StringEquals", &["a"], &[], true)]
    #[case("ForAllValues:StringNotLike", &["key1*"], &["key1:legal", "key2"], false)]
    #[case("ForAllValues:StringNotLike", &["key1*"], &["key2", "key3"], true)]
    #[case("ForAnyValue:StringEquals", &["a"], &["b", "a"], true)]
    #[case("ForAnyValue:StringEquals", &["a"], &[], false)]
    #[case("ForAnyValue:StringNotEquals", &["a"], &[], false)]
    #[case("ArnLike", &["arn:aws:iam::*:role/*"], &["arn:aws:iam::123456789012:role/a:b"], true)]
    #[case("ArnLike", &["arn:aws:*"], &["arn:aws:iam::123456789012:role/a"], false)]
    #[case("ArnNotLike", &["arn:aws:iam::*:role/*"], &[], true)]
    #[case("Bool", &["true"], &["True"], true)]
    #[case("NumericLessThanEquals", &["10"], &["10"], true)]
    #[case("NumericGreaterThan", &["10"], &["10"], false)]
    #[case("NumericLessThan", &["10"], &["9.5"], true)]
    fn operators(
        #[case] operator: &str,
        #[case] wanted: &[&str],
        #[case] present: &[&str],
        #[case] expected: bool,
    ) {
        let condition = Condition::parse(operator, "aws:Key", &json!(wanted)).unwrap();
        let request = present
            .iter()
            .fold(AuthorizationRequest::default(), |request, value| request.with("AWS:key", value));
        assert_eq!(condition.holds(&request.context), expected);
    }
}
