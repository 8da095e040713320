//! The instance types of the tools and of the fake cloud: those of a file, or built-in ones.

use std::path::Path;

use anyhow::Context as _;
use fleetwright_instance_types::{Catalogue, Skipped, Vocabulary, load};

use crate::{devices, settings::Values};

/// The instance types that the settings name, and those of the file that cannot be used.
///
/// # Errors
/// The file cannot be read or has no usable instance type, or no file is named in a build without built-in instance types.
pub(crate) fn of_settings(values: &Values) -> anyhow::Result<(Catalogue, Vec<Skipped>)> {
    let file = values.text("INSTANCE_TYPES_FILE_PATH");
    if file.is_empty() { built_in(values) } else { of_file(Path::new(file)) }
}

/// The instance types of a file, and those of it that cannot be used.
///
/// # Errors
/// The file cannot be read or has no usable instance type.
pub(crate) fn of_file(path: &Path) -> anyhow::Result<(Catalogue, Vec<Skipped>)> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let loaded = load(&text, Vocabulary::Kwok).with_context(|| path.display().to_string())?;
    let (mut catalogue, mut skipped) = (loaded.catalogue, loaded.skipped);
    skipped.extend(devices::attach(&text, &mut catalogue));
    Ok((catalogue, skipped))
}

#[cfg(feature = "lab")]
#[expect(clippy::unnecessary_wraps, reason = "a build without the lab has none")]
fn built_in(values: &Values) -> anyhow::Result<(Catalogue, Vec<Skipped>)> {
    let realistic = values.text("CATALOG") == "realistic";
    let name = if realistic { crate::cli::Catalog::Realistic } else { crate::cli::Catalog::Kwok };
    Ok((crate::lab::built_in(name), Vec::new()))
}

#[cfg(not(feature = "lab"))]
fn built_in(_values: &Values) -> anyhow::Result<(Catalogue, Vec<Skipped>)> {
    anyhow::bail!(
        "this build has no instance types of its own: name a file with --instance-types FILE (env INSTANCE_TYPES_FILE_PATH)"
    )
}
