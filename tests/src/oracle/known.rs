//! Known disagreements, by name: counted and printed, so that CI stays green until they are mended. Each has a scenario file
//! and a line in docs/roadmap.md under "Fidelity".

use super::judge::Refusal;

/// A class of disagreements.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownDisagreement {
    pub(super) name: &'static str,
    /// Whether a refusal is of this class.
    pub(super) covers: fn(&Refusal) -> bool,
}

/// All known classes; none at present.
pub(super) const KNOWN: [KnownDisagreement; 0] = [];

/// The class of a refusal.
pub(super) fn class(refusal: &Refusal) -> Option<&'static str> {
    KNOWN.iter().find(|known| (known.covers)(refusal)).map(|known| known.name)
}
