//! `house.toml`: the floors of the large folders, and what breaks the rules of structure today. Each list may only shrink: an
//! entry that breaks no rule any more is reported like a violation that is not listed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::Violation;

/// The path of the lists, from the root of the repository.
pub(super) const FILE: &str = "xtask/src/tidy/house.toml";

/// The lists.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct House {
    /// Types whose inherent implementations stand in too many files, as `crate::Type`.
    pub(super) scattered: BTreeSet<String>,
    /// Files that import each other in a circle, each sorted.
    pub(super) circles: BTreeSet<Vec<String>>,
    /// How many indices of a file have the type `usize`.
    pub(super) untyped_indices: BTreeMap<String, usize>,
    /// The folders whose files have an order.
    pub(super) folders: BTreeMap<String, Floors>,
}

/// The order of the files and folders in one folder.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Floors {
    /// Lowest first. Modules on one floor do not import each other.
    pub(super) floors: Vec<Vec<String>>,
    /// Imports that point upwards, as `from -> to`.
    pub(super) upward: BTreeSet<String>,
}

/// Compares what breaks a rule with its list. `message` is for what is found and not listed.
pub(super) fn compare(
    found: &BTreeSet<String>,
    listed: &BTreeSet<String>,
    message: impl Fn(&str) -> Violation,
) -> Vec<Violation> {
    let new = found.difference(listed).map(|entry| message(entry));
    let fixed = listed.difference(found).map(|entry| {
        Violation::new(FILE, format!("`{entry}` breaks no rule any more: take it off the list"))
    });
    new.chain(fixed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_only_shrinks() {
        let set = |list: &[&str]| list.iter().map(|&entry| entry.to_owned()).collect::<BTreeSet<_>>();
        let report = |found: &[&str], listed: &[&str]| {
            let message = |entry: &str| Violation::new(entry, "is new");
            compare(&set(found), &set(listed), message).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(report(&["a"], &["a"]), [""; 0]);
        assert_eq!(report(&["a", "b"], &["a"]), ["b: is new"]);
        let fixed = "xtask/src/tidy/house.toml: `a` breaks no rule any more: take it off the list";
        assert_eq!(report(&[], &["a"]), [fixed]);
    }
}
