//! IAM wildcards: `*` matches any text, `?` matches one character.

/// Whether a pattern matches every text that `text` stands for. Unknown parts of `text` are `*`, which only `*` matches.
#[must_use]
pub(super) fn covers(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let fits = |at: usize, of: usize| match pattern.get(at) {
        Some('?') => text[of] != '*',
        Some(own) => *own == text[of],
        None => false,
    };
    let (mut at, mut of) = (0, 0);
    // The last `*` of the pattern and how far it extends; it extends further when the rest does not match.
    let mut star: Option<(usize, usize)> = None;
    while of < text.len() {
        if pattern.get(at) == Some(&'*') {
            star = Some((at, of));
            at += 1;
        } else if fits(at, of) {
            (at, of) = (at + 1, of + 1);
        } else if let Some((from, reach)) = star {
            star = Some((from, reach + 1));
            (at, of) = (from + 1, reach + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|own| *own == '*')
}

/// Whether any text matches both patterns.
#[must_use]
pub(super) fn overlap(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let single = |a: char, b: char| a == '?' || b == '?' || a == b;
    // Whether the first i characters of `a` and the first j of `b` match a common text, row by row.
    let mut row: Vec<bool> = Vec::with_capacity(b.len() + 1);
    row.push(true);
    for j in 0..b.len() {
        row.push(row[j] && b[j] == '*');
    }
    for own in &a {
        let mut next = vec![row[0] && *own == '*'];
        for (j, other) in b.iter().enumerate() {
            next.push(match (*own, *other) {
                ('*', _) | (_, '*') => row[j + 1] || next[j] || row[j],
                (own, other) => row[j] && single(own, other),
            });
        }
        row = next;
    }
    row.last().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    //! Examples, and properties against a naive matcher.
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("ec2:Describe*", "ec2:DescribeImages", true)]
    #[case("*", "ec2:DescribeImages", true)]
    #[case("ec2:*Images", "ec2:DescribeImages", true)]
    #[case("ec2:*Image", "ec2:DescribeImages", false)]
    #[case("ec2:DescribeImages", "ec2:DescribeImage", false)]
    #[case("ec2:DescribeImage?", "ec2:DescribeImages", true)]
    #[case("iam:*", "ec2:DescribeImages", false)]
    #[case("a*", "a*", true)]
    #[case("a?", "a*", false)]
    #[case("ab", "a*", false)]
    #[case("a*b*c", "axxbxxbxxc", true)]
    fn covered(#[case] pattern: &str, #[case] text: &str, #[case] expected: bool) {
        assert_eq!(covers(pattern, text), expected);
    }

    #[rstest]
    #[case("role/karpenter", "role/*", true)]
    #[case("role/karpenter", "user/*", false)]
    #[case("a*c", "*b*", true)]
    #[case("a*c", "*b", false)]
    #[case("", "*", true)]
    #[case("?", "", false)]
    fn common(#[case] a: &str, #[case] b: &str, #[case] expected: bool) {
        assert_eq!((overlap(a, b), overlap(b, a)), (expected, expected));
    }

    /// A naive matcher for a text without wildcards.
    fn naive_match(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|skip| naive_match(rest, &text[skip..])),
            Some((own, rest)) => {
                text.first().is_some_and(|first| own == first || *own == b'?')
                    && naive_match(rest, &text[1..])
            }
        }
    }

    proptest! {
        #[test]
        fn patterns_match_as_defined(pattern in "[ab*?]{0,6}", text in "[ab]{0,6}") {
            let expected = naive_match(pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(covers(&pattern, &text), expected);
            prop_assert_eq!(overlap(&pattern, &text), expected);
        }

        #[test]
        fn what_is_covered_overlaps(pattern in "[ab*?]{0,6}", other in "[ab*]{0,6}") {
            prop_assert!(!covers(&pattern, &other) || overlap(&pattern, &other));
        }
    }
}
