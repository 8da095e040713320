//! One entry of `managedFields`.

use crate::patch::fields::FieldSet;

/// One entry of `managedFields`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manager {
    /// Name.
    pub(crate) name: String,
    /// `Apply` or `Update`.
    pub(crate) operation: String,
    /// Version that the fields belong to.
    pub(crate) version: String,
    /// Subresource that was written; empty for the main one.
    pub(crate) subresource: String,
    /// When the set last changed.
    pub(crate) time: String,
    /// What the manager owns.
    pub(crate) fields: FieldSet,
}

impl Manager {
    /// Whether two entries are of the same manager.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.version == other.version
            && self.subresource == other.subresource
    }

    /// The name as conflicts show it.
    pub(crate) fn shown(&self) -> String {
        let mut shown = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            shown.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == "Update" {
            shown.push_str(&format!(" using {}", self.version));
            if !self.time.is_empty() {
                shown.push_str(&format!(" at {}", self.time));
            }
        }
        shown
    }
}
