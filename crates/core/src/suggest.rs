//! The name that was probably meant: for options, label keys and values.

/// More letters than this may not differ.
const MAX_DISTANCE: usize = 3;
/// Longer names are not compared: work is bounded.
const MAX_LENGTH: usize = 128;

/// The values of labels that have no others.
pub const KNOWN_VALUES: [(&str, &[&str]); 3] = [
    ("karpenter.sh/capacity-type", &["spot", "on-demand", "reserved"]),
    ("kubernetes.io/arch", &["amd64", "arm64"]),
    ("kubernetes.io/os", &["linux", "windows"]),
];

/// Names of other systems without dashes and underscores, and what Karpenter or Kubernetes calls the same: label keys without their domain,
/// then values.
const SYNONYMS: [(&str, &str); 12] = [
    ("architecture", "arch"),
    ("availabilityzone", "zone"),
    ("lifecycle", "capacity-type"),
    ("nodegroup", "nodepool"),
    ("nodegroupname", "nodepool"),
    ("provisionername", "nodepool"),
    ("x8664", "amd64"),
    ("x64", "amd64"),
    ("x86", "amd64"),
    ("aarch64", "arm64"),
    ("arm", "arm64"),
    ("armv8", "arm64"),
];

/// The known name that `written` is a likely misspelling of: the one with the fewest edits, of equal ones the first. Letter case,
/// dashes and underscores do not count as edits, and what other systems call an architecture is the same as what Kubernetes calls it.
#[must_use]
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = |text: &str| -> Vec<char> { plain(text).chars().collect() };
    let name = plain(written);
    let ours = letters(synonym(&name).unwrap_or(&name));
    if ours.is_empty() || ours.len() > MAX_LENGTH {
        return None;
    }
    // In a short name, two other letters make another word.
    let most = MAX_DISTANCE.min(ours.len() / 3).max(usize::from(ours.len() > 2));
    let distance = |other: &&'a str| {
        let theirs = letters(other);
        let comparable = theirs.len() <= MAX_LENGTH && theirs.len().abs_diff(ours.len()) <= most;
        comparable.then(|| edits(&ours, &theirs)).filter(|edits| *edits <= most && **other != *written)
    };
    let found = known.into_iter().filter_map(|other| Some((distance(&other)?, other)));
    found.min_by_key(|(edits, _)| *edits).map(|(_, other)| other)
}

/// ` (did you mean "x"?)`, where a known name is near.
#[must_use]
pub fn did_you_mean<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(written, known).map_or_else(String::new, |meant| format!(" (did you mean {meant:?}?)"))
}

/// A name without dashes and underscores, in small letters.
pub(crate) fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
}

/// What Karpenter or Kubernetes calls what another system calls by this [`plain`] name.
pub(crate) fn synonym(name: &str) -> Option<&'static str> {
    SYNONYMS.iter().find(|(other, _)| *other == name).map(|(_, known)| *known)
}

/// How many letters must be inserted, removed, changed or swapped with their neighbor (optimal string alignment).
pub(crate) fn edits(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, from) in a.iter().enumerate() {
        let mut next = vec![at + 1; b.len() + 1];
        for (to, letter) in b.iter().enumerate() {
            let changed = row[to] + usize::from(from != letter);
            next[to + 1] = changed.min(row[to + 1] + 1).min(next[to] + 1);
            if at > 0 && to > 0 && a[at] == b[to - 1] && a[at - 1] == b[to] {
                next[to + 1] = next[to + 1].min(before[to - 1] + 1);
            }
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    //! What is near, and what is not.
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("ondemand", &["spot", "on-demand"], Some("on-demand"))]
    #[case("pln", &["plan", "disrupt"], Some("plan"))]
    #[case("paln", &["plan", "disrupt"], Some("plan"))]
    #[case("AMD64", &["amd64", "arm64"], Some("amd64"))]
    #[case("amd46", &["amd64", "arm64"], Some("amd64"))]
    #[case("emptyness", &["emptiness", "drift"], Some("emptiness"))]
    #[case("x86_64", &["arm64", "amd64"], Some("amd64"))]
    #[case("aarch64", &["arm64", "amd64"], Some("arm64"))]
    #[case("Amd64", &["arm64", "amd64"], Some("amd64"))]
    #[case("on_demand", &["spot", "on-demand"], Some("on-demand"))]
    #[case("arm64", &["amd64"], None)]
    #[case("spot", &["spot"], None)]
    #[case("x", &["y"], None)]
    #[case("web", &["api", "db"], None)]
    #[case("", &["a"], None)]
    fn near_names(#[case] written: &str, #[case] known: &[&'static str], #[case] expected: Option<&str>) {
        assert_eq!(nearest(written, known.iter().copied()), expected);
    }
}
