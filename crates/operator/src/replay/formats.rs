//! Which format a file has, and what is read of a file or a folder.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::{
    audit,
    trace::{Reader, Trace, TraceFormat},
};
use crate::{dump, recording::tape};

/// Reads a file, or the files of a folder in order of their names.
///
/// # Errors
/// If a file cannot be read, or its format is not understood; names file and line.
pub(super) fn read(path: &Path) -> anyhow::Result<Trace> {
    let mut reader = Reader::default();
    let mut format = None;
    for file in files(path)? {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let found = format_of(&text).with_context(|| format!("{}:1", file.display()))?;
        if format.is_some_and(|format| format != found) {
            bail!(
                "{}:1: a {}, beside files of another format: replay one format at a time",
                file.display(),
                found.as_str()
            );
        }
        format = Some(found);
        match found {
            TraceFormat::Recording => reader.recording(&file, &text)?,
            TraceFormat::Dumps => reader.dump(&file, &text)?,
            TraceFormat::Audit => audit::read(&mut reader, &file, &text)?,
        }
    }
    let Some(format) = format else {
        bail!(
            "{}: no recording ({}*{}), dump (*.json) or audit log (*.log)",
            path.display(),
            tape::PREFIX,
            tape::SUFFIX
        );
    };
    reader.changes.sort_by_key(|(at, _)| *at);
    if reader.changes.is_empty() {
        bail!("{}: no objects", path.display());
    }
    Ok(Trace { format, changes: reader.changes, notes: reader.notes })
}

fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !fs::metadata(path).with_context(|| path.display().to_string())?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).with_context(|| path.display().to_string())?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.retain(|file| {
        let end = file.extension().and_then(|end| end.to_str());
        file.is_file() && matches!(end, Some("ndjson" | "json" | "jsonl" | "log"))
    });
    files.sort();
    Ok(files)
}

/// The format, by the first line.
fn format_of(text: &str) -> anyhow::Result<TraceFormat> {
    let first = text.lines().next().unwrap_or_default();
    let line: Option<Value> = serde_json::from_str(first).ok();
    if let Some(line) = line {
        if let Some(version) = line.get("recording") {
            if *version != tape::FORMAT {
                bail!("a recording of format {version}, and this binary reads {}", tape::FORMAT);
            }
            return Ok(TraceFormat::Recording);
        }
        if line["kind"] == "Event"
            && line["apiVersion"].as_str().is_some_and(|of| of.starts_with("audit.k8s.io/"))
        {
            return Ok(TraceFormat::Audit);
        }
    }
    if text.trim_start().starts_with('{') && text.contains(dump::TAKEN_AT) {
        return Ok(TraceFormat::Dumps);
    }
    bail!(
        "not a format that replay reads: a recording of RECORD_DIR, dumps of `fleetwright dump` (with the annotation {}), or audit logs as JSON",
        dump::TAKEN_AT
    )
}
