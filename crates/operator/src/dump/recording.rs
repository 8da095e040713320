//! `dump --recording`: a recording of `RECORD_DIR` without the names of the cluster.
//!
//! All objects of all times are renamed together, so that an object has one word throughout and the order of names stays: a replay of the copy is
//! that of the recording.

use std::{fs, path::Path};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::anonymize::Anonymizer;
use crate::{
    figures,
    recording::{self, tape},
};

/// Where a line has an object.
const OBJECTS: [&str; 2] = ["put", "delete"];

/// The lines of a file, or of the recordings of a folder in order of time, with words in place of names; and notes on what is left out.
///
/// # Errors
/// If a file cannot be read, or is no recording; names file and line.
pub(crate) fn anonymized(path: &Path, anonymizer: &Anonymizer<'_>) -> anyhow::Result<(String, Vec<String>)> {
    let (mut lines, mut notes) = (Vec::new(), Vec::new());
    let mut decisions = 0;
    for file in recording::lines::files(path)? {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        recording::lines::each(&file, &text, &mut notes, |line| {
            if line.get("decision").is_some() {
                decisions += 1;
            } else {
                lines.push(line);
            }
            Ok(())
        })?;
    }
    if decisions > 0 {
        let count = figures::count(decisions, "line");
        notes.push(format!("{count} of decisions left out: their texts have names"));
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
