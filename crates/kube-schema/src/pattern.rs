//! Go's RE2 patterns for the `regex` crate.
//!
//! The dialects differ in two respects: `\d`, `\w`, `\s` and `\b` are ASCII in Go, and in a character
//! class `[`, `&&`, `--` and `~~` are plain characters there.

use regex::{Regex, RegexBuilder};

/// Compiles a pattern of a schema.
///
/// # Errors
/// The parser's message if the pattern is malformed or too large.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(&translate(pattern)).size_limit(64 << 20).build().map_err(|error| error.to_string())
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped) => push_escape(escaped, in_class, &mut out),
                None => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                if chars.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
            }
            '[' if chars.peek() == Some(&':') => {
                // A named class such as [:alpha:] is copied unchanged.
                out.push('[');
                for inner in chars.by_ref() {
                    out.push(inner);
                    if inner == ']' {
                        break;
                    }
                }
            }
            '[' => out.push_str("\\["),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' | '-' if in_class && chars.next_if_eq(&c).is_some() => {
                out.push(c);
                out.push('\\');
                out.push(c);
            }
            other => out.push(other),
        }
    }
    out
}

fn push_escape(escaped: char, in_class: bool, out: &mut String) {
    match escaped {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str("[\\t\\n\\f\\r ]"),
        'S' => out.push_str("[^\\t\\n\\f\\r ]"),
        'b' | 'B' if !in_class => out.push_str(&format!("(?-u:\\{escaped})")),
        other => {
            out.push('\\');
            out.push(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    #[rstest]
    #[case(r"^([0-9]+(s|m|h))+$", "10m", true)]
    #[case(r"^([0-9]+(s|m|h))+$", "10m\n", false)]
    #[case(r"^\d+$", "12", true)]
    #[case(r"^\d+$", "\u{0661}", false)]
    #[case(r"^[\w.]+$", "a.b", true)]
    #[case(r"^[\w.]+$", "\u{e9}", false)]
    #[case(r"^[[:alpha:]]+$", "ab", true)]
    #[case(r"^[[a]+$", "[a", true)]
    #[case(r"^[a&&b]+$", "a&b", true)]
    #[case(r"^(\/)?x$", "/x", true)]
    #[case(r"^[]a]+$", "]a", true)]
    #[case(r"^[+--]+$", ",", true)]
    fn patterns_mean_what_they_mean_in_go(#[case] pattern: &str, #[case] text: &str, #[case] matches: bool) {
        assert_eq!(super::compile(pattern).unwrap().is_match(text), matches, "{pattern} on {text:?}");
    }

    #[test]
    fn a_malformed_pattern_is_an_error() {
        assert!(super::compile("(").is_err());
    }
}
