//! Which format a file has, and what is read of a file or a folder.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::{
    audit, kubereplay, simkube,
    trace::{Change, Reader, Trace, TraceFormat},
};
use crate::{
    catalogue::Catalogues,
    dump, input,
    recording::{changes::Changes, tape},
};

/// Reads a file, or the files of a folder in order of their names, and `further` objects, which exist from the start.
///
/// # Errors
/// If a file cannot be read, or its format is not understood; names file and line.
pub(super) fn read(path: &Path, further: &[PathBuf]) -> anyhow::Result<Trace> {
    let mut reader = Reader::default();
    let mut format = None;
    for file in files(path)? {
        let bytes = fs::read(&file).with_context(|| file.display().to_string())?;
        let content = Content::of(bytes).with_context(|| format!("{}:1", file.display()))?;
        let found = content.format();
        if format.is_some_and(|format| format != found) {
            bail!(
                "{}:1: a {}, beside files of another format: replay one format at a time",
                file.display(),
                found.as_str()
            );
        }
        format = Some(found);
        content.read(&mut reader, &file)?;
    }
    let Some(format) = format else {
        bail!(
            "{}: no recording ({}*{}), dump or trace (*.json) or audit log (*.log)",
            path.display(),
            tape::PREFIX,
            tape::SUFFIX
        );
    };
    let Reader { changes: Changes { all: mut changes, mut notes, decisions, .. }, until } = reader;
    changes.sort_by_key(|(at, _)| *at);
    if changes.is_empty() {
        bail!("{}: no objects", path.display());
    }
    let (objects, left_out) = dump::projected(&input::read_files(further)?, &Catalogues::default(), None);
    notes.extend(left_out);
    if let Some((start, _)) = changes.first() {
        let start = *start;
        changes.splice(0..0, objects.into_iter().map(|object| (start, Change::Put(object))));
    }
    Ok(Trace { format, changes, until, decisions, notes })
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

/// A file, as its format needs it.
enum Content {
    Recording(String),
    Dump(String),
    Audit(String),
    Kubereplay(Value),
    SimKube(Value),
    SimKubeBinary(Vec<u8>),
}

impl Content {
    /// The content by its first line, or as a whole document.
    fn of(bytes: Vec<u8>) -> anyhow::Result<Self> {
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => return Ok(Self::SimKubeBinary(error.into_bytes())),
        };
        let first = text.lines().next().unwrap_or_default();
        let line: Option<Value> = serde_json::from_str(first).ok();
        if let Some(version) = line.as_ref().and_then(|line| line.get("recording")) {
            if *version != tape::FORMAT {
                bail!("a recording of format {version}, and this binary reads {}", tape::FORMAT);
            }
            return Ok(Self::Recording(text));
        }
        if line.is_some_and(|line| audit::is_event(&line)) {
            return Ok(Self::Audit(text));
        }
        if text.trim_start().starts_with('{') && text.contains(dump::TAKEN_AT) {
            return Ok(Self::Dump(text));
        }
        match serde_json::from_str(&text) {
            Ok(document) if kubereplay::is_trace(&document) => Ok(Self::Kubereplay(document)),
            Ok(document) if simkube::is_trace(&document) => Ok(Self::SimKube(document)),
            _ => bail!(
                "not a format that replay reads: a recording of RECORD_DIR, dumps of `fleetwright dump` (with the annotation {}), audit logs as JSON, or a trace of kubereplay or SimKube",
                dump::TAKEN_AT
            ),
        }
    }

    fn format(&self) -> TraceFormat {
        match self {
            Self::Recording(_) => TraceFormat::Recording,
            Self::Dump(_) => TraceFormat::Dumps,
            Self::Audit(_) => TraceFormat::Audit,
            Self::Kubereplay(_) => TraceFormat::Kubereplay,
            Self::SimKube(_) | Self::SimKubeBinary(_) => TraceFormat::SimKube,
        }
    }

    fn read(&self, reader: &mut Reader, file: &Path) -> anyhow::Result<()> {
        match self {
            Self::Recording(text) => reader.changes.recording(file, text),
            Self::Dump(text) => reader.dump(file, text),
            Self::Audit(text) => audit::read(reader, file, text),
            Self::Kubereplay(log) => kubereplay::read(reader, file, log),
            Self::SimKube(trace) => simkube::read_json(reader, file, trace),
            Self::SimKubeBinary(bytes) => simkube::read_binary(reader, file, bytes),
        }
    }
}
