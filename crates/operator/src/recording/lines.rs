//! The lines of a recording, as `replay`, `explain decision` and `dump --recording` read them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::tape;
use crate::input::json_reason;

/// A file, or the recordings of a folder in order of time.
///
/// # Errors
/// If the folder cannot be read.
pub(crate) fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !fs::metadata(path).with_context(|| path.display().to_string())?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).with_context(|| path.display().to_string())?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.retain(|file| {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(tape::PREFIX) && name.ends_with(tape::SUFFIX)
    });
    files.sort();
    Ok(files)
}

/// Reads the lines of a file in order. A last line that is incomplete is left out, with a note.
///
/// # Errors
/// If the file is no recording, a line is not JSON, or `take` refuses it; names file and line.
pub(crate) fn each(
    file: &Path,
    text: &str,
    notes: &mut Vec<String>,
    mut take: impl FnMut(Value) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let count = text.lines().count();
    for (number, line) in (1..).zip(text.lines()) {
        let place = || format!("{}:{number}", file.display());
        match serde_json::from_str::<Value>(line) {
            Ok(line) if number == 1 && line["recording"] != tape::FORMAT => {
                bail!("{}: not a recording of format {}", place(), tape::FORMAT)
            }
            Ok(line) => take(line).with_context(place)?,
            // The process ended while it wrote.
            Err(_) if number == count && number > 1 && !text.ends_with('\n') => {
                notes.push(format!("{}: the last line is incomplete and left out", place()));
            }
            Err(error) => bail!("{}: {}", place(), json_reason(&error)),
        }
    }
    Ok(())
}
