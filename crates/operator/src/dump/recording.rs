//! `dump --recording`: a recording of `RECORD_DIR` without the names of the cluster.
//!
//! All objects of all times are renamed together, so that an object has one word throughout and the order of names stays: a replay of the copy is
//! that of the recording.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::anonymize::Anonymizer;
use crate::{input::json_reason, recording::tape};

/// Where a line has an object.
const OBJECTS: [&str; 2] = ["put", "delete"];

/// The lines of a file, or of the recordings of a folder in order of time, with words in place of names; and notes on what is left out.
///
/// # Errors
/// If a file cannot be read, or is no recording; names file and line.
pub(crate) fn anonymized(path: &Path, anonymizer: &Anonymizer<'_>) -> anyhow::Result<(String, Vec<String>)> {
    let (mut lines, mut notes) = (Vec::new(), Vec::new());
    for file in files(path)? {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        read(&file, &text, &mut lines, &mut notes)?;
    }
    ensure!(!lines.is_empty(), "{}: no recording ({}*{})", path.display(), tape::PREFIX, tape::SUFFIX);
    let mut objects: Vec<Value> = lines.iter_mut().filter_map(object).map(Value::take).collect();
    anonymizer.anonymize(&mut objects);
    for (place, renamed) in lines.iter_mut().filter_map(object).zip(objects) {
        *place = renamed;
    }
    Ok((lines.iter().map(|line| format!("{line}\n")).collect(), notes))
}

/// The object of a line. The other lines have no names.
fn object(line: &mut Value) -> Option<&mut Value> {
    let key = OBJECTS.into_iter().find(|key| line.get(*key).is_some())?;
    line.get_mut(key)
}

fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
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

fn read(file: &Path, text: &str, lines: &mut Vec<Value>, notes: &mut Vec<String>) -> anyhow::Result<()> {
    let count = text.lines().count();
    for (number, line) in (1..).zip(text.lines()) {
        let place = || format!("{}:{number}", file.display());
        match serde_json::from_str::<Value>(line) {
            Ok(line) if number == 1 && line["recording"] != tape::FORMAT => {
                bail!("{}: not a recording of format {}", place(), tape::FORMAT)
            }
            Ok(line) => lines.push(line),
            // The process ended while it wrote.
            Err(_) if number == count && number > 1 && !text.ends_with('\n') => {
                notes.push(format!("{}: the last line is incomplete and left out", place()));
            }
            Err(error) => bail!("{}: {}", place(), json_reason(&error)),
        }
    }
    Ok(())
}
