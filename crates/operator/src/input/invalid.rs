//! Fields that the API server refuses, and what to write instead.

use std::{borrow::Cow, fmt};

use fleetwright_core::suggest;

/// A field that the API server refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invalid {
    pub(crate) path: String,
    pub(crate) message: String,
    pub(crate) fix: Cow<'static, str>,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.path, self.message, self.fix)
    }
}

pub(super) fn add(
    found: &mut Vec<Invalid>,
    path: String,
    message: String,
    fix: impl Into<Cow<'static, str>>,
) {
    found.push(Invalid { path, message, fix: fix.into() });
}

/// What to write in place of a value that is not among the known ones.
pub(crate) fn one_of(written: &str, known: &[&str]) -> String {
    if let Some(meant) = suggest::nearest(written, known.iter().copied()) {
        return format!("write {meant}");
    }
    match known {
        [] => "change the value".to_owned(),
        [only] => format!("write {only}"),
        [one, other] => format!("write {one} or {other}"),
        [others @ .., last] => format!("write one of {} or {last}", others.join(", ")),
    }
}
