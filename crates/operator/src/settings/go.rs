//! Parses text as Go does, because Karpenter's settings are parsed by Go.

/// `strconv.ParseBool`.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Feature gates, as the flag type `MapStringBool` of Kubernetes reads them: pairs separated by commas, empty ones ignored.
///
/// # Errors
/// Names the pair that is not `name=true|false`.
pub(super) fn parse_gates(text: &str) -> Result<Vec<(&str, bool)>, String> {
    let pairs = text.split(',').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let malformed = || format!("{pair:?} is not valid: a gate is written name=true or name=false");
            let (name, value) = pair.split_once('=').ok_or_else(malformed)?;
            Ok((name.trim(), parse_bool(value.trim()).ok_or_else(malformed)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    //! The values that Go accepts.
    use super::*;

    #[test]
    fn booleans() {
        for text in ["1", "t", "T", "true", "TRUE", "True"] {
            assert_eq!(parse_bool(text), Some(true), "{text}");
        }
        for text in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(parse_bool(text), Some(false), "{text}");
        }
        for text in ["", "yes", "tRUE", " true"] {
            assert_eq!(parse_bool(text), None, "{text:?}");
        }
    }

    #[test]
    fn gates_are_pairs_with_a_boolean() {
        assert_eq!(parse_gates(" A = T ,B=0,,A=false"), Ok(vec![("A", true), ("B", false), ("A", false)]));
        assert_eq!(parse_gates(""), Ok(Vec::new()));
        for text in ["A", "A=", "A=yes", "A=true;B=true", " "] {
            assert!(parse_gates(text).is_err(), "{text:?}");
        }
    }
}
