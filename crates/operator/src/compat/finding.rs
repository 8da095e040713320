//! A finding of `compat`: what differs, how much it matters, and the fix.

use schemars::JsonSchema;
use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The switch fails, or harms nodes or pods: fix it first.
    Blocker,
    /// Something works otherwise than under Karpenter, or not at all: decide before the switch.
    Warning,
    /// Good to know.
    Note,
}

impl Severity {
    /// The word of tables and documents.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocker => "blocker",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// What kind of finding it is: `C` and three digits, of which the first names the area. Identifiers are never used again.
    pub id: String,
    /// How much it matters.
    pub severity: Severity,
    /// The object, as `WatchedKind name` or `WatchedKind namespace/name`.
    pub object: String,
    /// What was found, with figures.
    pub message: String,
    /// What to do; empty where there is nothing to do.
    pub fix: String,
}

impl Finding {
    fn new(id: &str, severity: Severity, object: String, message: String) -> Self {
        Self { id: id.to_owned(), severity, object, message, fix: String::new() }
    }

    /// A blocker on `object`.
    #[must_use]
    pub fn blocker(id: &str, object: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(id, Severity::Blocker, object.into(), message.into())
    }

    /// A warning on `object`.
    #[must_use]
    pub fn warning(id: &str, object: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(id, Severity::Warning, object.into(), message.into())
    }

    /// A note on `object`.
    #[must_use]
    pub fn note(id: &str, object: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(id, Severity::Note, object.into(), message.into())
    }

    /// The finding with what to do about it.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }
}
