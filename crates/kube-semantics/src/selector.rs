//! The set operators of label selectors.

/// An operator of `matchExpressions` in a `LabelSelector`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetOperator {
    /// The label exists and its value is listed.
    In,
    /// The label is absent, or its value is not listed.
    NotIn,
    /// The label exists.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl SetOperator {
    /// Parses the operator of `matchExpressions`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            _ => return None,
        })
    }

    /// Whether a label satisfies the operator: `value` is the label's, where it exists; `listed` says whether the operator lists it.
    pub fn admits<V>(self, value: Option<V>, listed: impl FnOnce(V) -> bool) -> bool {
        match self {
            Self::In => value.is_some_and(listed),
            Self::NotIn => !value.is_some_and(listed),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Each operator on a listed, another and an absent value.
    use super::*;

    #[test]
    fn operators_on_values() {
        for (operator, expected) in [
            ("In", [true, false, false]),
            ("NotIn", [false, true, true]),
            ("Exists", [true, true, false]),
            ("DoesNotExist", [false, false, true]),
        ] {
            let operator = SetOperator::parse(operator).unwrap();
            let admits = |value: Option<&str>| operator.admits(value, |value| value == "listed");
            assert_eq!([Some("listed"), Some("other"), None].map(admits), expected, "{operator:?}");
        }
        assert_eq!(SetOperator::parse("Gt"), None);
    }
}
