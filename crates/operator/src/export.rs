//! `fleetwright catalog export`: a catalogue of instance types as a file for `--instance-types`.

use std::io::Write as _;

use anyhow::{Context as _, ensure};

use crate::{catalogue::Catalogues, cli::CatalogExportOptions, settings::Values};

/// Writes the file.
///
/// # Errors
/// If there is no catalogue with the name, or the file cannot be written.
pub(crate) fn run(
    options: &CatalogExportOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<()> {
    let name = values.text("CATALOG");
    ensure!(!name.is_empty(), "--catalog is not set: name the catalogue to export, such as ec2");
    let (catalogue, name) = catalogues.named(name)?;
    let text = catalogue.export(name, &options.catalogue, values)?;
    match &options.file {
        Some(file) => std::fs::write(file, &text).with_context(|| file.display().to_string()),
        None => Ok(anstream::stdout().lock().write_all(text.as_bytes())?),
    }
}
