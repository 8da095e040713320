//! Instance types from a file in the format of Karpenter's kwok provider, for any NodeClass.

use std::path::Path;

use anyhow::Context as _;
use fleetwright_instance_types::{Catalogue, Skipped, Vocabulary, load};

use crate::devices;

/// The instance types of a file, and the invalid ones.
///
/// # Errors
/// If the file cannot be read or has no valid instance type.
#[cfg(feature = "lab")]
pub(crate) fn of_file(path: &Path) -> anyhow::Result<(Catalogue, Vec<Skipped>)> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    of_text(path, &text)
}

/// Parses a text that was read from `path`.
pub(super) fn of_text(path: &Path, text: &str) -> anyhow::Result<(Catalogue, Vec<Skipped>)> {
    let loaded = load(text, Vocabulary::Kwok).with_context(|| path.display().to_string())?;
    let (mut catalogue, mut skipped) = (loaded.catalogue, loaded.skipped);
    skipped.extend(devices::attach(text, &mut catalogue));
    Ok((catalogue, skipped))
}
